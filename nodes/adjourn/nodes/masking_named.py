"""What a name announces: `password=`, `"api_key": "..."`, `Authorization:`, and which fields hold a secret. Pure.

Takes time linear in the text: it goes from one name to the next, and a value is looked at once. Never raises.
A name in prose ("Unexpected token: identifier") hides nothing, and neither does a template (`${PASSWORD}`).
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from adjourn.checkpoints.sealed import HIDDEN
from adjourn.nodes.masking_secrets import Span, lower, places

_STEMS = (
    "passw", "passphrase", "pwd", "secret", "token", "key", "authorization", "credential", "cookie", "密码", "口令", "密钥", "令牌",
)  # fmt: skip
_NAME = re.compile(
    r"(?:(?P<password>passw(?:or)?ds?|passphrase|pwd|密码|口令)"
    r"|(?:secrets?|token|key|authorization|credentials?|(?:set-)?cookie|密钥|令牌))",
    re.I,
)
_SIGN = re.compile(
    r"(?:\\{0,7}[\"'])?[ \t]{0,4}(?:=>|:?={1,2}|[:：]|(?<=[\u4e00-\u9fff])[是为][:：]?)[ \t]{0,4}"
)
_BLANK = re.compile(r"[ \t]{1,4}(?=[^\s-])")
_FLAG = re.compile(r"--[\w-]{0,30}\Z")
_KEYS = "api access secret private signing encryption account master shared service license app auth ssh"
_KEY_KINDS = tuple(kind + joint for kind in _KEYS.split() for joint in ("", "_", "-", " "))
# Cursors that the model has to give back, and marks of a vocabulary, are no secrets
_CURSORS = "next page continuation sync start stop pad eos bos unk mask special"
_TOKEN_KINDS = tuple(kind + joint for kind in _CURSORS.split() for joint in ("", "_", "-", " "))


def by_name(text: str) -> Iterator[Span]:
    """What `password=`, `"api_key": "`, `Authorization:`, `--token` or `密码：` announces, quotes left outside."""
    lowered = lower(text)
    done, quotes = 0, _Quotes(text)
    for at in sorted(_anchors(lowered)):
        if at < done or not (name := _NAME.match(text, at)) or not _is_kind(lowered, name):
            continue
        span = _announced(text, name, quotes)
        if span:
            done = span[1]
            yield span


def _anchors(lowered: str) -> Iterator[int]:
    for stem in _STEMS:
        if stem in lowered:
            yield from places(lowered, stem)


def _is_kind(lowered: str, name: re.Match[str]) -> bool:
    """Whether this `key` is one of the secret kinds, and this `token` none of the others."""
    word = lowered[name.start() : name.end()]
    before = lowered[max(0, name.start() - 13) : name.start()]
    if word == "key":
        return before.endswith(_KEY_KINDS)
    return word != "token" or not before.endswith(_TOKEN_KINDS)


class _Quotes:
    """Which quotes of its line are open at a place, as texts in JSON or Python are: behind a bracket, a comma or a colon, and
    not behind a word, as an apostrophe is. Asked from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._seen = 0
        self._open = {'"': False, "'": False}

    def is_open(self, quote: str, at: int) -> bool:
        for mark in _MARKS.finditer(self._text, self._seen, at):
            if mark[0] == "\n":
                self._open = dict.fromkeys(self._open, False)
            elif mark[0] in self._open:
                is_open = self._open[mark[0]]
                self._open[mark[0]] = not is_open and _begins_text(self._text, mark.start())
        self._seen = at
        return self._open[quote]


def _begins_text(text: str, at: int) -> bool:
    before = text[max(0, at - 5) : at].rstrip(" \t")
    return before[-1:] in _BEFORE_TEXT if before else at == 0


_BEFORE_TEXT = ("{", "[", "(", ",", ":", "\n")
_MARKS = re.compile(r"\\.|[\"'\n]", re.S)


def _announced(text: str, name: re.Match[str], quotes: _Quotes) -> Span | None:
    sign = _SIGN.match(text, name.end())
    if sign is None:
        sign = _BLANK.match(text, name.end())
        if not sign or not _FLAG.search(text, max(0, name.start() - 32), name.start()):
            return None
    start = sign.end()
    if opening := _QUOTE.match(text, start):
        return _worth(text, *_quoted(text, opening, quotes))
    word = name[0].lower()
    if word.endswith("cookie"):
        found = _COOKIES.match(text, start)
        return found.span() if found and not _is_template(text, start) else None
    if word == "pwd" and text.startswith("/", start):  # the shell's working directory
        return None
    if word == "authorization":
        start = _behind_scheme(text, start)
    return _bare(text, start, is_password=name["password"] is not None, assigned="=" in sign[0])


# -- values

# Not the quote that closes a text which ends with the name: `{"ask": "password:", "next": 1}`
_QUOTE = re.compile(r"(\\{0,7})([\"'])(?!\s{0,4}(?:,\s{0,4}[\"'{\[\\]|[}\]]{1,8}(?:[\s,\"'\\]|\Z)|\Z))")
_INSIDE = {
    '"': re.compile(r'[^"\\\n]*+(?:\\.[^"\\\n]*+)*+'),
    "'": re.compile(r"[^'\\\n]*+(?:\\.[^'\\\n]*+)*+"),
}
_OTHER = {'"': "'", "'": '"'}
_STOPS = r"\s\"'<>，。；、）】」》"
# The other quote, where a JSON text ends with it: `{"note": "password='"}`
_AROUND = {
    mine: re.compile(rf"\\{{0,7}}{other}(?=\s{{0,4}}(?:[,:}}\]]|\Z))") for mine, other in _OTHER.items()
}
# A comma belongs to the value unless another name follows: `password=a,b` but `password=a,user=b`
_BARE = re.compile(
    rf"[^{_STOPS},;&]++(?:[,;&](?![\w.-]{{1,40}}+\\{{0,7}}[\"']?[=:])[^{_STOPS},;&]*+)*+",
)
# Code that gets the value from somewhere, also when a number behind it has been masked meanwhile
_CALL = re.compile(r"[A-Za-z_][\w.]{0,60}(?:\(|\[(?:email|phone|id card|bank card)\])")
_CLOSERS = ".,;:!?)]}`\\"
_COOKIES = re.compile(r"[\w.-]{1,80}+=[^\r\n\"']*+")
_SCHEME = re.compile(r"(?:basic|bearer|token|apikey|negotiate|ntlm)[ \t]{1,4}", re.I)
_TEMPLATES = ("${", "{{", "%s", "%(", "<", "***")
_NOTHING = (
    "null none nil true false undefined required missing invalid expired incorrect wrong empty "
    "str string bytes bool boolean int integer number optional"
)
_SAYS_NOTHING = frozenset(_NOTHING.split())


def _quoted(text: str, opening: re.Match[str], quotes: _Quotes) -> Span:
    """What is between quotes; a quote that is not closed on its line goes to the line's end, or to the end of the JSON
    text in which it stands. One that is closed behind that text is not closed in it."""
    start = opening.end()
    if not opening[1]:
        inside = _INSIDE[opening[2]].match(text, start)
        end = inside.end() if inside else start
        closed = text.startswith(opening[2], end)
        if closed and not quotes.is_open(_OTHER[opening[2]], opening.start()):
            return start, end
        around = _AROUND[opening[2]].search(text, start, end)
        return start, around.start() if around else end
    end = text.find(opening[0], start)
    while end > 0 and text[end - 1] == "\\":  # a quote of a deeper level
        end = text.find(opening[0], end + 1)
    if end < 0:
        end = len(text)
    line = text.find("\n", start, end)
    return start, line if line >= 0 else end


def _worth(text: str, start: int, end: int) -> Span | None:
    if _is_template(text, start) or text[start : min(end, start + 12)].lower() in _SAYS_NOTHING:
        return None
    return (start, end) if start < end else None


def _is_template(text: str, start: int) -> bool:
    return text.startswith(_TEMPLATES, start)


def _behind_scheme(text: str, start: int) -> int:
    scheme = _SCHEME.match(text, start)
    return scheme.end() if scheme else start


def _bare(text: str, start: int, *, is_password: bool, assigned: bool) -> Span | None:
    """A value without quotes. A password may be anything; elsewhere a word of prose or a count is let pass."""
    hidden = text.startswith(HIDDEN, start)
    # not ASCII: Chinese prose, which needs no blank
    passes = _is_template(text, start) or not text[start : start + 1].isascii()
    if not is_password:
        structure = text.startswith(("{", "[", "("), start) and not hidden and not assigned
        passes = passes or structure or _CALL.match(text, start) is not None
    # Only now: what is let pass here was not read to its end, or names in it would read it again
    if passes or not (found := _BARE.match(text, start)):
        return None
    word = found[0].rstrip(_CLOSERS)
    if not is_password and (_is_count(word) or (not assigned and _is_prose(word))):
        return None
    # The mask's own bracket is no closer
    return _worth(text, start, start + max(len(word), len(HIDDEN) if hidden else 0))


def _is_count(word: str) -> bool:
    return len(word) < 5 and word.isdigit()


def _is_prose(word: str) -> bool:
    return word.isascii() and word.isalpha() and word.islower()


# -- names of fields

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FIELD = re.compile(
    r"(?:.*_)?(?:\w*passw(?:or)?ds?|pass|passphrase|\w*pwd|\w*secrets?|\w*tokens?|authorization|credentials?|(?:set_)?cookies?"
    rf"|(?:{'|'.join(_KEYS.split())})_?keys?|cvv|cvc"
    r"|.*(?:密码|口令|密钥|令牌))",
    re.S,
)
_CURSOR = re.compile(rf".*(?:{'|'.join(_CURSORS.split())})_?tokens?", re.S)


@lru_cache(maxsize=4096)
def names_a_secret(key: str) -> bool:
    """Whether a field of this name holds a secret: `password`, `dbPassword`, `X-Api-Key`, `refresh_token`."""
    plain = re.sub(r"[-. ]", "_", _HUMP.sub("_", key[-80:])).lower()  # what a long one ends with names it
    return bool(_FIELD.fullmatch(plain)) and not _CURSOR.fullmatch(plain)


def hides_numbers(key: str) -> bool:
    """Whether a number under this secret name is a secret too: a password may be one, `tokens` counts."""
    return not key.lower().endswith(("token", "tokens", "key", "keys"))

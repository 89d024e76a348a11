"""Where keys, tokens and passwords stand that can be told by their own form. Pure.

Every function gives spans `(start, end)` in characters and takes time linear in the text: it jumps from one
literal to the next, and what it matched is not looked at again. None of them raises.
"""

import re
from collections.abc import Iterator

Span = tuple[int, int]


def by_form(text: str) -> Iterator[Span]:
    """All that this file finds. Spans of different kinds may overlap."""
    yield from private_keys(text)
    yield from url_passwords(text)
    yield from known_shapes(text)
    yield from bearers(text)


def lower(text: str) -> str:
    """`text` in lower case, each character at its place."""
    # U+0130 is the one character that would get longer
    return text.replace("\u0130", "i").lower()


def places(text: str, literal: str) -> Iterator[int]:
    """Where `literal` stands in `text`, in order."""
    at = text.find(literal)
    while at >= 0:
        yield at
        at = text.find(literal, at + 1)


# -- private keys

_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,60}(?:-----)?")
_QUOTED_END = re.compile(r"(?=\\{0,7}[\"'])")


def private_keys(text: str) -> Iterator[Span]:
    """PEM and PGP private keys with their frame; one that was cut off goes to the next quote, or the text's end."""
    done = 0
    last = text.rfind("-----END ")
    for at in places(text, "-----BEGIN "):
        if at < done or not (begin := _PEM.match(text, at)):
            continue
        rest = _PEM_END if begin.end() <= last else _QUOTED_END
        end = rest.search(text, begin.end())
        done = end.end() if end else len(text)
        yield at, done


# -- passwords in URLs

_USER = re.compile(r"[^\s/:@\"'<>?#]*+:([^\s/\"'<>?#]+)@")


def url_passwords(text: str) -> Iterator[Span]:
    """The password of `scheme://user:password@host`, also where it holds an unescaped `@`."""
    for at in places(text, "://"):
        if found := _USER.match(text, at + 3):
            yield found.span(1)


# -- known shapes

_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (start, re.compile(re.escape(start) + rest))
    for start, rest in (
        ("sk-", r"(?=[A-Za-z_-]{0,60}+[0-9])[A-Za-z0-9_-]{16,}+"),  # OpenAI, Anthropic, DeepSeek and others
        ("sk_", r"(?:live|test)_[A-Za-z0-9]{10,}+"),  # Stripe
        ("rk_", r"(?:live|test)_[A-Za-z0-9]{10,}+"),
        ("whsec_", r"[A-Za-z0-9+/=]{16,}+"),
        ("AKIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),  # AWS
        ("ASIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
        ("LTAI", r"[A-Za-z0-9]{12,}+"),  # Alibaba Cloud
        ("AKID", r"[A-Za-z0-9]{13,}+"),  # Tencent Cloud
        ("AIza", r"[A-Za-z0-9_-]{30,}+"),  # Google
        ("ya29.", r"[A-Za-z0-9_.-]{20,}+"),
        ("gh", r"[pousr]_[A-Za-z0-9]{20,}+"),  # GitHub
        ("github_pat_", r"[A-Za-z0-9_]{20,}+"),
        ("glpat-", r"[A-Za-z0-9_.-]{20,}+"),  # GitLab
        ("xox", r"[abeoprs]-[A-Za-z0-9-]{10,}+"),  # Slack
        ("xapp-", r"[A-Za-z0-9-]{10,}+"),
        ("hooks.slack.com/services/", r"[A-Za-z0-9/_-]{10,}+"),
        ("npm_", r"[A-Za-z0-9]{30,}+"),
        ("pypi-", r"[A-Za-z0-9_-]{50,}+"),
        ("hf_", r"[A-Za-z0-9]{30,}+"),
        ("shpat_", r"[a-fA-F0-9]{32}"),
        ("dop_v1_", r"[a-f0-9]{40,}+"),
        ("SG.", r"[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+"),  # SendGrid
        ("eyJ", r"[A-Za-z0-9_-]{5,}+\.[A-Za-z0-9_-]{5,}+(?:\.[A-Za-z0-9_-]*+)*+"),  # JWT, JWE
    )
)
_IN_ESCAPE = re.compile(r"\\(?:[nrt]|u[0-9a-fA-F]{4})\Z")


def known_shapes(text: str) -> Iterator[Span]:
    """Keys and tokens that their issuer made recognisable."""
    if len(text) < 14:  # most fields of a record: shorter than any of them
        return
    for literal, shape in _SHAPES:
        if literal not in text:  # nearly always, and much cheaper than to start a loop
            continue
        done = 0
        for at in places(text, literal):
            # It starts where a run of its own characters starts: each run is read once.
            if at >= done and _starts_word(text, at) and (found := shape.match(text, at)):
                done = found.end()
                yield found.span()


def _starts_word(text: str, at: int) -> bool:
    if at == 0 or text[at - 1] not in _WORD:
        return True
    return _IN_ESCAPE.search(text, max(0, at - 6), at) is not None


# A word of prose has no digit, no capital and no sign in it.
_BEARER = re.compile(r"bearer[ \t]{1,8}((?=[a-z-]{0,60}+[0-9A-Z=_.~+/])[A-Za-z0-9._~+/=-]{8,}+)", re.I)


def bearers(text: str) -> Iterator[Span]:
    """The token behind the word `Bearer`."""
    for at in places(lower(text), "bearer"):
        # The end of a sentence belongs to the sentence
        if (found := _BEARER.match(text, at)) and len(found[1].rstrip(".")) >= 8:
            yield found.start(1), found.start(1) + len(found[1].rstrip("."))

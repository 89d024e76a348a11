"""Where e-mail addresses, telephone, ID card and bank card numbers stand in a text. Pure.

Every function gives spans `(start, end)` in characters and takes time linear in the text: a pattern is
bounded in length or starts only where a run of its own characters starts. None of them raises.

A number is taken for what it is by more than its length: an ID card by its date and checksum, a bank card
by its issuer's prefix, length and Luhn digit, a telephone number by its area. What stands before or after
it may say that it is something else (`order_no=`, `size:`, ` bytes`), and that is believed.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

Span = tuple[int, int]

# Stands behind the first character of a number: no letter or digit is before it. Chinese text needs no blank,
# and the letter of an escape (`\n`, `\u4e2d`) in a text that holds JSON is no letter.
_START = r"(?:(?<![0-9A-Za-z].)|(?<=\\[nrt].)|(?<=\\u[0-9a-fA-F]{4}.))"
_END = r"(?![0-9A-Za-z])"
# Neither is it the whole or the fraction of a decimal number. Both sides, or masking one number would free
# the other, and a second pass would find what the first one left.
_NO_FRACTION = r"(?<![0-9]\..)"
_WHOLE_END = r"(?![0-9A-Za-z]|\.[0-9])"


# -- e-mail

_LOCAL = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._%+-"
_AT = re.compile(r"[@%](?:(?<!%)|40)")
_DOMAIN = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9-]*+\.)+([A-Za-z]{2,24})(?![A-Za-z0-9])")
_ESCAPE = re.compile(r"[nrtbf]|u[0-9a-fA-F]{4}")
# What stands behind the last dot of files (`icon@2x.png`) and units (`getty@tty1.service`)
_SUFFIXES = (
    "png jpg jpeg gif webp svg bmp ico css js mjs json html htm xml yaml yml "
    "service socket timer target mount slice scope"
)
_NO_COUNTRY = frozenset(_SUFFIXES.split())


def emails(text: str) -> Iterator[Span]:
    """E-mail addresses in ASCII, also with `%40` as in a URL. `git@host` and `scheme://user@host` are none."""
    before = 0
    for at in _AT.finditer(text):
        domain = _DOMAIN.match(text, at.end())
        # From the sign before to this one, so that each character is looked at once, however many signs.
        start = at.start() - _tail(text[before : at.start()])
        before = at.end()
        if domain is None or domain[1].lower() in _NO_COUNTRY:
            continue
        start = _behind_escape(text, start, at.start())
        if start < at.start() and not _is_login(text, start, at.start()):
            yield start, domain.end()


def _tail(text: str) -> int:
    """How many characters at the end may be the local part of an address."""
    tail = text[len(text.rstrip(_LOCAL)) :]
    return len(tail.lstrip(".%+-"))


def _behind_escape(text: str, start: int, end: int) -> int:
    # `\nbob@...`: the n belongs to the backslash; without it the JSON around it would break
    if start and text[start - 1] == "\\" and (escape := _ESCAPE.match(text, start, end)):
        return escape.end()
    return start


def _is_login(text: str, start: int, end: int) -> bool:
    return text[start:end] == "git" or text[max(0, start - 3) : start] == "://"


# -- ID cards

_ID_CARD = re.compile(
    rf"[1-9](?=[0-9]{{5}}){_START}[0-9]{{5}}([ -]?)(?:18|19|20)[0-9]{{2}}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])\1"
    rf"[0-9]{{3}}[0-9Xx]{_END}"
)
_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def id_cards(text: str) -> Iterator[Span]:
    """Chinese ID card numbers of 18 places, in one piece or as 6-8-4, whose checksum (GB 11643) fits."""
    for found in _ID_CARD.finditer(text):
        places = [one for one in found[0] if one not in " -"]
        total = sum(weight * int(digit) for weight, digit in zip(_WEIGHTS, places, strict=False))
        if "10X98765432"[total % 11] == places[-1].upper():
            yield found.span()


# -- bank cards

_BANK_CARD = re.compile(
    rf"[2-6](?=[0-9]{{3}}){_START}{_NO_FRACTION}(?:[0-9]{{12,18}}+"
    r"|[0-9]{3}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{1,4}(?:\1[0-9]{1,3})?"  # 4-4-4-4, and 4-4-4-4-3
    r"|[0-9]{3}([ -])[0-9]{6}\2[0-9]{4,5}"  # 4-6-5, 4-6-4
    rf"|[0-9]{{5}}[ -][0-9]{{13}}){_WHOLE_END}"  # 6-13
)
# Issuers' prefixes and lengths. Without them a tenth of all time stamps and order numbers would pass by Luhn.
_ISSUED = re.compile(
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})|5[0-8][0-9]{14}|2(?:22[1-9]|2[3-9][0-9]|[3-6][0-9]{2}|7[01][0-9]|720)[0-9]{12}"
    r"|3[47][0-9]{13}|3(?:0[0-5]|[689][0-9])[0-9]{11}|35[0-9]{14,17}|6[0-9]{15,18}"
)


def bank_cards(text: str) -> Iterator[Span]:
    """Bank card numbers of 13 to 19 digits, with or without blanks or dashes, that an issuer could have given."""
    for found in _BANK_CARD.finditer(text):
        digits = found[0].replace(" ", "").replace("-", "")
        fits = _ISSUED.fullmatch(digits) and _luhn(digits)
        if fits and not _counts_up(found[0]) and not _is_something_else(text, *found.span()):
            yield found.span()


def _luhn(digits: str) -> bool:
    doubled = sum(sum(divmod(2 * int(one), 10)) for one in digits[-2::-2])
    return (doubled + sum(int(one) for one in digits[-1::-2])) % 10 == 0


def _counts_up(groups: str) -> bool:
    # `5432 5433 5434 5435`: a list of ports, not a card
    numbers = [int(one) for one in re.split("[ -]", groups)]
    return len(numbers) > 1 and all(0 < b - a <= 100 for a, b in pairwise(numbers))


# -- telephones

_MOBILE = re.compile(rf"1[3-9][0-9](?:[0-9]{{8}}|([ -])[0-9]{{4}}\1?[0-9]{{4}}){_WHOLE_END}")
_CHINA = re.compile(r"(?:[(（]?(?:\+|00)86[)）]?|86)[ -]?\Z")
_IS_FREE = re.compile(rf".{_START}{_NO_FRACTION}", re.DOTALL)
_AREA = r"(?:10|2[0-9]|[3-9][0-9]{2})"  # behind the leading zero
# `0318-20260318` is a day, `0644 1234567` a mode and a size: a blank is believed after the big cities only
_NO_DAY = rf"(?!(?:19|20)[0-9]{{2}}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]){_END})"
_LANDLINE = re.compile(
    rf"[02-9](?=[0-9]{{2,3}}[ -]){_START}{_NO_FRACTION}(?:"
    rf"(?<=0)(?:{_AREA}-|(?:10|2[0-9]) ){_NO_DAY}[1-9][0-9]{{6,7}}(?:-[0-9]{{1,5}})?"
    r"|(?<=[2-9])[0-9]{2}-[2-9][0-9]{2}-[0-9]{4}"
    rf"|(?<=[48])00-(?:[0-9]{{3}}-[0-9]{{4}}|[0-9]{{4}}-[0-9]{{3}})){_WHOLE_END}"
)
# What all of these hold; most lines do not, and this is found out in a fourth of the time
_JOINT = re.compile(r"[- ](?<=[0-9]{3}.)(?=[0-9]{3})")
_IN_BRACKETS = re.compile(
    rf"[(（](?:0{_AREA}[)）][ -]?[1-9][0-9]{{6,7}}|[2-9][0-9]{{2}}[)）][ -]?[0-9]{{3}}[ .-][0-9]{{4}}){_WHOLE_END}"
)
_YEAR_BEFORE = re.compile(r"(?<![0-9])(?:19|20)[0-9]{2}-\Z")
_PLUS = re.compile(r"\+(?=[1-9])")
_GROUP = re.compile(r"[ .-]?\(?([0-9]{1,15})\)?")
_GOES_ON = re.compile(r"[0-9A-Za-z]|\.[0-9]")


def phones(text: str) -> Iterator[Span]:
    """Telephone numbers: Chinese mobiles and landlines, North American ones, and `+` with a country's code."""
    if len(text) < 10:  # most fields of a record: shorter than any of them
        return
    yield from _mobiles(text)
    if _JOINT.search(text):
        yield from _landlines(text)
    if "(" in text or "（" in text:
        yield from (found.span() for found in _IN_BRACKETS.finditer(text))
    yield from _international(text)


def _landlines(text: str) -> Iterator[Span]:
    for found in _LANDLINE.finditer(text):
        year = _YEAR_BEFORE.search(text, max(0, found.start() - 6), found.start())
        if not year and not _is_something_else(text, *found.span()):
            yield found.span()


def _mobiles(text: str) -> Iterator[Span]:
    for found in _MOBILE.finditer(text):
        code = _CHINA.search(text, max(0, found.start() - 7), found.start())
        starts = ([code.start()] if code else []) + [found.start()]
        start = next((one for one in starts if text[one] in "+(（" or _IS_FREE.match(text, one)), None)
        if start is not None and not _is_something_else(text, start, found.end()):
            yield start, found.end()


def _international(text: str) -> Iterator[Span]:
    """`+` and 10 to 15 digits. It ends with the group that makes it ten: `+44 20 7183 8750 200 OK`."""
    for plus in _PLUS.finditer(text):
        at, end, digits = plus.start(), plus.end(), 0
        while digits < 10 and (group := _GROUP.match(text, end)):
            digits, end = digits + len(group[1]), group.end()
        fits = 10 <= digits <= 15 and not _GOES_ON.match(text, end)
        if fits and not _is_something_else(text, at, end):
            yield at, end


# -- what the words around a number say

_NUMBERED = (
    "order|ord|trade|trace|span|request|req|transaction|txn|invoice|inv|ticket|serial|sequence|seq|batch|job|task|build|"
    "epoch|timestamp|time|ts|offset|size|bytes|length|len|count|total|amount|duration|elapsed|memory|mem|heap|"
    "订单|单号|流水|编号|批次|时间戳|金额|大小"
)
_SAID_BEFORE = re.compile(
    rf"(?<![A-Za-z])(?:{_NUMBERED})(?:[ _-]?(?:id|no|num|number|code|号))?[\"']? ?[=:：#_-]{{1,2}} ?[\"']?\Z",
    re.I,
)
_SAID_AFTER = re.compile(r" ?(?:bytes?|[KMGT]i?B|[mun]s|rows?|字节|毫秒|元)(?![A-Za-z])")
_KEY = re.compile(
    rf"(?:.*[_. -])?(?:{_NUMBERED})s?(?:[_. -]?(?:id|no|num|number|code|ms|ns|us|号))?", re.I | re.S
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _is_something_else(text: str, start: int, end: int) -> bool:
    """Whether the words around say that this number is an order, a size, a time: a key before, a unit behind."""
    if _SAID_AFTER.match(text, end):
        return True
    sign = text[max(0, start - 3) : start].rstrip(" \"'")[-1:]
    return sign != "" and sign in "=:：#_-" and bool(_SAID_BEFORE.search(text, max(0, start - 32), start))


@lru_cache(maxsize=4096)
def names_a_number(key: str) -> bool:
    """Whether a field of this name holds numbers of another kind: `order_id`, `sizeBytes`, `订单号`."""
    return _KEY.fullmatch(_HUMP.sub("_", key[:80])) is not None


_PHONE_KEY = re.compile(
    r"(?:.*_)?(?:\w*phone|mobile|tel|cell|msisdn|fax)s?(?:_?(?:no|num|number))?|.*(?:手机|电话)号?码?", re.S
)


@lru_cache(maxsize=4096)
def names_a_phone(key: str) -> bool:
    """Whether a field of this name holds a telephone number, so that even a bare number is one."""
    return _PHONE_KEY.fullmatch(_HUMP.sub("_", key[:80]).lower()) is not None

"""When a log line was written and how grave it is, in the formats that logs usually have."""

import re
from datetime import UTC, datetime, timedelta, timezone

SCANNED = 200  # characters of a line in which its time is looked for; further on, it is part of the message

_MONTHS = {
    name: at
    for at, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_CLOCK = r"(?P<h>\d{2}):(?P<mi>\d{2}):(?P<s>\d{2})(?:[.,](?P<frac>\d{1,9}))?"
_ZONE = r"(?:\s?(?P<zone>Z|[+-]\d{2}:?\d{2}))?"
_NUMBERED = re.compile(
    rf"(?<!\d)(?P<y>\d{{4}})[-/](?P<mo>\d{{2}})[-/](?P<d>\d{{2}})(?:T| {{1,2}}){_CLOCK}{_ZONE}"
)
_NAMED = re.compile(
    rf"(?<!\d)(?P<d>\d{{1,2}})[/ -](?P<name>[A-Z][a-z]{{2}})[/ -](?P<y>\d{{4}})[: ]{_CLOCK}{_ZONE}"
)
_SYSLOG = re.compile(rf"^(?:<\d+>)?(?P<name>[A-Z][a-z]{{2}}) +(?P<d>\d{{1,2}}) {_CLOCK}")
_EPOCH = re.compile(r"^\[?(?P<epoch>1\d{9})(?:\.\d+)?[\]:\s]")

_LEVEL = re.compile(
    r"(?<![\w.-])(?:(?P<word>TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL|ALERT|EMERG|PANIC|SEVERE)(?![\w-])"
    r"|\[(?P<bracket>trace|debug|info|inf|dbg|notice|note|warn(?:ing)?|wrn|err(?:or)?|ftl|crit(?:ical)?|fatal|alert|emerg|panic|system)\]"
    r"|\"?(?:level|severity|lvl)\"?\s*[=:]\s*\"?(?P<field>[a-z]+))",
)
_LEVEL_ANY_CASE = re.compile(_LEVEL.pattern, re.IGNORECASE)
_ERRORS = frozenset({"ERROR", "ERR", "CRITICAL", "CRIT", "FATAL", "FTL", "ALERT", "EMERG", "PANIC", "SEVERE"})
_SHORT = {
    "WARNING": "WARN",
    "WRN": "WARN",
    "INF": "INFO",
    "DBG": "DEBUG",
    "NOTE": "NOTICE",
    "ERR": "ERROR",
    "FTL": "FATAL",
    "CRIT": "CRITICAL",
}
_BAD_WORD = re.compile(
    r"(?<![\w./-])(error|errors|failed|failure|fatal|exception|panic|traceback|denied|refused|timed out)(?![\w./-])|错误|失败|异常",
    re.IGNORECASE,
)
_SERVER_ERROR = re.compile(r"HTTP/\d(?:\.\d)?\"\s5\d\d\s")


def time_of(line: str, written: datetime | None = None) -> datetime | None:
    """When `line` was written, aware; a time without a zone is taken as UTC. None: it has no time.

    `written`: when its file was last changed; syslog's times have no year and take the one that fits.
    """
    start = line[:SCANNED]
    found = _NUMBERED.search(start) or _NAMED.search(start)
    if found:
        return _moment(found, int(found["y"]))
    if found := _SYSLOG.match(start):
        return _without_year(found, written or datetime.now(UTC))
    if found := _EPOCH.match(start):
        return datetime.fromtimestamp(int(found["epoch"]), UTC)
    return None


def level_of(line: str) -> str | None:
    """The level as one of TRACE, DEBUG, INFO, NOTICE, WARN, ERROR, CRITICAL, FATAL ...; None: it names none.

    Lower-case words count only in brackets or as a field's value, else each "info" in a sentence were a level.
    """
    found = _LEVEL.search(line[:SCANNED]) or _bracketed(line[:SCANNED])
    if found is None:
        return None
    word = (found["word"] or found["bracket"] or found["field"]).upper()
    return _SHORT.get(word, word)


def is_error(line: str, level: str | None) -> bool:
    """Whether the line tells of an error: by its level, or, where it has none, by a 5xx or a telling word."""
    if level is not None:
        return level in _ERRORS
    return _SERVER_ERROR.search(line) is not None or _BAD_WORD.search(line[: 2 * SCANNED]) is not None


def message_of(line: str) -> str:
    """What remains of a line's first line behind time and level: the message."""
    first = line.split("\n", 1)[0]
    ends = [
        found.end()
        for pattern in (_NUMBERED, _NAMED, _SYSLOG, _EPOCH)
        if (found := pattern.search(first[:SCANNED]))
    ]
    level = _LEVEL.search(first[:SCANNED]) or _bracketed(first[:SCANNED])
    if level is not None and level["field"] is None:
        ends.append(level.end())
    return first[max(ends, default=0) :].strip(" \t:-]|") or first


def _bracketed(start: str) -> re.Match[str] | None:
    found = _LEVEL_ANY_CASE.search(start)
    while found is not None and found["word"]:
        found = _LEVEL_ANY_CASE.search(start, found.end())
    return found


def _moment(found: re.Match[str], year: int) -> datetime | None:
    parts = found.groupdict()
    month = int(parts["mo"]) if parts.get("mo") else _MONTHS.get(str(parts.get("name")).lower(), 0)
    fraction = int(((parts["frac"] or "0") + "00000")[:6])
    try:
        clock = int(parts["h"]), int(parts["mi"]), int(parts["s"]), fraction
        return datetime(year, month, int(parts["d"]), *clock, tzinfo=_zone(parts.get("zone")))
    except ValueError:  # digits that look like a time and are none, 2026-99-99
        return None


def _without_year(found: re.Match[str], written: datetime) -> datetime | None:
    moment = _moment(found, written.year)
    if moment is not None and moment > written + timedelta(days=1):
        return _moment(found, written.year - 1)  # December's lines, read in January
    return moment


def _zone(text: str | None) -> timezone:
    if text in (None, "Z"):
        return UTC
    assert text is not None
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))

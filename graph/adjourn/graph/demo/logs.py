"""Reading a log: its newest minutes, and what went wrong in them.

A log may be of any format (`timestamps.py` says which ones are understood). Lines without a time belong to
the line above them, as a stack trace does, unless hardly any line has one: then each stands for itself.
"""

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from adjourn.graph.demo.timestamps import is_error, level_of, message_of, time_of

# Read from the end of a file: some hours of a busy service, and less than a second of work.
MAX_BYTES = 16_000_000
MAX_UNTIMED = 2_000  # records taken from a file without times, where minutes mean nothing
TIMED_SHARE = 0.1  # below it, lines with a time are headings and not entries
MAX_TRACE = 12  # lines kept of a record that has many, such as a stack trace
TEXT = 300  # characters of a line that is shown; five patterns with examples stay below 4,000
PATTERNS = 5
LATEST = 5
LEAD = timedelta(minutes=15)  # how long before the first error a change is looked for
MAX_LEADS = 4

_CHANGE = re.compile(
    r"\b(releas\w*|deploy\w*|roll(?:ed|ing)?[ -]?(?:out|back)|upgrad\w*|migrat\w*|configured|config changed|restart\w*|"
    r"(?:was|from) \d+|failover|status installed|started in)\b|发布|部署|升级|重启|配置变更|切换",
    re.IGNORECASE,
)
# the thread and the trace in front of a message: they say nothing about its kind
_LEADING = re.compile(r"^(?:\[[^\]]*\]\s*|\w*trace\w*=\S+\s+)+")
_VARYING = (
    (re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+"), "<mail>"),
    (re.compile(r"(?<!\w)\+?\d[\d -]{8,}\d(?!\w)"), "<number>"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b[A-Z]{2,6}\d{4,}\b"), "<id>"),
    (re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b"), "<ip>"),
    (re.compile(r"(?<==)\d+(?:\.\d+)?"), "<n>"),
    (re.compile(r"(?<![\w.<-])\d{4,}"), "<n>"),
)


@dataclass(slots=True)
class Record:
    """One entry of a log. `text` holds its lines; `level` is None where it names none."""

    text: str
    time: datetime | None
    level: str | None

    @property
    def is_error(self) -> bool:
        """Whether it tells of an error."""
        return is_error(self.text, self.level)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A kind of error: messages that differ only in numbers and ids. Times are ISO 8601 or None."""

    count: int
    message: str
    first: str | None
    last: str | None
    example: str


def read_records(file: Path, max_bytes: int = MAX_BYTES) -> list[Record]:
    """The records in the last `max_bytes` of `file`, oldest first. Bytes that are no UTF-8 are replaced.

    Raises `OSError` when the file cannot be read.
    """
    written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    lines = [(line, time_of(line, written)) for line in _tail(file, max_bytes) if line.strip()]
    timed = sum(time is not None for _, time in lines)
    return _joined(lines) if timed >= TIMED_SHARE * len(lines) else _single(lines)


def newest(records: Sequence[Record], minutes: int) -> list[Record]:
    """The records of the last `minutes` before the newest one; the last ones of a log without times."""
    times = [record.time for record in records if record.time is not None]
    if not times:
        return list(records[-MAX_UNTIMED:])
    since = max(times) - timedelta(minutes=minutes)
    return [record for record in records if record.time is not None and record.time >= since]


def summarise(records: Sequence[Record], minutes: int) -> dict[str, Any]:
    """What the newest `minutes` tell, as JSON data.

    `{"from", "to", "minutes", "lines", "levels", "errors", "first_error", "last_error", "patterns",
    "changes_before_first_error", "latest"}`; times are ISO 8601, and null in a log without times, as `minutes` then is.
    """
    window = newest(records, minutes)
    errors = [record for record in window if record.is_error]
    patterns = group(errors)
    timed = any(record.time for record in window)
    return {
        "from": _iso(window[0]) if window else None,
        "to": _iso(window[-1]) if window else None,
        "minutes": minutes if timed else None,
        "lines": len(window),
        "levels": dict(Counter(record.level for record in window if record.level)),
        "errors": len(errors),
        "first_error": _shown(errors[0]) if errors else None,
        "last_error": _shown(errors[-1]) if errors else None,
        "patterns": [asdict(pattern) for pattern in patterns[:PATTERNS]],
        "other_patterns": max(0, len(patterns) - PATTERNS),
        "changes_before_first_error": _changes(records, errors),
        "latest": [record.text[: TEXT // 2] for record in window[-LATEST:]],
    }


def group(errors: Sequence[Record]) -> list[Pattern]:
    """The kinds of error among `errors`, the most frequent first."""
    kinds: dict[str, list[Record]] = {}
    for record in errors:
        kinds.setdefault(pattern_of(record.text), []).append(record)
    found = [
        Pattern(len(same), kind, _iso(same[0]), _iso(same[-1]), same[-1].text[:TEXT])
        for kind, same in kinds.items()
    ]
    return sorted(found, key=lambda pattern: -pattern.count)


def pattern_of(text: str) -> str:
    """The message of a record without what varies: numbers, ids, addresses."""
    message = message_of(text)
    message = _LEADING.sub("", message) or message
    for varying, stand_in in _VARYING:
        message = varying.sub(stand_in, message)
    return message[:TEXT]


def _joined(lines: Sequence[tuple[str, datetime | None]]) -> list[Record]:
    records: list[Record] = []
    for line, time in lines:
        if time is None and records:
            _append(records[-1], line)
        else:
            records.append(Record(line, time, level_of(line)))
    return records


def _single(lines: Sequence[tuple[str, datetime | None]]) -> list[Record]:
    # each line for itself, at the time that was told last
    records: list[Record] = []
    latest: datetime | None = None
    for line, time in lines:
        latest = time or latest
        records.append(Record(line, latest, level_of(line)))
    return records


def _changes(records: Sequence[Record], errors: Sequence[Record]) -> list[str]:
    # looked for in the whole log: the change may lie just before the window
    start = errors[0].time if errors else None
    if start is None:
        return []
    leads = (r for r in records if r.time is not None and start - LEAD <= r.time <= start and not r.is_error)
    return [record.text[:TEXT] for record in leads if _CHANGE.search(record.text)][-MAX_LEADS:]


def _tail(file: Path, max_bytes: int) -> list[str]:
    with file.open("rb") as source:
        size = source.seek(0, os.SEEK_END)
        source.seek(max(0, size - max_bytes))
        lines = source.read(max_bytes).decode("utf-8", errors="replace").splitlines()
    return lines[1:] if size > max_bytes else lines  # the first line is cut where the file is


def _append(record: Record, line: str) -> None:
    if record.text.count("\n") < MAX_TRACE:
        record.text += f"\n{line}"


def _iso(record: Record) -> str | None:
    return None if record.time is None else record.time.isoformat(timespec="seconds")


def _shown(record: Record) -> dict[str, str | None]:
    return {"time": _iso(record), "text": record.text[:TEXT]}

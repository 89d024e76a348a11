"""Times that are typed: how long ago, or since when."""

import re
from datetime import UTC, datetime, timedelta

from adjourn.checkpoints.database import format_time
from adjourn.checkpoints.errors import UsageError

_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


def age(words: str) -> timedelta:
    """How long `30d`, `12h`, `90m`, `2w` or `45s` is. Raises `UsageError` for anything else."""
    found = re.fullmatch(r"(\d{1,6})([wdhms])", words.strip())
    if found is None:
        raise UsageError(f"--older-than is a number and a unit, such as 30d, 12h or 90m, not {words!r}")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def begun_after(words: str) -> str:
    """The stored time that `7d` (so long ago), `2026-11-01` or `2026-11-01T08:00` means; without a zone it is UTC.

    Raises `UsageError`.
    """
    try:
        moment = datetime.fromisoformat(words)
    except ValueError:
        try:
            return format_time(datetime.now(UTC) - age(words))
        except UsageError:
            problem = f"--since is an age such as 7d or 12h, or a date such as 2026-11-01, not {words!r}"
            raise UsageError(problem) from None
    return format_time(moment if moment.tzinfo else moment.replace(tzinfo=UTC))

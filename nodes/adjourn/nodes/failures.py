"""From an exception to what it means: its code, whether to try again, whether a write may have happened. Pure.

The class decides (C-29). The exceptions of HTTP clients are known by their names and by the status that
they carry, since none of these packages needs to be installed.
"""

import math
import socket
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from adjourn.checkpoints.lifecycle import ErrorCode
from adjourn.nodes.tool_errors import NotDone, RateLimited, ToolError


class TimeLimit(Exception):
    """An attempt passed its time limit and was given up; what it does later is not seen."""


class SelfCancelled(Exception):
    """A tool's own task was cancelled, by itself or by what it called: a write may have been in its middle."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What an exception means.

    `again`: worth another attempt (C-30). `lost`: a write that ended so may have happened (C-28).
    `retry_after_s`: the wait that the other side asked for, in seconds.
    """

    code: ErrorCode
    again: bool = False
    lost: bool = False
    retry_after_s: float | None = None


# By the HTTP status that an exception carries. 502 and 504 come from a gateway that lost sight of the request.
_STATUSES: dict[int, Failure] = {
    401: Failure(ErrorCode.PERMISSION_DENIED),
    403: Failure(ErrorCode.PERMISSION_DENIED),
    404: Failure(ErrorCode.NOT_FOUND),
    408: Failure(ErrorCode.TIMEOUT, again=True, lost=True),
    410: Failure(ErrorCode.NOT_FOUND),
    429: Failure(ErrorCode.RATE_LIMITED, again=True),
    502: Failure(ErrorCode.UNAVAILABLE, again=True, lost=True),
    503: Failure(ErrorCode.UNAVAILABLE, again=True),
    504: Failure(ErrorCode.UNAVAILABLE, again=True, lost=True),
}

_TIMED_OUT = Failure(ErrorCode.TIMEOUT, again=True, lost=True)
_NEVER_SENT = Failure(ErrorCode.UNAVAILABLE, again=True)
_BROKE_OFF = Failure(ErrorCode.UNAVAILABLE, again=True, lost=True)

# By class, most special first.
_CLASSES: tuple[tuple[type[BaseException], Failure], ...] = (
    (TimeLimit, _TIMED_OUT),
    (SelfCancelled, Failure(ErrorCode.TOOL_ERROR, lost=True)),
    (NotDone, Failure(ErrorCode.TOOL_ERROR)),
    (TimeoutError, _TIMED_OUT),
    (ConnectionRefusedError, _NEVER_SENT),
    (socket.gaierror, _NEVER_SENT),
    (ConnectionError, _BROKE_OFF),
    (PermissionError, Failure(ErrorCode.PERMISSION_DENIED)),
    (FileNotFoundError, Failure(ErrorCode.NOT_FOUND)),
    (LookupError, Failure(ErrorCode.NOT_FOUND)),
)

# By the names of classes of httpx, requests, aiohttp and urllib3.
_NAMES: dict[str, Failure] = {
    "ConnectTimeout": _NEVER_SENT,
    "ConnectError": _NEVER_SENT,
    "ClientConnectorError": _NEVER_SENT,
    "NewConnectionError": _NEVER_SENT,
    "PoolTimeout": _NEVER_SENT,
    "TimeoutException": _TIMED_OUT,
    "Timeout": _TIMED_OUT,
    "ServerTimeoutError": _TIMED_OUT,
    "TransportError": _BROKE_OFF,
    "ClientConnectionError": _BROKE_OFF,
    "ProtocolError": _BROKE_OFF,
}


def failure_of(error: BaseException) -> Failure:
    """What `error` means; an exception that nothing is known about is a plain `tool_error`."""
    if isinstance(error, RateLimited):
        return Failure(ErrorCode.RATE_LIMITED, again=True, retry_after_s=error.retry_after_s)
    if isinstance(error, ToolError):
        return Failure(error.code)
    status = http_status(error)
    if status is not None:
        return _of_status(status, error)
    named = next((_NAMES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _NAMES), None)
    if named is not None:
        return named
    known = next((one for kind, one in _CLASSES if isinstance(error, kind)), None)
    if known is not None:
        return known
    reason = getattr(error, "reason", None)  # urllib wraps what happened
    return failure_of(reason) if isinstance(reason, Exception) else Failure(ErrorCode.TOOL_ERROR)


def _of_status(status: int, error: BaseException) -> Failure:
    known = _STATUSES.get(status)
    if known is None:
        return Failure(ErrorCode.UNAVAILABLE if status >= 500 else ErrorCode.TOOL_ERROR, again=status >= 500)
    wait = retry_after_s(error)
    return known if wait is None else Failure(known.code, known.again, known.lost, wait)


def http_status(error: BaseException) -> int | None:
    """The HTTP status of 400 or more that an exception of an HTTP client carries; None: it carries none."""
    response = getattr(error, "response", None)
    for holder, name in (
        (response, "status_code"),
        (response, "status"),
        (error, "status_code"),
        (error, "status"),
    ):
        value = getattr(holder, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 400:
            return value
    return None


def retry_after_s(error: BaseException) -> float | None:
    """The `Retry-After` header of the response (RFC 9110, 10.2.3), in seconds from now; None: no such header."""
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or getattr(
        error, "headers", None
    )
    value = headers.get("Retry-After") if hasattr(headers, "get") else None
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        return _seconds_until(value)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _seconds_until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    from datetime import UTC, datetime

    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())


def public_message(error: BaseException) -> str:
    """What a model may see of an exception: its first line without paths and addresses of the host."""
    if isinstance(error, ToolError):
        return error.message
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    first = str(error).strip().partition("\n")[0]
    return " ".join("..." if "/" in word or "\\" in word else word for word in first.split())[:300] or "-"

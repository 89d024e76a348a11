"""From an exception to what it means: its code, whether to try again, whether a write may have happened. Pure.

Its class decides, and the code that the other side gave (C-29). What it was raised from counts where it says more: clients
wrap what happened, SDKs wrap clients, and task groups wrap both. Classes are known by their names, since none of
these packages needs to be installed.
"""

import errno
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any

from adjourn.checkpoints.lifecycle import ErrorCode
from adjourn.nodes.tool_errors import RateLimited, ToolError


class TimeLimit(Exception):
    """An attempt passed its time limit and was given up; what it does later is not seen."""


class SelfCancelled(Exception):
    """A tool's own task was cancelled, by itself or by what it called: a write may have been in its middle."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What an exception means.

    `again`: worth another attempt (C-30). `lost`: a write that ended so may have happened (C-28).
    `retry_after_s`: the wait that the other side asked for, in seconds. `sure`: nothing that the exception was raised
    from says more.
    """

    code: ErrorCode
    again: bool = False
    lost: bool = False
    retry_after_s: float | None = None
    sure: bool = True


_PLAIN = Failure(ErrorCode.TOOL_ERROR)
_NOT_KNOWN = Failure(ErrorCode.TOOL_ERROR, lost=True)
_TIMED_OUT = Failure(ErrorCode.TIMEOUT, again=True, lost=True)
_NEVER_SENT = Failure(ErrorCode.UNAVAILABLE, again=True)
_BROKE_OFF = Failure(ErrorCode.UNAVAILABLE, again=True, lost=True)
# What it was raised from tells whether anything had been sent; where that says nothing, something may have been.
_WRAPS = Failure(ErrorCode.UNAVAILABLE, again=True, lost=True, sure=False)
_WRAPS_TIMEOUT = Failure(ErrorCode.TIMEOUT, again=True, lost=True, sure=False)

# By the HTTP status that an exception carries. 502, 504 and those from 520 come from a gateway that lost sight of the request.
_STATUSES: dict[int, Failure] = {
    401: Failure(ErrorCode.PERMISSION_DENIED),
    403: Failure(ErrorCode.PERMISSION_DENIED),
    404: Failure(ErrorCode.NOT_FOUND),
    408: _TIMED_OUT,
    410: Failure(ErrorCode.NOT_FOUND),
    429: Failure(ErrorCode.RATE_LIMITED, again=True),
    503: _NEVER_SENT,
    **dict.fromkeys((502, 504, *range(520, 525), 598, 599), _BROKE_OFF),
}

# By the SQLSTATE that a database gave; any other says that the statement did not take effect. 40003 and the classes 08
# and 57P (the server goes down) leave it open.
_SQLSTATES: dict[str, Failure] = dict.fromkeys(
    ("08000", "08003", "08006", "08007", "40003", "57P01", "57P02", "57P05"), _BROKE_OFF
)

# By the status of a gRPC call; any other is an answer of the server. Those that are `lost` come from the library too, when the
# connection breaks, the answer is too large, or a proxy stands between (its 502 is UNAVAILABLE, its 500 UNKNOWN).
_GRPC: dict[str, Failure] = {
    "DEADLINE_EXCEEDED": _TIMED_OUT,
    **dict.fromkeys(("UNAVAILABLE", "UNKNOWN", "INTERNAL"), _BROKE_OFF),
    **dict.fromkeys(("CANCELLED", "DATA_LOSS"), _NOT_KNOWN),
    "RESOURCE_EXHAUSTED": Failure(ErrorCode.RATE_LIMITED, again=True, lost=True),
    "NOT_FOUND": Failure(ErrorCode.NOT_FOUND),
    **dict.fromkeys(("PERMISSION_DENIED", "UNAUTHENTICATED"), Failure(ErrorCode.PERMISSION_DENIED)),
}

# By the code of a JSON-RPC error, as MCP uses them: the time limit of a request (in the newer protocol the second), a
# connection that was closed.
_JSON_RPC: dict[int, Failure] = {408: _TIMED_OUT, -32001: _TIMED_OUT, -32000: _BROKE_OFF}

# By the number of an `OSError` that has no class of its own, and of the drivers of MySQL: gone away, lost in a query.
_NUMBERS: dict[int, Failure] = dict.fromkeys(
    (
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENETRESET,
        errno.ENOTCONN,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        2006,
        2013,
        2055,
    ),
    _BROKE_OFF,
)

# By class: its own name, else the one of the nearest class above it that is listed. A name that many packages use
# stands with its package.
_CLASSES: dict[str, Failure] = {
    "TimeLimit": _TIMED_OUT,
    "SelfCancelled": _NOT_KNOWN,
    **dict.fromkeys(
        (
            "ConnectionRefusedError",
            "gaierror",
            "ConnectError",  # httpx
            "ConnectTimeout",  # httpx, requests
            "PoolTimeout",  # httpx, psycopg_pool
            "ConnectTimeoutError",  # urllib3, botocore
            "NewConnectionError",  # urllib3
            "ClientConnectorError",  # aiohttp
            "ConnectionTimeoutError",  # aiohttp
            "ConnectionFailed",  # anyio
            "EndpointConnectionError",  # botocore
            "ServerSelectionTimeoutError",  # pymongo
            "WaitQueueTimeoutError",  # pymongo
            "redis.MaxConnectionsError",
            "redis.BusyLoadingError",
            "sqlalchemy.TimeoutError",  # none of its pool's connections came free
        ),
        _NEVER_SENT,
    ),
    "SSLCertVerificationError": _PLAIN,  # never sent either, and no better the next time
    **dict.fromkeys(
        (
            "TimeoutError",  # asyncio, socket, redis, urllib3
            "TimeoutException",  # httpx
            "Timeout",  # requests
            "ServerTimeoutError",  # aiohttp
            "TimeoutExpired",  # subprocess
            "ExecutionTimeout",  # pymongo: of many documents some may be written
            "ServiceResponseTimeoutError",  # azure
        ),
        _TIMED_OUT,
    ),
    **dict.fromkeys(
        (
            "ConnectionResetError",
            "ConnectionAbortedError",
            "BrokenPipeError",
            "EOFError",
            "NetworkError",  # httpx
            "ProtocolError",  # httpx, urllib3
            "ChunkedEncodingError",  # requests
            "ClientConnectionError",  # aiohttp
            "ClientPayloadError",  # aiohttp
            "IncompleteRead",  # http.client
            "BadStatusLine",  # http.client
            "IncompleteReadError",  # asyncio, botocore
            "BrokenResourceError",  # anyio
            "ClosedResourceError",  # anyio
            "EndOfStream",  # anyio
            "ConnectionClosed",  # websockets
            "ConnectionClosedError",  # botocore
            "ConnectionFailure",  # pymongo
            "ServiceResponseError",  # azure
            "SMTPServerDisconnected",
        ),
        _BROKE_OFF,
    ),
    **dict.fromkeys(
        (
            "ConnectionError",  # Python, requests, redis
            "SSLError",  # ssl, requests, urllib3
            "TransportError",  # httpx
            "APIConnectionError",  # openai, anthropic
            "ServiceRequestError",  # azure: over aiohttp it stands for a connection that broke off, too
            "grpc.RpcError",  # one without a status
            "psycopg.OperationalError",
            "psycopg2.OperationalError",
        ),
        _WRAPS,
    ),
    # pymongo: written, but not to as many servers as was asked for; some of many
    **dict.fromkeys(("WriteConcernError", "BulkWriteError", "ClientBulkWriteException"), _NOT_KNOWN),
    "APITimeoutError": _WRAPS_TIMEOUT,  # openai, anthropic
    "redis.AuthenticationError": Failure(ErrorCode.PERMISSION_DENIED),
    "PermissionError": Failure(ErrorCode.PERMISSION_DENIED, sure=False),
    "FileNotFoundError": Failure(ErrorCode.NOT_FOUND, sure=False),
    "LookupError": Failure(ErrorCode.NOT_FOUND, sure=False),
}

_MOST = 200  # exceptions that are looked at for one: far more than any chain has, and most task groups


def failure_of(error: BaseException) -> Failure:
    """What `error` means; an exception that nothing is known about is a plain `tool_error`."""
    return _meaning(error, set()) or _PLAIN


def _meaning(error: BaseException, seen: set[int]) -> Failure | None:
    """What the exception says by itself, or what stands behind it says better: the worst of that. None: nothing."""
    if id(error) in seen or len(seen) >= _MOST:
        return None
    seen.add(id(error))
    own = _by_itself(error)
    if own is not None and own.sure:
        return own
    found = (_meaning(one, seen) for one in _behind(error))
    # a look-up that failed on the way says nothing about what was raised in the end
    telling = [one for one in found if one is not None and (one.sure or one.lost)]
    return max(telling, key=lambda one: one.lost) if telling else own


def _behind(error: BaseException) -> Iterator[BaseException]:
    """What the exception was raised from or while handling, what it wraps, and the members of a group."""
    wrapped = (
        error.__cause__,
        error.__context__,
        *(_attribute(error, one) for one in ("reason", "inner_exception")),
    )
    for one in (*wrapped, *error.args, *(_attribute(error, "exceptions") or ())):
        if isinstance(one, BaseException):
            yield one


def _by_itself(error: BaseException) -> Failure | None:
    if isinstance(error, RateLimited):
        return Failure(ErrorCode.RATE_LIMITED, again=True, retry_after_s=error.retry_after_s)
    if isinstance(error, ToolError):
        code = ErrorCode(error.code) if error.code in error.codes else ErrorCode.TOOL_ERROR
        return _NOT_KNOWN if code is ErrorCode.OUTCOME_UNKNOWN else Failure(code)
    return _by_code(error) or _by_class(error) or _in(_NUMBERS, _number(error))


def _by_code(error: BaseException) -> Failure | None:
    """What the code says that the other side gave."""
    if (status := http_status(error)) is not None:
        return _of_status(status, error)
    if (word := grpc_status(error)) is not None:
        return _GRPC.get(word, _PLAIN)
    state = _attribute(error, "sqlstate") or _attribute(error, "pgcode")
    if isinstance(state, str):
        return _SQLSTATES.get(state, _PLAIN)
    if _attribute(error, "pgconn") is not None:  # psycopg: there was no connection yet
        return _NEVER_SENT
    return _in(_JSON_RPC, _attribute(_attribute(error, "error"), "code"))


def _by_class(error: BaseException) -> Failure | None:
    for kind in type(error).__mro__:
        known = _CLASSES.get(_full_name(kind)) or _CLASSES.get(kind.__name__)
        if known is not None:
            return known
    return None


def _full_name(kind: type) -> str:
    """The name of a class with its package's."""
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def _number(error: BaseException) -> Any:
    is_mysql = type(error).__module__.partition(".")[0] in ("pymysql", "MySQLdb")
    return error.args[0] if is_mysql and error.args else _attribute(error, "errno")


def _in(table: Mapping[int, Failure], code: Any) -> Failure | None:
    return table.get(code) if isinstance(code, int) else None


def _attribute(holder: Any, name: str) -> Any:
    """An attribute of somebody else's object; None: it is not there, or cannot be read."""
    try:
        return getattr(holder, name, None)
    except Exception:
        return None


def _member(holder: Any, key: str) -> Any:
    return holder.get(key) if isinstance(holder, dict) else None


def _of_status(status: int, error: BaseException) -> Failure:
    known = _STATUSES.get(status)
    if known is None:
        return Failure(ErrorCode.UNAVAILABLE if status >= 500 else ErrorCode.TOOL_ERROR, again=status >= 500)
    return replace(known, retry_after_s=retry_after_s(error))


def http_status(error: BaseException) -> int | None:
    """The HTTP status of 400 or more that an exception of an HTTP client carries; None: it carries none."""
    response = _attribute(error, "response")
    for value in (
        _attribute(response, "status_code"),
        _attribute(response, "status"),
        _attribute(error, "status_code"),
        _attribute(error, "status"),
        _member(_member(response, "ResponseMetadata"), "HTTPStatusCode"),  # botocore
    ):
        if isinstance(value, int) and not isinstance(value, bool) and value >= 400:
            return value
    return None


def grpc_status(error: BaseException) -> str | None:
    """The word of the status that an exception of a gRPC call carries; None: it carries none."""
    if "grpc.RpcError" not in map(_full_name, type(error).__mro__):
        return None
    try:
        return str(error.code().name)  # type: ignore[attr-defined]
    except Exception:  # one of its bases, which has none
        return None


def retry_after_s(error: BaseException) -> float | None:
    """The `Retry-After` header of the response (RFC 9110, 10.2.3), in seconds from now; None: no such header."""
    headers = _attribute(_attribute(error, "response"), "headers") or _attribute(error, "headers")
    try:
        value = headers.get("Retry-After")
    except Exception:  # there are none, or they are of another kind
        return None
    if not isinstance(value, str | int | float):
        return None
    try:
        seconds = float(value)
    except ValueError:
        return _seconds_until(str(value))
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _seconds_until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    from datetime import UTC, datetime

    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())


def text_of(value: object) -> str:
    """`str(value)`; its class alone where that raises, as it may for what a tool raises or gives."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def public_message(error: BaseException) -> str:
    """What a model may see of an exception: its first line without paths and addresses of the host."""
    if isinstance(error, ToolError) and error.message:
        return text_of(error.message)
    if isinstance(error, OSError) and error.strerror:
        return text_of(error.strerror)
    first = text_of(error).strip().partition("\n")[0]
    return " ".join("..." if "/" in word or "\\" in word else word for word in first.split())[:300] or "-"

"""From an exception to what it means: is it worth another attempt, may a write have happened (C-28, C-29, C-30)."""

import asyncio
import errno
import http.client
import smtplib
import socket
import ssl
import subprocess
import urllib.error
from types import SimpleNamespace

import anyio
import httpcore
import httpx
import mcp.types
import openai
import psycopg
import pymysql
import pytest
import requests
import websockets.exceptions
from mcp.shared.exceptions import McpError

from adjourn.nodes import NotDone, RateLimited, ToolError
from adjourn.nodes.failures import failure_of

REQUEST = httpx.Request("POST", "http://127.0.0.1/")


class Status(Exception):
    def __init__(self, status):
        super().__init__(f"status {status}")
        self.status_code = status


class Sdk(Exception):
    """What a library of somebody's raises in place of its client's error."""


def raised(error, *, source=None, context=None):
    """`error` as it is after it was raised from `source`, or while `context` was handled."""
    try:
        if context is None:
            raise error from source
        try:
            raise context
        except Exception:
            raise error from source
    except Exception as caught:
        return caught


def mcp_error(code):
    return McpError(mcp.types.ErrorData(code=code, message="x"))


def of(package, *names):
    """A class as a package that need not be installed has it, with the names of its bases, the farthest first."""
    made = Exception
    for name in names:
        made = type(name, (made,), {"__module__": f"{package}.somewhere"})
    return made


class Grpc(of("grpc", "RpcError")):
    """As grpcio raises it: its status is an enum, told by a method."""

    def __init__(self, word):
        super().__init__(word)
        self.code = lambda: SimpleNamespace(name=word, value=(0, word.lower()))


class Botocore(of("botocore", "ClientError")):
    def __init__(self, status):
        self.response = {"Error": {"Code": "X"}, "ResponseMetadata": {"HTTPStatusCode": status}}


def azure(error, inner=None):
    """As azure-core raises it: what it stands for is an attribute, and a cause over aiohttp alone."""
    error.inner_exception = inner
    return error


REQUEST_ERROR = of("azure", "AzureError", "ServiceRequestError")
REQUEST_TIMEOUT = of("azure", "ServiceRequestError", "ServiceRequestTimeoutError")
NEW_CONNECTION = of("urllib3", "NewConnectionError")
CONNECTOR = of("aiohttp", "ClientConnectionError", "ClientConnectorError")
DISCONNECTED = of("aiohttp", "ClientConnectionError", "ServerDisconnectedError")

BROKE_OFF = {
    **{f"gRPC {one}": Grpc(one) for one in ("UNAVAILABLE", "UNKNOWN", "INTERNAL")},
    "gRPC, without a status": of("grpc", "RpcError")("x"),
    "gRPC below an SDK": raised(Sdk("x"), source=Grpc("UNAVAILABLE")),
    "botocore": of("botocore", "HTTPClientError", "ConnectionClosedError")("x"),
    "botocore, status": Botocore(504),
    "redis": of("redis", "RedisError", "ConnectionError")("Connection closed by server."),
    "aiohttp": of("aiohttp", "ClientConnectionError", "ServerDisconnectedError")("x"),
    "pymongo": of("pymongo", "ConnectionFailure", "AutoReconnect")("x"),
    "azure": of("azure", "AzureError", "ServiceResponseError")("x"),
    "azure over aiohttp": raised(REQUEST_ERROR("x"), source=DISCONNECTED("Server disconnected")),
    "azure, over what it does not tell": REQUEST_ERROR("x"),
    "SQLAlchemy": raised(of("sqlalchemy", "OperationalError")("x"), source=psycopg.OperationalError("x")),
    "requests": requests.exceptions.ConnectionError("x"),
    "requests, in the body": requests.exceptions.ChunkedEncodingError("x"),
    "http.client": http.client.IncompleteRead(b"abc", 97),
    "httpcore": httpcore.ReadError("x"),
    "openai": openai.APIConnectionError(request=REQUEST),
    "anyio, broken": anyio.BrokenResourceError(),
    "anyio, closed": anyio.ClosedResourceError(),
    "anyio, end": anyio.EndOfStream(),
    "asyncio": asyncio.IncompleteReadError(b"", 4),
    "a pipe to a process": EOFError(),
    "websockets": websockets.exceptions.ConnectionClosedError(None, None),
    "TLS": ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
    "TLS through requests": requests.exceptions.SSLError("x"),
    "smtplib": smtplib.SMTPServerDisconnected("x"),
    "psycopg": psycopg.OperationalError("server closed the connection unexpectedly"),
    "PostgreSQL goes down": psycopg.errors.AdminShutdown("x"),
    "PyMySQL": pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query"),
    "MCP": mcp_error(mcp.types.CONNECTION_CLOSED),
    "no route": OSError(errno.EHOSTUNREACH, "No route to host"),
    "no network": OSError(errno.ENETUNREACH, "Network is unreachable"),
    "reset": OSError(errno.ECONNRESET, "Connection reset by peer"),
    **{f"status {one}": Status(one) for one in (502, 504, 520, 521, 522, 523, 524, 598)},
}

TIMED_OUT = {
    "gRPC": Grpc("DEADLINE_EXCEEDED"),
    "botocore": of("botocore", "HTTPClientError", "Timeout", "ReadTimeoutError")("x"),
    "redis": of("redis", "RedisError", "TimeoutError")("x"),
    "aiohttp": of("aiohttp", "ServerConnectionError", "ServerTimeoutError")("x"),
    "pymongo, of many documents": of("pymongo", "OperationFailure", "ExecutionTimeout")("x"),
    "azure": of("azure", "ServiceResponseError", "ServiceResponseTimeoutError")("x"),
    "requests": requests.exceptions.ReadTimeout("x"),
    "httpx": httpx.ReadTimeout("x", request=REQUEST),
    "openai": openai.APITimeoutError(request=REQUEST),
    "subprocess": subprocess.TimeoutExpired("x", 1),
    "errno": OSError(errno.ETIMEDOUT, "Connection timed out"),
    "MCP": mcp_error(408),
    "status": Status(408),
}

NEVER_SENT = {
    "botocore": of("botocore", "ConnectionError", "EndpointConnectionError")("x"),
    "botocore, status": Botocore(503),
    "redis": raised(of("redis", "ConnectionError")("x"), context=ConnectionRefusedError()),
    "redis loads": of("redis", "ConnectionError", "BusyLoadingError")("x"),
    "redis, no place": of("redis", "ConnectionError", "MaxConnectionsError")("x"),
    "aiohttp": of("aiohttp", "ClientConnectionError", "ClientConnectorError")("x"),
    "pymongo": of("pymongo", "AutoReconnect", "ServerSelectionTimeoutError")("x"),
    "pymongo, no place": of("pymongo", "AutoReconnect", "WaitQueueTimeoutError")("x"),
    "azure": azure(REQUEST_ERROR("x"), requests.exceptions.ConnectionError(NEW_CONNECTION("x"))),
    "azure, in time": azure(REQUEST_TIMEOUT("x"), requests.exceptions.ConnectTimeout("x")),
    "azure over aiohttp": raised(REQUEST_ERROR("x"), source=CONNECTOR("x")),
    "SQLAlchemy, no place": of("sqlalchemy", "SQLAlchemyError", "TimeoutError")("x"),
    "Python": ConnectionRefusedError(111, "Connection refused"),
    "no such host": socket.gaierror(-2, "Name or service not known"),
    "urllib": urllib.error.URLError(ConnectionRefusedError(111, "Connection refused")),
    "httpx": raised(httpx.ConnectError("x", request=REQUEST), source=OSError(errno.EHOSTUNREACH, "x")),
    "httpx, in time": raised(httpx.ConnectTimeout("x", request=REQUEST), source=TimeoutError()),
    "requests, in time": requests.exceptions.ConnectTimeout("x"),
    "openai": raised(openai.APIConnectionError(request=REQUEST), source=httpx.ConnectError("x")),
    "openai, in time": raised(openai.APITimeoutError(request=REQUEST), source=httpx.ConnectTimeout("x")),
    "status": Status(503),
}


PGCODE = of("psycopg2", "OperationalError", "DeadlockDetected")("x")
PGCODE.pgcode = "40P01"


@pytest.mark.parametrize("error", BROKE_OFF.values(), ids=BROKE_OFF)
def test_c28_a_connection_that_broke_off_may_have_done_it(error):
    failure = failure_of(error)
    assert (failure.code, failure.again, failure.lost) == ("unavailable", True, True)


@pytest.mark.parametrize("error", TIMED_OUT.values(), ids=TIMED_OUT)
def test_c28_who_got_no_answer_in_time_may_have_done_it(error):
    failure = failure_of(error)
    assert (failure.code, failure.again, failure.lost) == ("timeout", True, True)


@pytest.mark.parametrize("error", NEVER_SENT.values(), ids=NEVER_SENT)
def test_c30_what_was_never_sent_did_not_happen_and_is_worth_another_attempt(error):
    failure = failure_of(error)
    assert (failure.code, failure.again, failure.lost) == ("unavailable", True, False)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        OSError(errno.ENOSPC, "No space left on device"),
        ssl.SSLCertVerificationError(1, "certificate verify failed"),
        mcp_error(mcp.types.INVALID_PARAMS),
        Grpc("ALREADY_EXISTS"),
        psycopg.errors.UniqueViolation("x"),
        psycopg.errors.DeadlockDetected("x"),  # an `OperationalError`: the server has rolled back
        pymysql.err.OperationalError(1213, "Deadlock found"),
        PGCODE,
        raised(of("sqlalchemy", "OperationalError")("x"), source=psycopg.errors.DeadlockDetected("x")),
        Botocore(400),
        of("redis", "ResponseError", "ReadOnlyError")("x"),
        of("pymongo", "OperationFailure", "DuplicateKeyError")("x"),
        *map(Grpc, ("INVALID_ARGUMENT", "ALREADY_EXISTS", "FAILED_PRECONDITION", "ABORTED", "UNIMPLEMENTED")),
        raised(requests.exceptions.SSLError("x"), source=ssl.SSLCertVerificationError(1, "x")),
        raised(ValueError("no such account"), context=KeyError("account")),
    ],
    ids=repr,
)
def test_c30_what_was_answered_or_never_left_the_process_is_a_plain_failure(error):
    failure = failure_of(error)
    assert (failure.code, failure.again, failure.lost) == ("tool_error", False, False)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Grpc("CANCELLED"), "tool_error"),
        (Grpc("DATA_LOSS"), "tool_error"),
        (Grpc("RESOURCE_EXHAUSTED"), "rate_limited"),  # also of an answer that is too large to be read
        (of("pymongo", "OperationFailure", "WriteConcernError", "WTimeoutError")("x"), "tool_error"),
        (of("pymongo", "OperationFailure", "BulkWriteError")("x"), "tool_error"),
    ],
    ids=repr,
)
def test_c28_what_was_done_in_part_or_cannot_be_read_may_have_happened(error, code):
    failure = failure_of(error)
    assert (failure.code, failure.lost) == (code, True)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Grpc("NOT_FOUND"), "not_found"),
        (Grpc("PERMISSION_DENIED"), "permission_denied"),
        (Grpc("UNAUTHENTICATED"), "permission_denied"),
        (Botocore(403), "permission_denied"),
        (Botocore(429), "rate_limited"),
        (of("redis", "ConnectionError", "AuthenticationError")("x"), "permission_denied"),
    ],
    ids=repr,
)
def test_c29_an_answer_of_the_other_side_gives_the_code(error, code):
    failure = failure_of(error)
    assert (failure.code, failure.lost) == (code, False)


BROKEN = httpx.ReadError("x", request=REQUEST)


@pytest.mark.parametrize(
    "error",
    [
        raised(Sdk("order service"), source=httpx.RemoteProtocolError("x", request=REQUEST)),
        raised(Sdk("order service"), context=BROKEN),
        raised(Sdk("outer"), source=raised(Sdk("inner"), source=Status(524))),
        raised(KeyError("no such order"), context=BROKEN),
        raised(PermissionError("no"), source=BROKEN),
        raised(Sdk("x"), source=KeyError("x"), context=BROKEN),
        ExceptionGroup("g", [ValueError("x"), BROKEN]),
        ExceptionGroup(
            "g", [ExceptionGroup("h", [ConnectionRefusedError(), raised(Sdk("x"), source=BROKEN)])]
        ),
        raised(RuntimeError("x"), source=BaseExceptionGroup("g", [KeyboardInterrupt(), BROKEN])),
        raised(BROKEN, context=httpx.ConnectError("the first host")),
    ],
    ids=repr,
)
def test_c28_what_an_exception_was_raised_from_counts(error):
    assert failure_of(error).lost


def test_c28_a_tool_that_says_what_happened_is_believed_whatever_it_was_raised_from():
    assert not failure_of(raised(NotDone("refused"), source=BROKEN)).lost
    assert not failure_of(raised(ToolError("x"), context=BROKEN)).lost
    grouped = failure_of(ExceptionGroup("g", [RateLimited(retry_after_s=3)]))
    assert (grouped.code, grouped.retry_after_s) == ("rate_limited", 3)


def test_c29_chains_that_go_in_circles_or_have_no_end_are_looked_at_once():
    first, second = Sdk("a"), Sdk("b")
    first.__cause__, second.__cause__ = second, first
    assert failure_of(first).code == "tool_error"
    chain = Sdk("innermost")
    for _ in range(100_000):
        outer = Sdk("x")
        outer.__cause__, chain = chain, outer
    assert failure_of(chain).code == "tool_error"


def test_c29_an_exception_whose_attributes_cannot_be_read_is_a_plain_failure():
    class Odd(Exception):
        def _no(self):
            raise RuntimeError("not set")

        response = status_code = reason = errno = sqlstate = exceptions = property(_no)

    assert failure_of(Odd("x")).code == "tool_error"

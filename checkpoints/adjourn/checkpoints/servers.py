"""The URL of a database; the engine of one that is a server, PostgreSQL or MariaDB, and its transactions."""

import re
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    DisconnectionError,
    InterfaceError,
    OperationalError,
)

from adjourn.checkpoints.errors import StoreError

WORKERS = 8  # threads that serve async callers: SQLite writes one at a time, so more would only queue
# A transaction of ours takes milliseconds; one that does nothing for so long has lost its process.
FROZEN_MS = 10_000
IDLE_S = 1.0  # unused for longer, a server's connection is tried before it is used: a restart takes as long

# Databases whose driver is an extra: the package that is missing, and the extra that brings it.
_EXTRAS = {
    "postgresql": ("psycopg", "postgres"),
    "mysql": ("pymysql", "mysql"),
    "mariadb": ("pymysql", "mysql"),
}
_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}
_OF_ASYNCIO = frozenset({"aiosqlite", "asyncpg", "psycopg_async", "aiomysql", "asyncmy"})


def parsed_url(url: str) -> sa.URL:
    """The URL with the driver that we bring. Raises `StoreError` for what is none."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreError(
            f"{shown_url(url)!r} is not a database URL; write one like sqlite:///adjourn.db"
        ) from error
    backend, _, named = parsed.drivername.partition("+")
    if named in _OF_ASYNCIO:  # SQLAlchemy's own error would speak of greenlets
        raise StoreError(
            f"{named} is a driver for asyncio, and a store serves coroutines without one; "
            f"write the URL as {_DRIVERS.get(backend, backend)}://..."
        )
    # `postgresql://` alone would ask for a driver that the extras do not bring
    driver = _DRIVERS.get(parsed.drivername)
    return parsed.set(drivername=driver) if driver else parsed


def shown_url(url: str | sa.URL) -> str:
    """What is meant to be a URL as it may be shown: without its passwords, those of its query (`?password=...`) included."""
    try:
        text = make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        text = re.sub(r"(^|//)([^/:@]*):(?!//).*@", r"\1\2:***@", str(url))  # a password may hold anything
    return re.sub(r"([?&][^=&]*pass[^=&]*=)[^&]*", r"\1***", text, flags=re.IGNORECASE)


def missing_driver(url: sa.URL) -> str:
    """What to do where the driver of a database is not installed."""
    package, extra = _EXTRAS.get(url.get_backend_name(), ("", ""))
    if extra:
        return f"{url.drivername} needs {package}, which is not installed: pip install 'adjourn[{extra}]'"
    return f"there is no driver for {url.drivername!r} databases; use sqlite, postgresql or mysql"


def _prepared(url: sa.URL) -> tuple[sa.URL, dict[str, Any]]:
    """The URL as libpq knows it, and what psycopg is told: `prepare_threshold=none` lets it prepare no statement, for
    poolers that hand each transaction to another connection and know none of them."""
    wanted = url.query.get("prepare_threshold") if url.get_backend_name() == "postgresql" else None
    if wanted is None:
        return url, {}
    if wanted != "none":
        raise StoreError("prepare_threshold can only be none in a store's URL: then no statement is prepared")
    return url.difference_update_query(["prepare_threshold"]), {"prepare_threshold": None}


def server_engine(url: sa.URL) -> Engine:
    """The engine of a server. On PostgreSQL its transactions begin with a BEGIN of ours: see `transaction`."""
    url, told = _prepared(url)
    # MySQL's default, REPEATABLE READ, would show a writer that waited for a row what was there before it waited
    engine = sa.create_engine(
        url,
        connect_args=told,
        hide_parameters=True,  # errors are logged, and parameters are what people said
        pool_size=WORKERS,
        max_overflow=WORKERS,
        isolation_level="AUTOCOMMIT" if url.get_driver_name() == "psycopg" else "READ COMMITTED",
        pool_use_lifo=True,
    )
    if engine.dialect.driver == "psycopg":
        event.listen(engine, "connect", _on_connect)
        event.listen(engine, "begin", _on_begin)
    event.listen(engine, "checkout", partial(_check_idle, engine.dialect))
    event.listen(engine, "checkin", _note_use)
    return engine


def _on_connect(connection: Any, _record: Any) -> None:
    """Let PostgreSQL end the transaction of a process that froze in it, which holds the rows of its run; and let a statement
    that is a transaction by itself see what was committed before it."""
    connection.execute(
        f"SET idle_in_transaction_session_timeout = {FROZEN_MS}; "
        "SET default_transaction_isolation = 'read committed'"
    )


def _on_begin(connection: Connection) -> None:
    """SQLAlchemy begins a transaction: for a statement of its own in one of ours, or for somebody else."""
    if _TO_BEGIN in connection.info:
        begin(connection)
    else:
        connection.connection.cursor().execute("BEGIN")


def _check_idle(dialect: sa.Dialect, connection: Any, record: Any, _proxy: Any) -> None:
    """Replace a connection that the server closed meanwhile. SQLAlchemy's own check asks at every use: 0.2 ms."""
    if time.monotonic() - record.info.get("used", 0.0) < IDLE_S and _is_quiet(connection):
        return
    driver: Any = dialect.loaded_dbapi
    try:
        dialect.do_ping(connection)
    except driver.Error as error:
        raise DisconnectionError from error  # the pool takes it for a sign to connect anew


def _is_quiet(connection: Any) -> bool:
    """Whether nothing has come from the server while nobody asked: it says so when it ends a connection. Costs 2 us."""
    if not hasattr(select, "poll"):  # Windows
        return True
    socket = connection if hasattr(connection, "fileno") else connection._sock  # pymysql's
    try:
        waiting = select.poll()
        waiting.register(socket.fileno(), select.POLLIN)
        return not waiting.poll(0)
    except (AttributeError, OSError, ValueError):  # it is closed
        return False


def _note_use(_connection: Any, record: Any) -> None:
    record.info["used"] = time.monotonic()


@contextmanager
def transaction(engine: Engine, isolation: str) -> Iterator[Connection]:
    """One transaction on a server. On PostgreSQL it begins with its first statement (`begin`), which may be sent along with
    the BEGIN, and need not be behind one when it is the only one (`alone`)."""
    if engine.dialect.driver != "psycopg":
        with engine.execution_options(isolation_level=isolation).begin() as connection:
            yield connection
        return
    with engine.connect() as connection:
        connection.info[_TO_BEGIN] = f"BEGIN ISOLATION LEVEL {isolation}"
        driver: Any = connection.connection.dbapi_connection
        try:
            yield connection
            _commit(connection, driver)
        except BaseException:
            _undo(connection, driver)
            raise
        finally:
            if not connection.invalidated:
                del connection.info[_TO_BEGIN]


# PostgreSQL's: too long, a NUL; None: MySQL's, and what the driver does not even send
_CANNOT_BE_HELD = frozenset({"22001", "22021", None})
# MySQL's: a packet is too large, or the connection went away, as it does then
_TOO_LARGE = frozenset({1153, 2006, 2013})


@contextmanager
def understood() -> Iterator[None]:
    """Turns the error for a value that a server cannot hold into a `StoreError` that says so."""
    try:
        yield
    except DataError as error:
        if getattr(error.orig, "sqlstate", None) not in _CANNOT_BE_HELD:
            raise
        raise StoreError(
            f"the database cannot hold this: {error.orig}; ids and names have at most 255 characters, and no NUL"
        ) from error
    except (OperationalError, InterfaceError) as error:
        if not _TOO_LARGE.intersection(getattr(error.orig, "args", ())[:1]):
            raise
        raise StoreError(
            f"the connection was lost: {error.orig}; MySQL ends it when a value is larger than its max_allowed_packet"
        ) from error


def begin(connection: Connection) -> None:
    """Begin the transaction in which this is the first statement."""
    statement = connection.info.get(_TO_BEGIN)
    if statement is None:
        return
    connection.info[_TO_BEGIN] = None
    driver: Any = connection.connection.dbapi_connection
    try:
        driver.execute(statement, prepare=False)
    except Exception as error:
        raise translated(connection, statement, error) from error


def alone(connection: Connection) -> bool:
    """Whether the next statement is a transaction by itself, if it is the only one. None can follow."""
    if connection.info.get(_TO_BEGIN) is None:
        return False
    connection.info[_TO_BEGIN] = None
    return True


_TO_BEGIN = "adjourn_to_begin"  # in a connection's `info`, what begins its transaction; None: it has begun


def _commit(connection: Connection, driver: Any) -> None:
    try:
        driver.commit()
    except Exception as error:
        raise translated(connection, "COMMIT", error) from error


def _undo(connection: Connection, driver: Any) -> None:
    try:
        driver.rollback()
    except connection.dialect.loaded_dbapi.Error:  # it is lost, and all of the transaction with it
        connection.invalidate()


def translated(connection: Connection, text: str, error: Exception) -> BaseException:
    """A driver's error as SQLAlchemy's; values stay out of the message."""
    driver: Any = connection.dialect.loaded_dbapi
    return DBAPIError.instance(
        text, None, error, driver.Error, hide_parameters=True, dialect=connection.dialect
    )

"""The URL of a database; the engine of one that is a server, PostgreSQL or MariaDB, and its transactions."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError

from adjourn.checkpoints.errors import StoreError

WORKERS = 8  # threads that serve async callers: SQLite writes one at a time, so more would only queue
FROZEN_MS = (
    10_000  # a transaction of ours takes milliseconds; one that does nothing for so long has lost its process
)
IDLE_S = 1.0  # unused for longer, a server's connection is tried before it is used: a restart takes as long

# Databases whose driver is an extra: the package that is missing, and the extra that brings it.
_EXTRAS = {
    "postgresql": ("psycopg", "postgres"),
    "mysql": ("pymysql", "mysql"),
    "mariadb": ("pymysql", "mysql"),
}
_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}


def parsed_url(url: str) -> sa.URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreError(f"{url!r} is not a database URL; write one like sqlite:///adjourn.db") from error
    # `postgresql://` alone would ask for a driver that the extras do not bring
    driver = _DRIVERS.get(parsed.drivername)
    return parsed.set(drivername=driver) if driver else parsed


def missing_driver(url: sa.URL) -> str:
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
    url, told = _prepared(url)
    # MySQL's default, REPEATABLE READ, would show a writer that waited for a row what was there before it waited
    engine = sa.create_engine(
        url,
        connect_args=told,
        pool_size=WORKERS,
        max_overflow=WORKERS,
        isolation_level="READ COMMITTED",
        pool_use_lifo=True,
    )
    if engine.dialect.driver == "psycopg":
        event.listen(engine, "connect", _bound_idleness)
        event.listen(engine, "begin", begin)
    event.listen(engine, "checkout", partial(_check_idle, engine.dialect))
    event.listen(engine, "checkin", _note_use)
    return engine


def _bound_idleness(connection: Any, _record: Any) -> None:
    """Let PostgreSQL end the transaction of a process that froze in it, which holds the rows of its run."""
    was, connection.autocommit = connection.autocommit, True
    connection.execute(f"SET idle_in_transaction_session_timeout = {FROZEN_MS}")
    connection.autocommit = was


def _check_idle(dialect: sa.Dialect, connection: Any, record: Any, _proxy: Any) -> None:
    """Replace a connection that the server closed meanwhile. SQLAlchemy's own check asks at every use: 0.2 ms."""
    if time.monotonic() - record.info.get("used", 0.0) < IDLE_S:
        return
    driver: Any = dialect.loaded_dbapi
    try:
        dialect.do_ping(connection)
    except driver.Error as error:
        raise DisconnectionError from error  # the pool takes it for a sign to connect anew


def _note_use(_connection: Any, record: Any) -> None:
    record.info["used"] = time.monotonic()


@contextmanager
def transaction(engine: Engine, isolation: str) -> Iterator[Connection]:
    """One transaction on a server. On PostgreSQL it begins with its first statement: `begin` may be sent along with that,
    where psycopg by itself would wait for it."""
    if engine.dialect.driver != "psycopg":
        with engine.execution_options(isolation_level=isolation).begin() as connection:
            yield connection
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.info[_TO_BEGIN] = f"BEGIN ISOLATION LEVEL {isolation}"
        driver: Any = connection.connection.dbapi_connection
        try:
            yield connection
            _commit(connection, driver)
        except BaseException:
            _undo(connection, driver)
            raise
        finally:
            connection.info.pop(_TO_BEGIN, None)


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


def begin(connection: Connection) -> None:
    """Begin the transaction in which this is the first statement."""
    if statement := connection.info.pop(_TO_BEGIN, None):
        driver: Any = connection.connection.dbapi_connection
        try:
            driver.execute(statement, prepare=False)
        except Exception as error:
            raise translated(connection, statement, error) from error


_TO_BEGIN = "adjourn_to_begin"


def translated(connection: Connection, text: str, error: Exception) -> BaseException:
    """A driver's error as SQLAlchemy's; values stay out of the message."""
    driver: Any = connection.dialect.loaded_dbapi
    return DBAPIError.instance(
        text, None, error, driver.Error, hide_parameters=True, dialect=connection.dialect
    )

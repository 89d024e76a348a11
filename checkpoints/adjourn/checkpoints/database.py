"""The engine, its pragmas, transactions, and the threads on which async callers run them.

One synchronous engine serves both worlds: an async caller runs a whole transaction on a worker thread,
which costs a third of an async driver and leaves one code path. Writes on SQLite begin IMMEDIATE: a
transaction that starts as a reader and then writes fails at once when another one wrote in between.
"""

import asyncio
import contextvars
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, NoSuchModuleError
from sqlalchemy.pool import StaticPool

from adjourn.checkpoints.errors import StoreError

T = TypeVar("T")

BUSY_TIMEOUT_MS = 30_000  # SQLite: how long a writer waits for another process's transaction
WORKERS = 8  # threads that serve async callers: SQLite writes one at a time, so more would only queue
ATTEMPTS = 5  # at a transaction that the database gives up for another one
FROZEN_MS = (
    10_000  # a transaction of ours takes milliseconds; one that does nothing for so long has lost its process
)
IDLE_S = 1.0  # unused for longer, a server's connection is tried before it is used: a restart takes as long
CACHED_STATEMENTS = 256  # SQLite: prepared statements a connection keeps; the driver's 128 are too few

# Databases whose driver is an extra: the package that is missing, and the extra that brings it.
_EXTRAS = {
    "postgresql": ("psycopg", "postgres"),
    "mysql": ("pymysql", "mysql"),
    "mariadb": ("pymysql", "mysql"),
}
_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}

# Two transactions that waited for each other's rows: PostgreSQL's SQLSTATE, MySQL's number.
_GIVEN_UP = frozenset({"40P01", "40001", 1213})


def now() -> str:
    """The time as it is stored: ISO 8601, UTC, microseconds, `Z`."""
    return format_time(datetime.now(UTC))


def format_time(moment: datetime) -> str:
    """An aware datetime as it is stored."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z"


def later(time: str, seconds: float) -> str:
    """The time so many seconds after a stored one, as it is stored; the last one there is where it goes beyond."""
    try:
        return format_time(datetime.fromisoformat(time) + timedelta(seconds=seconds))
    except OverflowError:
        return format_time(datetime.max.replace(tzinfo=UTC))


class Database:
    """One database: a SQLite file, `sqlite://` (in memory), PostgreSQL or MariaDB, by SQLAlchemy URL.

    `read` and `write` run a function in one transaction and return what it returns; `aread` and `awrite`
    do so on a worker thread. An exception rolls the transaction back and passes through. A function that
    writes is run again when the database gave its transaction up for another one (a deadlock), so it has no
    effect but on the connection. A function must not open a transaction of its own: on SQLite, a write
    inside a write would wait for itself.

    A reader sees one moment of the database. A writer sees, on a server, what was committed before each
    statement (READ COMMITTED); where that matters it holds a row first.

    `synchronous` is SQLite's durability of an ordinary commit: `NORMAL` survives a killed process and may
    lose the last commits when the machine loses power; `write(..., synced=True)` always waits for the disk.

    Raises `StoreError` when the URL or its driver is not usable, and, at the first transaction, when the
    file is: it says what to do.
    """

    def __init__(self, url: str, *, synchronous: str = "NORMAL") -> None:
        if synchronous not in ("NORMAL", "FULL"):
            raise StoreError(f"synchronous is 'NORMAL' or 'FULL', not {synchronous!r}")
        self.url = _parsed(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.synchronous = synchronous
        self.in_memory = self.is_sqlite and self.url.database in (None, "", ":memory:")
        self.engine: Engine = self._engine()
        self._snapshots = self.engine.execution_options(
            isolation_level="REPEATABLE READ"
        )  # readers on a server
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="adjourn-db")
        # SQLite writes one at a time: one thread for async writers, or they would only wake each other.
        self._write_pool = ThreadPoolExecutor(1, "adjourn-db-write") if self.is_sqlite else self._pool
        # SQLite has one writer at a time: threads of this process queue here instead of polling the file,
        # and share one connection, which saves a fifth of a small transaction.
        self._writer: threading.Lock | None = threading.Lock() if self.is_sqlite else None
        self._writing: Connection | None = None
        self._readers: list[Connection] = []  # those that nobody uses now
        self._setup_lock = threading.Lock()
        self._is_set_up = False
        self._is_closed = False
        self.version_found: int | None = None  # of the schema, when this process came; None: there was none

    def _engine(self) -> Engine:
        try:
            if not self.is_sqlite:
                return _server_engine(self.url)
            options: dict[str, Any] = {"poolclass": StaticPool} if self.in_memory else {"pool_size": WORKERS}
            arguments = {"timeout": BUSY_TIMEOUT_MS / 1000, "cached_statements": CACHED_STATEMENTS}
            engine = sa.create_engine(
                self.url, connect_args={"check_same_thread": False, **arguments}, **options
            )
        except (ImportError, NoSuchModuleError) as error:
            raise StoreError(_missing_driver(self.url)) from error
        event.listen(engine, "connect", self._on_connect)
        event.listen(engine, "begin", _begin)
        return engine

    def _on_connect(self, connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver begins nothing by itself; `_begin` does
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        _to_wal(connection)
        for pragma in (f"synchronous={self.synchronous}", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one transaction that sees one moment of the database."""
        self.setup()
        if self.in_memory:  # one connection for all: readers queue as well
            return self.write(work)
        if self.is_sqlite:
            return self._read_file(work)
        with self._snapshots.begin() as connection:
            return work(connection)

    def _read_file(self, work: Callable[[Connection], T]) -> T:
        """A SQLite transaction is a snapshot anyhow. Begun and ended by the driver, on a connection that is kept:
        see `_in_transaction`."""
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = self.engine.connect().execution_options(adjourn_begun=True)
        driver: Any = connection.connection.dbapi_connection
        try:
            driver.execute("BEGIN")
            return work(connection)
        finally:
            _end(connection, driver.rollback, connection.rollback)
            if self._is_closed or len(self._readers) >= WORKERS:
                connection.close()
            else:
                self._readers.append(connection)

    def write(self, work: Callable[[Connection], T], *, synced: bool = False) -> T:
        """Run `work` in one writing transaction. `synced`: return only when it is on the disk."""
        for _ in range(ATTEMPTS - 1):
            try:
                return self.write_once(work, synced=synced)
            except DBAPIError as error:
                if not was_given_up(error):
                    raise
        return self.write_once(work, synced=synced)

    def write_once(self, work: Callable[[Connection], T], *, synced: bool = False) -> T:
        """`write`, for a caller that has to do something before `work` runs again (see `was_given_up`)."""
        self.setup()
        return self.write_unprepared(work, synced=synced)

    def write_unprepared(self, work: Callable[[Connection], T], *, synced: bool = False) -> T:
        """`write_once`, for the setup itself: nothing is created before."""
        if self._writer is None:
            with self.engine.begin() as connection:
                return work(connection)
        with self._writer:
            if self._is_closed:
                raise StoreError("the database was closed; open it again")
            connection = self._writing_connection()
            if synced and self.synchronous != "FULL":
                return self._write_synced(connection, work)
            return _in_transaction(connection, work)

    def _writing_connection(self) -> Connection:
        if self._writing is None or self._writing.closed or self._writing.invalidated:
            self._writing = self.engine.connect().execution_options(adjourn_begun=True)
        return self._writing

    def _write_synced(self, connection: Connection, work: Callable[[Connection], T]) -> T:
        driver: Any = connection.connection.driver_connection
        driver.execute("PRAGMA synchronous=FULL")
        try:
            return _in_transaction(connection, work)
        finally:
            driver.execute(f"PRAGMA synchronous={self.synchronous}")

    async def aread(self, work: Callable[[Connection], T]) -> T:
        """`read`, on a worker thread."""
        return await self.arun(lambda: self.read(work))

    async def awrite(self, work: Callable[[Connection], T], *, synced: bool = False) -> T:
        """`write`, on a worker thread. A cancelled caller does not stop the transaction."""
        return await self.arun(lambda: self.write(work, synced=synced), writes=True)

    async def arun(self, work: Callable[[], T], *, writes: bool = False) -> T:
        """Run `work` on a worker thread; it opens its own transactions. `writes`: most of them write."""
        return await self.soon(work, writes=writes)

    def soon(
        self,
        work: Callable[[], T],
        *,
        writes: bool = False,
        then: Callable[[T], object] | None = None,
    ) -> "asyncio.Future[T]":
        """`arun`, for who does not wait at once. Cancelling what it gives stops nothing: `then` is called with the result
        on the event loop all the same."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[T] = loop.create_future()
        pool = self._write_pool if writes else self._pool
        pool.submit(_work, work, [told, then], loop, contextvars.copy_context())
        return told

    def begin(self, work: Callable[[], object]) -> None:
        """Run writing `work` on a worker thread, with nobody waiting for it."""
        self._write_pool.submit(work)

    def setup(self) -> None:
        """Create what is missing, upgrade what is older. Called before the first transaction; a second call
        costs nothing.

        Raises `StoreError` when the file cannot be opened or is no database, `SchemaVersionError` when it is
        newer than this program.
        """
        if self._is_set_up:
            return
        with self._setup_lock:
            if not self._is_set_up:
                from adjourn.checkpoints.setup import prepare

                try:
                    self.version_found = prepare(self)
                except (DBAPIError, sqlite3.Error, OSError) as error:
                    raise StoreError(self._why_not_open(error)) from error
                self._is_set_up = True

    def _why_not_open(self, error: Exception) -> str:
        shown = self.url.render_as_string(hide_password=True)
        cause = getattr(error, "orig", None) or error
        if not self.is_sqlite or self.in_memory:
            return f"cannot use {shown}: {cause}"
        path = Path(self.url.database or "")
        if path.is_dir():
            return f"cannot open {path}: it is a directory; name a file in it, as in {shown}/adjourn.db"
        if not path.parent.is_dir():
            return f"cannot open {path}: there is no directory {path.parent}; create it, or name another file"
        if "not a database" in str(cause):
            return f"cannot open {path}: it is a file, but no SQLite database; name another file"
        return f"cannot open {path}: {cause}"

    def close(self) -> None:
        """Wait for what runs, then close every connection. Safe to call twice.

        A thread that comes later (LangGraph leaves some behind when a graph fails) gets `StoreError` on SQLite.
        """
        self._write_pool.shutdown(wait=True)
        self._pool.shutdown(wait=True)
        with self._writer or nullcontext():  # a write on the caller's own thread
            self._is_closed = True
            if self._writing is not None:
                self._writing.close()
            while self._readers:
                self._readers.pop().close()
            self.engine.dispose()


def _work(
    work: Callable[[], T], waiting: list[Any], loop: asyncio.AbstractEventLoop, context: contextvars.Context
) -> None:
    """Work on a thread, and tell the loop. A future of the pool's, chained to one of the loop's, takes three times as long
    to arrive."""
    result: T | None = None
    raised: BaseException | None = None
    try:
        result = work()
    except StopIteration as error:  # which no future takes
        raised = RuntimeError(f"the work raised StopIteration: {error}")
    except BaseException as error:
        raised = error
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_tell, waiting, result, raised, context=context)
    del raised  # it knows this frame


def _tell(waiting: list[Any], result: Any, raised: BaseException | None) -> None:
    told, then = waiting
    waiting.clear()  # the exception knows the frame that knows it: neither is to keep the other
    if not told.done():  # whoever waited may have been cancelled
        if raised is not None:
            told.set_exception(raised)
        else:
            told.set_result(result)
    if then is not None and raised is None:
        then(result)  # before who waits goes on


def was_given_up(error: BaseException) -> bool:
    """Whether the database rolled a transaction back so that another one could go on: it may be tried again."""
    if not isinstance(error, DBAPIError):
        return False
    cause: Any = error.orig
    return bool({getattr(cause, "sqlstate", None), *cause.args[:1]} & _GIVEN_UP)


def _to_wal(connection: sqlite3.Connection) -> None:
    """Let a file have a write-ahead log. SQLite does not wait for another process that does the same just now."""
    end = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _prepared(url: sa.URL) -> tuple[sa.URL, dict[str, Any]]:
    """The URL as libpq knows it, and what psycopg is told: `prepare_threshold=none` lets it prepare no statement, for
    poolers that hand each transaction to another connection and know none of them."""
    wanted = url.query.get("prepare_threshold") if url.get_backend_name() == "postgresql" else None
    if wanted is None:
        return url, {}
    if wanted != "none":
        raise StoreError("prepare_threshold can only be none in a store's URL: then no statement is prepared")
    return url.difference_update_query(["prepare_threshold"]), {"prepare_threshold": None}


def _server_engine(url: sa.URL) -> Engine:
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
    if engine.dialect.name == "postgresql":
        event.listen(engine, "connect", _bound_idleness)
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


def _in_transaction(connection: Connection, work: Callable[[Connection], T]) -> T:
    """One writing transaction on SQLite, begun and ended by the driver.

    SQLAlchemy's own transaction costs as much as a small INSERT; it joins in when `work` uses it.
    """
    driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
    try:
        driver.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        raise StoreError(
            f"the database cannot be written now: {error}; is another program holding it?"
        ) from error
    try:
        result = work(connection)
        _end(connection, driver.commit, connection.commit)
    except BaseException:
        _end(connection, driver.rollback, connection.rollback)
        raise
    return result


def _end(connection: Connection, plainly: Callable[[], None], through: Callable[[], None]) -> None:
    """End the transaction through SQLAlchemy where it joined in, else plainly."""
    if connection.in_transaction():
        through()
    else:
        plainly()


def _begin(connection: Connection) -> None:
    if not connection.get_execution_options().get("adjourn_begun"):
        driver: Any = connection.connection.driver_connection
        driver.execute("BEGIN")


def _parsed(url: str) -> sa.URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreError(f"{url!r} is not a database URL; write one like sqlite:///adjourn.db") from error
    # `postgresql://` alone would ask for a driver that the extras do not bring
    driver = _DRIVERS.get(parsed.drivername)
    return parsed.set(drivername=driver) if driver else parsed


def _missing_driver(url: sa.URL) -> str:
    package, extra = _EXTRAS.get(url.get_backend_name(), ("", ""))
    if extra:
        return f"{url.drivername} needs {package}, which is not installed: pip install 'adjourn[{extra}]'"
    return f"there is no driver for {url.drivername!r} databases; use sqlite, postgresql or mysql"

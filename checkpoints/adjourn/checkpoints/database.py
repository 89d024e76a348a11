"""The engine, its pragmas, transactions, and the threads on which async callers run them.

One synchronous engine serves both worlds: an async caller runs a whole transaction on a worker thread,
which costs a third of an async driver and leaves one code path. Writes on SQLite begin IMMEDIATE: a
transaction that starts as a reader and then writes fails at once when another one wrote in between.

Short writes of async callers need no thread on SQLite: see `short_writes`.
"""

import asyncio
import contextvars
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import StaticPool

from adjourn.checkpoints.errors import StoreError
from adjourn.checkpoints.servers import (
    WORKERS,
    missing_driver,
    parsed_url,
    server_engine,
    shown_url,
    transaction,
    translated,
    understood,
)
from adjourn.checkpoints.short_writes import Line, NotNow, Patience, on_thread

T = TypeVar("T")

BUSY_TIMEOUT_MS = 30_000  # SQLite: how long a writer waits for another process's transaction
ATTEMPTS = 5  # at a transaction that the database gives up for another one
# Transactions of event loops in a row; then comes one on a thread, which may move the log into the file.
AT_ONCE = 50
# A superstep's transaction takes a tenth of it. After one that took longer the next is a thread's, since its like may follow.
SLOW_S = 0.005
# SQLite: from so many pages on a commit moves the log into the file, which waits for the disk; on an event loop, from more.
LOG_PAGES, MOST_LOG_PAGES = 1_000, 4_000
CACHED_STATEMENTS = 256  # SQLite: prepared statements a connection keeps; the driver's 128 are too few

# Two transactions that waited for each other's rows: PostgreSQL's SQLSTATE, MySQL's number.
_GIVEN_UP = frozenset({"40P01", "40001", 1213})


# What SQLite says, and what is to be done: it stands behind that.
_ADVICE = {
    "malformed": "; the file is damaged or was cut short: put a backup in its place, or save what can be read by "
    "`sqlite3 FILE .recover`",
    "readonly": "; the file and its folder must be writable even for a look, since the log is kept beside it: allow it, or "
    "copy the file to where it is",
    "disk is full": "; nothing of it was stored: make room, then try again",
    "disk I/O error": "; nothing of it was stored: see whether its disk is full or broken, then try again",
    "locked": "; another program holds it: wait until it has ended, or end it",
}


def now() -> str:
    """The time as it is stored: ISO 8601, UTC, microseconds, `Z`."""
    return _written(datetime.now(UTC))


def format_time(moment: datetime) -> str:
    """An aware datetime as it is stored."""
    return _written(moment.astimezone(UTC))


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


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
        self.url = parsed_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.synchronous = synchronous
        self.in_memory = self.is_sqlite and self.url.database in (None, "", ":memory:")
        self.engine: Engine = self._engine()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="adjourn-db")
        # SQLite writes one at a time: one thread for async writers, or they would only wake each other.
        self._write_pool = ThreadPoolExecutor(1, "adjourn-db-write") if self.is_sqlite else self._pool
        # SQLite has one writer at a time: threads of this process queue here instead of polling the file,
        # and share one connection, which saves a fifth of a small transaction.
        self._writer: threading.Lock | None = threading.Lock() if self.is_sqlite else None
        self._writing: Connection | None = None
        self._in_a_row = 0  # transactions of event loops since a thread had one
        self._took_s = 0.0  # what the newest transaction took, without waiting
        self._patience = Patience()
        self._waits = True  # whether `_writing` waits for other processes
        self._line_here = threading.local()  # `line`: of the event loop that runs on a thread
        self._lines: weakref.WeakSet[Line] = weakref.WeakSet()
        self._readers: list[Connection] = []  # those that nobody uses now
        self._process: int | None = None  # the one that opened it; None: none did yet
        self._setup_lock = threading.Lock()
        self._is_set_up = False
        self._is_closed = False
        self.version_found: int | None = None  # of the schema, when this process came; None: there was none

    def _engine(self) -> Engine:
        try:
            if not self.is_sqlite:
                return server_engine(self.url)
            options: dict[str, Any] = {"poolclass": StaticPool} if self.in_memory else {"pool_size": WORKERS}
            options["hide_parameters"] = True  # errors are logged, and parameters are what people said
            arguments = {"timeout": BUSY_TIMEOUT_MS / 1000, "cached_statements": CACHED_STATEMENTS}
            engine = sa.create_engine(
                self.url, connect_args={"check_same_thread": False, **arguments}, **options
            )
        except (ImportError, NoSuchModuleError) as error:
            raise StoreError(missing_driver(self.url)) from error
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
        return self.read_unprepared(work)

    def read_unprepared(self, work: Callable[[Connection], T]) -> T:
        """`read`, for the setup itself: nothing is created before."""
        if self.in_memory:  # one connection for all: readers queue as well
            return self.write_unprepared(work)
        if self.is_sqlite:
            return self._read_file(work)
        with understood(), transaction(self.engine, "REPEATABLE READ") as connection:
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
            try:
                return work(connection)
            except (DBAPIError, sqlite3.Error) as error:
                if "Could not decode to UTF-8" not in str(error):
                    raise
            driver.text_factory = _readable  # one damaged text would hide all other rows
            return work(connection)
        finally:
            driver.text_factory = str
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
            with understood(), transaction(self.engine, "READ COMMITTED") as connection:
                return work(connection)
        self.take(self._writer)
        try:
            if self._is_closed:
                raise StoreError("the database was closed; open it again")
            connection = self._writing_connection()
            self._be_patient(connection)
            if synced and self.synchronous != "FULL":
                return self._write_synced(connection, work)
            return self._in_transaction(connection, work)
        finally:
            self._writer.release()

    def take(self, lock: Any) -> None:
        """Take the lock of a transaction. Raises `NotNow` where a thread may not wait for it: see `short_writes`."""
        self._patience.take(lock)

    def _writing_connection(self) -> Connection:
        if not self._has_writing():
            self._writing = self.engine.connect().execution_options(adjourn_begun=True)
            self._waits = True
        assert self._writing is not None
        return self._writing

    def _be_patient(self, connection: Connection) -> None:
        """Let the connection that writes wait for other processes, and move the log into the file; not for an event loop."""
        waits = self._patience.waits
        self._in_a_row = 0 if waits else self._in_a_row + 1
        if waits is not self._waits:
            driver: Any = connection.connection.driver_connection
            driver.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS if waits else 0}")
            driver.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES if waits else MOST_LOG_PAGES}")
            self._waits = waits

    def _has_writing(self) -> bool:
        return not (self._writing is None or self._writing.closed or self._writing.invalidated)

    def _write_synced(self, connection: Connection, work: Callable[[Connection], T]) -> T:
        driver: Any = connection.connection.driver_connection
        driver.execute("PRAGMA synchronous=FULL")
        try:
            return self._in_transaction(connection, work)
        finally:
            driver.execute(f"PRAGMA synchronous={self.synchronous}")

    def _in_transaction(self, connection: Connection, work: Callable[[Connection], T]) -> T:
        """One writing transaction on SQLite, begun and ended by the driver. Raises `NotNow` where it would have
        to wait and may not.

        SQLAlchemy's own transaction costs as much as a small INSERT; it joins in when `work` uses it.
        """
        driver: Any = connection.connection.dbapi_connection
        try:
            _begin_immediate(driver, waits=self._waits)
            began = time.perf_counter()
            try:
                result = work(connection)
            finally:
                self._took_s = time.perf_counter() - began
            try:
                _end(connection, driver.commit, connection.commit)
            except sqlite3.Error as error:
                raise translated(connection, "COMMIT", error) from error
        except BaseException:
            _end(connection, driver.rollback, connection.rollback)
            raise
        return result

    async def aread(self, work: Callable[[Connection], T]) -> T:
        """`read`, on a worker thread."""
        return await self.arun(lambda: self.read(work))

    async def awrite(
        self, work: Callable[[Connection], T], *, synced: bool = False, short: bool = False
    ) -> T:
        """`write`, for an event loop (`soon`). A cancelled caller does not stop the transaction. `short`: it writes what one
        step brings, and does not wait for the disk."""
        return await self.soon(lambda: self.write(work, synced=synced), writes=True, short=short)

    async def arun(self, work: Callable[[], T], *, writes: bool = False) -> T:
        """Run `work` on a worker thread; it opens its own transactions. `writes`: most of them write."""
        return await self.soon(work, writes=writes)

    def soon(
        self,
        work: Callable[[], T],
        *,
        writes: bool = False,
        short: bool = False,
        then: Callable[[T], object] | None = None,
    ) -> "asyncio.Future[T]":
        """`arun`, for a caller that does not await at once. Cancelling the future that it gives stops nothing: `then` is
        called with the result on the event loop all the same.

        `short`: a write of what one step brings. On SQLite it is done here and now, unless that would mean to wait for
        another writer or for the disk: then a thread does it.
        """
        self._check_process()
        loop = asyncio.get_running_loop()
        told: asyncio.Future[T] = loop.create_future()
        if short and self.is_sqlite and self.synchronous != "FULL":
            self._line(loop).write(work, told, then)
        else:
            pool = self._write_pool if writes else self._pool
            only_reads = not writes and then is None
            pool.submit(
                on_thread, work, [told, then], loop, contextvars.copy_context(), only_reads=only_reads
            )
        return told

    def _line(self, loop: asyncio.AbstractEventLoop) -> Line:
        line: Line | None = getattr(self._line_here, "line", None)
        if line is None or line.loop is not loop:
            if line is not None and line.loop.is_closed():
                line.finish()
            line = self._line_here.line = Line(loop, self._patience, self._is_free, self._write_pool)
            self._lines.add(line)
        return line

    def _is_free(self) -> bool:
        """Whether a short write would find nothing in its way, as far as one can see."""
        return (
            self._is_set_up
            and self._in_a_row < AT_ONCE
            and self._took_s < SLOW_S
            and self._has_writing()
            and self._writer is not None
            and not self._writer.locked()
        )

    def begin(self, work: Callable[[], object]) -> None:
        """Run writing `work` on a worker thread, with nobody waiting for it."""
        self._write_pool.submit(work)

    def setup(self) -> None:
        """Create what is missing, upgrade what is older. Called before the first transaction; a second call
        costs nothing.

        Raises `StoreError` when the file cannot be opened or is no database, `SchemaVersionError` when it is
        newer than this program.
        """
        self._check_process()
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

    def _check_process(self) -> None:
        """Raises `StoreError` in a process that was forked from the one that opened the database: the connections are the
        other one's, and the threads are not there."""
        if self._process is None:
            self._process = os.getpid()
        if self._process != os.getpid():
            raise StoreError(
                "this database was opened before the process was forked; make the saver or the runner in this process"
            )

    def _why_not_open(self, error: Exception) -> str:
        shown = shown_url(self.url)
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
        return f"cannot open {path}: {cause}{advice(cause)}"

    def close(self) -> None:
        """Wait for what runs, then close every connection. Safe to call twice.

        A thread that comes later (LangGraph leaves some behind when a graph fails) gets `StoreError` on SQLite.
        """
        if self._process not in (None, os.getpid()):
            self.engine.dispose(close=False)
            return
        self._write_pool.shutdown(wait=True)
        self._pool.shutdown(wait=True)
        for line in list(self._lines):
            line.finish()
        with self._writer or nullcontext():  # a write on the caller's own thread
            self._is_closed = True
            if self._writing is not None:
                self._writing.close()
            while self._readers:
                self._readers.pop().close()
            self.engine.dispose()


def advice(cause: BaseException) -> str:
    """What to do about an error of SQLite, to stand behind it; empty where there is nothing more to say."""
    return next((what for sign, what in _ADVICE.items() if sign in str(cause)), "")


def was_given_up(error: BaseException) -> bool:
    """Whether the database rolled a transaction back so that another one could go on, or lost its connection before it had
    begun: it may be tried again."""
    if not isinstance(error, DBAPIError):
        return False
    if isinstance(error, OperationalError) and (error.statement or "").startswith("BEGIN"):
        return True
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


def _readable(text: bytes) -> str:
    """A text of which some is no UTF-8: as JSON, such a part is no longer any, and so it is found."""
    return text.decode(errors="backslashreplace")


def _begin_immediate(driver: sqlite3.Connection, *, waits: bool) -> None:
    try:
        driver.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if not waits:
            raise NotNow from error
        raise StoreError(f"the database cannot be written now: {error}{advice(error)}") from error


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

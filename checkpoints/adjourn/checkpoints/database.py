"""The engine, its pragmas, transactions, and the threads on which async callers run them.

One synchronous engine serves both worlds: an async caller runs a whole transaction on a worker thread,
which costs a third of an async driver and leaves one code path. Writes on SQLite begin IMMEDIATE: a
transaction that starts as a reader and then writes fails at once when another one wrote in between.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.pool import StaticPool

from adjourn.checkpoints.errors import StoreError

T = TypeVar("T")

BUSY_TIMEOUT_MS = 30_000  # SQLite: how long a writer waits for another process's transaction
WORKERS = 8  # threads that serve async callers: SQLite writes one at a time, so more would only queue


def now() -> str:
    """The time as it is stored: ISO 8601, UTC, microseconds, `Z`."""
    return format_time(datetime.now(UTC))


def format_time(moment: datetime) -> str:
    """An aware datetime as it is stored."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Database:
    """One database: a SQLite file, `:memory:`, PostgreSQL or MariaDB, by SQLAlchemy URL.

    `read` and `write` run a function in one transaction and return what it returns; `aread` and `awrite`
    do so on a worker thread. The function may be run again only by the caller: nothing is retried here.
    An exception rolls the transaction back and passes through.

    `synchronous` is SQLite's durability of an ordinary commit: `NORMAL` survives a killed process and may
    lose the last commits when the machine loses power; `write(..., synced=True)` always waits for the disk.
    """

    def __init__(self, url: str, *, synchronous: str = "NORMAL") -> None:
        if synchronous not in ("NORMAL", "FULL"):
            raise StoreError(f"synchronous is 'NORMAL' or 'FULL', not {synchronous!r}")
        try:
            self.url = make_url(url)
        except sa.exc.ArgumentError as error:
            raise StoreError(f"{url!r} is not a database URL; write one like sqlite:///adjourn.db") from error
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.synchronous = synchronous
        self.in_memory = self.is_sqlite and self.url.database in (None, "", ":memory:")
        self.engine: Engine = self._engine()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="adjourn-db")
        # SQLite has one writer at a time: threads of this process queue here instead of polling the file.
        self._writer: threading.Lock | None = threading.Lock() if self.is_sqlite else None
        self._setup_lock = threading.Lock()
        self._is_set_up = False

    def _engine(self) -> Engine:
        if not self.is_sqlite:
            return sa.create_engine(self.url, pool_size=WORKERS, max_overflow=WORKERS, pool_pre_ping=True)
        options: dict[str, Any] = {"connect_args": {"check_same_thread": False, "timeout": BUSY_TIMEOUT_MS / 1000}}
        if self.in_memory:
            options["poolclass"] = StaticPool
        else:
            options |= {"pool_size": WORKERS, "max_overflow": WORKERS}
        engine = sa.create_engine(self.url, **options)
        sa.event.listen(engine, "connect", self._on_connect)
        sa.event.listen(engine, "begin", _begin)
        return engine

    def _on_connect(self, connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver begins nothing by itself; `_begin` does
        for pragma in (
            f"busy_timeout={BUSY_TIMEOUT_MS}",
            "journal_mode=WAL",
            f"synchronous={self.synchronous}",
            "foreign_keys=ON",
        ):
            connection.execute(f"PRAGMA {pragma}")

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one transaction that sees one moment of the database."""
        self.setup()
        if self.in_memory and self._writer is not None:  # one connection for all: readers queue as well
            with self._writer, self.engine.begin() as connection:
                return work(connection)
        with self.engine.begin() as connection:
            return work(connection)

    def write(self, work: Callable[[Connection], T], *, synced: bool = False) -> T:
        """Run `work` in one writing transaction. `synced`: return only when it is on the disk."""
        self.setup()
        if self._writer is None:
            with self.engine.begin() as connection:
                return work(connection)
        with self._writer:
            return self._write_sqlite(work, synced and self.synchronous != "FULL")

    def _write_sqlite(self, work: Callable[[Connection], T], raise_synchronous: bool) -> T:
        with self.engine.connect() as plain:
            connection = plain.execution_options(adjourn_write=True)
            driver: Any = connection.connection.driver_connection
            if raise_synchronous:
                driver.execute("PRAGMA synchronous=FULL")
            try:
                with connection.begin():
                    return work(connection)
            finally:
                if raise_synchronous:
                    driver.execute(f"PRAGMA synchronous={self.synchronous}")

    async def aread(self, work: Callable[[Connection], T]) -> T:
        """`read`, on a worker thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self.read, work)

    async def awrite(self, work: Callable[[Connection], T], *, synced: bool = False) -> T:
        """`write`, on a worker thread. A cancelled caller does not stop the transaction."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: self.write(work, synced=synced))

    async def arun(self, work: Callable[[], T]) -> T:
        """Run `work` on a worker thread; it opens its own transactions."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def write_unprepared(self, work: Callable[[Connection], T]) -> T:
        """`write`, for the setup itself: nothing is created before."""
        if self._writer is None:
            with self.engine.begin() as connection:
                return work(connection)
        with self._writer:
            return self._write_sqlite(work, raise_synchronous=False)

    def setup(self) -> None:
        """Create what is missing. Called before the first transaction; a second call costs nothing."""
        if self._is_set_up:
            return
        with self._setup_lock:
            if not self._is_set_up:
                from adjourn.checkpoints.setup import prepare

                prepare(self)
                self._is_set_up = True

    def close(self) -> None:
        """Wait for what runs, then close every connection. Safe to call twice."""
        self._pool.shutdown(wait=True)
        self.engine.dispose()


def _begin(connection: Connection) -> None:
    immediate = connection.get_execution_options().get("adjourn_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

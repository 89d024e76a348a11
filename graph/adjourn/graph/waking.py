"""What wakes those who follow runs that another process drives, on PostgreSQL: workers tell, followers hear.

Both only save time: whoever follows reads the database from time to time anyhow, and relies on that.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.doorbell import has_bells, listen_for_events, tell

log = logging.getLogger("adjourn.run")

# Between two notifications of a process: it sends fifty a second at most, however many events it stores.
PAUSE_S = 0.02


class Teller:
    """Tells those who follow runs elsewhere which runs have new events, stored by this process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._runs: set[str] = set()
        self._some = asyncio.Event()

    def told(self, run_id: str) -> None:
        """The run has a new event, which is stored. To be called on the event loop of `work`."""
        self._runs.add(run_id)
        self._some.set()

    async def work(self) -> None:
        """Tell what there is to tell, until cancelled; returns at once where nobody could hear it."""
        while has_bells(self._database):
            await self._some.wait()
            self._some.clear()
            runs, self._runs = self._runs, set()
            try:
                await self._database.awrite(partial(tell, run_ids=runs))
            except Exception as error:  # a database that is away for a moment
                log.debug("followers could not be woken: %s", error)
            await asyncio.sleep(PAUSE_S)


class Ear:
    """Hears of new events of runs that other processes drive, while anybody wants to: one connection for all.

    `heard` is called with the id of a run, or with an empty text: any run may have new events.
    """

    def __init__(self, database: Database, heard: Callable[[str], object]) -> None:
        self._database = database
        self._heard = heard
        self._lock = threading.Lock()
        self._wanted = 0
        self._listening: asyncio.Task[None] | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Listen while inside, on the event loop of whoever came first."""
        with self._lock:
            self._wanted += 1
            if self._wanted == 1:
                self._listening = asyncio.create_task(listen_for_events(self._database, self._heard))
        try:
            yield
        finally:
            with self._lock:
                self._wanted -= 1
                last = self._listening if not self._wanted else None
            if last is not None and not last.get_loop().is_closed():
                last.get_loop().call_soon_threadsafe(last.cancel)

"""Cancel requests from other processes: written to the run's row, seen by its owner within half a second (C-59)."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from adjourn.checkpoints import journal
from adjourn.checkpoints.database import Database
from adjourn.nodes.run_context import Cancel

log = logging.getLogger("adjourn.run")

POLL_S = 0.4  # C-59 promises one second; one small read for all runs of the process


class CancelWatch:
    """Looks for cancel requests to the runs that this process drives: one reader per event loop, while it drives."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._watched: dict[asyncio.AbstractEventLoop, tuple[dict[str, Cancel], asyncio.Task[None]]] = {}

    @contextmanager
    def watched(self, run_id: str, cancel: Cancel) -> Iterator[None]:
        """While inside, a request to cancel the run sets `cancel`."""
        loop = asyncio.get_running_loop()
        if loop not in self._watched:
            begun: dict[str, Cancel] = {}
            self._watched[loop] = begun, loop.create_task(self._read(begun))
        runs, reader = self._watched[loop]
        runs[run_id] = cancel
        try:
            yield
        finally:
            if runs.get(run_id) is cancel:  # another owner of the run may have come after a lost lease
                del runs[run_id]
            if not runs and loop in self._watched:
                del self._watched[loop]
                reader.cancel()  # whoever is last: the database may be closed next

    async def _read(self, runs: dict[str, Cancel]) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            ids = list(runs)
            try:
                asked = await self._database.aread(lambda c, ids=ids: journal.cancel_requests(c, ids))  # type: ignore[misc]
            except Exception as error:  # a database that is away for a moment
                log.warning("cancel requests could not be read: %s", error)
                continue
            for run_id in asked:
                if run_id in runs:
                    runs[run_id].set()

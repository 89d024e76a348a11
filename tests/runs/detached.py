"""A runner that only accepts, with a worker beside it that drives: to its caller it looks like any other.

With `ADJOURN_DETACHED=1` the tests that take their runners from a `House` go through it. Events are then those that
anybody would follow in the database; `text_delta`, which is not stored, is heard by nobody. Tests that are about the
process that drives (deltas, Ctrl-C, leases of its own, drains, keys that only it lacks) are marked `in_process` and left out then.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.graph import Run, Runner, expiring
from adjourn.graph.behalf import Behalf
from adjourn.graph.bound_graph import BoundGraph
from adjourn.graph.owning import Owner
from adjourn.graph.worker import Worker

POLL_S = 0.01


class DetachedRunner(Runner):
    """Each method accepts, and returns when a worker has brought the run to where it waits or has ended."""

    def __init__(self, graph: Any, store: str, **settings: Any) -> None:
        super().__init__(graph, store, **settings)
        self._elsewhere = Database(store) if isinstance(store, str) else store
        hire = partial(Runner, graph, self._elsewhere, **settings)
        self._owner = _OwnerElsewhere(self._owner.bound, hire, self.follow)

    async def recover(self, run_id: str, **settings: Any) -> Run:
        return await super().recover(run_id, **{**settings, "here": False})

    def close(self) -> None:
        if self._elsewhere is not self.database:
            self._elsewhere.close()
        super().close()


class _OwnerElsewhere(Owner):
    """Begins runs, and waits for the worker that it lets drive them."""

    def __init__(self, bound: BoundGraph, hire: Callable[[], Runner], follow: Callable[..., Any]) -> None:
        super().__init__(bound)
        self._hire = hire
        self._follow = follow
        self._waiting = 0
        self._stop: asyncio.Event | None = None

    async def own(
        self,
        begin: Any,
        behalf: Behalf,
        *,
        within: Any = None,
        here: bool | None = None,
        short: bool = True,
    ) -> Run:
        if here:  # a cancel of a run that lost its owner
            return await super().own(begin, behalf, within=within, here=True, short=short)
        run = await super().own(begin, behalf, here=False, short=short)
        if run.status == RunStatus.RUNNING:
            async with self._worker():
                async for event in self._follow(run.id, after=run.row.last_event):
                    behalf.hear(event)
        return await expiring.aread_current(self.bound.database, run.id)

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator[None]:
        """Whoever drives, for as long as somebody waits; then a new one, as on other machines."""
        self._waiting += 1
        if self._waiting == 1:
            self._stop = asyncio.Event()
            self._working = asyncio.create_task(self._work(self._stop))
        stop, working = self._stop, self._working
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting and stop is not None:
                stop.set()
                await working

    async def _work(self, stop: asyncio.Event) -> None:
        with self._hire() as driver:
            await Worker(driver, poll_s=POLL_S).work(stop)

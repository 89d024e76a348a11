"""A runner that only accepts, with a worker beside it that drives: to its caller it looks like any other.

With `ADJOURN_DETACHED=1` the tests that take their runners from a `House` go through it. Events are then those that
anybody would follow in the database; `text_delta`, which is not stored, is heard by nobody.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

from adjourn.graph import Run, Runner
from adjourn.graph.worker import Worker

POLL_S = 0.01


class DetachedRunner(Runner):
    """`start` and `resume` accept, and return when a worker has brought the run to where it waits or has ended."""

    def __init__(self, graph: Any, store: str, **settings: Any) -> None:
        super().__init__(graph, store, detached=True, **settings)
        self.driver = Runner(graph, store, **settings)

    async def start(self, message: str, **settings: Any) -> Run:
        return await self._driven(super().start(message, **_own(settings)), 0, settings)

    async def resume(self, run_id: str, answers: Any = None, **settings: Any) -> Run:
        last = (await self.get(run_id)).row.last_event
        return await self._driven(super().resume(run_id, answers, **_own(settings)), last, settings)

    async def _driven(self, accepting: Awaitable[Run], last: int, settings: dict[str, Any]) -> Run:
        run = await accepting
        async with self._worker():
            async for event in self.follow(run.id, after=last):
                if settings.get("on_event") is not None:
                    settings["on_event"](event)
        return await self.get(run.id)

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator[None]:
        """Whoever drives; a new one each time, as on other machines."""
        stop = asyncio.Event()
        working = asyncio.create_task(Worker(self.driver, poll_s=POLL_S).work(stop))
        try:
            yield
        finally:
            stop.set()
            await working
            self.driver._draining = False  # it was told to go; the next worker has a process of its own

    def close(self) -> None:
        self.driver.close()
        super().close()


def _own(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "on_event"}

"""The runs that this server drives, beside its requests: begun, swept up after others died, handed back at the end.

A request begins a run and goes; the run is driven here, whoever listens. A run whose owner died, in this server's
former life or anywhere else, is taken over by a sweep after its lease.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from adjourn.checkpoints import queue
from adjourn.checkpoints.errors import RunNotFound, StoredDataError
from adjourn.checkpoints.records import RunRow
from adjourn.graph.behalf import OnBegun
from adjourn.graph.later import Later
from adjourn.graph.run import Run
from adjourn.graph.runner import Runner
from adjourn.graph.server.problems import Refused

log = logging.getLogger("adjourn.server")

SWEEP_S = 5.0  # a dead process is missed for a lease anyhow; one small read each time
# Taken over in one sweep: a server that comes back does not start a thousand models at once.
MOST_AT_ONCE = 16
AGAIN_S = 30.0  # until a run that could not be taken over is tried again
DRAIN_S = 30.0  # a step in hand may take as long as a model call

Drive = Callable[[OnBegun], Coroutine[Any, Any, Run]]


class Hosting:
    """Drives runs of one runner in the background. `closing` is set when the server is going."""

    def __init__(self, runner: Runner, *, drain_s: float = DRAIN_S, sweep_s: float = SWEEP_S) -> None:
        self.runner = runner
        self.closing = asyncio.Event()
        self._drain_s = drain_s
        self._sweep_s = min(sweep_s, runner.lease_s)
        self._driving: dict[str, asyncio.Task[Run]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._later = Later(AGAIN_S, log)
        self._draining: asyncio.Task[Sequence[str]] | None = None

    async def begin(self, drive: Drive) -> str:
        """Begin to drive a run, and give its id as soon as the beginning is stored. It goes on by itself.

        Raises what `drive` raises before that, and `Refused` (503) when the server is going.
        """
        if self.closing.is_set():
            raise self.refusal()
        begun: asyncio.Future[RunRow] = asyncio.get_running_loop().create_future()
        task = self._keep(drive(begun.set_result))
        waited: set[asyncio.Future[Any]] = {task, begun}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            return (await task).id
        run_id = begun.result().id
        if not task.done() and not self.runner.detached:
            self._driving[run_id] = task
            task.add_done_callback(partial(self._ended, run_id))
        return run_id

    def refusal(self) -> Refused:
        """What a request gets while the server is going."""
        detail = "the server is shutting down; send this again in a moment"
        return Refused(503, "shutting_down", detail, {"Retry-After": "5"})

    def _keep(self, work: Coroutine[Any, Any, Run]) -> "asyncio.Task[Run]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("a run that the server drove ended with %r", error)

    def _ended(self, run_id: str, task: "asyncio.Task[Run]") -> None:
        if self._driving.get(run_id) is task:
            del self._driving[run_id]

    async def wait(self, run_id: str, limit_s: float) -> None:
        """Until the run waits for people or has ended, whoever drives it; at most `limit_s` seconds."""
        if limit_s <= 0:
            return
        ours = self._driving.get(run_id)
        beside: list[asyncio.Task[Any]] = [asyncio.create_task(self.closing.wait())]
        if ours is None:
            beside.append(asyncio.create_task(self._followed(run_id)))
        waited = [*beside, ours] if ours else beside
        try:
            await asyncio.wait(waited, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in beside:
                one.cancel()
            await asyncio.wait(beside)

    async def _followed(self, run_id: str) -> None:
        with contextlib.suppress(RunNotFound):  # it was removed meanwhile: who asked will see
            last = (await self.runner.get(run_id)).row.last_event
            async for _ in self.runner.follow(run_id, after=last):
                pass

    # -- runs that lost their process

    async def sweep(self) -> None:
        """Take over runs that nobody drives, again and again, until it is cancelled."""
        while not self.closing.is_set():
            try:
                if not self.runner.detached:  # else that is the workers' matter
                    await self.take_over()
            except Exception as error:  # a database that is away for a moment
                log.warning("runs without an owner could not be looked for: %s", error)
            await asyncio.sleep(self._sweep_s)

    async def take_over(self) -> None:
        """Take over the runs of this app whose owner died or handed them back, or whose questions have expired."""
        apart = self._later.runs()
        wanted = partial(queue.unowned, graph=self.runner.name, limit=MOST_AT_ONCE, apart=apart)
        damaged: list[StoredDataError] = []
        lost = await self.runner.database.aread(partial(wanted, damaged=damaged))
        for error in damaged:
            self._later.put_off(error.key, error)
        expired = [run_id for run_id in await self.runner.expire() if run_id not in apart]
        for run_id in [*(one.id for one in lost), *expired][:MOST_AT_ONCE]:
            try:
                await self.begin(partial(self._recover, run_id))
                log.info("run %s was taken over", run_id)
            except Refused:
                return  # the server is going
            except Exception as error:  # one that this app cannot go on with is in no other's way
                self._later.put_off(run_id, error)

    def _recover(self, run_id: str, on_begun: OnBegun) -> Coroutine[Any, Any, Run]:
        return self.runner.recover(run_id, on_begun=on_begun)

    # -- the server's life

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Sweep while inside; then let the steps in hand end, and hand the runs back."""
        sweeping = asyncio.create_task(self.sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            await asyncio.wait({sweeping})
            await self.drain()

    def go(self) -> "asyncio.Task[Sequence[str]]":
        """Take no more work, and let each run end its step in hand. Returns at once; twice is once."""
        self.closing.set()
        if self._draining is None:
            self._draining = asyncio.create_task(self.runner.drain(self._drain_s))
        return self._draining

    def hurry(self) -> None:
        """Wait no longer for the steps in hand: they are left to their leases."""
        self.go().cancel()

    async def drain(self) -> None:
        """`go`, and wait until the runs were handed back."""
        draining = self.go()
        await asyncio.wait({draining})
        if draining.cancelled():
            return
        left = draining.result()
        if left:
            log.warning("still working after %g s, left to their leases: %s", self._drain_s, ", ".join(left))
        ending = [task for task in self._tasks if not task.done()]
        if ending and not left:
            await asyncio.wait(ending, timeout=self._drain_s)

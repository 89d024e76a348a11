"""A worker: drives the runs that nobody drives, for as long as it is let.

Which these are is told by the table of runs: those that were accepted by a detached runner, handed back, or lost by
a process that died, and those whose questions have all expired. Any number of workers may look at once: a run is
claimed by one of them, and what is found twice does no harm. On PostgreSQL a worker is woken by the commit that leaves
a run to it; everywhere it looks from time to time, and that is what it relies on.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection

from adjourn.checkpoints import event_rows, journal, leases, queue
from adjourn.checkpoints.doorbell import listen
from adjourn.checkpoints.errors import NotResumable, RunBusy, StoredDataError
from adjourn.checkpoints.lifecycle import RunEvent
from adjourn.checkpoints.records import RunRow
from adjourn.graph.later import Later
from adjourn.graph.ledger_rows import failure_of
from adjourn.graph.run import Run
from adjourn.graph.runner import Runner
from adjourn.graph.waking import Teller

log = logging.getLogger("adjourn.worker")

LEASE_S = 8.0  # a dead worker's runs go on within ten seconds; missed by one that cannot renew for five
CONCURRENCY = 8  # runs at once: they mostly wait for models
POLL_S = 0.5  # between two looks when nothing is to be done: a small read on an index
EXPIRE_S = 5.0  # between two looks for questions whose time has passed
# Owners that a run may lose by their death. More is no accident: it would take the next one down too.
MAX_DEATHS = 3
AGAIN_S = 5.0  # before a run that could not be taken up is tried again: its key is lost, say
DRAIN_S = 30.0  # a step in hand may take as long as a model call


class Worker:
    """Drives runs of one runner's graph. `taken` counts them.

    - `concurrency`: runs that it drives at once.
    - `most_per_person`: runs of one person (`started_by`) that all workers together drive at once; two of them that look
      in the same moment may pass it by one for a moment. None: no limit.
    - `most_per_graph`: the same for all runs of its graph.
    - `poll_s`: seconds between two looks when nothing is to be done.
    - `max_deaths`: a run that loses so many owners by their death, one after the other and at the same place, is `failed`.
    - `drain_s`: seconds that the steps in hand may take at its end.
    """

    def __init__(
        self,
        runner: Runner,
        *,
        concurrency: int = CONCURRENCY,
        most_per_person: int | None = None,
        most_per_graph: int | None = None,
        poll_s: float = POLL_S,
        max_deaths: int = MAX_DEATHS,
        drain_s: float = DRAIN_S,
    ) -> None:
        self.runner = runner
        self.taken = 0
        self._concurrency = concurrency
        self._most_per_person = most_per_person
        self._most_per_graph = most_per_graph
        self._poll_s = poll_s
        self._max_deaths = max_deaths
        self._drain_s = drain_s
        self._driving: dict[str, asyncio.Task[Run]] = {}
        self._later = Later(AGAIN_S, log)
        self._bell = asyncio.Event()

    @property
    def driving(self) -> int:
        """How many runs it drives now."""
        return len(self._driving)

    async def work(self, stop: asyncio.Event) -> Sequence[str]:
        """Drive what there is until `stop` is set; then let the steps in hand end and hand the runs back.

        Gives the ids of runs that still worked after `drain_s` seconds: they are left to their leases.
        """
        database, teller = self.runner.database, Teller(self.runner.database)
        self.runner.tell_elsewhere(teller.told)
        beside = [
            asyncio.create_task(one)
            for one in (
                _then(stop, self._bell),
                self._expire(),
                listen(database, self._bell.set),
                teller.work(),
            )
        ]
        try:
            while not stop.is_set():
                self._bell.clear()
                found = await self._look()
                full = self.driving >= self._concurrency
                if full or not found:
                    await self._wait(None if full else self._poll_s)
            left = await self.runner.drain(self._drain_s)
            if self._driving and not left:
                await asyncio.wait(self._driving.values(), timeout=self._drain_s)
            return left
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)

    async def _wait(self, timeout_s: float | None) -> None:
        """Until there may be something to do, or after `timeout_s`; None: no limit."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._bell.wait()
        except TimeoutError:
            pass

    async def _look(self) -> bool:
        """Take what nobody drives, as much as there is room for. Whether anything was found."""
        room = self._concurrency - self.driving
        if room <= 0:
            return True
        try:
            todo = await self._free(room)
            for one in todo:
                if one.died >= self._max_deaths:
                    owner = self.runner.owner
                    await self.runner.database.awrite(partial(give_up, run_id=one.id, owner=owner))
                else:
                    self._take(one.id)
        except Exception as error:  # a database that is away for a moment
            log.warning("runs could not be looked for: %s", error)
            return False
        return bool(todo)

    async def _free(self, limit: int) -> Sequence[RunRow]:
        damaged: list[StoredDataError] = []
        read = partial(
            queue.unowned,
            graph=self.runner.name,
            limit=limit,
            most_per_person=self._most_per_person,
            most_per_graph=self._most_per_graph,
            taken=list(self._driving),
            apart=self._later.runs(),
            damaged=damaged,
        )
        found = await self.runner.database.aread(read)
        for error in damaged:  # it is in no other's way
            self._later.put_off(error.key, error)
        return found

    async def _expire(self) -> None:
        """Let runs whose questions have all expired wait for a worker like any other."""
        while True:
            try:
                for run_id in await self.runner.expire():
                    await self._leave(run_id)
            except Exception as error:
                log.warning("questions whose time has passed could not be looked for: %s", error)
            await asyncio.sleep(EXPIRE_S)

    async def _leave(self, run_id: str) -> None:
        try:
            await self.runner.recover(run_id, here=False)
        except (RunBusy, NotResumable):  # somebody was first
            return
        except Exception as error:
            log.warning("run %s: %s: %s", run_id, type(error).__name__, error)
        else:
            self._bell.set()

    def _take(self, run_id: str) -> None:
        task = asyncio.create_task(self.runner.recover(run_id))
        self._driving[run_id] = task
        task.add_done_callback(partial(self._ended, run_id))

    def _ended(self, run_id: str, task: "asyncio.Task[Run]") -> None:
        limited = self._most_per_person is not None or self._most_per_graph is not None
        if self.driving == self._concurrency or limited:  # there was no room, or not for some
            self._bell.set()
        del self._driving[run_id]
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self.taken += 1
            log.info("run %s: %s", run_id, task.result().status)
        else:
            self._later.put_off(run_id, error)


async def _then(stop: asyncio.Event, bell: asyncio.Event) -> None:
    await stop.wait()
    bell.set()


def give_up(connection: Connection, *, run_id: str, owner: str) -> None:
    """End a run as failed whose owners die one after the other; a person may try it again (`adjourn resume`)."""
    try:
        fence = leases.claim(connection, run_id, RunEvent.RECOVER, owner=owner, lease_s=1.0)
    except (RunBusy, NotResumable):
        return
    run = journal.read_run(connection, run_id)
    message = f"{run.deaths} processes died while they drove it; look at what it does, then try it again"
    told, kept = failure_of(run, run.steps, "OwnersDied", message)
    event_rows.append(connection, run_id, [told], fence=fence)
    journal.end_run(connection, run_id, fence, RunEvent.FAIL, active_ms=run.active_ms, error=kept)()
    log.error("run %s was given up: %s", run_id, message)

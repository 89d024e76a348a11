"""How a process owns runs: claims them, drives each behind a shield, and lets go of them in order.

A run is driven by one owner with a lease. The graph is driven in an inner task behind a shield: when the outside is
cancelled (Ctrl-C, a notebook's stop button), the run is asked to stop, and the cancellation goes on when the run has
written its end.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from langgraph.runtime import RunControl
from sqlalchemy import Connection

from adjourn.checkpoints import family, journal, leases
from adjourn.checkpoints.errors import WrongGraph
from adjourn.checkpoints.events import Event
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.checkpoints.records import RunRow
from adjourn.graph import expiring
from adjourn.graph.behalf import Behalf
from adjourn.graph.bound_graph import BoundGraph
from adjourn.graph.cancelling import CancelWatch
from adjourn.graph.children import ChildRuns, Family
from adjourn.graph.drive import Drive, Found
from adjourn.graph.graph_parts import Graph
from adjourn.graph.logbook import log_event
from adjourn.graph.run import Run
from adjourn.graph.run_log import Listener
from adjourn.graph.signing import sign, signed
from adjourn.graph.starts import Begun
from adjourn.graph.stream import Broadcast
from adjourn.graph.within import Within
from adjourn.nodes.delegation import Gate
from adjourn.nodes.run_context import Cancel


@dataclass(frozen=True, slots=True)
class _Driving:
    """A run that this process drives: how to stop it, on which loop, and how to learn of its end."""

    cancel: Cancel
    control: RunControl
    loop: asyncio.AbstractEventLoop
    ended: Future[None]


class Owner:
    """Begins runs of one graph, and drives them in this process; `detached`: begins them, and leaves them to workers.

    `broadcast` tells what happens in those that it drives.
    """

    def __init__(self, bound: BoundGraph, *, detached: bool = False) -> None:
        self.bound = bound
        self.detached = detached
        self.broadcast = Broadcast()
        self.family = Family(self)
        self._database = bound.database
        self._driving: dict[str, _Driving] = {}
        self._draining = False
        self._watch = CancelWatch(bound.database)

    def like(self, graph: Graph) -> "Owner":
        """An owner of runs of a specialist's graph, with the same settings; these are always driven here."""
        made = Owner(self.bound.like(graph))
        made._draining = self._draining
        return made

    async def own(
        self,
        begin: Callable[[Connection], Begun],
        behalf: Behalf,
        *,
        within: Within | None = None,
        here: bool | None = None,
        short: bool = True,
    ) -> Run:
        """Begin a run in one transaction and drive it, all behind a shield; or leave it to others.

        `within`: of a run that works inside a call of another one. `here`: whether it is driven here; None: unless the
        owner is detached. `short` False: the transaction takes long, as that which copies a thread does.

        A cancel from outside sets the run's own signal, waits until the run has written its end, and then
        goes on (C-62): from the claim on there is no moment in which a run could be left without its owner.
        """
        if self.detached if here is None else not here:
            return await self._leave(begin, behalf, short=short)
        cancel = Cancel()
        driving = asyncio.create_task(self._drive(begin, behalf, cancel, within=within, short=short))
        try:
            return await asyncio.shield(driving)
        except asyncio.CancelledError:
            if not self._draining:  # a process that is going leaves its runs to another one
                cancel.set()
            await asyncio.wait({driving})
            if not driving.cancelled():
                driving.exception()  # told to nobody: the caller is being cancelled
            raise

    # -- letting go

    def end_of(self, run_id: str) -> "Future[None] | None":
        """The end of a run that is driven here; None: it is not."""
        driving = self._driving.get(run_id)
        return None if driving is None else driving.ended

    def stop(self, run_id: str) -> "Future[None] | None":
        """Let a run that is driven here stop, and give its end; None: it is not driven here."""
        driving = self._driving.get(run_id)
        if driving is None:
            return None
        driving.loop.call_soon_threadsafe(driving.cancel.set)
        return driving.ended

    async def drain(self, limit_s: float) -> Sequence[str]:
        """Hand back what is driven here, and what begins from now on, specialists' runs included; see `Runner.drain`."""
        self._draining = True
        driving = dict(self._driving)
        for one in driving.values():
            one.control.request_drain()
        for below in self.family.owners():
            await below.drain(0)
        ends = {run_id: asyncio.wrap_future(one.ended) for run_id, one in driving.items()}
        if ends:
            await asyncio.wait(ends.values(), timeout=limit_s)
        return [run_id for run_id, end in ends.items() if not end.done()]

    # -- driving

    def _signed(self, connection: Connection, begun: Begun) -> Begun:
        """Take note of graphs that have changed, those of the runs below included (see `signing`)."""
        begun = signed(connection, begun, self.bound.signature)
        if self.family.specialists is not None and begun.run.status == RunStatus.RUNNING:
            for one in family.live_below(connection, begun.run.id):
                below = journal.read_run(connection, one)
                with contextlib.suppress(WrongGraph):  # a cancel ends them without their graphs
                    sign(connection, below, self.family.at(begun.run, below.path).bound.signature)
        return begun

    async def _leave(self, begin: Callable[[Connection], Begun], behalf: Behalf, *, short: bool) -> Run:
        """Begin a run and give it back, in one transaction: it is accepted, and nobody drives it yet."""

        def work(connection: Connection) -> Begun:
            begun = self._signed(connection, begin(connection))
            if begun.run.status == RunStatus.RUNNING:
                leases.release(connection, begun.run.id, begun.run.fence, active_ms=begun.run.active_ms)
            return begun

        begun = await self._database.awrite(work, short=short)
        behalf.begun(begun.run)
        for event in begun.told:
            self._to_all(behalf.hear)(event)
        return await expiring.aread_current(self._database, begun.run.id)

    def _to_all(self, listener: Listener) -> Listener:
        """What tells the caller's listener, and everybody who follows the run in this process."""

        def tell(event: Event) -> None:
            log_event(event)
            listener(event)
            self.broadcast.tell(event)

        return tell

    async def _drive(
        self,
        begin: Callable[[Connection], Begun],
        behalf: Behalf,
        cancel: Cancel,
        *,
        within: Within | None,
        short: bool,
    ) -> Run:
        listener = self._to_all(behalf.hear)

        def work(connection: Connection) -> tuple[Begun, Found | None]:
            begun = self._signed(connection, begin(connection))
            return begun, _found(connection, begun.run)

        begun, found = await self._database.awrite(work, short=short)
        run = begun.run
        behalf.begun(run)
        for event in begun.told:
            listener(event)
        if run.cancel_requested_at is not None:
            cancel.set()
        if run.status == RunStatus.RUNNING:
            with self._noted(run, cancel) as control, self._watch.watched(run.id, cancel):
                children = None
                if self.family.specialists is not None:
                    within = within or Within(Gate())
                    below = within.below(self._database, run.id, self.bound.graph)
                    children = ChildRuns(self.family, run, behalf.hear, below)
                await Drive(
                    self._database,
                    self.bound.graph,
                    run,
                    cancel=cancel,
                    control=control,
                    listener=listener,
                    lease_s=self.bound.lease_s,
                    masker=self.bound.masker,
                    keyring=self.bound.keyring,
                    children=children,
                    within=within,
                    found=found,
                ).to_its_end()
        return await expiring.aread_current(self._database, run.id)

    @contextlib.contextmanager
    def _noted(self, run: RunRow, cancel: Cancel) -> Iterator[RunControl]:
        """While inside, it is known that this process drives the run. Gives what asks it to end with the step in hand."""
        control = RunControl()
        mine = self._driving[run.id] = _Driving(cancel, control, asyncio.get_running_loop(), Future())
        self.broadcast.begin(run.id, run.last_event)
        # one that is to be cancelled is ended here: handed back, it would wait for somebody else to do so
        if self._draining and run.cancel_requested_at is None:
            control.request_drain()
        try:
            yield control
        finally:
            mine.ended.set_result(None)
            if self._driving.get(run.id) is mine:  # another owner may have come after a lost lease
                del self._driving[run.id]
                self.broadcast.end(run.id)


def _found(connection: Connection, run: RunRow) -> Found | None:
    """What the owner of a new run needs to know; None: the run is not ours, or it has a past, which may take long to read."""
    is_new = run.status == RunStatus.RUNNING and run.steps == 0
    return Found.read(connection, run) if is_new else None

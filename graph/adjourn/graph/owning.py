"""How a runner owns runs: claims them, drives each behind a shield, and lets go of them in order.

A run is driven by one owner with a lease. The graph is driven in an inner task behind a shield: when the outside is
cancelled (Ctrl-C, a notebook's stop button), the run is asked to stop, and the cancellation goes on when the run has
written its end.
"""

import asyncio
import contextlib
import inspect
import logging
import math
import os
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

from langgraph.runtime import RunControl
from sqlalchemy import Connection

from adjourn.checkpoints import family, journal, leases
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import UsageError, WrongGraph
from adjourn.checkpoints.events import Event
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.checkpoints.records import Interrupt, RunRow
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.graph import expiring, starts
from adjourn.graph.background import Background
from adjourn.graph.cancelling import CancelWatch
from adjourn.graph.children import ChildRuns, Family
from adjourn.graph.drive import Drive, Found
from adjourn.graph.graph_parts import (
    Graph,
    masker_of,
    may_answer_of,
    schemas_of,
    signature_of,
    tools_of,
)
from adjourn.graph.keys import check_openable, has_key_file, keyring_of, tools_with_secrets
from adjourn.graph.ledger_rows import row_id
from adjourn.graph.line import WAIT_S, Busy, Lines, as_busy
from adjourn.graph.logbook import log_event
from adjourn.graph.may_answer import MayAnswer, refusal
from adjourn.graph.own_graphs import adopted
from adjourn.graph.run import Run
from adjourn.graph.run_log import Listener
from adjourn.graph.signing import sign, signed
from adjourn.graph.starts import Begun
from adjourn.graph.stream import Broadcast
from adjourn.graph.waking import Ear
from adjourn.graph.within import Within
from adjourn.nodes.delegation import Gate
from adjourn.nodes.run_context import Cancel
from adjourn.nodes.sealing import Keyring

T = TypeVar("T")
OnBegun = Callable[[RunRow], None]
LEAST_LEASE_S = 0.05  # below, its renewals would be all that a process does
log = logging.getLogger("adjourn.run")


@dataclass(frozen=True, slots=True)
class _Driving:
    """A run that this process drives: how to stop it, on which loop, and how to learn of its end."""

    cancel: Cancel
    control: RunControl
    loop: asyncio.AbstractEventLoop
    ended: Future[None]


class Owning:
    """What `Runner` is below its methods: one graph over one store, and the runs that this process drives."""

    def __init__(
        self,
        graph: Graph,
        store: str | Database = "sqlite:///adjourn.db",
        *,
        lease_s: float = leases.LEASE_S,
        may_answer: MayAnswer | None = None,
        busy: Busy | str = Busy.REFUSE,
        busy_wait_s: float = WAIT_S,
        key: str | Sequence[str] | None = None,
        detached: bool = False,
    ) -> None:
        self.detached = detached
        self.busy, self.busy_wait_s = as_busy(busy), busy_wait_s
        self._owns_database = not isinstance(store, Database)
        self.database = store if isinstance(store, Database) else Database(store)
        graph = adopted(graph)
        saver = SQLAlchemySaver(self.database, types=schemas_of(graph))
        self.graph: Graph = graph.copy({"checkpointer": saver})
        self.name = graph.get_name()
        self.tools = tools_of(graph)
        self.masker = masker_of(graph)
        self._key = key
        self._secret = tools_with_secrets(graph)
        self._keyring: Keyring | None = None
        if not has_key_file(self.database, key):  # a key that is missing or wrong is told now
            self._keyring = keyring_of(self.database, key, self._secret)
        self._may_answer = may_answer or may_answer_of(graph)
        self.lease_s = _checked_lease(lease_s)
        self.signature = signature_of(graph)
        self._driving: dict[str, _Driving] = {}
        self._draining = False
        self._broadcast = Broadcast()
        self._ear = Ear(self.database, self._broadcast.nudge)
        self.family = Family(self)
        self._watch = CancelWatch(self.database)
        self._lines = Lines(self.database)
        self.left: set[asyncio.Task[Run]] = set()  # runs whose listener left before their end
        self._background = Background()

    @property
    def keyring(self) -> Keyring:
        """What seals secrets, and keys digests. The key file is made with the first run."""
        if self._keyring is None:
            self._keyring = keyring_of(self.database, self._key, self._secret)
        return self._keyring

    def tell_elsewhere(self, told: Callable[[str], object]) -> None:
        """Call `told` with the run of each event that is stored here, on the event loop that drives it."""
        self._broadcast.elsewhere = told

    def _check_keys(
        self, run_id: str, real: Mapping[str, Mapping[str, Any]], asked: Iterable[Interrupt]
    ) -> None:
        """Raise `KeyLost` when a secret that the run goes on with cannot be opened; nothing is changed then."""
        if self._secret:
            answers = [one.answer for one in asked if isinstance(one.answer, dict)]
            check_openable(self.keyring, run_id, [*real.values(), *answers])

    async def _real_arguments(self, run: RunRow) -> dict[str, dict[str, Any]]:
        """The arguments of the calls that wait, by call id; tables hold them masked."""
        snapshot = await self.graph.aget_state({"configurable": {"thread_id": run.thread_id}})
        mine = snapshot.values.get("calls", ()) if snapshot.values.get("run_id") == run.id else ()
        return {row_id(call): call["arguments"] or {} for call in mine}

    async def may_answer(self, question: Interrupt, person: str | None) -> bool:
        """Whether this person may answer this question (C-51)."""
        return await refusal(question, person, self._may_answer) is None

    async def get(self, run_id: str) -> Run:
        """The run as it stands, with its steps, calls and questions; what is overdue is closed. Raises `RunNotFound`."""
        return replace(await expiring.aread_current(self.database, run_id), runner=self)

    async def drain(self, limit_s: float = 30.0) -> Sequence[str]:
        """Let this process go: each run that it drives ends the step in hand and is handed back, for another
        process to take over at once (`recover`). What starts from now on is stored and handed back too.

        Waits at most `limit_s` seconds and gives the ids of the runs that still worked then. These are left as a
        killed process leaves them: somebody takes them over after their lease.
        """
        self._draining = True
        driving = dict(self._driving)
        for one in driving.values():
            one.control.request_drain()
        for runner in self.family.runners():
            await runner.drain(0)
        ends = {run_id: asyncio.wrap_future(one.ended) for run_id, one in driving.items()}
        if ends:
            await asyncio.wait(ends.values(), timeout=limit_s)
        return [run_id for run_id, end in ends.items() if not end.done()]

    def _sync(self, work: Coroutine[Any, Any, T]) -> T:
        return self._background.run(work)

    def close(self) -> None:
        """Wait for what runs in the background, and close the database if it was opened here. Twice is once."""
        self._background.close()
        self.family.close()
        if self._owns_database:
            self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    # -- driving

    @property
    def owner(self) -> str:
        """What leases call this process; one that is forked later has a name of its own."""
        return f"{socket.gethostname()}:{os.getpid()}"

    async def _mine(self, run_id: str) -> RunRow:
        run = await self.database.aread(lambda connection: journal.read_run(connection, run_id))
        if run.graph != self.name:
            raise WrongGraph(run_id, run.graph, self.name)
        return run

    def new_row(
        self,
        message: str,
        *,
        thread_id: str | None,
        by: str | None,
        run_id: str | None = None,
        priority: int = 0,
    ) -> RunRow:
        """The row of a run of this graph that is about to start here. Raises what `starts.new_run` raises."""
        return starts.new_run(
            message,
            thread_id=thread_id,
            by=by,
            run_id=run_id,
            graph=self.name,
            signature=self.signature,
            owner=self.owner,
            lease_s=self.lease_s,
            priority=priority,
        )

    def like(self, graph: Graph) -> Self:
        """A runner of a specialist's graph over the same store, with the same settings."""
        rule = may_answer_of(graph) or self._may_answer
        made = type(self)(graph, self.database, lease_s=self.lease_s, may_answer=rule, key=self._key)
        made._draining = self._draining
        return made

    async def work_below(
        self, begin: Callable[[Connection], Begun], on_event: Listener, within: Within
    ) -> Run:
        """Drive a run that works inside a call of another one."""
        return await self._own(begin, on_event, within=within)

    async def _own(
        self,
        begin: Callable[[Connection], Begun],
        on_event: Listener | None,
        on_begun: OnBegun | None = None,
        *,
        within: Within | None = None,
        here: bool | None = None,
        short: bool = True,
    ) -> Run:
        """Begin a run in one transaction and drive it, all behind a shield; or leave it to others.

        `here`: whether it is driven here; None: unless the runner is detached. `short` False: the transaction takes long,
        as that which copies a thread does.

        A cancel from outside sets the run's own signal, waits until the run has written its end, and then
        goes on (C-62): from the claim on there is no moment in which a run could be left without its owner.
        """
        if self.detached if here is None else not here:
            return await self._leave(begin, _harmless(on_event), on_begun, short=short)
        cancel = Cancel()
        driving = asyncio.create_task(
            self._drive(begin, cancel, _harmless(on_event), on_begun, within=within, short=short)
        )
        try:
            return await asyncio.shield(driving)
        except asyncio.CancelledError:
            if not self._draining:  # a process that is going leaves its runs to another one
                cancel.set()
            await asyncio.wait({driving})
            if not driving.cancelled():
                driving.exception()  # told to nobody: the caller is being cancelled
            raise

    def _signed(self, connection: Connection, begun: Begun) -> Begun:
        """Take note of graphs that have changed, those of the runs below included (see `signing`)."""
        begun = signed(connection, begun, self.signature)
        if self.family.specialists is not None and begun.run.status == RunStatus.RUNNING:
            for one in family.live_below(connection, begun.run.id):
                below = journal.read_run(connection, one)
                with contextlib.suppress(WrongGraph):  # a cancel ends them without their graphs
                    sign(connection, below, self.family.at(begun.run, below.path).signature)
        return begun

    async def _leave(
        self,
        begin: Callable[[Connection], Begun],
        heard: Listener,
        on_begun: OnBegun | None,
        *,
        short: bool,
    ) -> Run:
        """Begin a run and give it back, in one transaction: it is accepted, and nobody drives it yet."""

        def work(connection: Connection) -> Begun:
            begun = self._signed(connection, begin(connection))
            if begun.run.status == RunStatus.RUNNING:
                leases.release(connection, begun.run.id, begun.run.fence, active_ms=begun.run.active_ms)
            return begun

        begun = await self.database.awrite(work, short=short)
        _say_begun(on_begun, begun.run)
        for event in begun.told:
            self._to_all(heard)(event)
        return await self.get(begun.run.id)

    def _to_all(self, listener: Listener) -> Listener:
        """What tells the caller's listener, and everybody who follows the run in this process."""

        def tell(event: Event) -> None:
            log_event(event)
            listener(event)
            self._broadcast.tell(event)

        return tell

    async def _drive(
        self,
        begin: Callable[[Connection], Begun],
        cancel: Cancel,
        heard: Listener,
        on_begun: OnBegun | None,
        *,
        within: Within | None,
        short: bool,
    ) -> Run:
        listener = self._to_all(heard)

        def work(connection: Connection) -> tuple[Begun, Found | None]:
            begun = self._signed(connection, begin(connection))
            return begun, _found(connection, begun.run)

        begun, found = await self.database.awrite(work, short=short)
        run = begun.run
        _say_begun(on_begun, run)
        for event in begun.told:
            listener(event)
        if run.cancel_requested_at is not None:
            cancel.set()
        if run.status == RunStatus.RUNNING:
            control, children = RunControl(), None
            mine = self._driving[run.id] = _Driving(cancel, control, asyncio.get_running_loop(), Future())
            self._broadcast.begin(run.id, run.last_event)
            if self._draining:
                control.request_drain()
            try:
                if self.family.specialists is not None:
                    within = within or Within(Gate())
                    below = within.below(self.database, run.id, self.graph)
                    children = ChildRuns(self.family, run, heard, below)
                with self._watch.watched(run.id, cancel):
                    await Drive(
                        self.database,
                        self.graph,
                        run,
                        cancel=cancel,
                        control=control,
                        listener=listener,
                        lease_s=self.lease_s,
                        masker=self.masker,
                        keyring=self.keyring,
                        children=children,
                        within=within,
                        found=found,
                    ).to_its_end()
            finally:
                mine.ended.set_result(None)
                if self._driving.get(run.id) is mine:  # another owner may have come after a lost lease
                    del self._driving[run.id]
                    self._broadcast.end(run.id)
        return await self.get(run.id)


def _found(connection: Connection, run: RunRow) -> Found | None:
    """What the owner of a new run needs to know; None: the run is not ours, or it has a past, which may take long to read."""
    is_new = run.status == RunStatus.RUNNING and run.steps == 0
    return Found.read(connection, run) if is_new else None


def _checked_lease(lease_s: float) -> float:
    """Raises `UsageError` for a lease that would be renewed without a pause, or never end."""
    is_number = isinstance(lease_s, int | float) and math.isfinite(lease_s)
    if not is_number or lease_s < LEAST_LEASE_S:
        raise UsageError(f"lease_s is a number of seconds from {LEAST_LEASE_S:g}, not {lease_s!r}")
    return lease_s


def _say_begun(on_begun: OnBegun | None, run: RunRow) -> None:
    """Call `on_begun`. What it raises is logged: the run has begun, and somebody has to drive it."""
    if on_begun is None:
        return
    try:
        on_begun(run)
    except Exception:
        log.exception("`on_begun` failed on run %s", run.id)


def _harmless(on_event: Listener | None) -> Listener:
    """A listener whose own failure is logged and does the run no harm. Raises `UsageError` for a coroutine function."""
    if inspect.iscoroutinefunction(on_event):
        raise UsageError(
            "a listener is a plain function that is called with each event, not a coroutine function"
        )

    def hear(event: Event) -> None:
        if on_event is None:
            return
        try:
            on_event(event)
        except Exception:
            log.exception("a listener failed on %s of run %s", event.word, event.run_id)

    return hear

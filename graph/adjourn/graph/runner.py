"""`Runner`: start, resume, recover, cancel, look at runs, each from any process that reaches the database.

A run is driven by one owner with a lease. The runner drives the graph in an inner task behind a shield:
when the outside is cancelled (Ctrl-C, a notebook's stop button), it asks the run to stop, waits until the
run has written its end, and then lets the cancellation go on.
"""

import asyncio
import inspect
import logging
import os
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from langgraph.runtime import RunControl
from sqlalchemy import Connection

from adjourn.checkpoints import family, journal, leases, settling
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import (
    NotResumable,
    RunBusy,
    UsageError,
    WrongGraph,
)
from adjourn.checkpoints.events import Event
from adjourn.checkpoints.lifecycle import InterruptState, RunEvent, RunStatus
from adjourn.checkpoints.records import Interrupt, RunRow
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.graph import answers as accept
from adjourn.graph import expiring, starts
from adjourn.graph.background import Background
from adjourn.graph.cancelling import POLL_S, CancelWatch
from adjourn.graph.children import Family, Working
from adjourn.graph.closing import close_waiting
from adjourn.graph.drive import Drive
from adjourn.graph.keys import check_openable, has_key_file, keyring_of, takers_of
from adjourn.graph.line import WAIT_S, Busy, Lines, as_busy
from adjourn.graph.logbook import log_event
from adjourn.graph.may_answer import MayAnswer, check_persons, refusal
from adjourn.graph.react import Graph, masker_of, may_answer_of, schemas_of, signature_of, tools_of
from adjourn.graph.run import Run
from adjourn.graph.run_log import Listener, row_id
from adjourn.graph.signing import signed
from adjourn.graph.starts import Begun
from adjourn.graph.stream import Broadcast, Mailbox, follow_live, read_out
from adjourn.graph.travel import TimeTravel
from adjourn.nodes.delegation import Gate
from adjourn.nodes.run_context import Cancel
from adjourn.nodes.sealing import Keyring

T = TypeVar("T")
OnBegun = Callable[[RunRow], None]
Admit = Callable[[Connection, RunRow], None]
_OPEN = (RunStatus.RUNNING, RunStatus.INTERRUPTED, RunStatus.FAILED)
log = logging.getLogger("adjourn.run")


@dataclass(frozen=True, slots=True)
class _Driving:
    """A run that this process drives: how to stop it, on which loop, and how to learn of its end."""

    cancel: Cancel
    control: RunControl
    loop: asyncio.AbstractEventLoop
    ended: Future[None]


class Runner(TimeTravel):
    """Drives one graph over one store.

    - `graph`: what `build_react` gave, or a compiled graph of one's own with Adjourn's nodes in it.
    - `store`: a SQLAlchemy URL such as `sqlite:///adjourn.db`, or a `Database` that is shared.
    - `lease_s`: seconds after which another process may take over a run whose owner fell silent.
    - `may_answer`: told a question and a name, says whether this person may answer it; None: as the graph says.
    - `busy`: what becomes of a message to a thread whose run works: `refuse` raises `RunBusy` at once, `wait` lets
      it wait in line, `busy_wait_s` seconds at most (C-86).
    - `key`: what seals secrets and keys digests (C-73): Fernet keys, the first one seals, each one opens. None: those
      of `ADJOURN_KEY` (with commas between them), else the key file that is made beside a SQLite database.
    - `detached`: `start` and `resume` store what they are given and return at once; whoever runs `adjourn worker`, or a
      `Worker` over the same store, drives the run. Only `recover` and `cancel` still drive here.

    Use one runner per process and store; it may drive any number of runs at once. `close()` it at the end,
    or use it as a context manager.
    """

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
        saver = SQLAlchemySaver(self.database, types=schemas_of(graph))
        self.graph: Graph = graph.copy({"checkpointer": saver})
        self.name = graph.get_name()
        self.tools = tools_of(graph)
        self.masker = masker_of(graph)
        self._key = key
        self._secret = takers_of(graph)
        self._keyring: Keyring | None = None
        if not has_key_file(self.database, key):
            self._keyring = keyring_of(self.database, key, self._secret)  # what is missing or wrong is said now
        self._may_answer = may_answer or may_answer_of(graph)
        self.lease_s = lease_s
        self.owner = f"{socket.gethostname()}:{os.getpid()}"
        self.signature = signature_of(graph)
        self._driving: dict[str, _Driving] = {}
        self._draining = False
        self._broadcast = Broadcast()
        self.family = Family(self)
        self._watch = CancelWatch(self.database)
        self._lines = Lines(self.database)
        self.left: set[asyncio.Task[Run]] = set()  # runs whose listener left before their end
        self._background = Background()

    # -- start

    async def start(
        self,
        message: str,
        *,
        thread_id: str | None = None,
        by: str | None = None,
        run_id: str | None = None,
        busy: Busy | str | None = None,
        on_event: Listener | None = None,
        on_begun: OnBegun | None = None,
        admit: Admit | None = None,
    ) -> Run:
        """Start a run with the user's message and drive it until it ends, waits for a person, or fails.

        `thread_id` None: a new conversation. On a thread that waits, the open questions are closed as
        dismissed and the message starts a new run (C-50). `on_begun` is called once with the run's row, when it
        is stored. `admit` is called before, in the same transaction, and what it raises refuses the run.
        Raises `RunBusy` when the thread has a run that works (C-86), `UsageError` for an empty message. `busy` is
        the runner's if None: a message that waits in line finds the thread as the run before it leaves it.
        """
        waits = self.busy if busy is None else as_busy(busy)
        run = starts.new_run(
            message,
            thread_id=thread_id,
            by=by,
            run_id=run_id,
            graph=self.name,
            signature=self.signature,
            owner=self.owner,
            lease_s=self.lease_s,
        )

        def begin(connection: Connection) -> Begun:
            if admit is not None:
                admit(connection, run)
            told = starts.store(connection, starts.dated(run, self.lease_s), self.masker)
            return Begun(journal.read_run(connection, run.id), told)

        def attempt(leave: Callable[[], None]) -> Coroutine[Any, Any, Run]:
            def begun(row: RunRow) -> None:
                leave()
                if on_begun is not None:
                    on_begun(row)

            return self._own(begin, on_event, begun)

        if waits is Busy.REFUSE:
            return await self._own(begin, on_event, on_begun)
        return await self._lines.in_turn(run.thread_id, self.busy_wait_s, self._end_of, attempt)

    def _end_of(self, run_id: str) -> "Future[None] | None":
        driving = self._driving.get(run_id)
        return None if driving is None else driving.ended

    async def resume(
        self,
        run_id: str,
        answers: Mapping[str, Any] | None = None,
        *,
        by: str | None = None,
        on_event: Listener | None = None,
        on_begun: OnBegun | None = None,
    ) -> Run:
        """Answer open questions; when none is left, drive the run on. Without answers: retry a failed run, or let one
        go on whose questions have all expired.

        `answers` maps question ids to answers: values for `params_required`, `approve()`, `edit(...)` or
        `reject(...)` for `confirm_risky`. All are checked before any is stored: `InvalidAnswer` names each
        wrong field and changes nothing. Raises `AlreadyAnswered` or `RunBusy` when somebody was first, `Expired`
        when nobody was in time, `NotAllowed` when this person may not (which is written to the audit),
        `NotResumable` for a run that has ended, `RunNotFound`, `InterruptNotFound`, `WrongGraph`.
        """
        run = await self._mine(run_id)
        asked, expired = await expiring.asked(self.database, run_id)
        if not answers:
            return await self._go_on(run, asked, expired, by=by, on_event=on_event, on_begun=on_begun)
        named = [one for one in asked if one.id in answers]
        checks = {}
        for of_run in {one.run_id: one.path for one in named}.items():
            checks[of_run[0]] = await self._checks(run, *of_run, asked)
        for one in named:
            await check_persons(self.database, [one], by, self.family.at(run, one.path)._may_answer)

        def begin(connection: Connection) -> Begun:
            told = accept.accept(
                connection, run_id, answers, by=by, checks=checks, owner=self.owner, lease_s=self.lease_s
            )
            return Begun(journal.read_run(connection, run_id), [*expired, *told])

        return await self._own(begin, on_event, on_begun)

    async def _checks(self, run: RunRow, of: str, path: str, asked: Iterable[Interrupt]) -> accept.Checks:
        """What answers to the questions of a run of this family are checked with."""
        runner = self.family.at(run, path)
        row = run if of == run.id else await self.database.aread(lambda c: journal.read_run(c, of))
        real = await runner._real_arguments(row)
        runner._check_keys(of, real, [one for one in asked if one.run_id == of])
        return accept.Checks(runner.tools, runner.masker, real, runner.keyring)

    @property
    def keyring(self) -> Keyring:
        """What seals secrets, and keys digests. The key file is made with the first run."""
        if self._keyring is None:
            self._keyring = keyring_of(self.database, self._key, self._secret)
        return self._keyring

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

    async def _go_on(
        self,
        run: RunRow,
        asked: Iterable[Interrupt],
        told: Sequence[Event],
        *,
        by: str | None,
        on_event: Listener | None,
        on_begun: OnBegun | None,
    ) -> Run:
        """Drive on without an answer: a run that failed, or one that waits although no question is open."""
        ids = ", ".join(one.id for one in asked if one.state == InterruptState.OPEN)
        if run.status == RunStatus.INTERRUPTED and ids:
            raise UsageError(f"run {run.id} waits for answers; give one for each of {ids}")
        self._check_keys(run.id, await self._real_arguments(run), asked)
        event = RunEvent.GO_ON if run.status == RunStatus.INTERRUPTED else RunEvent.RETRY
        return await self._take(run.id, event, by, on_event, on_begun, told=told)

    async def recover(
        self,
        run_id: str,
        *,
        by: str | None = None,
        on_event: Listener | None = None,
        on_begun: OnBegun | None = None,
    ) -> Run:
        """Take over a run whose owner died, after its lease, and go on from what is stored (C-91); or one whose
        questions have all expired.

        Raises `RunBusy` while the lease holds, `NotResumable` for a run that does not run.
        """
        run = await self._mine(run_id)
        if run.status == RunStatus.INTERRUPTED:
            asked, expired = await expiring.asked(self.database, run_id)
            if InterruptState.OPEN not in [one.state for one in asked]:
                return await self._go_on(run, asked, expired, by=by, on_event=on_event, on_begun=on_begun)
        if self._secret:
            rows = await self.database.aread(lambda connection: journal.read_interrupts(connection, run_id))
            self._check_keys(run_id, await self._real_arguments(run), rows)
        return await self._take(run_id, RunEvent.RECOVER, by, on_event, on_begun)

    async def expire(self) -> Sequence[str]:
        """Close every question of the store whose time has passed. A look: it drives nothing.

        Gives this graph's runs that wait although no question of theirs is open: `recover` lets each go on. Safe
        to call from several processes at once, and twice.
        """
        await expiring.asweep(self.database, limit=None)
        return await self.database.aread(lambda connection: settling.settled_runs(connection, self.name))

    async def _take(
        self,
        run_id: str,
        event: RunEvent,
        by: str | None,
        on_event: Listener | None,
        on_begun: OnBegun | None = None,
        *,
        told: Sequence[Event] = (),
    ) -> Run:
        def begin(connection: Connection) -> Begun:
            leases.claim(connection, run_id, event, owner=self.owner, lease_s=self.lease_s)
            if event is RunEvent.GO_ON and family.read_interrupts(
                connection, run_id, state=InterruptState.OPEN
            ):
                raise RunBusy(run_id)  # somebody let it go on before, and it asks the next question
            journal.write_audit(connection, run_id, _TAKEN[event], by=by)
            return Begun(journal.read_run(connection, run_id), told)

        return await self._own(begin, on_event, on_begun, here=event is RunEvent.RECOVER)

    async def cancel(self, run_id: str, *, by: str | None = None) -> Run:
        """Stop a run, whoever drives it (C-59). Twice is once.

        Returns when the run has written its end. One that another process drives is asked to stop; when its
        owner is dead, the run is taken over after its lease and ended here. What waits or has failed is
        closed at once, what has ended is left as it is.
        """
        while (await self._mine(run_id)).status in _OPEN:
            driving = self._driving.get(run_id)
            if driving is not None:
                driving.loop.call_soon_threadsafe(driving.cancel.set)
                await self.database.awrite(lambda c: journal.write_audit(c, run_id, "cancel_requested", by=by))
                await asyncio.shield(asyncio.wrap_future(driving.ended))
            elif await self.database.awrite(
                lambda connection: journal.request_cancel(connection, run_id, by=by)
            ):
                await self._take_over_or_wait(run_id)
            # it may have come to wait, or to fail, while it was asked to stop
            await self.database.awrite(
                lambda connection: close_waiting(
                    connection, run_id, RunEvent.CANCEL, by=by, masker=self.masker
                )
            )
        return await self.get(run_id)

    async def _take_over_or_wait(self, run_id: str) -> None:
        """The run has an owner elsewhere: it ends the run itself; if it is dead, we do so after its lease."""
        try:
            await self._take(run_id, RunEvent.RECOVER, None, None)
        except (RunBusy, NotResumable):  # it is alive, or the run has just ended
            await asyncio.sleep(POLL_S / 2)

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

    # -- look

    async def get(self, run_id: str) -> Run:
        """The run as it stands, with its steps, calls and questions; what is overdue is closed. Raises `RunNotFound`."""
        return replace(await expiring.aread_current(self.database, run_id), runner=self)

    async def list(
        self,
        *,
        statuses: Iterable[RunStatus | str] = (),
        thread_id: str | None = None,
        limit: int | None = 20,
    ) -> Sequence[RunRow]:
        """This graph's runs, newest first; `statuses` empty: all; `limit` None: no limit."""
        words = [RunStatus(one) for one in statuses]
        await expiring.asweep(self.database)
        return await self.database.aread(
            lambda connection: journal.list_runs(
                connection, statuses=words, thread_id=thread_id, graph=self.name, limit=limit
            )
        )

    async def events(self, run_id: str, *, after: int = 0) -> Sequence[Event]:
        """The stored events of a run with a number above `after`, in order."""
        return await self.database.aread(
            lambda connection: journal.read_events(connection, run_id, after=after)
        )

    # -- stream

    def stream(
        self, message: str, *, thread_id: str | None = None, by: str | None = None, run_id: str | None = None
    ) -> AsyncGenerator[Event]:
        """`start`, and each event when it happens. Who leaves the loop early does not stop the run."""
        return self._streamed(
            lambda listener: self.start(message, thread_id=thread_id, by=by, run_id=run_id, on_event=listener)
        )

    def stream_resume(
        self, run_id: str, answers: Mapping[str, Any] | None = None, *, by: str | None = None
    ) -> AsyncGenerator[Event]:
        """`resume`, and each event when it happens; only new ones."""
        return self._streamed(lambda listener: self.resume(run_id, answers, by=by, on_event=listener))

    def follow(self, run_id: str, *, after: int = 0) -> AsyncGenerator[Event]:
        """The events of a run with a number above `after`, stored and live as one sequence, whoever drives it.

        Each comes once and in order, when it happens where this runner drives the run, else within half a second.
        Ends when the run waits for people, has ended or has failed; called again with the last number, it misses
        nothing. `text_delta`, which is not stored, comes only from a run that this runner drives; a listener that
        joins in the middle gets the text so far as one delta, a slow one misses some. Raises `RunNotFound`.
        """
        return follow_live(self.database, run_id, self._broadcast, after=after)

    async def _streamed(self, drive: Callable[[Listener], Coroutine[Any, Any, Run]]) -> AsyncGenerator[Event]:
        box = Mailbox()
        gone = False

        def hear(event: Event) -> None:
            if not gone:
                box.put(event)

        task: asyncio.Task[Run] = asyncio.create_task(drive(hear))
        task.add_done_callback(lambda _: box.close())
        try:
            async for event in read_out(self.database, box):
                yield event
            task.result()
        except asyncio.CancelledError:  # Ctrl-C, or a task that was stopped: the run ends first
            task.cancel()
            await asyncio.wait({task})
            raise
        finally:
            gone = True
            self.left.add(task)
            task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Task[Run]") -> None:
        self.left.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.info("a run whose listener had left ended with %r", task.exception())

    # -- twins for callers without an event loop, and for those inside one that they cannot await (notebooks)

    def start_sync(self, message: str, **settings: Any) -> Run:
        """`start`, for a script or a notebook cell. Ctrl-C cancels the run and is raised again."""
        return self._sync(self.start(message, **settings))

    def resume_sync(self, run_id: str, answers: Mapping[str, Any] | None = None, **settings: Any) -> Run:
        """`resume`, for a script or a notebook cell."""
        return self._sync(self.resume(run_id, answers, **settings))

    def recover_sync(self, run_id: str, **settings: Any) -> Run:
        """`recover`, for a script or a notebook cell."""
        return self._sync(self.recover(run_id, **settings))

    def cancel_sync(self, run_id: str, *, by: str | None = None) -> Run:
        """`cancel`, for a script or a notebook cell."""
        return self._sync(self.cancel(run_id, by=by))

    def get_sync(self, run_id: str) -> Run:
        """`get`, for a script or a notebook cell."""
        return replace(expiring.read_current(self.database, run_id), runner=self)

    def expire_sync(self) -> Sequence[str]:
        """`expire`, for a script or a notebook cell."""
        return self._sync(self.expire())

    def may_answer_sync(self, question: Interrupt, person: str | None) -> bool:
        """`may_answer`, for a script or a notebook cell."""
        return self._sync(self.may_answer(question, person))

    def list_sync(self, **settings: Any) -> Sequence[RunRow]:
        """`list`, for a script or a notebook cell."""
        return self._sync(self.list(**settings))

    def events_sync(self, run_id: str, *, after: int = 0) -> Sequence[Event]:
        """`events`, for a script or a notebook cell."""
        return self.database.read(lambda connection: journal.read_events(connection, run_id, after=after))

    def _sync(self, work: Coroutine[Any, Any, T]) -> T:
        return self._background.run(work)

    def close(self) -> None:
        """Wait for what runs in the background, and close the database if it was opened here. Twice is once."""
        self._background.close()
        self.family.close()
        if self._owns_database:
            self.database.close()

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- driving

    async def _mine(self, run_id: str) -> RunRow:
        run = await self.database.aread(lambda connection: journal.read_run(connection, run_id))
        if run.graph != self.name:
            raise WrongGraph(run_id, run.graph, self.name)
        return run

    def like(self, graph: Graph) -> "Runner":
        """A runner of a specialist's graph over the same store, with the same settings."""
        rule = may_answer_of(graph) or self._may_answer
        return Runner(graph, self.database, lease_s=self.lease_s, may_answer=rule, key=self._key)

    async def work_below(
        self, begin: Callable[[Connection], Begun], on_event: Listener, gate: Gate
    ) -> Run:
        """Drive a run that works inside a call of another one; `gate` is that of their family."""
        return await self._own(begin, on_event, gate=gate)

    async def _own(
        self,
        begin: Callable[[Connection], Begun],
        on_event: Listener | None,
        on_begun: OnBegun | None = None,
        *,
        gate: Gate | None = None,
        here: bool = False,
    ) -> Run:
        """Begin a run in one transaction and drive it, all behind a shield; a detached runner leaves it to others,
        unless it is to be driven `here`.

        A cancel from outside sets the run's own signal, waits until the run has written its end, and then
        goes on (C-62): from the claim on there is no moment in which a run could be left without its owner.
        """
        if self.detached and not here:
            return await self._leave(begin, _harmless(on_event), on_begun)
        cancel = Cancel()
        driving = asyncio.create_task(self._drive(begin, cancel, _harmless(on_event), on_begun, gate))
        try:
            return await asyncio.shield(driving)
        except asyncio.CancelledError:
            if not self._draining:  # a process that is going leaves its runs to another one
                cancel.set()
            await asyncio.wait({driving})
            if not driving.cancelled():
                driving.exception()  # told to nobody: the caller is being cancelled
            raise

    async def _leave(
        self, begin: Callable[[Connection], Begun], heard: Listener, on_begun: OnBegun | None
    ) -> Run:
        """Begin a run and give it back, in one transaction: it is accepted, and nobody drives it yet."""

        def work(connection: Connection) -> Begun:
            begun = signed(connection, begin(connection), self.signature)
            if begun.run.status == RunStatus.RUNNING:
                leases.release(connection, begun.run.id, begun.run.fence, active_ms=begun.run.active_ms)
            return begun

        begun = await self.database.awrite(work)
        if on_begun is not None:
            on_begun(begun.run)
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
        gate: Gate | None,
    ) -> Run:
        listener = self._to_all(heard)
        begun = await self.database.awrite(lambda one: signed(one, begin(one), self.signature))
        run = begun.run
        if on_begun is not None:
            on_begun(run)
        for event in begun.told:
            listener(event)
        if run.cancel_requested_at is not None:
            cancel.set()
        if run.status == RunStatus.RUNNING:
            control, working = RunControl(), None
            mine = self._driving[run.id] = _Driving(cancel, control, asyncio.get_running_loop(), Future())
            self._broadcast.begin(run.id, run.last_event)
            if self._draining:
                control.request_drain()
            try:
                if self.family.specialists is not None:
                    gate = gate or Gate()
                    working = Working(self.family, run, heard, gate)
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
                        working=working,
                        gate=gate,
                    ).to_its_end()
            finally:
                mine.ended.set_result(None)
                if self._driving.get(run.id) is mine:  # another owner may have come after a lost lease
                    del self._driving[run.id]
                    self._broadcast.end(run.id)
        return await self.get(run.id)


_TAKEN = {RunEvent.RECOVER: "recovered", RunEvent.RETRY: "retried", RunEvent.GO_ON: "resumed"}  # in the audit


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


__all__ = ["Runner"]

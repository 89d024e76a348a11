"""`Runner`: start, resume, recover, cancel, look at runs, each from any process that reaches the database.

What it promises stands here. How runs are owned and driven is in `owning.py`, what becomes of those that stand in
`answering.py` and `stopping.py`, how the past is gone on from in `travel.py`: functions that a runner hands its `Owner`.
"""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar

from sqlalchemy import Connection

from adjourn.checkpoints import event_rows, journal, leases
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import RunBusy, StoredDataError, UsageError
from adjourn.checkpoints.events import Event
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.checkpoints.records import Interrupt, RunRow
from adjourn.graph import answering, expiring, starts, stopping, travel
from adjourn.graph.background import Background
from adjourn.graph.behalf import Behalf, OnBegun
from adjourn.graph.bound_graph import BoundGraph, this_process
from adjourn.graph.children import Family
from adjourn.graph.graph_parts import Graph
from adjourn.graph.histories import Given
from adjourn.graph.line import WAIT_S, Busy, Lines, as_busy
from adjourn.graph.may_answer import MayAnswer
from adjourn.graph.owning import Owner
from adjourn.graph.past import RunCheckpoint
from adjourn.graph.run import Run
from adjourn.graph.run_log import Listener
from adjourn.graph.said import Said, read_said
from adjourn.graph.starts import Begun
from adjourn.graph.stream import Driving, follow_live, while_driven
from adjourn.graph.waking import Ear
from adjourn.nodes.sealing import Keyring

T = TypeVar("T")
log = logging.getLogger("adjourn.run")
Admit = Callable[[Connection, RunRow], None]
LEAST_LEASE_S = 0.05  # below, its renewals would be all that a process does


class Runner:
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
    or use it as a context manager, by `with` or by `async with`.
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
        self.lease_s = _checked_lease(lease_s)
        self._owns_database = not isinstance(store, Database)
        self.database = store if isinstance(store, Database) else Database(store)
        bound = BoundGraph(graph, self.database, lease_s=lease_s, may_answer=may_answer, key=key)
        self.graph, self.name, self.signature = bound.graph, bound.name, bound.signature
        self._owner = Owner(bound, detached=detached)
        self._ear = Ear(self.database, self._owner.broadcast.nudge)
        self._lines = Lines(self.database)
        self.left: set[asyncio.Task[Run]] = set()  # runs whose listener left before their end
        self._background = Background()

    @property
    def owner(self) -> str:
        """What leases call this process; one that is forked later has a name of its own."""
        return this_process()

    @property
    def keyring(self) -> Keyring:
        """What seals secrets, and keys digests. The key file is made with the first run."""
        return self._owner.bound.keyring

    @property
    def family(self) -> Family:
        """The specialists of its graph."""
        return self._owner.family

    def tell_elsewhere(self, told: Callable[[str], object]) -> None:
        """Call `told` with the run of each event that is stored here, on the event loop that drives it."""
        self._owner.broadcast.elsewhere = told

    async def _shown(self, driving: Awaitable[Run]) -> Run:
        """The run that is driven, as this runner gives it: a form in a notebook answers through it."""
        return replace(await driving, runner=self)

    # -- begin, go on, end

    async def start(
        self,
        message: Said,
        *,
        thread_id: str | None = None,
        by: str | None = None,
        run_id: str | None = None,
        priority: int = 0,
        context: Mapping[str, Any] | None = None,
        busy: Busy | str | None = None,
        on_event: Listener | None = None,
        on_begun: OnBegun | None = None,
        admit: Admit | None = None,
    ) -> Run:
        """Start a run with the user's message and drive it until it ends, waits for a person, or fails.

        - `message`: a text; or a list of texts and content blocks such as `{"type": "image", "url": ...}`, as LangChain and
          OpenAI write them, or a `HumanMessage` with either. People are shown the text, and that there is an image.
        - `thread_id`: None: a new conversation. On a thread that waits, the open questions are closed as dismissed and
          the message starts a new run (C-50).
        - `run_id`: an id of the caller's own, by which the run starts once: the same start again (message, person, and thread
          where one is named) gives that run as it stands, and drives nothing. `recover` goes on with one whose process died.
        - `priority`: from -1000 to 1000; of the runs that wait for a worker, the highest is taken first.
        - `context`: what this run's tools, prompt and rules need to know of it beside the message, as a tenant or a locale: a
          mapping of JSON data, stored as it is with the run, so that every process that goes on with it has it. The model is
          not told. Secrets do not belong in it, nor what cannot be stored: a connection belongs to the tools' module.
        - `busy`: what becomes of the message when the thread's run works (C-86); None: as the runner was told. One that
          waits in line finds the thread as the run before it leaves it.
        - `admit`: called in the transaction that stores the run, before it is stored; what it raises refuses the run.
        - `on_begun`: called once with the run's row, when it is stored.

        Raises `RunBusy` when the thread has a run that works, and `UsageError` for a message, a priority or a context that is
        none, and for a `run_id` by which something else was started.
        """
        waits = self.busy if busy is None else as_busy(busy)
        bound, said = self._owner.bound, read_said(message)
        run = bound.new_row(
            said, thread_id=thread_id, by=by, run_id=run_id, priority=priority, context=context
        )

        def begin(connection: Connection) -> Begun:
            if run_id is not None:
                starts.check_new(connection, run, said, thread_id)
            if admit is not None:
                admit(connection, run)
            try:
                told = starts.store(
                    connection, starts.dated(run, bound.lease_s), bound.masker, blocks=said.blocks
                )
            except (RunBusy, UsageError):
                if run_id is not None:  # the same start at the same moment was first
                    starts.check_new(connection, run, said, thread_id, anew=True)
                raise
            return Begun(journal.read_run(connection, run.id), told)

        def attempt(leave: Callable[[], None]) -> Coroutine[Any, Any, Run]:
            def begun(row: RunRow) -> None:
                leave()
                if on_begun is not None:
                    on_begun(row)

            return self._owner.own(begin, Behalf(by, on_event, begun))

        try:
            if waits is Busy.REFUSE:
                return await self._shown(self._owner.own(begin, Behalf(by, on_event, on_begun)))
            if run_id is not None:  # before it stands in a line behind itself
                await self.database.aread(
                    lambda connection: starts.check_new(connection, run, said, thread_id)
                )
            end_of = self._owner.end_of
            return await self._shown(self._lines.in_turn(run.thread_id, self.busy_wait_s, end_of, attempt))
        except starts.StartedBefore as before:
            return await self.get(before.run.id)

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
        `NotResumable` for a run that has ended, `UsageError` for answers that are no mapping and a `by` that is no
        name, `RunNotFound`, `InterruptNotFound`, `WrongGraph`, also where a run below it has a graph that this app
        has not, and `KeyLost` for it and for those below.
        """
        behalf = Behalf(by, on_event, on_begun)
        return await self._shown(answering.resume(self._owner, run_id, answers, behalf))

    async def recover(
        self,
        run_id: str,
        *,
        by: str | None = None,
        on_event: Listener | None = None,
        on_begun: OnBegun | None = None,
        here: bool | None = None,
    ) -> Run:
        """Take over a run whose owner died, after its lease, and go on from what is stored (C-91); or let a run go on
        whose questions have all expired.

        `here` False: leave it to workers; None: only a run with expired questions is left to them, and only by a detached
        runner. Raises `RunBusy` while the lease holds, `NotResumable` for a run that does not run, `WrongGraph` and
        `KeyLost` as `resume` does, and `UsageError` for a `by` that is no name.
        """
        behalf = Behalf(by, on_event, on_begun)
        return await self._shown(answering.recover(self._owner, run_id, behalf, here=here))

    async def cancel(self, run_id: str, *, by: str | None = None) -> Run:
        """Stop a run, whoever drives it (C-59). Twice is once.

        Returns when the run has written its end. One that another process drives is asked to stop; when its
        owner is dead, the run is taken over after its lease and ended here. What waits or has failed is
        closed at once, what has ended is left as it is. Raises `UsageError` for a `by` that is no name.
        """
        await stopping.cancel(self._owner, run_id, by=by)
        return await self.get(run_id)

    async def expire(self) -> Sequence[str]:
        """Close every question of the store whose time has passed. A look: it drives nothing.

        Gives this graph's runs that wait although no question of theirs is open: `recover` lets each go on. Safe
        to call from several processes at once, and twice.
        """
        return await answering.expire(self._owner)

    # -- the past

    async def history(
        self, run_id: str, *, limit: int | None = 20, before: str | None = None
    ) -> Sequence[RunCheckpoint]:
        """The checkpoints of a run, newest first: where it stood after each superstep.

        `limit` None: all. `before`: only those older than this checkpoint, for the next page. Raises `RunNotFound`,
        `WrongGraph`.
        """
        bound = self._owner.bound
        run = await bound.row(run_id)
        return await travel.past_of(bound).of(run, limit=limit, before=before)

    async def fork(
        self,
        run_id: str,
        checkpoint: str | int | None = None,
        *,
        message: str | None = None,
        thread_id: str | None = None,
        by: str | None = None,
        repeat_writes: bool = False,
        on_event: Listener | None = None,
    ) -> Run:
        """Begin a new run where another one stood at a checkpoint, and drive it (C-92).

        It has a thread of its own, copied up to there, and a ledger of its own; the other run is left as it is. What
        people answered before stands, except agreements: those were given to the other run, and are asked for again.
        Its context is that of the other one. The runs of specialists are not forked: one that had not brought its answer
        begins anew, as a run of the fork.

        - `checkpoint`: its id, or its number in the history; None: the newest.
        - `message`: starts the new run, and what was open at the checkpoint is closed; None: the run goes on as the
          other one could have.
        - `by`: who forks, and so who started the new run.

        A fork that would make a write again that the run has made since raises `WouldRepeat`, which names them,
        unless `repeat_writes`. Raises `RunNotFound`, `WrongGraph`, `CheckpointNotFound`, and `UsageError` for a thread
        that exists and for a checkpoint that nothing comes after. What raises has changed nothing.
        """
        forking = travel.fork(
            self._owner,
            run_id,
            checkpoint,
            Behalf(by, on_event),
            message=message,
            thread_id=thread_id,
            repeat_writes=repeat_writes,
        )
        return await self._shown(forking)

    async def run_from_history(
        self,
        messages: Sequence[Given],
        values: Mapping[str, Any] | str | None = None,
        *,
        thread_id: str | None = None,
        by: str | None = None,
        priority: int = 0,
        context: Mapping[str, Any] | None = None,
        on_event: Listener | None = None,
    ) -> Run:
        """Go on without a stored run: from a history, and what a person submitted, alone (C-87).

        `messages`: LangChain's, or dicts in OpenAI's shape. `values`: field by field, or a text; None: the history ends
        with the user's message. A call that waited keeps its provisional observation, the values come as the user's
        words, and the model calls again under a new id, on a new thread with a new ledger. Nothing that the history
        tells is run again, and nothing of it is checked against a store: where the run is stored, `resume` it.

        A history with calls that lack their answer is mended (C-15). Raises `UsageError` for what is no history, and
        for a thread that exists.
        """
        behalf = Behalf(by, on_event)
        going_on = travel.run_from_history(
            self._owner, messages, values, behalf, thread_id=thread_id, priority=priority, context=context
        )
        return await self._shown(going_on)

    # -- look

    async def get(self, run_id: str) -> Run:
        """The run as it stands, with its steps, calls and questions; what is overdue is closed. Raises `RunNotFound`."""
        return replace(await expiring.aread_current(self.database, run_id), runner=self)

    async def list(
        self,
        *,
        statuses: Iterable[RunStatus | str] = (),
        thread_id: str | None = None,
        children: bool = False,
        limit: int | None = 20,
    ) -> Sequence[RunRow]:
        """This graph's runs, newest first; `statuses` empty: all; `limit` None: no limit.

        `children`: also those that work for other runs, where they are of a graph of this name. A damaged row is left out,
        and the log names it.
        """
        words = [RunStatus(one) for one in statuses]
        damaged: list[StoredDataError] = []
        await expiring.asweep(self.database)
        found = await self.database.aread(
            lambda connection: journal.list_runs(
                connection,
                statuses=words,
                thread_id=thread_id,
                graph=self.name,
                roots=not children,
                limit=limit,
                damaged=damaged,
            )
        )
        for error in damaged:
            log.error("%s", error)
        return found

    async def events(self, run_id: str, *, after: int = 0) -> Sequence[Event]:
        """The stored events of a run with a number above `after`, in order. Raises `RunNotFound`."""
        return await self.database.aread(partial(_events, run_id=run_id, after=after))

    async def may_answer(self, question: Interrupt, person: str | None) -> bool:
        """Whether this person may answer this question (C-51)."""
        return await self._owner.bound.may_answer(question, person)

    # -- stream

    def stream(
        self,
        message: Said,
        *,
        thread_id: str | None = None,
        by: str | None = None,
        run_id: str | None = None,
        priority: int = 0,
        context: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[Event]:
        """`start`, and each event when it happens; a detached runner follows the run, and so does one that finds it started
        before, from its first event on. Who leaves the loop early does not stop the run."""

        def drive(listener: Listener, begun: OnBegun) -> Coroutine[Any, Any, Run]:
            return self.start(
                message,
                thread_id=thread_id,
                by=by,
                run_id=run_id,
                priority=priority,
                context=context,
                on_event=listener,
                on_begun=begun,
            )

        return self._streamed(drive)

    def stream_resume(
        self, run_id: str, answers: Mapping[str, Any] | None = None, *, by: str | None = None
    ) -> AsyncGenerator[Event]:
        """`resume`, and each event when it happens; only new ones."""

        def drive(listener: Listener, begun: OnBegun) -> Coroutine[Any, Any, Run]:
            return self.resume(run_id, answers, by=by, on_event=listener, on_begun=begun)

        return self._streamed(drive)

    def follow(self, run_id: str, *, after: int = 0) -> AsyncGenerator[Event]:
        """The events of a run with a number above `after`, stored and live as one sequence, whoever drives it.

        Each comes once and in order, when it happens where this runner drives the run, else within half a second; on
        PostgreSQL from a worker within some tens of milliseconds.
        Ends when the run waits for people, has ended or has failed; called again with the last number, it misses
        nothing. `text_delta`, which is not stored, comes only from a run that this runner drives; a listener that
        joins in the middle gets the text so far as one delta, a slow one misses some. Raises `RunNotFound`.
        """
        return follow_live(self.database, run_id, self._owner.broadcast, self._ear, after=after)

    def _streamed(self, drive: Driving) -> AsyncGenerator[Event]:
        if self.detached:
            return self._left_and_followed(drive)
        return while_driven(self.database, drive, self.left, self.follow)

    async def _left_and_followed(self, drive: Driving) -> AsyncGenerator[Event]:
        told: list[Event] = []
        begun: list[RunRow] = []
        run = await drive(told.append, begun.append)
        for event in told:
            yield event
        async for event in self.follow(run.id, after=begun[0].last_event if begun else 0):
            yield event

    # -- the process

    async def drain(self, limit_s: float = 30.0) -> Sequence[str]:
        """Let this process go: each run that it drives ends the step in hand and is handed back, for another
        process to take over at once (`recover`). What starts from now on is stored and handed back too.

        Waits at most `limit_s` seconds and gives the ids of the runs that still worked then. These are left as a
        killed process leaves them: somebody takes them over after their lease.
        """
        return await self._owner.drain(limit_s)

    def close(self) -> None:
        """Wait for what runs in the background, and close the database if it was opened here. Twice is once."""
        self._background.close()
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

    # -- twins for callers without an event loop, and for those inside one that they cannot await (notebooks)

    def start_sync(self, message: Said, **settings: Any) -> Run:
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
        return self.database.read(partial(_events, run_id=run_id, after=after))

    def history_sync(self, run_id: str, **settings: Any) -> Sequence[RunCheckpoint]:
        """`history`, for a script or a notebook cell."""
        return self._sync(self.history(run_id, **settings))

    def fork_sync(self, run_id: str, checkpoint: str | int | None = None, **settings: Any) -> Run:
        """`fork`, for a script or a notebook cell."""
        return self._sync(self.fork(run_id, checkpoint, **settings))

    def run_from_history_sync(
        self, messages: Sequence[Given], values: Mapping[str, Any] | str | None = None, **settings: Any
    ) -> Run:
        """`run_from_history`, for a script or a notebook cell."""
        return self._sync(self.run_from_history(messages, values, **settings))

    def _sync(self, work: Coroutine[Any, Any, T]) -> T:
        return self._background.run(work)


def _events(connection: Connection, run_id: str, after: int) -> Sequence[Event]:
    event_rows.read_progress(connection, run_id)  # one without events is told from one that is not there
    return event_rows.read(connection, run_id, after=after)


def _checked_lease(lease_s: float) -> float:
    """Raises `UsageError` for a lease that would be renewed without a pause, or never end."""
    is_number = isinstance(lease_s, int | float) and math.isfinite(lease_s)
    if not is_number or lease_s < LEAST_LEASE_S:
        raise UsageError(f"lease_s is a number of seconds from {LEAST_LEASE_S:g}, not {lease_s!r}")
    return lease_s


__all__ = ["Runner"]

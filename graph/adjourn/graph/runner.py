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
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection

from adjourn.checkpoints import journal, leases
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import (
    NotResumable,
    RunBusy,
    UsageError,
    WrongGraph,
)
from adjourn.checkpoints.events import Event
from adjourn.checkpoints.lifecycle import InterruptState, RunEvent, RunStatus
from adjourn.checkpoints.records import RunRow
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.graph import answers as accept
from adjourn.graph import starts
from adjourn.graph.background import Background
from adjourn.graph.cancelling import POLL_S, CancelWatch
from adjourn.graph.drive import Drive
from adjourn.graph.react import Graph, masker_of, signature_of, tools_of
from adjourn.graph.reading import read_run
from adjourn.graph.run import Run
from adjourn.graph.run_log import Listener, row_id
from adjourn.nodes.run_context import Cancel

T = TypeVar("T")
_OPEN = (RunStatus.RUNNING, RunStatus.INTERRUPTED, RunStatus.FAILED)
log = logging.getLogger("adjourn.run")


@dataclass(frozen=True, slots=True)
class Begun:
    """A run whose beginning is stored, with the events of that. It is ours to drive if it is `running`."""

    run: RunRow
    told: Sequence[Event]


@dataclass(frozen=True, slots=True)
class _Driving:
    """A run that this process drives: how to stop it, on which loop, and how to learn of its end."""

    cancel: Cancel
    loop: asyncio.AbstractEventLoop
    ended: Future[None]


class Runner:
    """Drives one graph over one store.

    - `graph`: what `build_react` gave, or a compiled graph of one's own with Adjourn's nodes in it.
    - `store`: a SQLAlchemy URL such as `sqlite:///adjourn.db`, or a `Database` that is shared.
    - `lease_s`: seconds after which another process may take over a run whose owner fell silent.

    Use one runner per process and store; it may drive any number of runs at once. `close()` it at the end,
    or use it as a context manager.
    """

    def __init__(
        self, graph: Graph, store: str | Database = "sqlite:///adjourn.db", *, lease_s: float = leases.LEASE_S
    ) -> None:
        self._owns_database = not isinstance(store, Database)
        self.database = store if isinstance(store, Database) else Database(store)
        self.graph: Graph = graph.copy({"checkpointer": SQLAlchemySaver(self.database)})
        self.name = graph.get_name()
        self.tools = tools_of(graph)
        self.masker = masker_of(graph)
        self.lease_s = lease_s
        self.owner = f"{socket.gethostname()}:{os.getpid()}"
        self._signature = signature_of(graph)
        self._driving: dict[str, _Driving] = {}
        self._watch = CancelWatch(self.database)
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
        on_event: Listener | None = None,
    ) -> Run:
        """Start a run with the user's message and drive it until it ends, waits for a person, or fails.

        `thread_id` None: a new conversation. On a thread that waits, the open questions are closed as
        dismissed and the message starts a new run (C-50). Raises `RunBusy` when the thread has a run that
        works (C-86), `UsageError` for an empty message.
        """
        run = starts.new_run(
            message,
            thread_id=thread_id,
            by=by,
            run_id=run_id,
            graph=self.name,
            signature=self._signature,
            owner=self.owner,
            lease_s=self.lease_s,
        )

        def begin(connection: Connection) -> Begun:
            told = starts.store(connection, run)
            return Begun(journal.read_run(connection, run.id), told)

        return await self._own(begin, on_event)

    async def resume(
        self,
        run_id: str,
        answers: Mapping[str, Any] | None = None,
        *,
        by: str | None = None,
        on_event: Listener | None = None,
    ) -> Run:
        """Answer open questions; when none is left, drive the run on. Without answers: retry a failed run.

        `answers` maps question ids to answers: values for `params_required`, `approve()`, `edit(...)` or
        `reject(...)` for `confirm_risky`. All are checked before any is stored: `InvalidAnswer` names each
        wrong field and changes nothing. Raises `AlreadyAnswered` or `RunBusy` when somebody was first,
        `NotResumable` for a run that has ended, `RunNotFound`, `InterruptNotFound`, `WrongGraph`.
        """
        run = await self._mine(run_id)
        if not answers:
            return await self._retry(run, by, on_event)
        checks = accept.Checks(self.tools, self.masker, await self._real_arguments(run))

        def begin(connection: Connection) -> Begun:
            told = accept.accept(
                connection, run_id, answers, by=by, checks=checks, owner=self.owner, lease_s=self.lease_s
            )
            return Begun(journal.read_run(connection, run_id), told)

        return await self._own(begin, on_event)

    async def _real_arguments(self, run: RunRow) -> dict[str, dict[str, Any]]:
        """The arguments of the calls that wait, by call id; tables hold them masked."""
        snapshot = await self.graph.aget_state({"configurable": {"thread_id": run.thread_id}})
        mine = snapshot.values.get("calls", ()) if snapshot.values.get("run_id") == run.id else ()
        return {row_id(call): call["arguments"] or {} for call in mine}

    async def _retry(self, run: RunRow, by: str | None, on_event: Listener | None) -> Run:
        if run.status == RunStatus.INTERRUPTED:
            waiting = await self.database.aread(
                lambda c: journal.read_interrupts(c, run.id, state=InterruptState.OPEN)
            )
            ids = ", ".join(one.id for one in waiting)
            raise UsageError(f"run {run.id} waits for answers; give one for each of {ids}")
        return await self._take(run.id, RunEvent.RETRY, by, on_event)

    async def recover(self, run_id: str, *, by: str | None = None, on_event: Listener | None = None) -> Run:
        """Take over a run whose owner died, after its lease, and go on from what is stored (C-91).

        Raises `RunBusy` while the lease holds, `NotResumable` for a run that does not run.
        """
        await self._mine(run_id)
        return await self._take(run_id, RunEvent.RECOVER, by, on_event)

    async def _take(self, run_id: str, event: RunEvent, by: str | None, on_event: Listener | None) -> Run:
        def begin(connection: Connection) -> Begun:
            leases.claim(connection, run_id, event, owner=self.owner, lease_s=self.lease_s)
            word = "recovered" if event is RunEvent.RECOVER else "retried"
            journal.write_audit(connection, run_id, word, by=by)
            return Begun(journal.read_run(connection, run_id), [])

        return await self._own(begin, on_event)

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
                await asyncio.shield(asyncio.wrap_future(driving.ended))
            elif await self.database.awrite(
                lambda connection: journal.request_cancel(connection, run_id, by=by)
            ):
                await self._take_over_or_wait(run_id)
            # it may have come to wait, or to fail, while it was asked to stop
            await self.database.awrite(
                lambda connection: starts.close_waiting(connection, run_id, RunEvent.CANCEL, by=by)
            )
        return await self.get(run_id)

    async def _take_over_or_wait(self, run_id: str) -> None:
        """The run has an owner elsewhere: it ends the run itself; if it is dead, we do so after its lease."""
        try:
            await self._take(run_id, RunEvent.RECOVER, None, None)
        except (RunBusy, NotResumable):  # it is alive, or the run has just ended
            await asyncio.sleep(POLL_S / 2)

    # -- look

    async def get(self, run_id: str) -> Run:
        """The run as it stands, with its steps, calls and questions. Raises `RunNotFound`."""
        return await self.database.aread(lambda connection: read_run(connection, run_id))

    async def list(
        self,
        *,
        statuses: Iterable[RunStatus | str] = (),
        thread_id: str | None = None,
        limit: int | None = 20,
    ) -> Sequence[RunRow]:
        """This graph's runs, newest first; `statuses` empty: all; `limit` None: no limit."""
        words = [RunStatus(one) for one in statuses]
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

    async def _streamed(self, drive: Callable[[Listener], Coroutine[Any, Any, Run]]) -> AsyncGenerator[Event]:
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        gone = False

        def hear(event: Event) -> None:
            if not gone:
                queue.put_nowait(event)

        task: asyncio.Task[Run] = asyncio.create_task(drive(hear))
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
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
        return self.database.read(lambda connection: read_run(connection, run_id))

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

    async def _own(self, begin: Callable[[Connection], Begun], on_event: Listener | None) -> Run:
        """Begin a run in one transaction and drive it, all behind a shield.

        A cancel from outside sets the run's own signal, waits until the run has written its end, and then
        goes on (C-62): from the claim on there is no moment in which a run could be left without its owner.
        """
        cancel = Cancel()
        listener = _harmless(on_event)
        driving = asyncio.create_task(self._drive(begin, cancel, listener))
        try:
            return await asyncio.shield(driving)
        except asyncio.CancelledError:
            cancel.set()
            await asyncio.wait({driving})
            if not driving.cancelled():
                driving.exception()  # told to nobody: the caller is being cancelled
            raise

    async def _drive(self, begin: Callable[[Connection], Begun], cancel: Cancel, listener: Listener) -> Run:
        begun = await self.database.awrite(begin)
        run = begun.run
        for event in begun.told:
            listener(event)
        if run.cancel_requested_at is not None:
            cancel.set()
        if run.status == RunStatus.RUNNING:
            mine = self._driving[run.id] = _Driving(cancel, asyncio.get_running_loop(), Future())
            try:
                with self._watch.watched(run.id, cancel):
                    await Drive(
                        self.database,
                        self.graph,
                        run,
                        cancel=cancel,
                        listener=listener,
                        lease_s=self.lease_s,
                        masker=self.masker,
                    ).to_its_end()
            finally:
                mine.ended.set_result(None)
                if self._driving.get(run.id) is mine:  # another owner may have come after a lost lease
                    del self._driving[run.id]
        return await self.get(run.id)


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

"""`Runner`: start, resume, recover, cancel, look at runs, each from any process that reaches the database.

It is made of parts, by subject: `owning.py` drives runs, `answering.py` goes on with those that stand, `travel.py` goes
back in time; what begins, ends, reads and streams them is here, with the twins for scripts.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Connection

from adjourn.checkpoints import event_rows, journal
from adjourn.checkpoints.errors import (
    NotResumable,
    RunBusy,
)
from adjourn.checkpoints.events import Event
from adjourn.checkpoints.lifecycle import RunEvent, RunStatus
from adjourn.checkpoints.records import Interrupt, RunRow
from adjourn.graph import expiring, starts
from adjourn.graph.cancelling import POLL_S
from adjourn.graph.closing import close_waiting
from adjourn.graph.line import Busy, as_busy
from adjourn.graph.names import check_name
from adjourn.graph.owning import OnBegun
from adjourn.graph.run import Run
from adjourn.graph.run_log import Listener
from adjourn.graph.starts import Begun
from adjourn.graph.stream import Mailbox, follow_live, read_out
from adjourn.graph.travel import TimeTravel

Admit = Callable[[Connection, RunRow], None]
_OPEN = (RunStatus.RUNNING, RunStatus.INTERRUPTED, RunStatus.FAILED)
log = logging.getLogger("adjourn.run")


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
    or use it as a context manager, by `with` or by `async with`.
    """

    # -- start

    async def start(
        self,
        message: str,
        *,
        thread_id: str | None = None,
        by: str | None = None,
        run_id: str | None = None,
        priority: int = 0,
        busy: Busy | str | None = None,
        on_event: Listener | None = None,
        on_begun: OnBegun | None = None,
        admit: Admit | None = None,
    ) -> Run:
        """Start a run with the user's message and drive it until it ends, waits for a person, or fails.

        - `thread_id`: None: a new conversation. On a thread that waits, the open questions are closed as dismissed and
          the message starts a new run (C-50).
        - `priority`: from -1000 to 1000; of the runs that wait for a worker, the highest is taken first.
        - `busy`: what becomes of the message when the thread's run works (C-86); None: as the runner was told. One that
          waits in line finds the thread as the run before it leaves it.
        - `admit`: called in the transaction that stores the run, before it is stored; what it raises refuses the run.
        - `on_begun`: called once with the run's row, when it is stored.

        Raises `RunBusy` when the thread has a run that works, and `UsageError` for a message or a priority that is none.
        """
        waits = self.busy if busy is None else as_busy(busy)
        run = self.new_row(message, thread_id=thread_id, by=by, run_id=run_id, priority=priority)

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

    async def cancel(self, run_id: str, *, by: str | None = None) -> Run:
        """Stop a run, whoever drives it (C-59). Twice is once.

        Returns when the run has written its end. One that another process drives is asked to stop; when its
        owner is dead, the run is taken over after its lease and ended here. What waits or has failed is
        closed at once, what has ended is left as it is. Raises `UsageError` for a `by` that is no name.
        """
        check_name("by", by)
        while (await self._mine(run_id)).status in _OPEN:
            driving = self._driving.get(run_id)
            if driving is not None:
                driving.loop.call_soon_threadsafe(driving.cancel.set)
                await self.database.awrite(
                    lambda c: journal.write_audit(c, run_id, "cancel_requested", by=by)
                )
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
            await self._take(run_id, RunEvent.RECOVER, None, None, here=True)
        except (RunBusy, NotResumable):  # it is alive, or the run has just ended
            await asyncio.sleep(POLL_S / 2)

    # -- look

    async def list(
        self,
        *,
        statuses: Iterable[RunStatus | str] = (),
        thread_id: str | None = None,
        children: bool = False,
        limit: int | None = 20,
    ) -> Sequence[RunRow]:
        """This graph's runs, newest first; `statuses` empty: all; `limit` None: no limit.

        `children`: also those that work for other runs, where they are of a graph of this name.
        """
        words = [RunStatus(one) for one in statuses]
        await expiring.asweep(self.database)
        return await self.database.aread(
            lambda connection: journal.list_runs(
                connection,
                statuses=words,
                thread_id=thread_id,
                graph=self.name,
                roots=not children,
                limit=limit,
            )
        )

    async def events(self, run_id: str, *, after: int = 0) -> Sequence[Event]:
        """The stored events of a run with a number above `after`, in order. Raises `RunNotFound`."""
        return await self.database.aread(partial(_events, run_id=run_id, after=after))

    # -- stream

    def stream(
        self,
        message: str,
        *,
        thread_id: str | None = None,
        by: str | None = None,
        run_id: str | None = None,
        priority: int = 0,
    ) -> AsyncGenerator[Event]:
        """`start`, and each event when it happens; a detached runner follows the run. Who leaves the loop early does not
        stop the run."""

        def drive(listener: Listener, begun: OnBegun) -> Coroutine[Any, Any, Run]:
            return self.start(
                message,
                thread_id=thread_id,
                by=by,
                run_id=run_id,
                priority=priority,
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
        return follow_live(self.database, run_id, self._broadcast, self._ear, after=after)

    async def _streamed(
        self, drive: Callable[[Listener, OnBegun], Coroutine[Any, Any, Run]]
    ) -> AsyncGenerator[Event]:
        if self.detached:
            told: list[Event] = []
            begun: list[RunRow] = []
            await drive(told.append, begun.append)
            for event in told:
                yield event
            async for event in self.follow(begun[0].id, after=begun[0].last_event):
                yield event
            return
        box = Mailbox()
        gone = False

        def hear(event: Event) -> None:
            if not gone:
                box.put(event)

        task: asyncio.Task[Run] = asyncio.create_task(drive(hear, lambda _: None))
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
        return self.database.read(partial(_events, run_id=run_id, after=after))


def _events(connection: Connection, run_id: str, after: int) -> Sequence[Event]:
    event_rows.read_progress(connection, run_id)  # one without events is told from one that is not there
    return event_rows.read(connection, run_id, after=after)


__all__ = ["Runner"]

"""The ledger of one run that is being driven: what rides on its checkpoints, what is stored at once, what is told when.

What belongs to a whole superstep waits here, and the saver stores it in the transaction of that superstep's checkpoint,
together with its events. What must be durable earlier has its own transaction. Both check the fence first. Events are
handed to the listener after their commit, in the order of their numbers.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from adjourn.checkpoints import doubts, event_rows, family, flow_rows, journal, leases, run_rows
from adjourn.checkpoints.compiled import Check, in_one_go
from adjourn.checkpoints.database import Database, format_time, now
from adjourn.checkpoints.events import Event, StepStarted, TextDiscarded, ToolProgress
from adjourn.checkpoints.hooks import Held
from adjourn.checkpoints.lifecycle import CallState, RunEvent, StopReason
from adjourn.checkpoints.records import KEY_LENGTH, CallRow, Interrupt, RunRow, shortened
from adjourn.checkpoints.thread_rows import StaleMemory
from adjourn.graph.ledger_rows import LedgerRows, Write, row_id
from adjourn.nodes.calls import Call, Question, is_final
from adjourn.nodes.flow_state import StepMove
from adjourn.nodes.masking import Masker
from adjourn.nodes.outcome import Outcome
from adjourn.nodes.run_context import StepFacts, StoredCall
from adjourn.nodes.sealing import Keyring
from adjourn.nodes.spending import Spent

Listener = Callable[[Event], None]
log = logging.getLogger("adjourn.call")


@dataclass(frozen=True, slots=True)
class Before:
    """What was written down when this owner took a run over: its calls, and the keys of its events.

    `doubtful` holds the digests of the writes on its thread, and of specialists, whose outcome is unknown.
    """

    calls: Mapping[tuple[int, str], CallRow] = field(default_factory=dict)
    told: Set[str] = frozenset()
    doubtful: Set[str] = frozenset()
    last_event: int = 0

    @classmethod
    def read(cls, connection: Connection, run: RunRow) -> "Before":
        """As it is stored now; only the owner of the run changes it after that."""
        # the whole family's: the next task may ask another specialist for the same write
        thread = family.top(connection, run).thread_id
        with in_one_go(connection):
            now, calls = run_rows.run(connection, run.id), run_rows.calls(connection, run.id)
            told, doubtful = run_rows.keys(connection, run.id), doubts.doubtful_digests(connection, thread)
        known = {(one.step, one.call_id): one for one in calls()}
        return cls(known, told(), doubtful(), now().last_event)


class RunLog:
    """Implements the nodes' `Ledger`, and the saver's fence and outbox, for one owner of one run."""

    def __init__(
        self,
        database: Database,
        run: RunRow,
        before: Before,
        listener: Listener,
        masker: Masker,
        *,
        keyring: Keyring | None = None,
        frozen: bool = False,
    ) -> None:
        self.run = run
        self.frozen = frozen
        self._keyring = keyring or Keyring()
        self._rows = LedgerRows(run, masker, self._keyring)
        self.fence = run.fence
        self._database = database
        self._listener = listener
        # both are added to on the event loop's thread, and cut by a put's
        self._items: list[_Item] = []  # ride on the next checkpoint
        self._held: list[Held] = []  # what tasks wrote, stored with the next checkpoint
        self._storing: set[asyncio.Future[list[Event]]] = set()  # transactions that must end, come what may
        self.step = run.steps
        self._numbering = asyncio.Lock()  # model calls of somebody's own nodes may end at once
        self._early: dict[int, Event] = {}  # committed, waiting for a lower number that is on its way
        self._entered: dict[tuple[int, str], tuple[datetime, int]] = {}  # reads: since when, which attempt
        self._next = 1
        self._knows_last = True  # no transaction of ours may have been rolled back behind `_next`
        # how many words of progress there are, by the beginning of their keys, and the last of each call on its way
        self._parts: dict[str, int] = {}
        self._reporting: dict[tuple[int, str], asyncio.Future[list[Event]]] = {}
        self._begun: set[str] = set()  # keys of `step_started`: a flow may come to one step twice
        self.learn(before)

    def learn(self, before: Before) -> None:
        """Take note of what was written down before."""
        self._before = before
        self._doubtful = set(before.doubtful)
        self._next = before.last_event + 1

    # -- the saver's fence and outbox

    def check(self, connection: Connection) -> None:
        """Refuse the write of a stale owner: raises `LeaseLost`."""
        leases.hold(connection, self.run.id, self.fence)

    def hold(self, writes: Held) -> bool:
        """Keep a task's writes for the checkpoint that follows: both are stored, or the task runs again."""
        self._held.append(writes)
        return True

    def left_over(self) -> Sequence[Held]:
        """Writes that no checkpoint came for: the caller has to store them now.

        Empty while rows still ride: the task that gave those runs again, and makes its writes again.
        """
        held, self._held = self._held, []
        return [] if self._has_rows() else held

    def open(self, connection: Connection) -> "_Ride":
        """Number what rides on the checkpoint, and see whether its owner is stale: one statement does both."""
        held = tuple(self._held)  # before the items: what a task wrote is never stored without its rows
        items = tuple(self._items)
        if not items:
            return _Ride(self, held, items, (), leases.send_hold(connection, self.run.id, self.fence))
        fresh = self._fresh(event for item in items for event in item.events)
        steps = [item.step for item in items if item.step is not None]
        knows, self._knows_last = self._knows_last and not self._early, False
        if not knows:
            told = event_rows.move_on(connection, self.run.id, fresh, fence=self.fence, steps=steps)
            return _Ride(self, held, items, told)

        def stale() -> None:
            self.check(connection)
            raise StaleMemory  # another transaction of ours was between: once more, by the number that is stored

        told, check = event_rows.move_on_from(
            connection, self.run.id, fresh, fence=self.fence, last=self._next - 1, steps=steps, or_else=stale
        )
        return _Ride(self, held, items, told, check)

    def forget(self, ride: "_Ride") -> None:
        """What rode is stored."""
        self._knows_last = True
        del self._held[: len(ride.held)]
        del self._items[: len(ride.items)]

    # -- the nodes' ledger

    def stored(self, step: int, call_id: str) -> StoredCall | None:
        row = self._before.calls.get((step, shortened(call_id, KEY_LENGTH)))
        return None if row is None else StoredCall(row.outcome, row.result, row.error_code, row.attempts)

    def is_doubtful(self, call: Call) -> bool:
        if not self._doubtful:
            return False
        if not self._doubtful.isdisjoint(self._rows.digests(call)):
            return True
        # one that was made with a key that is lost says nothing of any call: then each write is asked about
        return not all(self._keyring.knows(one) for one in self._doubtful)

    def plan_step(self, facts: StepFacts, calls: Sequence[Call], events: Sequence[Event]) -> None:
        at = now()
        self.step = facts.step
        step_row = self._rows.step(facts, len(calls))
        rows = [self._rows.call(facts.step, call, at) for call in calls]

        def write(connection: Connection) -> Sequence[Check]:
            journal.insert_step(connection, step_row)
            journal.insert_calls(connection, rows)
            return ()

        told = [*events, *(self._rows.result(facts.step, call, None) for call in calls if is_final(call))]
        self._items.append(_Item(told, write, event_rows.Counted(step_row, facts.counted)))

    async def model_called(self, facts: StepFacts) -> None:
        async with self._numbering:
            self.step += 1
            row = self._rows.step(replace(facts, step=self.step), 0)
            begun = StepStarted(run_id=self.run.id, path=self.run.path, step=self.step)

            def work(connection: Connection) -> list[Event]:
                fresh = self._fresh([begun])
                told = event_rows.move_on(
                    connection, self.run.id, fresh, fence=self.fence, steps=[event_rows.Counted(row)]
                )
                event_rows.insert(connection, self.run.id, told)
                journal.insert_step(connection, row)
                return told

            await self._store(work)

    def so_far(self) -> tuple[int, Spent]:
        run = self.run
        return run.steps, Spent(run.input_tokens + run.output_tokens, run.cost)

    def entered(self, step: int, call: Call, *, attempt: int) -> None:
        first, _ = self._entered.get((step, row_id(call)), (datetime.now(UTC), 0))
        self._entered[step, row_id(call)] = (first, attempt)

    def settle(self, step: int, call: Call, outcome: Outcome) -> None:
        outcome = self._timed(step, call, outcome)
        self._items.append(
            _Item([self._rows.result(step, call, outcome)], self._closing(step, call, outcome))
        )

    def flow(self, moves: Sequence[StepMove]) -> None:
        at, rows = now(), [self._rows.flow_step(one) for one in moves]
        self._items.append(_Item(write=lambda connection: flow_rows.store(connection, rows, at=at)))

    def ask(self, step: int, questions: Sequence[tuple[Call, Question]]) -> None:
        self._items.append(_Item(write=self._rows.asking(step, questions)))

    async def start(self, step: int, call: Call, *, attempt: int, idempotency_key: str, synced: bool) -> None:
        values = {
            "attempts": attempt,
            "idempotency_key": idempotency_key,
            "started_at": now(),
            **self._rows.judged(call),
        }

        def work(connection: Connection) -> list[Event]:
            self.check(connection)
            journal.update_call(
                connection, self.run.id, step, row_id(call), outcome=CallState.STARTED, **values
            )
            return []

        await self._store(work, synced=synced)

    async def end(self, step: int, call: Call, outcome: Outcome) -> None:
        await self._reported(step, call)
        outcome = self._timed(step, call, outcome)
        close = self._closing(step, call, outcome)
        event = self._rows.result(step, call, outcome)

        def work(connection: Connection) -> list[Event]:
            told = self._append(connection, [event])
            for check in close(connection):
                check()
            return told

        await self._store(work)

    def progress(self, step: int, call_id: str, name: str, message: str, share: float | None) -> None:
        call_id = shortened(call_id, KEY_LENGTH)
        key = f"{ToolProgress.word}:{step}:{call_id}:"
        if key not in self._parts:  # those of owners before count on
            self._parts[key] = sum(one.startswith(key) for one in self._before.told)
        self._parts[key] += 1
        event = ToolProgress(
            run_id=self.run.id,
            path=self.run.path,
            step=step,
            call_id=call_id,
            name=name,
            part=self._parts[key],
            message=self._rows.masker.text(message),
            share=share,
        )

        def work(connection: Connection) -> list[Event]:
            return event_rows.append_in_place(connection, self.run.id, event, fence=self.fence)

        storing = self._database.soon(
            lambda: self._database.write(work), writes=True, short=True, then=self.tell_all
        )
        self._reporting[step, call_id] = storing
        storing.add_done_callback(_log_lost)

    async def _reported(self, step: int, call: Call) -> None:
        """Wait for what is being stored of a call's progress: it stands before the call's outcome."""
        storing = self._reporting.pop((step, row_id(call)), None)
        if storing is not None:
            await asyncio.wait({storing})

    async def settled(self) -> None:
        for storing in list(self._storing):
            await asyncio.shield(storing)
        if self._reporting:
            await asyncio.wait(set(self._reporting.values()))
            self._reporting.clear()

    def discarded(self, step: int) -> int:
        return sum(key.startswith(f"{TextDiscarded.word}:{step}:") for key in self._before.told)

    async def spent_below(self) -> Spent:
        tokens, cost = await self._database.aread(
            lambda connection: family.spent_below(connection, self.run.id)
        )
        return Spent(tokens, cost)

    async def _store(self, work: Callable[[Connection], list[Event]], *, synced: bool = False) -> None:
        """Run a transaction and tell its events. A cancelled caller stops neither."""
        storing = self._database.soon(
            lambda: self._database.write(work, synced=synced),
            writes=True,
            short=not synced,
            then=self.tell_all,
        )
        self._storing.add(storing)
        storing.add_done_callback(self._on_stored)
        await asyncio.shield(storing)

    def _on_stored(self, storing: "asyncio.Future[list[Event]]") -> None:
        if not storing.cancelled() and storing.exception() is None:
            self._storing.discard(storing)  # else `settled` raises it

    def emit(self, event: Event) -> None:
        if event.stored:
            self._items.append(_Item([event]))
        else:
            self._listener(event)

    async def tell(self, event: Event) -> None:
        def work(connection: Connection) -> list[Event]:
            return self._append(connection, [event])

        await self._store(work)

    # -- the runner's moves

    async def leave(
        self,
        event: RunEvent,
        facts: Sequence[Event],
        *,
        active_ms: int,
        stop_reason: StopReason | None = None,
        answer: str | None = None,
        error: dict[str, Any] | None = None,
        langgraph_id: str | None = None,
        questions: Sequence[Interrupt] = (),
        before: Callable[[Connection], object] = lambda _: None,
    ) -> None:
        """The run waits, ended or failed: its status, its last events, and the end of the lease, at once.

        Events that were to ride on a checkpoint that never came are stored here too. `langgraph_id` is the
        LangGraph interrupt that carries the open questions; `questions` are those that are not stored yet. `before` is
        called in the same transaction.
        """

        def work(connection: Connection) -> list[Event]:
            before(connection)
            with in_one_go(connection):
                told = self._append(connection, [*self._loose(), *facts])
                if langgraph_id is not None:
                    journal.note_langgraph_id(connection, self.run.id, langgraph_id)
                journal.insert_interrupts(connection, questions)
                check = journal.end_run(
                    connection,
                    self.run.id,
                    self.fence,
                    event,
                    active_ms=active_ms,
                    stop_reason=stop_reason,
                    answer=answer,
                    error=error,
                )
            check()
            return told

        self.tell_all(await self._database.awrite(work, short=True))

    async def hand_back(self, *, active_ms: int) -> None:
        """Nobody drives the run now, though it is not at its end: anybody may take it over at once."""

        def work(connection: Connection) -> list[Event]:
            told = self._append(connection, self._loose())
            leases.release(connection, self.run.id, self.fence, active_ms=active_ms)
            journal.write_audit(connection, self.run.id, "handed_back", by=None)
            return told

        self.tell_all(await self._database.awrite(work, short=True))

    def _loose(self) -> list[Event]:
        """Events without rows of their own; those with rows come again when the step runs again."""
        return [] if self._has_rows() else [event for item in self._items for event in item.events]

    def _has_rows(self) -> bool:
        return any(item.write is not None for item in self._items)

    def _append(self, connection: Connection, facts: Sequence[Event]) -> list[Event]:
        """Store what was not told before this owner came: a step that runs again tells nothing twice (C-65)."""
        return event_rows.append(connection, self.run.id, self._fresh(facts), fence=self.fence)

    def _fresh(self, facts: Iterable[Event]) -> list[Event]:
        return [fact for fact in facts if fact.key not in self._before.told and fact.key not in self._begun]

    def tell_all(self, events: Sequence[Event]) -> None:
        """Hand committed events to the listener, in the order of their numbers."""
        self._early.update({event.number or 0: event for event in events})
        self._begun |= {event.key for event in events if isinstance(event, StepStarted)}
        while self._next in self._early:
            self._listener(self._early.pop(self._next))
            self._next += 1

    def _timed(self, step: int, call: Call, outcome: Outcome) -> Outcome:
        """The outcome of a read that was cancelled in its tool, with how often and how long it was there."""
        if outcome.took_ms is not None or (step, row_id(call)) not in self._entered:
            return outcome
        first, attempt = self._entered[step, row_id(call)]
        took = datetime.now(UTC) - first
        return replace(outcome, attempts=attempt, took_ms=round(took.total_seconds() * 1000))

    def _closing(self, step: int, call: Call, outcome: Outcome) -> Write:
        if outcome.state is CallState.UNKNOWN:
            self._doubtful.add(self._rows.digest(call))
        elif outcome.state is CallState.OK and self._doubtful:
            self._doubtful.difference_update(self._rows.digests(call))
        values = self._rows.ended(call, outcome)
        if outcome.attempts:
            values["attempts"] = outcome.attempts
        if (step, row_id(call)) in self._entered:
            values["started_at"] = format_time(self._entered[step, row_id(call)][0])

        def write(connection: Connection) -> Sequence[Check]:
            told = journal.send_call(
                connection, self.run.id, step, row_id(call), outcome=outcome.state, **values
            )
            return (told,)

        return write


def _log_lost(storing: "asyncio.Future[list[Event]]") -> None:
    """The call goes on without it; where another owner has come, its outcome is refused too."""
    if not storing.cancelled() and (error := storing.exception()) is not None:
        log.info("a word of a tool's progress was not stored: %s", type(error).__name__)


@dataclass(frozen=True, slots=True)
class _Item:
    """What one call of the ledger gives to the next checkpoint: all of it is stored there, or nothing."""

    events: Sequence[Event] = ()
    write: Write | None = None
    step: event_rows.Counted | None = None


@dataclass(frozen=True, slots=True)
class _Ride:
    """What rides on one checkpoint. `told` are the events that are new, with their numbers."""

    log: RunLog
    held: Sequence[Held]
    items: Sequence[_Item]
    told: Sequence[Event]
    check: Check = lambda: None

    def write(self, connection: Connection) -> Sequence[Check]:
        """Write it, inside the checkpoint's transaction."""
        event_rows.insert(connection, self.log.run.id, self.told)
        return [check for item in self.items if item.write is not None for check in item.write(connection)]

    def stored(self) -> None:
        """It is stored, and rides no more."""
        self.log.forget(self)

    def committed(self) -> None:
        """Tell its events."""
        self.log.tell_all(self.told)

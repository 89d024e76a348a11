"""The ledger of one run that is being driven: from calls and outcomes to rows and events.

What belongs to a whole superstep waits here, and the saver stores it in the transaction of that superstep's
checkpoint, together with its events. What must be durable earlier has its own transaction.
Both check the fence first. Events are handed to the listener after their commit, in the order of their numbers.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from adjourn.checkpoints import doubts, event_rows, family, flow_rows, journal, leases, run_rows
from adjourn.checkpoints.compiled import Check, in_one_go
from adjourn.checkpoints.database import Database, format_time, later, now
from adjourn.checkpoints.events import Event, StepStarted, TextDiscarded, ToolResult
from adjourn.checkpoints.flow_rows import FlowStepRow
from adjourn.checkpoints.hooks import Held
from adjourn.checkpoints.lifecycle import CallState, ErrorCode, InterruptState, RunEvent, StopReason
from adjourn.checkpoints.records import KEY_LENGTH, CallRow, Interrupt, RunRow, StepRow, shortened, to_text
from adjourn.checkpoints.sealed import hidden
from adjourn.checkpoints.thread_rows import StaleMemory
from adjourn.nodes.calls import Call, Question, is_final
from adjourn.nodes.delegation import DELEGATED
from adjourn.nodes.flow_state import StepMove
from adjourn.nodes.masking import Masker
from adjourn.nodes.outcome import Outcome
from adjourn.nodes.run_context import StepFacts, StoredCall
from adjourn.nodes.sealing import Keyring
from adjourn.nodes.spending import Spent

Listener = Callable[[Event], None]
Write = Callable[[Connection], Sequence[Check]]


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
        thread = run.thread_id
        if run.parent_run_id is not None:
            # the whole family's: the next task may ask another specialist for the same write
            thread = journal.read_run(connection, family.top(connection, run.id)).thread_id
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
        self._masker = masker
        self._keyring = keyring or Keyring()
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

    def write_now(self, connection: Connection) -> None:
        """Write the rows that wait, in a transaction of the caller's: no checkpoint is to come."""
        items, self._items = self._items, []
        for item in items:
            for check in item.write(connection) if item.write is not None else ():
                check()

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
        if not self._doubtful.isdisjoint(self._digests(call)):
            return True
        # one that was made with a key that is lost says nothing of any call: then each write is asked about
        return not all(self._keyring.knows(one) for one in self._doubtful)

    def plan_step(self, facts: StepFacts, calls: Sequence[Call], events: Sequence[Event]) -> None:
        at = now()
        self.step = facts.step
        step_row = self._step_row(facts, len(calls))
        rows = [self.call_row(facts.step, call, at) for call in calls]

        def write(connection: Connection) -> Sequence[Check]:
            journal.insert_step(connection, step_row)
            journal.insert_calls(connection, rows)
            return ()

        told = [*events, *(self._result(facts.step, call, None) for call in calls if is_final(call))]
        self._items.append(_Item(told, write, event_rows.Counted(step_row, facts.counted)))

    def _step_row(self, facts: StepFacts, calls: int) -> StepRow:
        usage = facts.usage
        return StepRow(
            run_id=self.run.id,
            step=facts.step,
            path=self.run.path,
            model=facts.model,
            message_id=facts.message_id,
            latency_ms=facts.latency_ms,
            input_tokens=usage.input_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
            cached_tokens=usage.cached_tokens if usage else None,
            cache_write_tokens=usage.cache_write_tokens if usage else None,
            reasoning_tokens=usage.reasoning_tokens if usage else None,
            cost=facts.cost,
            calls=calls,
            started_at=facts.started_at,
            ended_at=facts.ended_at,
        )

    async def model_called(self, facts: StepFacts) -> None:
        async with self._numbering:
            self.step += 1
            row = self._step_row(replace(facts, step=self.step), 0)
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
        self._items.append(_Item([self._result(step, call, outcome)], self._closing(step, call, outcome)))

    def flow(self, moves: Sequence[StepMove]) -> None:
        at = now()
        rows = [
            FlowStepRow(
                self.run.id,
                one["position"],
                one["name"],
                one["state"].value,
                None if one["reason"] is None else self._masker.text(one["reason"]),
            )
            for one in moves
        ]
        self._items.append(_Item(write=lambda connection: flow_rows.store(connection, rows, at=at)))

    def ask(self, step: int, questions: Sequence[tuple[Call, Question]]) -> None:
        at = now()
        rows = [
            self._interrupt(step, call, question, at)
            for call, question in questions
            if question["type"] != DELEGATED  # those of a specialist are rows of its own run
        ]

        def write(connection: Connection) -> Sequence[Check]:
            journal.insert_interrupts(connection, rows)
            return [
                journal.send_call(
                    connection,
                    self.run.id,
                    step,
                    row_id(call),
                    outcome=CallState.WAITING,
                    arguments=self._shown(call) or {},
                )
                for call, _ in questions
            ]

        self._items.append(_Item(write=write))

    async def start(self, step: int, call: Call, *, attempt: int, idempotency_key: str, synced: bool) -> None:
        values = {
            "attempts": attempt,
            "idempotency_key": idempotency_key,
            "started_at": now(),
            "effect": call["effect"],
            "arguments": self._shown(call),
            "digest": self._digest(call),
        }

        def work(connection: Connection) -> list[Event]:
            self.check(connection)
            journal.update_call(
                connection, self.run.id, step, row_id(call), outcome=CallState.STARTED, **values
            )
            return []

        await self._store(work, synced=synced)

    async def end(self, step: int, call: Call, outcome: Outcome) -> None:
        outcome = self._timed(step, call, outcome)
        close = self._closing(step, call, outcome)
        event = self._result(step, call, outcome)

        def work(connection: Connection) -> list[Event]:
            told = self._append(connection, [event])
            for check in close(connection):
                check()
            return told

        await self._store(work)

    async def settled(self) -> None:
        for storing in list(self._storing):
            await asyncio.shield(storing)

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

    # -- rows

    def _shown(self, call: Call) -> dict[str, Any] | None:
        """The arguments as tables hold them: masked (C-73). The real ones are in the run's state alone."""
        if call["arguments"] is None:
            return None
        shown: dict[str, Any] = self._masker.data(hidden(call["arguments"]))
        return shown

    def _digest(self, call: Call) -> str:
        return self._keyring.digest(call["name"], call["arguments"])

    def _digests(self, call: Call) -> list[str]:
        return self._keyring.digests(call["name"], call["arguments"])

    def call_row(self, step: int, call: Call, at: str) -> CallRow:
        """The call as the ledger holds it when it is planned at `at`."""
        ended = is_final(call)
        return CallRow(
            run_id=self.run.id,
            step=step,
            call_id=row_id(call),
            batch=call["batch"],
            position=call["position"],
            tool=shortened(call["name"], KEY_LENGTH),
            effect=call["effect"],
            arguments=self._shown(call),
            digest=self._digest(call),
            raw=to_text(self._masker.text(call["raw"])) if "raw" in call else None,
            outcome=CallState.PLANNED.value if call["state"] == CallState.WAITING else call["state"],
            error_code=_code_of(call.get("observation")),
            result=call.get("observation"),
            planned_at=at,
            ended_at=at if ended else None,
        )

    def _timed(self, step: int, call: Call, outcome: Outcome) -> Outcome:
        """The outcome of a read that was cancelled in its tool, with how often and how long it was there."""
        if outcome.took_ms is not None or (step, row_id(call)) not in self._entered:
            return outcome
        first, attempt = self._entered[step, row_id(call)]
        took = datetime.now(UTC) - first
        return replace(outcome, attempts=attempt, took_ms=round(took.total_seconds() * 1000))

    def _closing(self, step: int, call: Call, outcome: Outcome) -> Write:
        ended_at = now()
        if outcome.state is CallState.UNKNOWN:
            self._doubtful.add(self._digest(call))
        elif outcome.state is CallState.OK and self._doubtful:
            self._doubtful.difference_update(self._digests(call))
        values: dict[str, Any] = {
            "error_code": outcome.code.value if outcome.code else None,
            "result": outcome.observation,
            "shown": outcome.shown,
            "error": outcome.error,
            "ended_at": ended_at,
            "took_ms": outcome.took_ms,
            "effect": call["effect"],
            "arguments": self._shown(call),
            "digest": self._digest(call),
        }
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

    def _result(self, step: int, call: Call, outcome: Outcome | None) -> ToolResult:
        observation = outcome.observation if outcome else call.get("observation", "")
        return tool_result(
            self.run,
            step=step,
            call_id=row_id(call),
            name=call["name"],
            outcome=outcome.state.value if outcome else call["state"],
            observation=observation,
            shown=outcome.shown if outcome else None,
            took_ms=outcome.took_ms if outcome else None,
        )

    def _interrupt(self, step: int, call: Call, question: Question, at: str) -> Interrupt:
        return Interrupt(
            id=question["id"],
            run_id=self.run.id,
            step=step,
            call_id=row_id(call),
            path=self.run.path,
            position=call["position"],
            type=question["type"],
            tool=call["name"],
            arguments=self._shown(call) or {},
            reason=self._masker.text(question["reason"]),
            payload=self._masker.data(question["payload"]),
            response_schema=question["response_schema"],
            state=InterruptState.OPEN.value,
            approvals=question.get("approvals"),
            created_at=at,
            expires_at=later(at, question["expires_in_s"]) if "expires_in_s" in question else None,
        )


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


def row_id(call: Call) -> str:
    """The model's id of a call, as columns hold it: cut, with a hash, where it is longer than any id should be."""
    return shortened(call["id"], KEY_LENGTH)


def tool_result(
    run: RunRow,
    *,
    step: int,
    call_id: str,
    name: str,
    outcome: str,
    observation: str,
    shown: Any = None,
    took_ms: int | None = None,
) -> ToolResult:
    """The event of a final observation. `shown` is what people see where it differs from the model's part."""
    told = json.loads(observation) if observation else {}
    return ToolResult(
        run_id=run.id,
        path=run.path,
        step=step,
        call_id=call_id,
        name=name,
        outcome=outcome,
        error_code=told.get("errorCode"),
        message=told.get("message"),
        data=shown if shown is not None else told.get("data"),
        took_ms=took_ms,
    )


def _code_of(observation: str | None) -> str | None:
    code = json.loads(observation).get("errorCode") if observation else None
    return ErrorCode(code).value if code else None

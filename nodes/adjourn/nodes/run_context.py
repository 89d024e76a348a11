"""What a node is given about the run that it serves: the ledger, the event sink, the cancel signal.

The runner hands it over as `configurable["__adjourn_run"]`; the two leading underscores keep it out of
the checkpoint's metadata. Nodes that are used in somebody's own graph run without one, and say so once.
"""

import asyncio
import copy
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from langchain_core.runnables import RunnableConfig

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.events import Event
from adjourn.nodes.assembly import Usage
from adjourn.nodes.attempt import Places
from adjourn.nodes.calls import Call, Question
from adjourn.nodes.clock import Clock
from adjourn.nodes.context import RunInfo
from adjourn.nodes.delegation import Children, Gate
from adjourn.nodes.flow_state import StepMove
from adjourn.nodes.history import Checked
from adjourn.nodes.outcome import Outcome
from adjourn.nodes.permission import Permission
from adjourn.nodes.sealing import Keyring
from adjourn.nodes.spending import Spent
from adjourn.nodes.wire_out import Requested

RUN_KEY = "__adjourn_run"


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What is written down about one model call. Times are ISO 8601, UTC; `usage` is None where nobody told it.

    `counted`: False for the call outside the count, at the end (C-57).
    """

    step: int
    model: str
    message_id: str | None
    latency_ms: int
    usage: Usage | None
    cost: float
    counted: bool
    started_at: str
    ended_at: str


@dataclass(frozen=True, slots=True)
class StoredCall:
    """How the ledger holds a call: its state, and the observation where it has its outcome."""

    state: str
    observation: str | None
    error_code: str | None = None
    attempts: int = 0


class Ledger(Protocol):
    """Where calls are written down, and where each event goes.

    `plan_step`, `settle`, `ask` ride on the checkpoint of the superstep that calls them: they are stored with
    it or not at all. `start` and `end` are stored when they return. Each raises `LeaseLost` when the run
    has another owner.
    """

    def stored(self, step: int, call_id: str) -> StoredCall | None:
        """The call as the ledger held it when this owner took over; None: it was not there."""
        ...

    def is_doubtful(self, call: Call) -> bool:
        """Whether the outcome of an identical write on this thread is unknown (C-61)."""
        ...

    def plan_step(self, facts: StepFacts, calls: Sequence[Call], events: Sequence[Event]) -> None:
        """The model has spoken: its step, its calls, and the events that tell so."""
        ...

    def entered(self, step: int, call: Call, *, attempt: int) -> None:
        """A read enters its tool. Nothing is stored before its outcome, which then says when that was."""
        ...

    def settle(self, step: int, call: Call, outcome: Outcome) -> None:
        """A call got its outcome without running."""
        ...

    def ask(self, step: int, questions: Sequence[tuple[Call, Question]]) -> None:
        """Calls wait for a person."""
        ...

    async def start(self, step: int, call: Call, *, attempt: int, idempotency_key: str, synced: bool) -> None:
        """The call is about to run; `synced`: return only when that is on the disk (C-33)."""
        ...

    async def end(self, step: int, call: Call, outcome: Outcome) -> None:
        """The call ran and has its outcome."""
        ...

    def progress(self, step: int, call_id: str, name: str, message: str, share: float | None) -> None:
        """A tool says how far it is: stored and told as soon as that can be. That it cannot be is logged, no more."""
        ...

    async def settled(self) -> None:
        """Wait for outcomes that are still being stored although nobody waits for them; raises what they raise."""
        ...

    def discarded(self, step: int) -> int:
        """How many attempts at a step's model call have been voided, by earlier owners too."""
        ...

    async def model_called(self, facts: StepFacts) -> None:
        """A node of somebody's own has asked a model: stored when it returns, under the run's next number."""
        ...

    def so_far(self) -> tuple[int, Spent]:
        """The model calls of the run itself, and what they spent, as they were when this owner took over."""
        ...

    async def spent_below(self) -> Spent:
        """What the runs that work for this one have spent, together with those that work for them."""
        ...

    def flow(self, moves: Sequence[StepMove]) -> None:
        """Steps of a flow have come to other states, in this order; it rides on the superstep's checkpoint."""
        ...

    def emit(self, event: Event) -> None:
        """Send an event that is not stored, or store and send it with the superstep's checkpoint."""
        ...

    async def tell(self, event: Event) -> None:
        """Store and send an event that cannot wait for the superstep's checkpoint."""
        ...


class Cancel:
    """The cancel signal of a run, for coroutines and for threads. Setting it twice is setting it once."""

    def __init__(self) -> None:
        self.for_threads = threading.Event()
        self._waiters: set[asyncio.Future[None]] = set()

    def set(self) -> None:
        """Tell everybody. Call it on the event loop that drives the run."""
        self.for_threads.set()
        for waiter in list(self._waiters):
            if not waiter.done():
                waiter.set_result(None)

    def is_set(self) -> bool:
        return self.for_threads.is_set()

    def waiter(self) -> "asyncio.Future[None]":
        """A future that is done once the signal is set; whoever stops waiting for it cancels it."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.is_set():
            waiter.set_result(None)
        else:
            self._waiters.add(waiter)
            waiter.add_done_callback(self._waiters.discard)
        return waiter


class Budgets(Protocol):
    """What the runs above may spend."""

    async def are_spent(self) -> bool:
        """Whether one of them has spent what it may, together with all that work for it."""
        ...


@dataclass(frozen=True, slots=True)
class RunContext:
    """One run, as its nodes see it. `began_at` is in seconds since 1970; None: nobody wrote it down."""

    run_id: str
    thread_id: str
    ledger: Ledger
    path: str = ""
    started_by: str | None = None
    given: Mapping[str, Any] = field(default_factory=dict)  # by the caller: `Runner.start(context=...)`
    cancel: Cancel = field(default_factory=Cancel)
    places: Places = field(default_factory=Places)
    legal: Checked = field(default_factory=Checked)
    requested: Requested = field(default_factory=Requested)
    clock: Clock = field(default_factory=Clock)
    began_at: float | None = None
    keyring: Keyring = field(default_factory=Keyring)
    children: Children | None = None
    gate: Gate | None = None  # of its family; None: it has none
    above: Permission | None = None  # of the runs that it works for: it holds here too
    budgets: Budgets | None = None  # theirs

    def info(self, step: int, language: str) -> RunInfo:
        """What functions of the graph are told before the model call of this step."""
        return RunInfo(
            self.run_id,
            self.thread_id,
            step,
            language,
            self.path,
            self.started_by,
            copy.deepcopy(self.given),
        )


class NoLedger:
    """Stands in where there is no ledger: nothing is written down, so C-33 to C-36 do not hold."""

    def stored(self, step: int, call_id: str) -> StoredCall | None:
        return None

    def is_doubtful(self, call: Call) -> bool:
        return False

    def plan_step(self, facts: StepFacts, calls: Sequence[Call], events: Sequence[Event]) -> None: ...
    def entered(self, step: int, call: Call, *, attempt: int) -> None: ...
    def settle(self, step: int, call: Call, outcome: Outcome) -> None: ...
    def ask(self, step: int, questions: Sequence[tuple[Call, Question]]) -> None: ...
    async def start(
        self, step: int, call: Call, *, attempt: int, idempotency_key: str, synced: bool
    ) -> None: ...
    async def end(self, step: int, call: Call, outcome: Outcome) -> None: ...
    def progress(self, step: int, call_id: str, name: str, message: str, share: float | None) -> None: ...
    async def settled(self) -> None: ...

    def discarded(self, step: int) -> int:
        return 0

    async def model_called(self, facts: StepFacts) -> None: ...

    def so_far(self) -> tuple[int, Spent]:
        return 0, Spent()

    async def spent_below(self) -> Spent:
        return Spent()

    def flow(self, moves: Sequence[StepMove]) -> None: ...
    def emit(self, event: Event) -> None: ...
    async def tell(self, event: Event) -> None: ...


def check_of_its_run(state: Mapping[str, Any], run: RunContext) -> None:
    """Raise `UsageError` for nodes that were called inside a node or tool of another graph: their steps and calls would
    be taken for those of the run that is being driven."""
    if "run_id" not in state and not isinstance(run.ledger, NoLedger):
        raise UsageError(
            "a graph of Adjourn's was called inside a node or a tool of another one; let it be a run of its own: "
            "Specialist(name=..., about=..., graph=...).as_node() or .as_tool()"
        )


def run_context(config: RunnableConfig) -> RunContext:
    """The context that the runner put into the config, or one without a ledger, with a warning."""
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    context = configurable.get(RUN_KEY)
    if isinstance(context, RunContext):
        return context
    warnings.warn(
        "these nodes run without a ledger: a crash or a resume may run a write twice; "
        "drive the graph with adjourn.graph.Runner to get one",
        RuntimeWarning,
        stacklevel=2,
    )
    thread_id = str(configurable.get("thread_id", ""))
    return RunContext(run_id=thread_id, thread_id=thread_id, ledger=NoLedger())

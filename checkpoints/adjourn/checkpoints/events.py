"""What happened in a run, one frozen class per fact, each under the word it is stored as (C-63).

An event is committed together with the row of the fact that it tells, and then sent. `number` grows by
one per run over the stored events; `TextDelta` alone is not stored and has no number. `key` names the
fact, so that a step that runs again after a crash stores nothing twice (C-65).
"""

import copy
import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from adjourn.checkpoints.errors import StoredDataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events carry: the run, the path (specialists, outermost first), the step, the number."""

    word: ClassVar[str] = ""
    stored: ClassVar[bool] = True

    run_id: str
    path: str = ""
    step: int = 0
    number: int | None = None

    @property
    def key(self) -> str:
        """What names this fact within its run; at most one event is stored per key."""
        return f"{self.word}:{self.step}"

    def numbered(self, number: int) -> Self:
        """The same event with its number."""
        return replace(self, number=number)

    def own(self) -> dict[str, Any]:
        """The event's own fields, without those that all events carry. They are the event's: change none."""
        return {name: getattr(self, name) for name in _own_names(type(self))}  # type: ignore[arg-type]  # a class has a hash

    def to_dict(self) -> dict[str, Any]:
        """The whole event as JSON data: `type`, the common fields, then its own."""
        common = {"run_id": self.run_id, "path": self.path, "step": self.step, "number": self.number}
        return {"type": self.word, **common, **copy.deepcopy(self.own())}


_COMMON = frozenset({"run_id", "path", "step", "number"})


@functools.cache
def _own_names(kind: type[Event]) -> Sequence[str]:
    return [one.name for one in fields(kind) if one.name not in _COMMON]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """A run exists: its input is stored."""

    word = "run_started"
    thread_id: str
    graph: str
    input: str
    started_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(Event):
    """The model is about to be asked. Stored with whatever led there."""

    word = "step_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta(Event):
    """A piece of the answer as it arrives. Not stored: the `message` is."""

    word = "text_delta"
    stored = False
    text: str
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDiscarded(Event):
    """The deltas of this attempt do not count: the turn was retried, refused or cancelled."""

    word = "text_discarded"
    attempt: int
    reason: str

    @property
    def key(self) -> str:
        return f"{self.word}:{self.step}:{self.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Event):
    """An assistant message stands in the history. `calls` is how many calls it asked for."""

    word = "message"
    message_id: str
    text: str
    calls: int = 0
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall(Event):
    """The model asked for a call. `arguments` are parsed and masked, or None where they did not parse."""

    word = "tool_call"
    call_id: str
    name: str
    arguments: dict[str, Any] | None

    @property
    def key(self) -> str:
        return f"{self.word}:{self.step}:{self.call_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress(Event):
    """A tool says how far it is. `share` is from 0 to 1; None: nobody knows. `part` counts from 1 within the call.

    `call_id` is empty for a node of a graph of somebody's own, whose `name` is then the graph's.
    """

    word = "tool_progress"
    call_id: str
    name: str
    part: int
    message: str
    share: float | None = None

    @property
    def key(self) -> str:
        return f"{self.word}:{self.step}:{self.call_id}:{self.part}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult(Event):
    """A call has its final observation. `data` is what people may see; `took_ms` is None if it never ran."""

    word = "tool_result"
    call_id: str
    name: str
    outcome: str
    error_code: str | None = None
    message: str | None = None
    data: Any = None
    took_ms: int | None = None

    @property
    def key(self) -> str:
        return f"{self.word}:{self.step}:{self.call_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopInterrupt(Event):
    """The run waits for people. `interrupts` holds all open questions, as `Interrupt.to_dict()` gives them."""

    word = "loop_interrupt"
    interrupts: tuple[dict[str, Any], ...] = field(default=())

    @property
    def key(self) -> str:
        ids = ",".join(str(one["id"]) for one in self.interrupts)
        return f"{self.word}:{self.step}:{hashlib.sha256(ids.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptAnswered(Event):
    """A question is settled. `state` is the word of `InterruptState`; `by` and `answer` are None on expiry.

    `open`: it was one approval of several that are needed; each is an event of its own.
    """

    word = "interrupt_answered"
    interrupt_id: str
    call_id: str
    state: str
    answer: Any = None
    by: str | None = None

    @property
    def key(self) -> str:
        whose = f":{self.by}" if self.state == "open" else ""
        return f"{self.word}:{self.interrupt_id}{whose}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Event):
    """The run ended with a stop reason."""

    word = "run_finished"
    status: str
    stop_reason: str
    answer: str = ""

    @property
    def key(self) -> str:
        return self.word


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(Event):
    """The run gave up and can be resumed. `message` is for people. `failure` counts from 1."""

    word = "run_failed"
    error: str
    message: str
    failure: int = 1

    @property
    def key(self) -> str:
        return f"{self.word}:{self.failure}"


EVENTS: Mapping[str, type[Event]] = {
    kind.word: kind
    for kind in (
        RunStarted, StepStarted, TextDelta, TextDiscarded, Message, ToolCall,
        ToolProgress, ToolResult, LoopInterrupt, InterruptAnswered, RunFinished, RunFailed,
    )
}  # fmt: skip


def event_from_row(
    run_id: str, number: int, *, word: str, step: int, path: str, data: Mapping[str, Any]
) -> Event:
    """The event that a stored row tells.

    Raises `StoredDataError` for a word that is not in `EVENTS` or data that does not fit it.
    """
    try:
        kind = EVENTS[word]
        fields = dict(data)
        if kind is LoopInterrupt:
            fields["interrupts"] = tuple(fields["interrupts"])
        return kind(run_id=run_id, number=number, step=step, path=path, **fields)
    except (KeyError, TypeError, ValueError) as error:
        raise StoredDataError("events", f"({run_id}, {number})", f"not a {word!r} event: {error}") from error

"""The steps of a flow, and the table that keeps their order. Pure.

A flow goes from step to step as this table says, whatever the model, the user or a tool result says (C-78). What a
step does is a call like any other: it is planned, judged, agreed to and written down in the same way.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from adjourn.checkpoints.errors import UsageError
from adjourn.nodes.approvers import Approvers
from adjourn.nodes.guards import Limits

Results = Mapping[str, Any]
"""What each step that is done brought, by its name; as the tables hold it: masked, and cut where it was too long."""

When = Callable[[Results], bool]

STOP = "stop"
RETRY = "retry"
TRIES = 3  # model turns in which a step's tool may be called wrongly: two corrections are enough for a typo


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What every step has.

    - `name`: letters, digits, `_` and `-`; it stands in tables, and results are found by it.
    - `title`: how people see it; None: its name.
    - `when`: told the results so far, says whether the step is done at all; None: it is.
    - `on_failure`: `"stop"` ends the flow, `"retry"` begins the step again, at most `retries` times, and the name of
      another step runs that one, to undo what was done, and then ends the flow. A step that is named so is no
      part of the ordinary order.
    """

    kind: ClassVar[str] = "step"
    name: str
    title: str | None = None
    when: When | None = None
    on_failure: str = STOP
    retries: int = 1

    @property
    def shown(self) -> str:
        """How people see it."""
        return self.title or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStep(Step):
    """The model is shown this one tool, and calls it (C-77). It is done when the tool has succeeded.

    - `forced`: the provider is told that the tool must be called.
    - `prompt`: what the model is told to do now; None: to use the tool.
    - `without_call`: what happens when the model speaks in place of calling: `"stop"` ends the flow with its words,
      `"ask"` puts them to a person, whose answer it is told.
    - `tries`: model turns until the tool was called so that it could run.
    """

    kind: ClassVar[str] = "tool"
    tool: Any
    forced: bool = False
    prompt: str | None = None
    without_call: Literal["stop", "ask"] = "stop"
    tries: int = TRIES


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopStep(Step):
    """The model works freely with these tools, within these limits, until it answers; the answer is the result."""

    kind: ClassVar[str] = "loop"
    tools: Sequence[Any] = ()
    prompt: str
    limits: Limits = field(default_factory=lambda: Limits(max_steps=6))


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionStep(Step):
    """A function, or what `@tool` made of one, without a model.

    Its parameters are named after earlier steps and get their results; `message` gets what the user said. A plain
    function counts as a write, and needs a docstring.
    """

    kind: ClassVar[str] = "function"
    function: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphStep(Step):
    """A graph works, in a run of its own: what a builder made, or a LangGraph graph of one's own. Its answer is the result.

    `task`: what it is to do, a text or a function of the results; None: what the user said.
    """

    kind: ClassVar[str] = "graph"
    graph: Any
    task: str | Callable[[Results], str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalStep(Step):
    """People agree, or the flow stops. `question` may be a function of the results.

    - `approvers`: how many of whom; the default is one person, whoever it is.
    - `expires_in_s`: after which nobody has agreed; None: it waits for ever.
    """

    kind: ClassVar[str] = "approval"
    question: str | Callable[[Results], str]
    approvers: Approvers = field(default_factory=Approvers)
    expires_in_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchStep(Step):
    """Goes on at one of the later steps `to`, which `choose` names from the results. Those between are skipped."""

    kind: ClassVar[str] = "branch"
    choose: Callable[[Results], str]
    to: tuple[str, ...]


class FlowTable:
    """The steps in their order. Raises `UsageError` for what could never go in order.

    `order` are the names of the ordinary steps; those that are reached only to undo something are in `steps` alone.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        self.steps: dict[str, Step] = {}
        for one in steps:
            self._add(one)
        undoing = {one.on_failure for one in self.steps.values()} - {STOP, RETRY}
        self.order = [name for name in self.steps if name not in undoing]
        for one in self.steps.values():
            self._check(one, undoing)
        if not self.order:
            raise UsageError("a flow needs a step")

    def _add(self, one: Step) -> None:
        if type(one) is Step or not isinstance(one, Step):
            kinds = ", ".join(kind.__name__ for kind in KINDS)
            raise UsageError(f"{one!r} is no step of a flow; give one of {kinds}")
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,48}", one.name):
            raise UsageError(
                f"step {one.name!r}: a name is 1 to 48 letters, digits, _ or -; others go into `title`"
            )
        if one.name in self.steps or one.name in (STOP, RETRY, "message"):
            why = "there are two" if one.name in self.steps else "the word has another meaning"
            raise UsageError(f"no step can be called {one.name!r}: {why}")
        self.steps[one.name] = one

    def _check(self, one: Step, undoing: set[str]) -> None:
        target = one.on_failure
        if target not in (STOP, RETRY) and (target not in self.steps or target == one.name):
            raise UsageError(
                f"step {one.name}: on_failure is 'stop', 'retry' or another step, not {target!r}"
            )
        if one.name in undoing and target not in (STOP, RETRY):
            raise UsageError(
                f"step {one.name} undoes another step; what undoes may stop or be retried, no more"
            )
        if one.retries < 0:
            raise UsageError(f"step {one.name}: retries is a whole number from 0, not {one.retries!r}")
        if isinstance(one, ToolStep) and (one.tries < 1 or one.without_call not in ("stop", "ask")):
            raise UsageError(f"step {one.name}: tries is from 1, and without_call is 'stop' or 'ask'")
        if isinstance(one, BranchStep):
            self._check_branch(one)

    def _check_branch(self, one: BranchStep) -> None:
        later = self.after(one.name)
        for name in one.to:
            if name not in later:
                raise UsageError(f"step {one.name} branches to {name!r}, which is no later step of the flow")
        if not one.to:
            raise UsageError(f"step {one.name} branches to nothing; name the later steps in `to`")

    def after(self, name: str | None) -> list[str]:
        """The ordinary steps behind one; of None: all of them; of one that undoes: none."""
        if name is None:
            return self.order
        return self.order[self.order.index(name) + 1 :] if name in self.order else []

    def position(self, name: str) -> int:
        """Its place, from 1: the ordinary steps first."""
        return [*self.order, *(one for one in self.steps if one not in self.order)].index(name) + 1

    def mermaid(self) -> str:
        """The flow as a mermaid diagram."""
        lines = ["flowchart TD", "    start([start])"]
        lines += [f"    {_box(one)}" for one in self.steps.values()]
        lines.append("    done([done])")
        lines += [f"    {edge}" for edge in self._edges()]
        return "\n".join(lines)

    def _edges(self) -> Iterable[str]:
        places = ["start", *map(_id, self.order), "done"]
        names: list[str | None] = [None, *self.order]
        for before, here, there in zip(names, places, places[1:], strict=False):
            one = self.steps[before] if before is not None else None
            if isinstance(one, BranchStep):
                yield from (f"{here} -->|{name}| {_id(name)}" for name in one.to)
                continue
            nxt = self.steps.get(self.order[places.index(there) - 1]) if there != "done" else None
            yield (
                f"{here} -->|if| {there}"
                if nxt is not None and nxt.when is not None
                else f"{here} --> {there}"
            )
        for one in self.steps.values():
            if one.on_failure == RETRY:
                yield f"{_id(one.name)} -.->|failed: again| {_id(one.name)}"
            elif one.on_failure != STOP:
                yield f"{_id(one.name)} -.->|failed: undo| {_id(one.on_failure)}"


KINDS: tuple[type[Step], ...] = (ToolStep, LoopStep, FunctionStep, GraphStep, ApprovalStep, BranchStep)

# The shape of a step in a diagram: what asks people is a hexagon, what chooses a rhombus.
_SHAPES: Mapping[str, tuple[str, str]] = {
    "tool": ("[", "]"),
    "loop": ("[[", "]]"),
    "function": ("(", ")"),
    "graph": ("[/", "/]"),
    "approval": ("{{", "}}"),
    "branch": ("{", "}"),
}


def _id(name: str) -> str:
    """The id of a step in a diagram: no two names share one, for `-` becomes what no name can have behind `_`."""
    return "s_" + name.replace("_", "__").replace("-", "_d")


def _box(one: Step) -> str:
    left, right = _SHAPES[one.kind]
    label = one.shown.replace('"', "'")
    return f'{_id(one.name)}{left}"{label}"{right}'

"""`build_supervisor`: one model hands tasks to specialists, each a free loop of its own (C-80 to C-82)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel

from adjourn.checkpoints.errors import UsageError
from adjourn.graph.graph_parts import Graph
from adjourn.graph.may_answer import MayAnswer
from adjourn.graph.own_graphs import adopted
from adjourn.graph.react import build_react
from adjourn.graph.specialists import Check, Specialists, specialists_of
from adjourn.nodes.delegation import delegate_tool, find_specialists_tool, specialist_tool
from adjourn.nodes.guards import Limits
from adjourn.nodes.masking import Masker
from adjourn.nodes.model import Choose
from adjourn.nodes.permission import Mode, Rule
from adjourn.nodes.requesting import Prompt
from adjourn.nodes.specialist_node import FromAnswer, SpecialistNode, ToTask
from adjourn.nodes.spending import Prices
from adjourn.nodes.tool import Tool
from adjourn.nodes.tool_search import MOST

DEPTH = 3  # levels of specialists: a team of teams of teams is what anybody can still follow
MAX_DELEGATIONS = 8  # tasks that one run may hand out: each is a run with its own budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialist:
    """One who can be handed a task.

    - `name`: letters, digits, `_` and `-`. `about`: what it is good at, for the supervisor's model.
    - `prompt`, `tools`, `limits`: those of its own loop; it can reach no other tool, and cannot hand on.
    - `model`: None: the supervisor's.
    - `graph`: in place of these, what a builder made: a flow, or a supervisor with specialists of its own; or a compiled
      LangGraph graph of one's own, with `messages` in its state, whose model calls and time `limits` bounds. For one without
      `messages`, or that only reads, see `from_langgraph`.
    - `check`: told an answer, says what is wrong with it, or None. Who handed the task out is told so with the answer, as
      an error, and may hand it out again with the reason; one that raises finds fault too.
    """

    name: str
    about: str
    prompt: Prompt | None = None
    tools: Sequence[Any] = ()
    model: BaseChatModel | str | None = None
    limits: Limits = field(default_factory=Limits)
    graph: Graph | None = None
    check: Check | None = None

    def as_tool(self, *, max_delegations: int = MAX_DELEGATIONS) -> Tool:
        """A tool that hands a task to this one: for the tools of another builder, or a `ToolStep` of a flow.

        Raises `UsageError` for a specialist that has neither a model nor a graph.
        """
        return specialist_tool(self.name, self.about, self._alone(max_delegations))

    def as_node(
        self,
        *,
        task: ToTask | None = None,
        write: FromAnswer | None = None,
        max_delegations: int = MAX_DELEGATIONS,
    ) -> SpecialistNode:
        """A node for a graph of one's own: `builder.add_node("research", specialist.as_node())`.

        - `task`: from the graph's state to the task; None: the text of the newest user message in `messages`.
        - `write`: from the answer to what the node writes; None: the answer as an assistant message.

        A specialist that has no answer fails the run with the reason; `resume` lets it try again. Raises `UsageError` as
        `as_tool` does.
        """
        return SpecialistNode(self.name, self._alone(max_delegations), task=task, write=write)

    def _alone(self, max_delegations: int) -> Specialists:
        (known,) = _checked([self])
        if known.graph is None and known.model is None:
            raise UsageError(f"specialist {self.name}: by itself it needs a model of its own, or a graph")
        graph = known.own() or build_react(
            known.model or "", known.tools, limits=known.limits, system_prompt=known.prompt, name=known.name
        )
        behind = Specialists(
            {known.name: graph}, {known.name: known.about}, max_delegations, _checks([known])
        )
        check_depth(behind, DEPTH)
        return behind

    def own(self) -> Graph | None:
        """Its own graph, as a runner takes it; None: it has none."""
        return None if self.graph is None else adopted(self.graph, limits=self.limits)


def build_supervisor(
    model: BaseChatModel | str,
    specialists: Iterable[Specialist],
    tools: Iterable[Any] = (),
    *,
    max_delegations: int = MAX_DELEGATIONS,
    depth: int = DEPTH,
    fallbacks: Sequence[BaseChatModel | str] = (),
    limits: Limits | None = None,
    prices: Prices | None = None,
    choose_model: Choose | None = None,
    system_prompt: Prompt | None = None,
    max_history_tokens: int | None = None,
    masker: Masker | None = None,
    permission: Rule | None = None,
    mode: Mode | str = Mode.DEFAULT,
    may_answer: MayAnswer | None = None,
    name: str = "supervisor",
) -> Graph:
    """A compiled LangGraph graph whose model has a tool `delegate(specialist, task, context)` beside its own `tools`.

    - `max_delegations`: tasks that one run may hand out.
    - `depth`: levels of specialists below this supervisor, at most.
    - the others are those of `build_react`. `permission` and `mode` hold for all that is below, graphs that specialists bring
      included: what is strictest holds. `fallbacks`, `prices`, `masker` are those of its specialists too, but for a `graph`,
      which has its own.

    A specialist works in a run of its own, with rows, events and limits of its own; what it spends counts in the
    limits of the run above. Raises `UsageError` for two specialists of one name, none, or too many levels.
    """
    known = _checked(specialists)
    graphs = {
        one.name: one.own()
        or build_react(
            one.model or model,
            one.tools,
            fallbacks=fallbacks,
            limits=one.limits,
            prices=prices,
            system_prompt=one.prompt,
            masker=masker,
            permission=permission,
            mode=mode,
            may_answer=may_answer,
            name=f"{name}.{one.name}",
        )
        for one in known
    }
    if max_delegations < 1:
        raise UsageError(f"max_delegations is a whole number from 1, not {max_delegations!r}")
    behind = Specialists(graphs, {one.name: one.about for one in known}, max_delegations, _checks(known))
    check_depth(behind, depth)
    made = build_react(
        model,
        [*_handing_on(behind), *tools],
        fallbacks=fallbacks,
        limits=limits,
        prices=prices,
        choose_model=choose_model,
        system_prompt=system_prompt,
        max_history_tokens=max_history_tokens,
        masker=masker,
        permission=permission,
        mode=mode,
        may_answer=may_answer,
        name=name,
    )
    specialists_of(made)  # those of its own tools may not be called as these are
    return made


def check_depth(behind: Specialists, most: int) -> None:
    """Raise `UsageError` for more levels than that."""
    if behind.depth > most:
        raise UsageError(f"there are {behind.depth} levels of specialists; at most {most} are allowed")


def _checks(known: Iterable[Specialist]) -> dict[str, Check]:
    return {one.name: one.check for one in known if one.check is not None}


def _handing_on(behind: Specialists) -> list[Tool]:
    made = [delegate_tool(behind.about, behind)]
    return made if len(behind.about) <= MOST else [*made, find_specialists_tool(behind.about)]


def _checked(specialists: Iterable[Specialist]) -> list[Specialist]:
    known: dict[str, Specialist] = {}
    for one in specialists:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,48}", one.name):
            raise UsageError(f"specialist {one.name!r}: a name is 1 to 48 letters, digits, _ or -")
        if one.name in known:
            raise UsageError(f"two specialists are called {one.name!r}; a model tells them apart by name")
        if not one.about.strip():
            raise UsageError(f"specialist {one.name}: say in `about` what it is good at")
        known[one.name] = one
    if not known:
        raise UsageError("a supervisor needs a specialist; without one, use build_react")
    return list(known.values())

"""`delegate`: the tool by which a supervisor hands a task to a specialist (C-80, C-81).

The specialist is a run of its own, with its own thread; the supervisor sees its answer, and none of its messages. Who
drives that run is the runner's matter, which gives the nodes a `Children`.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from adjourn.nodes.context import ToolContext
from adjourn.nodes.throttle import PATIENCE_S
from adjourn.nodes.tool import Tool, tool
from adjourn.nodes.tool_errors import ToolError
from adjourn.nodes.tool_search import FOUND, MOST, Search

DELEGATE = "delegate"
DELEGATED = "delegated"  # the type of the question that stands for those of a specialist; no row has it
HANDOVER_CHARS = 4_000  # of a task and of its context, each: what one would write into a mail


class Children(Protocol):
    """Drives the runs that work for one run."""

    async def work(self, specialist: str, task: str, *, step: int, call_id: str, agreed: bool = False) -> Any:
        """Let a specialist work on a task, or go on with it; gives what the call returns, a question included.

        The same step and call find the same run again. `agreed`: a person agreed to this call. Raises `ToolError` when
        the specialist brought no answer, or may not work.
        """
        ...


class Gate:
    """Keeps each write apart from all other calls of a family of runs: many reads, or one write (C-21).

    It holds in one process, which drives the whole family. A delegation itself does not count as a call. First come, first
    served, so that an endless stream of reads keeps no write out. A call that was abandoned cannot be stopped: reads do
    not wait for one, and a write waits for an abandoned write, for as long as it has patience.
    """

    def __init__(self) -> None:
        self._inside: dict[object, bool] = {}  # each call that somebody waits for: whether it is a write
        self._lost: set[object] = set()  # abandoned writes that still go on
        self._waiting: dict[asyncio.Future[None], bool] = {}  # in their order

    async def enter(self, *, is_write: bool, patience_s: float | None = None) -> "Entered | None":
        """Wait for one's turn. None: for `patience_s` seconds nothing was in the way but a write that was abandoned."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = is_write
        self._let_in()
        try:
            while not turn.done():
                await asyncio.wait({turn}, timeout=PATIENCE_S if patience_s is None else patience_s)
                if not turn.done() and self._lost and not self._inside:
                    return None
            return Entered(self, turn)
        except asyncio.CancelledError:
            self.left(turn)
            raise
        finally:
            self._waiting.pop(turn, None)
            self._let_in()  # it may have kept others from their turn

    def _let_in(self) -> None:
        for turn, is_write in [*self._waiting.items()]:
            if is_write and self._lost:
                continue
            if any(self._inside.values()) or (is_write and self._inside):
                return
            del self._waiting[turn]
            self._inside[turn] = is_write
            turn.set_result(None)

    def left(self, one: object, *, abandoned: bool = False) -> None:
        """A call has ended, or nobody waits for it any more."""
        is_write = self._inside.pop(one, False)
        if abandoned and is_write:
            self._lost.add(one)
        elif not abandoned:
            self._lost.discard(one)
        self._let_in()


class Entered:
    """A call that has its turn at the gate."""

    def __init__(self, gate: Gate, turn: object) -> None:
        self._gate = gate
        self._turn = turn

    def leave(self) -> None:
        """The call has ended."""
        self._gate.left(self._turn)

    def abandon(self) -> None:
        """Nobody waits for it any more, though it may go on."""
        self._gate.left(self._turn, abandoned=True)


Task = Annotated[str, Field(min_length=1, max_length=HANDOVER_CHARS)]
Handed = Annotated[str, Field(max_length=HANDOVER_CHARS)]


async def _work(call: ToolContext, specialist: str, task: str, context: str) -> Any:
    children: Children | None = call.children
    if children is None:
        raise ToolError("specialists need a runner; drive this graph with adjourn.graph.Runner")
    whole = f"{task}\n\n{context}" if context else task
    return await children.work(specialist, whole, step=call.step, call_id=call.call_id, agreed=call.approved)


def delegate_tool(specialists: Mapping[str, str], behind: Any) -> Tool:
    """The tool that hands a task to one of these specialists; name -> what it is good at.

    `behind` is kept with it, for the runner.
    """

    async def delegate(specialist: str, task: Task, context: Handed = "", *, call: ToolContext) -> Any:
        return await _work(call, specialist, task, context)

    delegate.__annotations__["specialist"] = Literal[tuple(specialists)]
    many = len(specialists) > MOST
    able = "\n".join([] if many else [f"- {name}: {about}" for name, about in specialists.items()])
    able = able or "Find them by find_specialists."
    what = f"Hand a task to a specialist and get its answer. {_TELL}\n{able}"
    return replace(_delegating(delegate, DELEGATE, what, behind), always_shown=True)


def specialist_tool(name: str, about: str, behind: Any) -> Tool:
    """The tool that hands a task to this one specialist: for the tools of any graph, and the steps of a flow."""

    async def hand(task: Task, context: Handed = "", *, call: ToolContext) -> Any:
        return await _work(call, name, task, context)

    return _delegating(hand, name, f"Hand a task to {name}, who {about}. {_TELL}", behind)


def step_tool(name: str, title: str, behind: Any) -> Tool:
    """The tool that stands for a step of a flow in which a graph works: its result is the graph's answer."""

    async def work(task: Annotated[str, Field(min_length=1)], *, call: ToolContext) -> Any:
        brought = await _work(call, name, task, "")
        return brought if "interrupt" in brought else brought["answer"]

    return _delegating(work, name, title, behind)


_TELL = (
    "It sees the task and the context that you give, and nothing else: say all that it needs. Independent tasks can be "
    "handed out in one turn."
)


def _delegating(function: Callable[..., Any], name: str, description: str, behind: Any) -> Tool:
    made = tool(
        name=name,
        description=description,
        effect="read",  # what it does to the world, its own calls do, each kept apart from all others
        timeout_s=None,
        retries=0,
        repeatable=True,
    )(function)
    return replace(made, delegates=behind)


def find_specialists_tool(specialists: Mapping[str, str]) -> Tool:
    """The tool that a model finds specialists by, where there are too many to name them all (C-89)."""
    search = Search(specialists)

    def find_specialists(query: Annotated[str, Field(min_length=1)]) -> list[dict[str, str]]:
        return [{"specialist": name, "about": specialists[name]} for name in search.best(query)]

    made = tool(
        name="find_specialists",
        description=f"Find specialists by what they are good at. There are {len(specialists)}; the best {FOUND} come back.",
        effect="read",
        repeatable=True,
    )(find_specialists)
    return replace(made, always_shown=True)

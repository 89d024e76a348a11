"""`build_react`: the free loop. The model calls tools until it answers or a limit stops it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import END, StateGraph
from langgraph.graph import START as ENTRY
from langgraph.graph.state import CompiledStateGraph

from adjourn.checkpoints.errors import UsageError
from adjourn.graph.drawing import drawing_of
from adjourn.graph.graph_parts import Graph
from adjourn.graph.may_answer import MayAnswer
from adjourn.graph.routes import ROUTES, START, Node, Routes, next_node
from adjourn.nodes.ask import AskNode
from adjourn.nodes.evidence import Evidence
from adjourn.nodes.finish import FinishNode
from adjourn.nodes.foreign import as_tool
from adjourn.nodes.guards import Limits
from adjourn.nodes.masking import Masker
from adjourn.nodes.model import Choose, ModelNode
from adjourn.nodes.models import chat_model
from adjourn.nodes.permission import Mode, Permission, Rule
from adjourn.nodes.requesting import Prompt
from adjourn.nodes.spending import Prices
from adjourn.nodes.state import LongState, Route
from adjourn.nodes.tool import Tool
from adjourn.nodes.tool_search import find_tool, searched
from adjourn.nodes.tools import ToolsNode


def build_react(
    model: BaseChatModel | str,
    tools: Iterable[Any] = (),
    *,
    fallbacks: Sequence[BaseChatModel | str] = (),
    limits: Limits | None = None,
    evidence: Evidence | None = None,
    prices: Prices | None = None,
    choose_model: Choose | None = None,
    system_prompt: Prompt | None = None,
    max_history_tokens: int | None = None,
    masker: Masker | None = None,
    permission: Rule | None = None,
    mode: Mode | str = Mode.DEFAULT,
    may_answer: MayAnswer | None = None,
    provider_tools: Iterable[Mapping[str, Any]] = (),
    name: str = "react",
) -> Graph:
    """A compiled LangGraph graph: model, tools, ask and finish, joined as `routes.py` says.

    - `model`: any LangChain chat model, or a string such as `"openai:gpt-5"`.
    - `tools`: what `@tool` made, LangChain tools, and plain functions (which count as writes). Of more than 20 the
      model is shown a search, `find_tools`, and what it has found by it (C-89).
    - `fallbacks`: models that are asked in their order when `model` cannot be reached (C-58).
    - `choose_model`: a function that is told of the run (a `RunInfo`) before each model call and names the one of `model` and
      `fallbacks` that is asked first; the others follow in their order. None: `model` is.
    - `limits`: how far a run may go; None: the defaults of `Limits`.
    - `evidence`: tools that must have brought something before an answer counts (C-56); None: any answer does.
    - `prices`: what the models' tokens cost, `{"gpt-5": Price(input=1.25, output=10, cached=0.125)}` per million, by
      the name that the provider answers with or the one it is asked for by. None: tokens are counted, cost is 0.
    - `system_prompt`: a text, a `SystemMessage` whose blocks carry marks such as `cache_control`, or a function that is told
      of the run (a `RunInfo`) and makes either before each model call.
    - `max_history_tokens`: what of a long history is sent at most (C-76); None: all of it. Tool schemas are not
      counted: leave room for them and for the answer.
    - `masker`: what is hidden in results, arguments and errors from the model, events and tables (C-73); None: the
      rules of `adjourn.nodes.masking.DEFAULT`; `Masker(())` hides nothing.
    - `permission`: a rule that says `allow`, `ask` or `deny` to each call just before it runs (C-27).
    - `mode`: `default`, `read_only` (writes are denied), or `preapproved_only` (what a person would have to agree
      to is denied).
    - `may_answer`: told a question and a name, says whether this person may answer it (C-51); None: everybody may,
      but for the `approvers` that a tool names.
    - `provider_tools`: tools that the provider runs itself, as its API describes them, such as
      `{"type": "web_search_20250305", "name": "web_search"}` of Anthropic; models of other providers are not told.
    - `name`: stored with each run; a run is resumed only by a graph of the same name.

    Give it to `Runner`, which brings the store. Raises `UsageError` for two tools of one name, evidence of a tool that
    is not there, and a `max_cost` without the prices of all models.
    """
    known = distinct(as_tool(one) for one in tools)
    if many := searched(known):  # C-89
        known = distinct([find_tool(many), *known])
    bounds, hides = limits or Limits(), masker or Masker()
    nodes: Mapping[Node, Any] = {
        "model": ModelNode(
            chat_model(model),
            known,
            fallbacks=[chat_model(one) for one in fallbacks],
            evidence=evidence,
            prices=prices,
            choose_model=choose_model,
            system_prompt=system_prompt,
            max_history_tokens=max_history_tokens,
            limits=bounds,
            masker=hides,
            provider_tools=provider_tools,
        ),
        "tools": ToolsNode(known, limits=bounds, permission=Permission(permission, Mode(mode)), masker=hides),
        "ask": AskNode(masker=hides, may_answer=may_answer),
        "finish": FinishNode(),
    }
    return join(nodes, name=name)


def join(nodes: Mapping[Node, Any], *, name: str, table: Routes = ROUTES, start: Node = START) -> Graph:
    """The graph of these nodes, with its edges from a table of routes."""
    builder = StateGraph(LongState)
    for node in table:
        builder.add_node(node, nodes[node], input_schema=LongState)
    builder.add_edge(ENTRY, start)
    for node, routes in table.items():
        if not routes:
            builder.add_edge(node, END)
        elif len(routes) == 1:
            builder.add_edge(node, *routes.values())
        else:
            builder.add_conditional_edges(node, _Route(node, table), list(dict.fromkeys(routes.values())))
    graph = cast(Graph, builder.compile(name=name))
    graph.__class__ = Shown
    return graph


class Shown(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph that shows its machine in a notebook. LangGraph's own picture is drawn by a web service."""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {
            "text/markdown": f"```mermaid\n{drawing_of(self)}\n```",
            "text/plain": f"<graph {self.get_name()}>",
        }


class _Word(TypedDict):
    """What a route needs to know of the state."""

    outcome: Route


class _Route(Runnable[_Word, str]):
    """Where the outcome of a node leads.

    Not a plain function: LangGraph would wrap it in a task of its own, with its own trace, which costs a tenth of a
    superstep. The annotation says which part of the state is read, as it does for a function; without it, all of it is.
    """

    name = "route"

    def __init__(self, node: Node, table: Routes) -> None:
        self._node: Node = node
        self._table = table
        self.__annotations__ = {"state": _Word}

    def __call__(self, state: _Word) -> str:
        return next_node(self._node, state["outcome"], self._table)

    def invoke(self, input: _Word, config: RunnableConfig | None = None, **_: Any) -> str:
        return self(input)

    async def ainvoke(self, input: _Word, config: RunnableConfig | None = None, **_: Any) -> str:
        return self(input)


def distinct(tools: Iterable[Tool]) -> list[Tool]:
    """The tools; raises `UsageError` for two of one name."""
    known: dict[str, Tool] = {}
    for one in tools:
        if one.name in known:
            raise UsageError(f"two tools are called {one.name!r}; a model tells tools apart by name")
        known[one.name] = one
    return list(known.values())

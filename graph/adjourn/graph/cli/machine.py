"""`adjourn graph`: the machine of the app's graph as mermaid text, and its tools with their effects."""

from collections.abc import Mapping, Sequence
from typing import Any

from adjourn.graph.cli.apps import load
from adjourn.graph.cli.screen import Screen, short
from adjourn.graph.cli.settings import Settings
from adjourn.graph.drawing import drawing_of
from adjourn.graph.graph_parts import tools_of
from adjourn.nodes.tool import Tool


def show_graph(settings: Settings) -> int:
    """Print the graph of the app."""
    graph = load(settings.app)
    tools = tools_of(graph)
    screen = Screen(settings)
    if settings.json:
        shown = [_to_dict(one) for one in tools.values()]
        screen.data({"name": graph.get_name(), "mermaid": drawing_of(graph), "tools": shown})
        return 0
    screen.line(f"{screen.say('graph')} ", (graph.get_name(), "bold"))
    screen.line(drawing_of(graph).rstrip())
    _show_tools(screen, tools)
    return 0


def _show_tools(screen: Screen, tools: Mapping[str, Tool]) -> None:
    screen.line((f"{screen.say('tools')}:", "bold"))
    rows = [(one.name, _effect(screen, one), _asks(screen, one), _about(one)) for one in tools.values()]
    if rows:
        about = 3
        screen.table(screen.say("tools.head").split("|"), rows, spare=(about,))


def _effect(screen: Screen, one: Tool) -> str:
    return screen.say("effect_by_arguments") if callable(one.effect) else str(one.effect)


def _asks(screen: Screen, one: Tool) -> str:
    asked: Sequence[str] = [screen.say("asks_for", fields=", ".join(one.ask_for))] if one.ask_for else []
    if one.confirm:
        asked = [*asked, screen.say("confirms_sometimes" if callable(one.confirm) else "confirms")]
    return "; ".join(asked) or "-"


def _about(one: Tool) -> str:
    return short(one.description, 100)  # a column, not a page: --json has all of it


def _to_dict(one: Tool) -> dict[str, Any]:
    confirm: Any = "by arguments" if callable(one.confirm) else one.confirm or False
    return {
        "name": one.name,
        "effect": "by arguments" if callable(one.effect) else str(one.effect),
        "ask_for": list(one.ask_for),
        "confirm": confirm,
        "description": one.description,
        "parameters": one.schema,
    }

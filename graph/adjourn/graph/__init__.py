"""How steps are joined and run.

The names below are imported when they are first used: LangGraph takes seconds to import on a slow machine,
and much of the command line (`adjourn runs`, `adjourn show`) reads the database alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adjourn.graph.own_graphs import from_langgraph
    from adjourn.graph.react import build_react
    from adjourn.graph.run import Run
    from adjourn.graph.runner import Runner
    from adjourn.graph.serial import build_serial
    from adjourn.graph.supervisor import Specialist, build_supervisor
    from adjourn.nodes.guards import Limits

__all__ = [
    "Limits",
    "Run",
    "Runner",
    "Specialist",
    "build_react",
    "build_serial",
    "build_supervisor",
    "from_langgraph",
]

_HOMES = {
    "Limits": "adjourn.nodes.guards",
    "Run": "adjourn.graph.run",
    "Runner": "adjourn.graph.runner",
    "build_react": "adjourn.graph.react",
    "build_serial": "adjourn.graph.serial",
    "build_supervisor": "adjourn.graph.supervisor",
    "Specialist": "adjourn.graph.supervisor",
    "from_langgraph": "adjourn.graph.own_graphs",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""What is written down.

The names below are imported when they are first used: the saver brings LangGraph, which takes its time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adjourn.checkpoints.database import Database
    from adjourn.checkpoints.errors import AdjournError
    from adjourn.checkpoints.saver import SQLAlchemySaver

__all__ = ["AdjournError", "Database", "SQLAlchemySaver"]

_HOMES = {
    "AdjournError": "adjourn.checkpoints.errors",
    "Database": "adjourn.checkpoints.database",
    "SQLAlchemySaver": "adjourn.checkpoints.saver",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

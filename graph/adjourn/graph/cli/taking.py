"""How typer is kept from doing, at each start, what the command in hand does not need.

It checks every value with pydantic, defaults too, and loading that takes longer than the query behind `adjourn runs`; and
it looks at the signatures of all commands, 2 ms each.
"""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import typer
from typer.core import TyperGroup


def only(app: typer.Typer, name: str) -> typer.Typer:
    """The parser with this one command; the whole one if there is no such command."""
    found = [
        one for one in app.registered_commands if name in (one.name, getattr(one.callback, "__name__", ""))
    ]
    if not found:
        return app
    made = copy(app)
    made.registered_commands = found
    return made


class _AsItIs:
    """Stands where typer has what checks an option's values, and lets typer make its own (`check`) when it is needed."""

    def __init__(self, described: Any, check: Callable[[], Any]) -> None:
        self._kind, self._info = described.annotation, described.parameter_info
        self._check = check

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if value is param.default or (self._kind is str and isinstance(value, str)):
            return value
        if self._kind is int and isinstance(value, str) and value.isdecimal() and self._holds(int(value)):
            return int(value)
        return self._check().coerce(value, param=param, ctx=ctx)

    def _holds(self, number: int) -> bool:
        least, most = self._info.min, self._info.max
        return (least is None or least <= number) and (most is None or number <= most)


class Commands(TyperGroup):
    """The commands. A typer whose parameters have no `get_runtime_param` checks as it always does, only later."""

    def get_params(self, ctx: Any) -> Any:
        return _said(self, ctx, _eased(super().get_params(ctx)))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            _said(found, ctx, _eased(found.get_params(ctx)))
        return found


def _said(command: Any, ctx: Any, params: list[Any]) -> list[Any]:
    """The same parameters, with help in the language that the program was called with (`obj`)."""
    if ctx.obj == "zh":
        from adjourn.graph.cli.help_texts import in_chinese  # which English does without

        in_chinese(command, params)
    return params


def _eased(params: list[Any]) -> list[Any]:
    for one in params:
        check = getattr(one, "get_runtime_param", None)
        if check is not None and "get_runtime_param" not in vars(one):  # else it was eased before
            one.get_runtime_param = partial(_AsItIs, one.type_descriptor, check)
    return params


__all__ = ["Commands", "only"]

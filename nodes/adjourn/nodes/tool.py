"""`@tool`: a Python function, its schema, and what it does to the world.

A tool declares its effect, its time limit, which parameters a person may fill (`ask_for`) and what needs
agreement (`confirm`). Whatever is wrong with a declaration is said when the tool is defined, never when
the model calls it.
"""

import inspect
import json
import typing
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from adjourn.checkpoints.errors import ToolDefinitionError
from adjourn.checkpoints.lifecycle import Effect
from adjourn.nodes.context import ToolContext

TIMEOUT_S = 30.0  # C-28; long enough for a slow API, short enough that a person still waits
RESULT_LIMIT = 8_000  # C-74, characters: about 2,000 tokens, so that ten results fit a small context

RETRIES = 2  # C-30

Arguments = dict[str, Any]
EffectOf = Effect | str | Callable[[Arguments], Effect | str]
VerifyOf = Callable[[ToolContext], Any] | None
ConfirmOf = bool | str | Callable[[Arguments], bool | str | None] | None


class _Parameters(BaseModel):
    # C-26: no coercion (but int for float, and what JSON writes as text, such as dates), no unknown names
    model_config = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)


@dataclass(frozen=True)
class ArgumentProblems:
    """What is wrong with a call's arguments. Empty in both fields: nothing.

    `missing` holds the `ask_for` parameters that a person can fill; `wrong` maps a field to what was expected.
    """

    missing: tuple[str, ...] = ()
    wrong: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Tool:
    """A function that a model may call. Made by `@tool`; calling it calls the function.

    Attributes with a unit in their name hold numbers of that unit; `timeout_s=None` means no limit.
    """

    name: str
    description: str
    function: Callable[..., Any]
    parameters: type[BaseModel]
    effect: EffectOf = Effect.WRITE
    timeout_s: float | None = TIMEOUT_S
    ask_for: tuple[str, ...] = ()
    confirm: ConfirmOf = None
    parallel: bool = True
    resource: str | Callable[[Arguments], str | None] | None = None
    idempotent: bool = False
    verify: VerifyOf = None
    retries: int = RETRIES
    result_limit: int = RESULT_LIMIT
    merge_by: tuple[str, ...] = ()
    rank_by: str | None = None
    context_parameter: str | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @cached_property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function; others run in a thread of their own."""
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            getattr(self.function, "__call__", None)  # noqa: B004 - a callable object may have an async __call__
        )

    @cached_property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of all parameters."""
        schema = self.parameters.model_json_schema()
        schema.pop("title", None)
        schema.pop("description", None)
        schema.setdefault("properties", {})
        return schema

    @cached_property
    def for_model(self) -> dict[str, Any]:
        """The tool as a model is told of it, in the shape every LangChain chat model binds.

        What a person may fill is optional here (C-38).
        """
        parameters = dict(self.schema)
        required = [name for name in parameters.get("required", ()) if name not in self.ask_for]
        parameters.pop("required", None)
        if required:
            parameters["required"] = required
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}

    def effect_of(self, arguments: Arguments) -> Effect:
        """What this call does; a declaration that raises or says nonsense makes it a write (C-19)."""
        if not callable(self.effect):
            return Effect(self.effect)
        try:
            return Effect(self.effect(arguments))
        except Exception:
            return Effect.WRITE

    def resource_of(self, arguments: Arguments) -> str | None:
        """What this call touches, where declared; calls that name the same resource keep their order."""
        if not callable(self.resource):
            return self.resource
        try:
            return self.resource(arguments)
        except Exception:
            return None

    def question_of(self, arguments: Arguments) -> str | None:
        """The sentence of agreement that this call needs before it runs, or None.

        A function that raises asks: whoever declared a risk would rather be asked once too often.
        """
        asked = self.confirm
        if callable(asked):
            try:
                asked = asked(arguments)
            except Exception:
                asked = True
        if not asked:
            return None
        if not isinstance(asked, str):
            return f"{self.name}?"
        defaults = {k: v["default"] for k, v in self.schema["properties"].items() if "default" in v}
        return _fill(asked, {**defaults, **arguments})

    def problems(self, arguments: Arguments) -> ArgumentProblems:
        """What keeps `arguments` (JSON data) from running. Runs no user code but validators."""
        try:
            self._validate(arguments)
        except ValidationError as error:
            return self._sort(error, arguments)
        except Exception as error:  # a validator of the tool's own that raises what it likes
            return ArgumentProblems(wrong={"": f"{type(error).__name__}: {error}"})
        asked = tuple(name for name in self.ask_for if name not in arguments)
        return ArgumentProblems(missing=asked)

    def _validate(self, arguments: Arguments) -> BaseModel:
        # as JSON, so that dates and enums may come as text; the standard library writes integers of any size
        return self.parameters.model_validate_json(json.dumps(arguments), strict=True)

    def _sort(self, error: ValidationError, arguments: Arguments) -> ArgumentProblems:
        missing = tuple(name for name in self.ask_for if name not in arguments)
        wrong: dict[str, str] = {}
        for one in error.errors(include_url=False, include_context=False, include_input=False):
            where = ".".join(str(part) for part in one["loc"])
            if where not in missing:
                wrong.setdefault(where, one["msg"])
        return ArgumentProblems(missing, wrong)

    def without_blanks(self, arguments: Arguments) -> Arguments:
        """`arguments` without the nulls and empty strings that models send for what a person should fill."""
        return {k: v for k, v in arguments.items() if not (k in self.ask_for and v in (None, ""))}

    def bind(self, arguments: Arguments, context: ToolContext) -> dict[str, Any]:
        """Checked keyword arguments for the function, defaults filled and the context injected.

        Raises `pydantic.ValidationError` when they do not fit; call `problems` first.
        """
        checked = self._validate(arguments)
        values = {name: getattr(checked, name) for name in type(checked).model_fields}
        if self.context_parameter:
            values[self.context_parameter] = context
        return values


def _fill(template: str, arguments: Arguments) -> str:
    try:
        return template.format_map(arguments)
    except Exception:  # a name that is not there, or a value that its format does not take
        return template


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: EffectOf = ...,
    timeout_s: float | None = ...,
    ask_for: tuple[str, ...] | list[str] = ...,
    confirm: ConfirmOf = None,
    parallel: bool = True,
    resource: str | Callable[[Arguments], str | None] | None = None,
    idempotent: bool = False,
    verify: VerifyOf = None,
    retries: int = ...,
    result_limit: int = ...,
    merge_by: tuple[str, ...] = (),
    rank_by: str | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: EffectOf = Effect.WRITE,
    timeout_s: float | None = TIMEOUT_S,
    ask_for: tuple[str, ...] | list[str] = (),
    confirm: ConfirmOf = None,
    parallel: bool = True,
    resource: str | Callable[[Arguments], str | None] | None = None,
    idempotent: bool = False,
    verify: VerifyOf = None,
    retries: int = RETRIES,
    result_limit: int = RESULT_LIMIT,
    merge_by: tuple[str, ...] = (),
    rank_by: str | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, sync or async.

    - `effect`: `"read"` or `"write"`, or a function of the arguments that says which. Undeclared is a write.
    - `timeout_s`: the limit of one attempt, in seconds; None: no limit.
    - `ask_for`: parameters that a person fills when the model leaves them out.
    - `confirm`: needs agreement before it runs: True, a sentence with `{parameters}`, or a function of the
      arguments that gives one of these (None or False: no question).
    - `parallel`: whether a read may run beside other reads.
    - `resource`: what it touches, for the order of reads behind a write that waits.
    - `idempotent`: a repeated write with the same idempotency key has no second effect.
    - `verify`: told the context of a write whose outcome was lost, says whether it happened (`Happened(result)`,
      False, or None when it cannot tell); sync or async. Without it a person is asked (C-35).
    - `retries`: how often an attempt that failed by the network, a time limit (once) or a rate limit is made
      again; only reads and idempotent writes are (C-30).
    - `result_limit`: characters of the result that the model may see.
    - `merge_by`, `rank_by`: records of a result that share these keys become one, the highest rank first (C-75).

    Raises `ToolDefinitionError` for a function that a model could not call or be told of.
    """

    def make(fn: Callable[..., Any]) -> Tool:
        tool_name: str = name or getattr(fn, "__name__", None) or type(fn).__name__
        fields, context_parameter = _fields(fn, tool_name)
        made = Tool(
            name=tool_name,
            description=(description or inspect.getdoc(fn) or "").strip(),
            function=fn,
            parameters=_model(tool_name, fields),
            effect=effect,
            timeout_s=timeout_s,
            ask_for=tuple(ask_for),
            confirm=confirm,
            parallel=parallel,
            resource=resource,
            idempotent=idempotent,
            verify=verify,
            retries=retries,
            result_limit=result_limit,
            merge_by=tuple(merge_by),
            rank_by=rank_by,
            context_parameter=context_parameter,
        )
        return checked(made)

    return make if function is None else make(function)


def _fields(fn: Callable[..., Any], name: str) -> tuple[dict[str, Any], str | None]:
    target = fn if inspect.isroutine(fn) else type(fn).__call__
    try:
        hints = typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(f"tool {name}: a type of its signature cannot be found: {error}") from error
    fields: dict[str, Any] = {}
    context_parameter = None
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ToolDefinitionError(
                f"tool {name}: parameter {parameter} has no name that a model could give; use plain parameters"
            )
        kind = hints.get(parameter.name, Any)
        if kind is ToolContext:
            context_parameter = parameter.name
            continue
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (kind, default)
    return fields, context_parameter


def _model(name: str, fields: dict[str, Any]) -> type[BaseModel]:
    """The parameters as a pydantic model. Names such as `json` shadow its methods, which does no harm here."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return create_model(f"{name}_arguments", __base__=_Parameters, **fields)
    except Exception as error:
        raise ToolDefinitionError(f"tool {name}: a parameter cannot be given by a model: {error}") from error


def checked(made: Tool) -> Tool:
    """The tool, if a model can be told of it and can call it. Raises `ToolDefinitionError`."""
    if (
        not made.name.replace("_", "").replace("-", "").isalnum()
        or len(made.name) > 64
        or not made.name.isascii()
    ):
        raise ToolDefinitionError(f"tool {made.name!r}: a name is 1 to 64 letters, digits, _ or -")
    if not made.description:
        raise ToolDefinitionError(f"tool {made.name}: a model needs a description; write a docstring")
    if isinstance(made.effect, str) and made.effect not in set(Effect):
        raise ToolDefinitionError(f"tool {made.name}: effect is 'read' or 'write', not {made.effect!r}")
    if made.timeout_s is not None and not made.timeout_s > 0:
        raise ToolDefinitionError(f"tool {made.name}: timeout_s is above 0, or None for no limit")
    if made.retries < 0:
        raise ToolDefinitionError(f"tool {made.name}: retries is a whole number from 0, not {made.retries!r}")
    unknown = [name for name in made.ask_for if name not in made.parameters.model_fields]
    if unknown:
        raise ToolDefinitionError(
            f"tool {made.name}: ask_for names {', '.join(unknown)}, which it does not take"
        )
    try:
        made.schema  # noqa: B018 - a schema that cannot be made is said now, not at the first call
    except Exception as error:
        raise ToolDefinitionError(f"tool {made.name}: its parameters have no JSON Schema: {error}") from error
    return made

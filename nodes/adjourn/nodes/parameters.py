"""What a tool takes: the parameters of a function, of a pydantic model, or of a JSON Schema, and how calls are checked.

Nothing is coerced but int for float, and what JSON writes as text, such as dates; unknown names are wrong
unless the schema allows them (C-26). Whatever cannot be filled by a model is said when the tool is defined.
"""

import functools
import inspect
import json
import typing
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolArg, InjectedToolCallId
from pydantic import BaseModel, ConfigDict, SecretBytes, SecretStr, ValidationError, create_model

from adjourn.checkpoints.errors import ToolDefinitionError
from adjourn.nodes.context import ToolContext
from adjourn.nodes.json_schema import check_references, check_schema, complaints, shortened

Arguments = dict[str, Any]
Injected = Mapping[str, Callable[[ToolContext], Any]]

_NO_SUCH = "there is no such parameter"


class Parameters(ABC):
    """What a tool takes, as JSON data."""

    @cached_property
    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """JSON Schema of all parameters; `properties` is always there."""

    @abstractmethod
    def wrong(self, arguments: Arguments) -> dict[str, str]:
        """What is wrong with them, by field: what was expected. Runs no user code but validators."""

    @abstractmethod
    def values(self, arguments: Arguments) -> dict[str, Any]:
        """Checked keyword arguments for the function, defaults filled where it does not fill its own."""


class Marker:
    """What `Secret[...]` leaves in a type."""


T = typing.TypeVar("T")
Secret = Annotated[T, Marker()]
"""A parameter that only a person fills: `password: Secret[str]` (C-73). The tool gets the plain value."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)


@dataclass(frozen=True, eq=False)
class ModelParameters(Parameters):
    """A pydantic model.

    `as_json`: the function checks its own arguments and gets them as they came. `takes_more`: it takes names that
    the model does not list.
    """

    model: type[BaseModel]
    as_json: bool = False
    takes_more: bool = False

    @cached_property
    def schema(self) -> dict[str, Any]:
        schema = self.model.model_json_schema()
        schema.pop("title", None)
        schema.pop("description", None)
        schema.setdefault("properties", {})
        check_references(schema)  # an annotation may bring a schema of its own
        return schema

    def wrong(self, arguments: Arguments) -> dict[str, str]:
        found: dict[str, str] = {}
        try:
            self._checked(arguments)
        except ValidationError as error:
            for one in error.errors(include_url=False, include_context=False, include_input=False):
                found.setdefault(".".join(str(part) for part in one["loc"]), shortened(one["msg"]))
        except Exception as error:  # a validator of the tool's own that raises what it likes
            found[""] = shortened(f"{type(error).__name__}: {error}")
        if not self.takes_more and self.model.model_config.get("extra") != "forbid":  # it would ignore them
            found |= {name: _NO_SUCH for name in arguments if name not in self.schema["properties"]}
        return found

    def values(self, arguments: Arguments) -> dict[str, Any]:
        if self.as_json:
            return dict(arguments)
        checked = self._checked(arguments)
        return {name: getattr(checked, name) for name in type(checked).model_fields}

    def _checked(self, arguments: Arguments) -> BaseModel:
        # as JSON, so that dates and enums may come as text; the standard library writes integers of any size
        return self.model.model_validate_json(json.dumps(arguments), strict=True)


@dataclass(frozen=True, eq=False)
class SchemaParameters(Parameters):
    """A JSON Schema, as MCP servers give one. Names that it does not list are wrong, unless it says more of them."""

    given: Mapping[str, Any]

    @cached_property
    def schema(self) -> dict[str, Any]:
        schema = {key: value for key, value in self.given.items() if key not in ("title", "description")}
        schema = {"type": "object", "properties": {}, **schema}
        check_schema(schema)
        return schema

    def wrong(self, arguments: Arguments) -> dict[str, str]:
        found = complaints(self.schema, arguments)
        if not self.schema.keys() & {"additionalProperties", "patternProperties"}:
            found |= {name: _NO_SUCH for name in arguments if name not in self.schema["properties"]}
        return found

    def values(self, arguments: Arguments) -> dict[str, Any]:
        return dict(arguments)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes: from the model or a person, from the runtime, and what is secret."""

    parameters: ModelParameters
    injected: Injected
    secret: tuple[str, ...]


def signature_of(fn: Callable[..., Any], name: str) -> Signature:
    """The parameters of a function, a method, a `functools.partial` or a callable object.

    Raises `ToolDefinitionError` for a parameter that neither a model nor the runtime can fill.
    """
    fields: dict[str, Any] = {}
    injected: dict[str, Callable[[ToolContext], Any]] = {}
    secret: list[str] = []
    hints = _hints(fn, name)
    for parameter in _open_parameters(fn):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ToolDefinitionError(
                f"tool {name}: parameter {parameter} has no name that a model could give; use plain parameters"
            )
        if (
            parameter.name == "self" and "self" not in hints
        ):  # a function in a class, that no object is bound to yet
            raise ToolDefinitionError(
                f"tool {name}: no model can fill self; make the tool of the object's method, tool(...)(it.{name})"
            )
        kind = hints.get(parameter.name, Any)
        has_default = parameter.default is not inspect.Parameter.empty
        given = injection(kind, f"tool {name}: parameter {parameter.name}", has_default=has_default)
        if given is not None:
            injected |= {parameter.name: given} if given is not LEFT_OUT else {}
            continue
        if is_secret(kind):
            secret.append(parameter.name)
        fields[parameter.name] = (kind, parameter.default if has_default else ...)
    return Signature(ModelParameters(_model(name, fields)), injected, tuple(secret))


def inner(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function below any `functools.partial`: what carries the name and the docstring."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def _open_parameters(fn: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    """The parameters that are not filled by a `functools.partial`: what the app filled, no model changes."""
    filled: set[str] = set()
    below = fn
    while isinstance(below, functools.partial):
        filled |= below.keywords.keys()
        below = below.func
    return [one for one in inspect.signature(fn).parameters.values() if one.name not in filled]


def _hints(fn: Callable[..., Any], name: str) -> dict[str, Any]:
    below = inner(fn)
    target = below if inspect.isroutine(below) else type(below).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(f"tool {name}: a type of its signature cannot be found: {error}") from error


def _model(name: str, fields: dict[str, Any]) -> type[BaseModel]:
    """The parameters as a pydantic model. Names such as `json` shadow its methods, which does no harm here."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return create_model(f"{name}_arguments", __base__=_Strict, **fields)
    except Exception as error:
        raise ToolDefinitionError(f"tool {name}: a parameter cannot be given by a model: {error}") from error


# -- what the runtime fills


def LEFT_OUT(_context: ToolContext) -> Any:
    """Stands for a parameter that is nobody's to fill: its own default holds."""


# LangChain's words for what only its own agent has, by the class's name: they are LangGraph's and may be absent.
_REFUSED = {
    "ToolRuntime": "the state, store and stream of LangChain's own agent",
    "InjectedState": "the state of LangChain's own agent",
    "InjectedStore": "the store of LangChain's own agent",
}


def injection(kind: Any, where: str, *, has_default: bool) -> Callable[[ToolContext], Any] | None:
    """How the runtime fills a parameter of this type; None: a model or a person fills it.

    Raises `ToolDefinitionError` for what LangChain's own agent would fill and we cannot: nothing is ignored.
    """
    parts = list(_parts(kind))
    if ToolContext in parts:
        return lambda context: context
    if RunnableConfig in parts:
        raise ToolDefinitionError(f"{where} wants LangChain's RunnableConfig; {_INSTEAD}")
    markers = {one.__name__ for mark in _marks(kind) for one in mark.__mro__}
    for word, what in _REFUSED.items():
        if word in markers:
            raise ToolDefinitionError(f"{where} wants {what} ({word}); {_INSTEAD}")
    if InjectedToolCallId.__name__ in markers:
        return lambda context: context.call_id
    if InjectedToolArg.__name__ in markers:
        if has_default:
            return LEFT_OUT
        raise ToolDefinitionError(
            f"{where} is an InjectedToolArg, which nobody would fill here; fill it with functools.partial, "
            f"give it a default, or take a ToolContext"
        )
    return None


_INSTEAD = "take a ToolContext, which knows run, thread, call and person, and what the run was started with"


def _marks(kind: Any) -> Iterable[type]:
    """The classes that a type is marked with, at any depth."""
    return (one if isinstance(one, type) else type(one) for one in _parts(kind))


def _parts(kind: Any) -> Iterable[Any]:
    yield kind
    origin = typing.get_origin(kind)
    if origin is not None:
        yield origin
        for one in typing.get_args(kind):
            yield from _parts(one)


def is_secret(kind: Any) -> bool:
    """Whether a type says that only a person may fill it: `Secret[...]`, or pydantic's own secret types."""
    return any(one in (SecretStr, SecretBytes) or isinstance(one, Marker) for one in _parts(kind))

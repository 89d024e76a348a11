"""The classes of an application that loading may restore, and how values of unknown classes are kept.

A stored object names its class as `module:qualname`. The name is compared with the registered classes and
is never imported. Fields are set directly: no constructor, validator or `__setstate__` runs.
"""

import dataclasses
import logging
import types
import typing
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

logger = logging.getLogger("adjourn.checkpoints")


def type_name(kind: type) -> str:
    """The stored name of a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


class Registry:
    """Which classes may be restored. Registering twice is harmless."""

    def __init__(self, kinds: Iterable[Any] = ()) -> None:
        self._known: dict[str, type] = {}
        self._warned: set[str] = set()
        self.register(*kinds)

    def register(self, *schemas: Any) -> None:
        """Let loading restore these classes, and those that their annotations name."""
        for kind in classes_in(*schemas):
            self._known[type_name(kind)] = kind

    def get(self, name: str) -> type | None:
        """The registered class of this stored name."""
        return self._known.get(name)

    def take_apart(self, value: Any) -> tuple[str, Any]:
        """The stored name and the fields of an object. A class that is not registered is kept as data."""
        name = type_name(type(value))
        if name not in self._known:
            self._warn(
                name, "a %s is stored, but the class is not registered: it will be loaded as plain data"
            )
        return name, _fields_of(value)

    def put_together(self, name: str, fields: Any) -> Any:
        """The object of a registered class; of another one, its fields."""
        kind = self._known.get(name)
        if kind is None:
            self._warn(name, "a stored %s is loaded as plain data: the class is not registered")
            return fields
        return _restore(kind, fields)

    def _warn(self, name: str, text: str) -> None:
        if name + text not in self._warned:
            self._warned.add(name + text)
            logger.warning(f"{text} (pass it in `types=[...]`)", name)


_CONTENTS: tuple[type[Any], ...] = (dict, list, set, str, int, float, bytes)


def _fields_of(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, BaseModel):
        return _pydantic_fields(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if hasattr(value, f.name)}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        return dict(zip(names, value, strict=True)) if names else tuple(value)
    return _content_of(value)


def _content_of(value: Any) -> Any:
    """Of a subclass, its content without the class; of a class, its name; of anything else, its repr."""
    for kind in _CONTENTS:
        if isinstance(value, kind):
            return kind(value)
    return type_name(value) if isinstance(value, type) else repr(value)


def _pydantic_fields(value: BaseModel) -> dict[str, Any]:
    fields = dict(value.__dict__)
    fields |= value.__pydantic_extra__ or {}
    return fields | (value.__pydantic_private__ or {})


def _restore(kind: type, fields: Any) -> Any:
    if issubclass(kind, Enum):
        return kind(fields)
    if issubclass(kind, BaseModel):
        return _restore_pydantic(kind, fields)
    if dataclasses.is_dataclass(kind):
        restored = object.__new__(kind)
        for field in dataclasses.fields(kind):
            if field.name in fields:
                object.__setattr__(restored, field.name, fields[field.name])
        return restored
    if issubclass(kind, tuple):
        return tuple.__new__(kind, fields.values() if isinstance(fields, dict) else fields)
    return fields


def _restore_pydantic(kind: type[BaseModel], fields: dict[str, Any]) -> BaseModel:
    private = {name: fields[name] for name in kind.__private_attributes__ if name in fields}
    public = {name: value for name, value in fields.items() if name not in private}
    declared = {name: value for name, value in public.items() if name in kind.model_fields}
    extra = {name: value for name, value in public.items() if name not in declared}
    restored = kind.__new__(kind)
    object.__setattr__(restored, "__dict__", declared)
    object.__setattr__(restored, "__pydantic_fields_set__", set(public))
    allows_extra = kind.model_config.get("extra") == "allow"
    object.__setattr__(restored, "__pydantic_extra__", extra if allows_extra else None)
    object.__setattr__(restored, "__pydantic_private__", private if kind.__private_attributes__ else None)
    return restored


def classes_in(*schemas: Any) -> Iterator[type]:
    """The classes that schemas name: themselves, and those of their annotations, followed to the end."""
    seen: dict[int, Any] = {}  # by identity, since not everything that is annotated has a hash
    waiting = [*schemas]
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen[id(current)] = current
        waiting.extend(typing.get_args(current))
        if isinstance(current, type) and not isinstance(current, types.GenericAlias):
            waiting.extend(_annotations(current))
            if _is_restorable(current):
                yield current


def _annotations(kind: type) -> list[Any]:
    if kind.__module__ == "builtins" or issubclass(kind, Enum):
        return []
    if issubclass(kind, BaseMessage) and kind.__module__.startswith("langchain_core."):
        return []  # the codec's own list knows them, and what they hold
    try:
        return list(typing.get_type_hints(kind).values())
    except (NameError, TypeError, AttributeError):  # an annotation that cannot be resolved names nothing
        return []


def _is_restorable(kind: type) -> bool:
    if issubclass(kind, BaseMessage):
        return not kind.__module__.startswith("langchain_core.")
    return (
        issubclass(kind, Enum | BaseModel)
        or dataclasses.is_dataclass(kind)
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    )

"""JSON Schemas of other people: of MCP servers, of tools that ask, of nodes of somebody's own. Pure: nothing is fetched.

A reference is followed within its own document, and to the schemas of JSON Schema itself, which are installed. One that
leads elsewhere, to a URL or a file, leads nowhere: a schema that holds one is refused when a tool is defined or a question
is made, and no check ever asks a network.
"""

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing.jsonschema import DRAFT202012, SchemaRegistry

from adjourn.checkpoints.json_data import check_data

SHOWN = 300  # characters of one complaint: some quote the value, which may be a whole document

_SHARED = ("$defs", "definitions")  # where a schema keeps what its parts refer to
_INSTALLED: SchemaRegistry = REGISTRY  # has no way to get other documents
_Resolver = Any  # the library gives its class no public name


def shared(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What a part of `schema` that is used by itself may refer to, and takes along."""
    return {name: schema[name] for name in _SHARED if name in schema}


def complaints(schema: Mapping[str, Any], value: Any) -> dict[str, str]:
    """What is wrong with a value, by field; `""` stands for all of it. Empty: it fits.

    Raises nothing: where the schema cannot be followed, that is what is wrong.
    """
    found: dict[str, str] = {}
    try:
        for error in Draft202012Validator(schema, registry=_INSTALLED).iter_errors(value):
            found.setdefault(_field(error), shortened(error.message))
    except Exception as error:  # a reference that leads nowhere or in a circle, a pattern that is none
        found[""] = shortened(f"the schema cannot be followed: {type(error).__name__}: {error}")
    return found


def _field(error: ValidationError) -> str:
    """The field that a complaint is about; a field that is missing is named, not the object around it."""
    path = ".".join(str(part) for part in error.absolute_path)
    if error.validator == "required" and not path:
        required: list[str] = list(error.validator_value or ())  # type: ignore[arg-type]
        return next((one for one in required if f"'{one}'" in error.message), "")
    return path


def shortened(complaint: str) -> str:
    """A complaint as it is shown."""
    return complaint if len(complaint) <= SHOWN else f"{complaint[:SHOWN]}..."


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raises `ValueError` for what is no JSON Schema, or holds a reference that leads nowhere."""
    check_data(schema)
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(shortened(error.message)) from error
    check_references(schema)


def check_references(schema: Mapping[str, Any]) -> None:
    """Raises `ValueError` for a reference that leads out of the schema or to no schema, and for those that lead in a circle
    without going into the value: nothing would ever come of them."""
    root = DRAFT202012.create_resource(schema)
    todo: list[tuple[Any, _Resolver]] = [(schema, _INSTALLED.resolver_with_root(root))]
    of_the_same_value: dict[int, list[int]] = {}
    while todo:
        part, resolver = todo.pop()
        if not isinstance(part, Mapping) or id(part) in of_the_same_value:
            continue
        led_to = [_led_to(part[word], resolver) for word in _REFERENCES if word in part]
        beside = [one for word in _BESIDE for one in _several(part.get(word))]
        of_the_same_value[id(part)] = [*(id(one) for one, _ in led_to), *map(id, beside)]
        try:
            inner = list(DRAFT202012.create_resource(part).subresources())
        except Exception as error:  # a part that only a reference knows to be a schema, and that is none
            raise ValueError(shortened(f"a reference leads to {part!r}, which is no schema")) from error
        todo += [*led_to, *((one.contents, resolver.in_subresource(one)) for one in inner)]
    try:
        TopologicalSorter(of_the_same_value).prepare()
    except CycleError:
        raise ValueError("its references lead in a circle") from None


def _led_to(reference: Any, resolver: _Resolver) -> tuple[Any, _Resolver]:
    """Where a reference leads, with what follows the references from there."""
    try:
        found = resolver.lookup(reference)
    except Exception as error:  # a path that is not there, no URL, no text
        raise ValueError(shortened(f"its reference {reference!r} leads nowhere")) from error
    if not isinstance(found.contents, Mapping | bool):
        raise ValueError(shortened(f"its reference {reference!r} leads to no schema"))
    return found.contents, found.resolver


def _several(given: Any) -> Iterable[Any]:
    if isinstance(given, list):
        return given
    return [] if given is None else [given]


_REFERENCES = ("$ref", "$dynamicRef")
_BESIDE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")  # they say more of the same value

"""One field of an answer: what its JSON Schema says about it, and the value that a typed text means."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from adjourn.checkpoints.json_data import read_json

Schema = Mapping[str, Any]

NOTHING: Any = object()  # a field that is left out: None is a value that it may have


class WrongValue(ValueError):
    """A text is no value of its field; the message is one line that says what would be."""


def resolved(schema: Schema, whole: Schema) -> Schema:
    """`schema` with its `$ref` into `whole` followed; what stands beside the reference wins.

    One that leads nowhere, or back to itself, says nothing: the answer is checked where it is accepted.
    """
    found, followed = dict(schema), set[str]()
    while (reference := str(found.pop("$ref", ""))) and reference not in followed:
        followed.add(reference)
        place, _, name = reference.removeprefix("#/").partition("/")
        part = whole.get(place, {}).get(name) if place in ("$defs", "definitions") else None
        found = {**(part if isinstance(part, Mapping) else {}), **found}
    return found


def properties(schema: Schema) -> Mapping[str, Schema]:
    """The fields of an answer, of all its variants together where it has several."""
    found: dict[str, Schema] = {}
    for one in schema.get("oneOf", [schema]):
        for name, field in one.get("properties", {}).items():
            if "const" in field:  # what tells the variants apart: any of their words
                known = found.get(name, {}).get("enum", [])
                found[name] = {"enum": [*known, field["const"]]}
            else:
                found[name] = field
    return found


def variants(schema: Schema) -> Mapping[str, Schema]:
    """The schemas of an answer's possible actions, by word: empty for one that takes values."""
    return {one["title"]: one for one in schema.get("oneOf", ()) if "title" in one}


def choices(schema: Schema, whole: Schema) -> Sequence[Any] | None:
    """The values that a field may have, where they are few enough to be listed; else None."""
    schema = resolved(schema, whole)
    if "const" in schema:
        return [schema["const"]]
    if "enum" in schema:
        return list(schema["enum"])
    if "anyOf" in schema:
        each = [choices(one, whole) for one in schema["anyOf"]]
        return None if None in each else [value for one in each for value in one or ()]
    return _FEW.get(str(schema.get("type")))


_FEW: Mapping[str, Sequence[Any]] = {"boolean": [True, False], "null": [None]}


def kinds(schema: Schema, whole: Schema) -> frozenset[str]:
    """JSON Schema's type words that a field may have; empty: any."""
    schema = resolved(schema, whole)
    if "anyOf" in schema:
        each = [kinds(one, whole) for one in schema["anyOf"]]
        return frozenset().union(*each) if all(each) else frozenset()
    word = schema.get("type", ())
    return frozenset([word] if isinstance(word, str) else word)


def describe(schema: Schema, whole: Schema) -> str:
    """What a field takes, in a few words: `prod | staging`, `integer 1..10`, `string 2026-03-18`."""
    listed = choices(schema, whole)
    if listed is not None:
        return " | ".join(shown(value) for value in listed)
    schema = resolved(schema, whole)
    words = " | ".join(sorted(kinds(schema, whole))) or "JSON"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None or high is not None:
        return f"{words} {'' if low is None else low}..{'' if high is None else high}"
    return f"{words} {_written(schema, whole)}".rstrip()


def _written(schema: Schema, whole: Schema) -> str:
    """How a value is written whose kind does not say it: a time, a list, one of several objects; else empty."""
    inner, _ = without_null(schema, whole)
    if kinds(inner, whole) == {"array"}:
        listed = [json.dumps(one, ensure_ascii=False) for one in choices(inner.get("items", {}), whole) or ()]
        return f"[{' | '.join(listed)}]" if listed else shown(example(inner, whole))
    several = {"anyOf", "oneOf"} & inner.keys()
    return shown(example(inner, whole)) if several or inner.get("format") in _FORMATS else ""


def shown(value: Any) -> str:
    """A value as a person types it: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def parse(words: str, schema: Schema, whole: Schema) -> Any:
    """The value of a field that `words` mean: text for a text field, JSON for the others.

    `whole` is the schema that holds `$defs`. Raises `WrongValue`.
    """
    listed = choices(schema, whole)
    if listed is not None:
        return _listed(words, listed)
    value = _read(words, kinds(schema, whole))
    problem = _problem(value, schema, whole)
    if problem is not None:
        raise WrongValue(problem)
    return value


def _listed(words: str, listed: Sequence[Any]) -> Any:
    for value in listed:
        if words == shown(value):
            return value
    raise WrongValue(f"must be one of {', '.join(map(shown, listed))}, not {words!r}")


def _read(words: str, wanted: frozenset[str]) -> Any:
    if wanted == {"string"}:
        return words
    try:
        value = read_json(words)
    except ValueError:
        if not wanted or "string" in wanted:
            return words
        raise WrongValue(f"must be {' or '.join(sorted(wanted))}, not {words!r}") from None
    # text that happens to read as JSON stays text, unless the field takes that kind as well
    return words if "string" in wanted and not _kinds_of(value) & wanted - {"string"} else value


def _kinds_of(value: Any) -> frozenset[str]:
    if isinstance(value, bool) or value is None:
        return frozenset(["null" if value is None else "boolean"])
    if isinstance(value, int):
        return frozenset(["integer", "number"])
    return frozenset([{float: "number", str: "string", list: "array", dict: "object"}[type(value)]])


def _problem(value: Any, schema: Schema, whole: Schema) -> str | None:
    from adjourn.nodes.json_schema import complaints, shared  # here: only who answers waits for its import

    return next(iter(complaints({**schema, **shared(whole)}, value).values()), None)


def example(schema: Schema, whole: Schema, depth: int = 4) -> Any:
    """A value that a field might have, to show how one is written. `depth`: how far a schema is followed into itself."""
    listed = choices(schema, whole)
    if listed:
        return listed[0]
    schema = resolved(schema, whole)
    for given in ("examples", "default"):
        if schema.get(given):
            return schema[given][0] if given == "examples" else schema[given]
    parts = [one for one in schema.get("anyOf", schema.get("oneOf", ())) if one.get("type") != "null"]
    if parts:
        return example(parts[0], whole, depth)
    kind = next(iter(sorted(kinds(schema, whole))), "string")
    if kind == "array":
        return [example(schema.get("items", {}), whole, depth - 1)] if depth else []
    if kind == "object":
        fields = schema.get("properties", {}) if depth else {}
        more = schema.get("additionalProperties")
        if not fields and isinstance(more, dict) and depth:
            fields = {"name": more}
        return {name: example(one, whole, depth - 1) for name, one in fields.items()}
    numbers = {"integer": max(1, schema.get("minimum", 1)), "number": schema.get("minimum", 1.5)}
    return numbers.get(kind, _FORMATS.get(str(schema.get("format")), "text"))


_FORMATS: Mapping[str, str] = {  # what pydantic makes of Python's types
    "date-time": "2026-03-18T20:00:00Z",
    "date": "2026-03-18",
    "time": "20:00:00Z",
    "duration": "PT30M",
    "uuid": "0b4f9a52-3d1c-4c58-9a55-2f0c6f1a7e10",
    "email": "li@example.com",
    "uri": "https://example.com",
}


def is_secret(schema: Schema, whole: Schema) -> bool:
    """Whether what is typed here is not to be read on the screen."""
    return resolved(schema, whole).get("writeOnly") is True


def without_null(schema: Schema, whole: Schema) -> tuple[Schema, bool]:
    """The schema of a field that may be null without that, and whether it may."""
    schema = resolved(schema, whole)
    parts = schema.get("anyOf", ())
    rest = [one for one in parts if one.get("type") != "null"]
    if len(rest) == len(parts):
        return schema, False
    beside = {name: value for name, value in schema.items() if name != "anyOf"}
    return ({**resolved(rest[0], whole), **beside} if len(rest) == 1 else {**beside, "anyOf": rest}), True


def title_of(name: str, schema: Schema) -> str | None:
    """The title that somebody gave a field; None for the one that is made of its name."""
    title = schema.get("title")
    return None if title is None or title == name.replace("_", " ").title() else str(title)

"""Texts that people type, and the values that they mean by a field's JSON Schema."""

from typing import Any

import pytest

from adjourn.graph.fields import WrongValue, choices, describe, example, parse, title_of, without_null

TEXT = {"type": "string"}
MAYBE = {"anyOf": [{"type": "string"}, {"type": "null"}]}
COUNT = {"type": "integer", "minimum": 1, "maximum": 10}
DEFS = {"$defs": {"Color": {"enum": ["red", "green"]}, "Point": {"type": "object", "required": ["x"]}}}


@pytest.mark.parametrize(
    ("words", "schema", "value"),
    [
        ("007", TEXT, "007"),
        ("true", TEXT, "true"),
        ('{"a": 1}', TEXT, '{"a": 1}'),
        ("7", COUNT, 7),
        ("1.5", {"type": "number"}, 1.5),
        ("2", {"type": "number"}, 2),
        ("true", {"type": "boolean"}, True),
        ('["a"]', {"type": "array", "items": TEXT}, ["a"]),
        ('{"x": 1}', {"$ref": "#/$defs/Point"}, {"x": 1}),
        ("red", {"$ref": "#/$defs/Color", "description": "which"}, "red"),
        ("2", {"enum": [1, 2]}, 2),
        ("null", MAYBE, None),
        ("7", MAYBE, "7"),
        ("7", {"anyOf": [TEXT, {"type": "integer"}]}, 7),
        ("null", {"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, None),
        ("free text", {}, "free text"),
        ("[1]", {}, [1]),
    ],
)
def test_a_text_means_the_value_that_its_schema_says(words: str, schema: Any, value: Any) -> None:
    found = parse(words, schema, DEFS)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("words", "schema", "why"),
    [
        ("seven", COUNT, "must be integer, not 'seven'"),
        ("11", COUNT, "11 is greater than the maximum of 10"),
        ("1.5", COUNT, "1.5 is not of type 'integer'"),
        ("yes", {"type": "boolean"}, "must be one of true, false, not 'yes'"),
        ("blue", {"$ref": "#/$defs/Color"}, "must be one of red, green, not 'blue'"),
        ("{}", {"$ref": "#/$defs/Point"}, "'x' is a required property"),
        ("NaN", {"type": "number"}, "must be number, not 'NaN'"),
        ("", {"type": "string", "minLength": 1}, "'' should be non-empty"),
    ],
)
def test_a_wrong_text_says_what_would_be_right(words: str, schema: Any, why: str) -> None:
    with pytest.raises(WrongValue) as raised:
        parse(words, schema, DEFS)
    assert str(raised.value) == why


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (TEXT, "string"),
        (COUNT, "integer 1..10"),
        ({"type": "number", "minimum": 0}, "number 0.."),
        ({"$ref": "#/$defs/Color"}, "red | green"),
        (MAYBE, "null | string"),
        ({}, "JSON"),
        ({"type": "string", "format": "date-time"}, "string 2026-03-18T20:00:00Z"),
        ({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}, "null | string 2026-03-18"),
        ({"type": "array", "items": {"$ref": "#/$defs/Color"}}, 'array ["red" | "green"]'),
        ({"type": "array", "items": COUNT}, "array [1]"),
        ({"oneOf": [{"type": "object", "properties": {"x": COUNT}}, {"type": "null"}]}, 'JSON {"x": 1}'),
    ],
)
def test_a_field_is_described_in_a_few_words(schema: Any, words: str) -> None:
    assert describe(schema, DEFS) == words


def test_only_lists_are_choices() -> None:
    assert choices(TEXT, DEFS) is None
    assert choices({"anyOf": [{"enum": ["a"]}, TEXT]}, DEFS) is None
    assert choices({"const": "a"}, DEFS) == ["a"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (TEXT, "text"),
        (COUNT, 1),
        ({"type": "integer", "minimum": 7}, 7),
        ({"type": "number"}, 1.5),
        ({"type": "boolean"}, True),
        (MAYBE, "text"),
        ({"$ref": "#/$defs/Color"}, "red"),
        ({"type": "array", "items": {"$ref": "#/$defs/Color"}}, ["red"]),
        ({"type": "object", "additionalProperties": COUNT}, {"name": 1}),
        ({"type": "object", "properties": {"a": TEXT, "b": COUNT}}, {"a": "text", "b": 1}),
        ({"type": "string", "examples": ["svc-1"]}, "svc-1"),
        ({"type": "integer", "default": 30}, 30),
    ],
)
def test_an_example_shows_how_a_value_is_written(schema: Any, value: Any) -> None:
    assert example(schema, DEFS) == value


def test_an_example_of_a_schema_that_holds_itself_comes_to_an_end() -> None:
    whole = {"$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}}
    assert example({"$ref": "#/$defs/Node"}, whole) == {"next": {"next": {"next": {"next": {}}}}}


@pytest.mark.parametrize("start", ["a", "self", "nowhere", "anything"])
def test_references_that_lead_nowhere_or_in_a_circle_come_to_an_end(start: str) -> None:
    around = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}, "self": {"$ref": "#/$defs/self"}}
    whole = {"$defs": {**around, "anything": True}}
    field = {"$ref": f"#/$defs/{start}", "title": "Which"}
    assert (choices(field, whole), describe(field, whole), example(field, whole)) == (None, "JSON", "text")
    assert title_of("x", field) == "Which"


def test_definitions_may_be_kept_the_old_way() -> None:
    assert parse("red", {"$ref": "#/definitions/Color"}, {"definitions": DEFS["$defs"]}) == "red"


def test_what_may_be_null_and_what_it_is_else() -> None:
    assert without_null(MAYBE, DEFS) == ({"type": "string"}, True)
    assert without_null({**MAYBE, "title": "T"}, DEFS) == ({"type": "string", "title": "T"}, True)
    assert without_null(COUNT, DEFS) == (COUNT, False)
    several = {"anyOf": [TEXT, COUNT, {"type": "null"}]}
    assert without_null(several, DEFS) == ({"anyOf": [TEXT, COUNT]}, True)


def test_a_title_is_one_that_somebody_gave() -> None:
    assert title_of("dry_run", {"title": "Dry Run"}) is None
    assert title_of("note", {"title": "备注"}) == "备注"
    assert title_of("note", {}) is None

"""JSON data that comes from outside: what is taken, and what is refused before anything looks into it (C-8, C-45, C-69)."""

import datetime
import math
from typing import Any

import pytest

from adjourn.checkpoints.codec import Codec
from adjourn.checkpoints.json_data import DEEPEST, check_data, read_json


def nested(levels: int, key: str | None = None) -> Any:
    """A value in so many lists, or objects with this key."""
    data: Any = 1
    for _ in range(levels):
        data = [data] if key is None else {key: data}
    return data


def kind(value: object) -> str:
    """How a test of it is called: some have no text that could be shown."""
    return type(value).__name__


HOLDS_ITSELF: dict[str, Any] = {}
HOLDS_ITSELF["a"] = [HOLDS_ITSELF, HOLDS_ITSELF]


@pytest.mark.parametrize(
    "data",
    [None, True, 0, -(2**70), 1.5, "", "\ud800", [], {}, (1, 2), {"a": [{"b": None}]}, nested(DEEPEST)],
    ids=kind,
)
def test_json_data_is_taken(data: Any) -> None:
    check_data(data)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (math.nan, "nan is no number of JSON"),
        ({"a": [-math.inf]}, "-inf is no number of JSON"),
        (10**5000, "too many digits"),
        ({"a": {1: 2}}, "a key in it is no text, but int"),
        ([object()], "it holds object, which is no JSON"),
        ({1, 2}, "set"),
        (b"x", "bytes"),
        (datetime.date(2026, 1, 2), "date"),
        (nested(DEEPEST + 1), "deeper than 64 levels"),
        (nested(100_000, "a"), "deeper than 64 levels"),
        (HOLDS_ITSELF, "deeper than 64 levels"),
    ],
    ids=kind,
)
def test_what_is_no_json_data_or_too_deep_is_refused(data: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_data(data)


@pytest.mark.parametrize("key", [None, "a", "!", "\ud800"], ids=ascii)
def test_what_is_taken_can_be_stored_whatever_its_keys_are(key: str | None) -> None:
    codec, data = Codec(), nested(DEEPEST, key)
    state = {"calls": [{"question": {"payload": data}}]}
    assert codec.decode(codec.encode(state)) == state


@pytest.mark.parametrize(
    "text", ["NaN", '{"a": [-Infinity]}', "1e999", "[" * 100_000, "{", "9" * 5000], ids=lambda text: text[:9]
)
def test_a_text_that_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(text)


def test_a_text_is_read_as_json() -> None:
    assert read_json(b'{"a": [1, 2.5, null, "\xc3\xb6"]}') == {"a": [1, 2.5, None, "ö"]}

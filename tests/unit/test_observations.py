"""The envelope, and cutting that leaves valid JSON (C-16, C-74)."""

import dataclasses
import datetime
import enum
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from adjourn.checkpoints.lifecycle import ErrorCode
from adjourn.nodes.failures import public_message
from adjourn.nodes.observations import failure, plain, success

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.sets(st.integers())
    ),
    max_leaves=20,
)


@given(ANY, st.integers(200, 2000))
def test_c74_whatever_the_result_the_observation_is_json_within_its_limit(data, limit):
    text = success(data, limit=limit, language="zh")
    assert len(text) <= limit
    told = json.loads(text)
    assert told["ok"] is True
    assert "data" in told


@given(st.lists(st.text(max_size=40), min_size=50, max_size=120))
def test_c74_a_list_is_cut_between_its_elements_and_says_how_much_is_missing(data):
    told = json.loads(success(data, limit=700, language="en"))
    if "cut" in told:
        assert told["data"] == data[: len(told["data"])]
        assert f"({len(told['data'])}/{len(data)})" in told["cut"]
    else:
        assert told["data"] == data


def test_c16_the_envelope():
    assert json.loads(success([1], limit=100, language="en")) == {"ok": True, "data": [1]}
    assert json.loads(failure(ErrorCode.TIMEOUT, "late", suggestion="try less", data=[1])) == {
        "ok": False,
        "errorCode": "timeout",
        "message": "late",
        "suggestion": "try less",
        "data": [1],
    }


def test_values_that_are_no_json_become_readable():
    @dataclasses.dataclass
    class Row:
        when: datetime.date

    class Doc(BaseModel):
        title: str

    class Color(enum.Enum):
        RED = "red"

    assert plain({"color": Color.RED}) == {"color": "red"}  # what a parameter of that type takes
    assert plain([Row(datetime.date(2026, 1, 2)), Doc(title="x"), {2, 1}, b"\xff", float("inf")]) == [
        {"when": "2026-01-02"},
        {"title": "x"},
        [1, 2],
        "�",
        "inf",
    ]


def test_what_numpy_counts_is_told_as_numbers():
    numpy = pytest.importorskip("numpy")
    told = plain({"mean": numpy.float32(1.5), "rows": numpy.int64(3), "all": numpy.array([[1.0, 2.0]])})
    assert told == {"mean": 1.5, "rows": 3, "all": [[1.0, 2.0]]}


def test_c16_a_public_message_holds_no_path_of_the_host():
    assert public_message(ValueError("cannot read /srv/data/x.txt now")) == "cannot read ... now"
    assert public_message(FileNotFoundError(2, "No such file", "/srv/x")) == "No such file"
    assert public_message(ValueError("first\nsecond")) == "first"
    assert public_message(ValueError("")) == "-"
    assert len(public_message(ValueError("x" * 5000))) == 300

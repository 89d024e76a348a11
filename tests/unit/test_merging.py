"""Records of several sources merged and ranked by declared keys (C-75)."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.nodes.merging import merge

RECORDS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.none() | st.integers(0, 4),
            "score": st.none() | st.integers(0, 3) | st.floats() | st.text(max_size=1),
            "text": st.none() | st.sampled_from("ab"),
        },
    ),
    max_size=12,
)


def test_c75_one_key_is_one_record_and_the_first_wins():
    records = [{"id": 1, "a": "x", "b": None}, {"id": 2}, {"id": 1, "a": "y", "b": 2, "c": 3}]
    assert merge(records) == [{"id": 1, "a": "x", "b": 2, "c": 3}, {"id": 2}]


def test_c75_a_key_may_have_several_fields_and_any_json_in_them():
    records = [
        {"k": [1], "l": {"a": 1, "b": 2}},
        {"k": [1], "l": {"b": 2, "a": 1}, "n": 1},
        {"k": ["1"], "l": {}},
    ]
    assert merge(records, key=("k", "l")) == [{**records[0], "n": 1}, records[2]]
    assert merge([{"id": 1}, {"id": "1"}, {"id": True}]) == [{"id": 1}, {"id": "1"}, {"id": True}]


def test_c75_what_lacks_its_key_is_merged_with_nothing():
    records = [{"a": 1}, {"a": 1}, {"id": None}, {"id": None}]
    assert merge(records) == records
    assert merge(records, key=()) == records


def test_c75_large_numbers_come_first_and_what_is_no_number_last():
    ranks = [None, 0.5, "9", 2, float("nan"), True, float("inf"), 0.5]
    records = [{"id": place, "score": rank} for place, rank in enumerate(ranks)]
    assert [one["id"] for one in merge(records, rank="score")] == [6, 3, 1, 7, 0, 2, 4, 5]


def test_c75_a_second_rank_decides_where_the_first_is_equal():
    records = [{"id": 1, "a": 1, "b": 1}, {"id": 2, "a": 1, "b": 5}, {"id": 3, "a": 2}]
    assert [one["id"] for one in merge(records, rank=("a", "b"))] == [3, 2, 1]


def test_c75_several_sources_are_told():
    docs = [{"id": 1, "title": "A", "score": 1}, {"id": 2, "title": "B", "score": 3}]
    tickets = [{"id": 1, "title": "other", "url": "u"}, {"id": 1}]
    sources = ["docs", "docs", "tickets", "tickets"]
    assert merge([*docs, *tickets], rank="score", sources=sources) == [
        {"id": 2, "title": "B", "score": 3, "sources": ["docs"]},
        {"id": 1, "title": "A", "score": 1, "url": "u", "sources": ["docs", "tickets"]},
    ]
    with pytest.raises(ValueError, match="2 records and 1 sources"):
        merge([{"id": 1}, {"id": 2}], sources=["docs"])


@pytest.mark.parametrize("value", [None, "text", 3, {"id": 1}, [1, 2], [{"id": 1}, 2], ({"id": 1},)])
def test_c75_what_is_no_list_of_records_comes_back_as_it_is(value):
    assert merge(value, rank="score") is value


@given(RECORDS)
def test_c75_nothing_is_lost_changed_or_moved_without_a_reason(records):
    before = copy.deepcopy(records)
    merged = merge(records, rank="score")
    assert repr(records) == repr(before)
    known = {one["id"] for one in records if one.get("id") is not None}
    assert len(merged) == len(known) + sum(one.get("id") is None for one in records)
    assert repr(merge(merged, rank="score")) == repr(merged)
    assert merge(records) == merge(merge(records)) or "nan" in repr(records)

"""The observations of one step share a budget (C-74)."""

import json

from hypothesis import given
from hypothesis import strategies as st

from adjourn.checkpoints.lifecycle import ErrorCode
from adjourn.nodes.batch_budget import SMALLEST, fit
from adjourn.nodes.observations import failure, shrink, success

DATA = (
    st.lists(st.text(max_size=30), max_size=60)
    | st.text(max_size=2000)
    | st.dictionaries(st.text(), st.integers())
)
OBSERVATIONS = st.lists(
    st.builds(lambda data: success(data, limit=1500, language="zh"), DATA)
    | st.builds(lambda text: failure(ErrorCode.TIMEOUT, text), st.text(max_size=300)),
    max_size=10,
)


def ok(size):
    return success("x" * size, limit=10**6, language="en")


@given(OBSERVATIONS, st.integers(0, 6000))
def test_c74_a_step_stays_in_its_budget_and_each_observation_is_json(observations, budget):
    fitted = fit(observations, budget, "zh")
    failures = [one for one in observations if not json.loads(one)["ok"]]
    floor = sum(map(len, failures)) + SMALLEST * (len(observations) - len(failures))
    assert sum(map(len, fitted)) <= max(budget, floor)
    for before, after in zip(observations, fitted, strict=True):
        assert len(after) <= len(before)
        told = json.loads(after)
        assert after == before or (told["ok"] is True and "cut" in told)
        if before in failures:
            assert after == before


def test_c74_a_step_within_its_budget_is_left_alone():
    observations = [ok(7_000), ok(7_000), ok(7_000)]
    assert fit(observations, 24_000, "en") == observations
    assert fit([], 24_000, "en") == []


def test_c74_the_largest_is_cut_first_and_small_ones_stay_whole():
    observations = [ok(8_000), ok(100), ok(8_000), ok(3_000), ok(8_000)]
    fitted = fit(observations, 12_100, "en")
    assert fitted[1] == observations[1]
    assert [len(one) for one in fitted[::2]] == [len(fitted[0])] * 3
    assert all(2_900 <= len(one) <= 3_050 for one in (fitted[0], fitted[3]))
    assert 11_900 <= sum(map(len, fitted)) <= 12_100


def test_c74_failures_and_foreign_texts_are_never_cut():
    failed = failure(ErrorCode.TOOL_ERROR, "f" * 3_000)
    fitted = fit([failed, "no JSON" * 500, "[1]", ok(9_000)], 1_000, "en")
    assert fitted[:3] == [failed, "no JSON" * 500, "[1]"]
    assert len(fitted[3]) <= SMALLEST
    assert json.loads(fitted[3])["cut"]


def test_c74_a_second_cut_keeps_the_note_of_the_first_and_what_stands_beside_the_data():
    once = success(list(range(1_000)), limit=1_000, language="en", note={"ran": {"a": 1}})
    told = json.loads(shrink(once, 400, "en"))
    assert len(shrink(once, 400, "en")) <= 400
    assert told["ran"] == {"a": 1}
    assert told["cut"].startswith(json.loads(once)["cut"] + "; ")
    assert told["data"] == list(range(len(told["data"])))


def test_c74_what_cannot_get_shorter_stays():
    small = success("12345678901234567890", limit=100, language="en")
    assert shrink(small, 5, "en") == small
    assert shrink(failure(ErrorCode.TIMEOUT, "late"), 5, "en") == failure(ErrorCode.TIMEOUT, "late")

"""Limits, and which of several applies (C-52, C-53, C-57); the counters that they look at."""

import itertools
import json

import pytest

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.lifecycle import StopReason
from adjourn.graph import Limits
from adjourn.nodes.clock import Clock
from adjourn.nodes.counters import counters_of, kept, log_of, new_counters
from adjourn.nodes.guards import STOPS, Standing, steps_left, stop_reason

LIMITS = Limits(max_steps=4, max_active_s=10, max_wall_s=60, max_total_tokens=100, max_cost=2.0)
OVER = {
    StopReason.TIMEOUT: {"active_s": 10.0},
    StopReason.BUDGET_SPENT: {"tokens": 100},
    StopReason.LOOP_DETECTED: {"looped": True},
    StopReason.TOO_MANY_FAILS: {"fails_in_row": 3},
    StopReason.NO_EVIDENCE: {"sent_back": 3},
    StopReason.PROTOCOL_ERROR: {"protocol_errors": 2},
    StopReason.MAX_STEPS: {"steps": 4},
}


def test_c52_a_run_that_is_within_its_limits_goes_on():
    at = Standing(
        steps=3,
        active_s=9.9,
        wall_s=59,
        tokens=99,
        cost=1.99,
        fails_in_row=2,
        sent_back=2,
        protocol_errors=1,
    )
    assert stop_reason(at, LIMITS) is None
    nothing = Limits(max_active_s=None, max_fails_in_row=None)
    assert stop_reason(Standing(steps=1, active_s=1e9, wall_s=1e9, fails_in_row=99), nothing) is None


@pytest.mark.parametrize("reason", OVER)
def test_c52_each_limit_has_its_reason(reason):
    assert stop_reason(Standing(**{"steps": 1, **OVER[reason]}), LIMITS) is reason


def test_c52_where_several_apply_the_first_of_the_list_counts():
    words = ("timeout", "budget_spent", "loop_detected", "too_many_fails", "no_evidence", "max_steps")
    contract = [StopReason(one) for one in words]
    assert [one for one in STOPS if one in contract] == contract
    for first, second in itertools.combinations(OVER, 2):
        both = Standing(**{"steps": 1, **OVER[first], **OVER[second]})
        assert stop_reason(both, LIMITS) is min((first, second), key=list(STOPS).index)


@pytest.mark.parametrize("spent", [{"wall_s": 60.0}, {"active_s": 11.0}])
def test_c53_the_first_of_the_two_time_limits_ends_a_run(spent):
    at = Standing(steps=0, **spent)
    assert stop_reason(at, LIMITS) is StopReason.TIMEOUT
    assert LIMITS.left_s(at.active_s, at.wall_s) <= 0
    assert LIMITS.left_s(active_s=3.0, wall_s=55.0) == 5.0
    assert LIMITS.left_s(active_s=9.0, wall_s=5.0) == 1.0
    assert Limits(max_active_s=None).left_s(active_s=3.0, wall_s=0.0) is None


def test_c53_cost_counts_like_tokens():
    assert stop_reason(Standing(steps=0, cost=2.0), LIMITS) is StopReason.BUDGET_SPENT


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_steps": 0},
        {"max_steps": None},
        {"max_steps": True},
        {"max_parallel": 1.5},
        {"max_active_s": 0},
        {"max_active_s": "300"},
        {"max_wall_s": -1},
        {"max_cost": 0},
        {"max_total_tokens": 0},
        {"max_fails_in_row": 0},
        {"max_identical_calls": 1},
        {"breaker": 0},
        {"max_writes_per_step": -1},
        {"cancel_grace_s": -0.1},
        {"cancel_grace_s": None},
    ],
)
def test_limits_that_make_no_sense_are_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(UsageError, match=name):
        Limits(**wrong)


def test_c57_the_model_is_told_from_three_steps_on():
    assert [steps_left(one, Limits(max_steps=5)) for one in range(6)] == [None, None, 3, 2, 1, None]


def test_c53_counters_are_plain_data_and_a_copy_is_a_copy():
    state = {"counters": json.loads(json.dumps(kept(new_counters(1.5, "m")))), "tried": ["a"]}
    mine = counters_of(state)
    mine["failing"]["t"] = 1
    mine["log"].append("x")
    mine["cost"] += 1
    assert state == {"counters": {"began_at": 1.5, "began_with": "m"}, "tried": ["a"]}
    assert counters_of({})["fails_in_row"] == 0
    small = kept(mine)
    assert small == {"began_at": 1.5, "began_with": "m", "failing": {"t": 1}, "cost": 1.0}
    assert counters_of({"counters": small, "tried": log_of(["a"], ["x"])}) == mine
    assert log_of(["a"], None) == []


def test_c53_a_clock_goes_on_from_the_larger_count():
    clock = Clock(5_000)
    clock.at_least(4_000)
    assert 5_000 <= clock.worked_ms() < 5_500
    clock.at_least(9_000)
    assert 9_000 <= clock.worked_ms() < 9_500

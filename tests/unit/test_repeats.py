"""Repeated calls, cycles, copies (C-54); tools that are switched off (C-55)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage

from adjourn.graph import Limits
from adjourn.nodes import tool
from adjourn.nodes.counters import new_counters
from adjourn.nodes.judging import Judge
from adjourn.nodes.repeats import comes_round, copies, digest, trail


@tool(effect="read")
def look(what: str = "") -> str:
    """Look."""
    return what


@tool(effect="read", repeatable=True)
def clock() -> str:
    """Tell the time."""
    return "noon"


@tool(effect="write")
def put(what: str = "") -> str:
    """Put."""
    return what


TOOLS = {one.name: one for one in (look, clock, put)}


def call(name, what="", state="planned", *, id="c", position=0, **arguments):
    made = {
        "id": id,
        "name": name,
        "position": position,
        "batch": 0,
        "effect": TOOLS[name].effect,
        "arguments": {"what": what, **arguments} if name != "clock" else {},
        "state": state,
    }
    if state == "ok":
        made["observation"] = json.dumps({"ok": True, "data": what})
    return made


class Run:
    """One run's counters, a step at a time."""

    def __init__(self, **limits):
        self.counters = new_counters()
        self.limits = Limits(**limits)
        self.step = 0
        self.messages = []

    def judge(self):
        return Judge(
            self.counters,
            TOOLS,
            self.limits,
            language="en",
            messages=self.messages,
            message_id=f"m{self.step}",
        )

    def asks(self, *calls, becomes="ok"):
        """A step with these calls, (name, what): what becomes of each. Those that may run end as `becomes`."""
        self.step += 1
        batch = [call(name, what, id=f"c{place}", position=place) for place, (name, what) in enumerate(calls)]
        judge = self.judge()
        runs = judge.begin(batch)
        for one in batch:
            refused = judge.refused(one) if one in runs else None
            one["state"] = refused.state.value if refused else becomes
            one["observation"] = (
                refused.observation if refused else json.dumps({"ok": True, "data": one["arguments"]})
            )
            if one not in runs:
                outcome = judge.of_copy(one, batch)
                one["state"], one["observation"] = outcome.state.value, outcome.observation
        for one in batch:
            judge.learn(one)
            content, place = one["observation"], one["position"]
            self.messages.append(ToolMessage(content, tool_call_id=one["id"], id=f"m{self.step}.{place}"))
        return [one["state"] for one in batch]

    @property
    def looped(self):
        return self.counters["looped"]


def test_c54_the_order_of_keys_makes_no_other_call():
    one, other = call("look", a=1, b={"x": 1, "y": [2]}), call("look", b={"y": [2], "x": 1}, a=1)
    assert digest(one) == digest(other)
    assert digest(one) != digest(call("put", a=1, b={"x": 1, "y": [2]}))
    assert digest(call("look", a=1)) != digest(call("look", a="1"))


def test_c54_the_second_is_told_and_the_third_ends_the_run():
    run = Run()
    assert run.asks(("look", "a")) == ["ok"]
    assert run.asks(("look", "a")) == ["repeated"]
    told = json.loads(run.messages[-1].content)
    assert told["errorCode"] == "repeated_call"
    assert told["data"] == {"what": "a"}
    assert "not make this call again" in told["suggestion"]
    assert not run.looped
    assert run.asks(("look", "a")) == ["repeated"]
    assert run.looped


@pytest.mark.parametrize(("most", "stops_at"), [(2, 2), (5, 5), (None, None)])
def test_c54_the_first_one_counts(most, stops_at):
    run = Run(max_identical_calls=most)
    looped = []
    for _ in range(6):
        run.asks(("look", "a"))
        looped.append(run.looped)
    assert looped.index(True) + 1 == stops_at if stops_at else not any(looped)


def test_c54_others_in_between_change_nothing():
    run = Run()
    run.asks(("look", "a"))
    for what in "bcd":
        assert run.asks(("look", what)) == ["ok"]
    assert run.asks(("look", "a")) == ["repeated"]


def test_c54_a_write_since_makes_it_a_new_call():
    run = Run()
    run.asks(("look", "a"))
    assert run.asks(("put", "x")) == ["ok"]
    assert run.asks(("look", "a")) == ["ok"]
    # it was started: nobody knows what it did
    assert run.asks(("put", "y"), becomes="unknown") == ["unknown"]
    assert run.asks(("look", "a")) == ["ok"]
    assert run.asks(("put", "z"), becomes="denied") == ["denied"]  # it never was
    assert run.asks(("look", "a")) == ["repeated"]


def test_c54_a_write_that_succeeded_is_not_run_again_at_once():
    run = Run()
    assert run.asks(("put", "x")) == ["ok"]
    assert run.asks(("put", "x")) == ["repeated"]


def test_c54_a_failed_call_may_be_tried_again():
    run = Run(breaker=None)
    for _ in range(5):
        assert run.asks(("look", "a"), becomes="failed") == ["failed"]
    assert not run.looped
    assert run.asks(("look", "a")) == ["ok"]


def test_c54_a_tool_may_declare_itself_repeatable():
    run = Run()
    for _ in range(9):
        assert run.asks(("clock", "")) == ["ok"]
    assert not run.looped
    assert run.counters["log"] == []


@pytest.mark.parametrize("pairs", [False, True])
def test_c54_a_cycle_is_found_as_single_calls_and_as_pairs_in_one_step(pairs):
    run, ran = Run(), []
    steps = [[("look", "a"), ("look", "b")]] if pairs else [[("look", "a")], [("look", "b")]]
    for number in range(12):
        ran += run.asks(*steps[number % len(steps)])
        if run.looped:
            break
    assert run.looped
    assert ran.count("ok") == 2
    assert len(ran) == (6 if pairs else 5)  # where the first one comes for the third time


@pytest.mark.parametrize("period", [2, 3, 5])
def test_c54_a_cycle_of_writes_is_no_repetition_but_goes_round(period):
    run, ran = Run(), 0
    for number in range(40):
        (state,) = run.asks(("put", f"w{number % period}"))
        ran += state == "ok"
        if run.looped:
            break
    assert run.looped
    assert ran == 2 * period  # the one that would begin the third round is not run
    assert "circles" in json.loads(run.messages[-1].content)["message"]


def test_c54_what_never_comes_in_the_same_order_is_no_cycle():
    run = Run()
    for number in range(60):
        run.asks(("put", f"w{number % 3 * (number % 7)}-{number}"))
    assert not run.looped
    assert len(trail(run.counters)) <= 64
    assert not comes_round(["a", "a", "a", "a"], "a", 3)  # one call is no cycle: it has its own count
    assert comes_round(["x", "a", "b", "a", "b"], "a", 3)
    assert not comes_round(["a", "b", "a", "c"], "a", 3)


def test_c54_copies_within_one_batch_run_once_and_count_once():
    run = Run()
    assert run.asks(("look", "a"), ("look", "a"), ("look", "b"), ("look", "a")) == [
        "ok",
        "repeated",
        "ok",
        "repeated",
    ]
    told = json.loads(run.messages[1].content)
    assert told["data"] == {"what": "a"}
    assert "c0" in told["message"]
    assert not run.looped
    assert run.asks(("look", "a"), ("look", "a")) == ["repeated", "repeated"]
    assert not run.looped  # the second time, twice in one batch
    assert copies([call("clock", id="a"), call("clock", id="b")], {}) == {}


def test_c54_a_copy_of_what_did_not_run_did_not_run_either():
    run = Run()
    assert run.asks(("look", "a"), ("look", "a"), becomes="failed") == ["failed", "repeated"]
    run = Run(breaker=1)
    run.asks(("look", "x"), becomes="failed")
    assert run.asks(("look", "a"), ("look", "a")) == ["skipped", "skipped"]


def test_c55_a_tool_that_failed_three_times_in_a_row_is_switched_off():
    run = Run()
    for what in "ab":
        run.asks(("look", what), becomes="failed")
    run.asks(("look", "c"))  # a success sets it to 0
    for what in "def":
        assert run.asks(("look", what), becomes="failed") == ["failed"]
    assert run.asks(("look", "g")) == ["skipped"]
    told = json.loads(run.messages[-1].content)
    assert told["errorCode"] == "tool_disabled"
    assert "3 times" in told["message"]
    assert run.asks(("put", "x")) == ["ok"]  # the others are not


def test_c55_in_one_batch_too_and_what_did_not_run_counts_neither_way():
    run = Run(breaker=2)
    run.asks(("look", "a"), becomes="invalid")
    run.asks(("look", "b"), becomes="failed")
    run.asks(("look", "c"), becomes="denied")
    run.asks(("look", "d"), ("look", "e"), becomes="failed")
    judge = run.judge()
    assert judge.is_off("look")
    judge.learn(call("look", "late", "ok"))
    assert judge.is_off("look")  # for the rest of the run


@pytest.mark.parametrize(
    ("states", "counts"),
    [
        (["failed"], 2),
        (["failed", "unknown", "denied"], 2),
        (["failed", "ok"], 0),
        (["ok"], 0),
        (["denied", "invalid", "repeated", "skipped", "declined"], 1),
        ([], 1),
    ],
)
def test_c53_steps_that_fail_are_counted_and_what_did_not_run_counts_neither_way(states, counts):
    run = Run()
    run.counters["fails_in_row"] = 1
    run.judge().end_step([call("look", state=state) for state in states])
    assert run.counters["fails_in_row"] == counts


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["look", "put"]), st.sampled_from("abc"), st.sampled_from(["ok", "ok", "failed"])
    ),
    max_size=40,
)


@given(STEPS)
def test_c54_in_any_run_a_call_is_a_repetition_exactly_when_the_contract_says_so(steps):
    """Told from the whole story at each step, by an oracle that keeps no log."""
    run = Run(breaker=None)
    story: list[tuple[str, str, str]] = []  # what really ran
    asked: list[tuple[str, str]] = []
    for name, what, becomes in steps:
        since = max((place for place, one in enumerate(story) if one[0] == "put"), default=0)
        repeats = (name, what, "ok") in story[since:]
        (state,) = run.asks((name, what), becomes=becomes)
        goes_round = comes_round(asked[-64:], (name, what), 3)  # type: ignore[arg-type, list-item]
        assert (state == "repeated") == (repeats or goes_round)
        asked.append((name, what))
        if state != "repeated":
            story.append((name, what, state))
        same = sum(one == (name, what) for one in asked)
        assert not run.looped or goes_round or same >= 3
        if run.looped:  # a real run ends here
            break

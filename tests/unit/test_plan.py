"""Batches (C-20, C-21, C-23), and questions as data."""

import math
from functools import reduce
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.checkpoints.errors import InvalidAnswer
from adjourn.checkpoints.lifecycle import CallState, Effect
from adjourn.nodes import approve, edit, reject, tool
from adjourn.nodes.masking import Masker
from adjourn.nodes.plan import next_batch, number_batches, waiting
from adjourn.nodes.questions import apply_answer, check_answer, check_custom, declared_question
from adjourn.nodes.texts import TEXTS, language_of, say

READ, WRITE = Effect.READ, Effect.WRITE


def call(position, effect=READ, state=CallState.PLANNED, batch=None, **more):
    return {
        "id": f"c{position}",
        "name": "t",
        "position": position,
        "batch": position if batch is None else batch,
        "effect": effect.value,
        "arguments": {},
        "state": state.value,
        **more,
    }


@pytest.mark.parametrize(
    ("kinds", "numbers"),
    [
        ("", []),
        ("rr", [0, 0]),
        ("rrwrw", [0, 0, 1, 2, 3]),
        ("ww", [0, 1]),
        ("rsr", [0, 1, 2]),
        ("ssr", [0, 1, 2]),
    ],
)
def test_c20_batches_in_request_order(kinds, numbers):
    known = {"r": (READ, True), "w": (WRITE, True), "s": (READ, False)}
    assert number_batches([known[one] for one in kinds]) == numbers


@given(st.lists(st.tuples(st.sampled_from(Effect), st.booleans())))
def test_c20_c21_a_write_is_alone_and_order_is_kept(kinds):
    numbers = number_batches(kinds)
    assert numbers == sorted(numbers)
    for place, (effect, parallel) in enumerate(kinds):
        if effect is WRITE or not parallel:
            assert numbers.count(numbers[place]) == 1


def test_c23_reads_behind_a_waiting_write_run_writes_do_not():
    calls = [
        call(0, WRITE, CallState.WAITING),
        call(1, READ),
        call(2, WRITE),
        call(3, READ, batch=3),
    ]
    assert [one["id"] for one in next_batch(calls)] == ["c1"]
    calls[1]["state"] = "ok"
    assert [one["id"] for one in next_batch(calls)] == ["c3"]
    calls[3]["state"] = "ok"
    assert next_batch(calls) == []
    assert [one["id"] for one in waiting(calls)] == ["c0"]


def test_c23_a_read_of_the_waiting_write_s_resource_waits_too():
    calls = [
        call(0, WRITE, CallState.WAITING, resource="pay"),
        call(1, READ, resource="pay"),
        call(2, READ, batch=1),
    ]
    assert [one["id"] for one in next_batch(calls)] == ["c2"]


def test_a_waiting_read_blocks_nothing():
    assert [one["id"] for one in next_batch([call(0, READ, CallState.WAITING), call(1, WRITE)])] == ["c1"]


@tool(effect="write", ask_for=("environment",), confirm="Restart {service} in {environment}?")
def restart(service: str, environment: Literal["prod", "staging"], force: bool = False) -> str:
    """Restart."""
    return ""


def asked(arguments, *, in_doubt=lambda _: False, **more):
    one = call(0, more.pop("effect", WRITE), **more) | {"arguments": arguments}
    question = declared_question(one, restart, run_id="r", step=1, language="en", is_doubtful=in_doubt)
    return one, question


def test_c38_the_question_of_a_declaration():
    _, missing = asked({"service": "pay"})
    assert (missing["type"], missing["payload"]) == ("params_required", {"fields": ["environment"]})
    _, risky = asked({"service": "pay", "environment": "prod"})
    assert (risky["type"], risky["reason"]) == ("confirm_risky", "Restart pay in prod?")
    assert asked({"service": "pay", "environment": "prod"}, approved=True)[1] is None


def test_c61_who_is_asked_to_agree_is_told_that_an_identical_write_is_in_doubt():
    complete = {"service": "pay", "environment": "prod"}
    _, question = asked(complete, in_doubt=lambda one: one["arguments"] == complete)
    told = "The outcome of an identical call of restart is unknown. Run it again? Restart pay in prod?"
    assert question["reason"] == told
    _, read = asked(complete, in_doubt=lambda _: True, effect=READ)
    assert read["reason"] == "Restart pay in prod?"


def test_c40_ids_are_stable_and_new_after_an_answer():
    first, again = asked({"service": "pay"})[1], asked({"service": "pay"})[1]
    later = asked({"service": "pay"}, asked=1)[1]
    assert first["id"] == again["id"] != later["id"]


def test_c44_what_an_answer_does_to_a_call():
    one, question = asked({"service": "pay", "environment": "prod"})
    one["question"] = question
    yes = apply_answer(one, approve(), by="li", masker=Masker())
    assert (yes["state"], yes["approved"], yes["approved_by"], yes["asked"]) == ("planned", True, "li", 1)
    other = apply_answer(one, edit({"service": "x", "environment": "staging"}), by="li", masker=Masker())
    assert (other["arguments"]["service"], other["asked_for"]["service"]) == ("x", "pay")
    no = apply_answer(one, reject("no"), by="li", masker=Masker())
    assert (no["state"], "approved" in no) == ("declined", False)
    assert one["question"] is question  # the call that was given is not changed


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ({}, "environment"),
        ({"environment": "moon"}, "environment"),
        ({"environment": "prod", "service": "x"}, ""),
        ({"environment": 1}, "environment"),
        ([], ""),
    ],
)
def test_c45_each_wrong_field_is_named(answer, field):
    _, question = asked({"service": "pay"})
    with pytest.raises(InvalidAnswer) as raised:
        check_answer(question, {"service": "pay"}, answer, restart, Masker())
    assert set(raised.value.problems) == {field}


@pytest.mark.parametrize("action", [[], {}, ["approve"], None, 1, "no", "x" * 10_000])
def test_c45_an_action_that_is_none_is_named(action):
    _, question = asked({"service": "pay", "environment": "prod"})
    with pytest.raises(InvalidAnswer, match=r"must be one of approve, edit, reject") as raised:
        check_answer(question, {}, {"action": action}, restart, Masker())
    assert set(raised.value.problems) == {"action"}
    assert len(str(raised.value)) < 400


def test_c45_an_edit_is_checked_as_the_tool_would():
    _, question = asked({"service": "pay", "environment": "prod"})
    for arguments in (
        {"service": "x"},
        {"service": 1, "environment": "prod"},
        {"service": "x", "environment": "a"},
    ):
        with pytest.raises(InvalidAnswer):
            check_answer(question, {}, edit(arguments), restart, Masker())
    assert check_answer(question, {}, edit({"service": "x", "environment": "prod"}), restart, Masker())


NO_DATA = [
    math.nan,
    {"why": [math.inf]},
    {"why": {1: 2}},
    {"why": object()},
    {1: "why"},
    reduce(lambda inner, _: [inner], range(3000), 1),
]


@pytest.mark.parametrize("answer", NO_DATA)
def test_c45_what_is_no_json_data_is_no_answer(answer):
    """Whatever it is asked for: nothing looks into such an answer."""
    _, values = asked({"service": "pay"})
    _, verdict = asked({"service": "pay", "environment": "prod"})
    for question in (values, verdict):
        with pytest.raises(InvalidAnswer) as raised:
            check_answer(question, {"service": "pay"}, answer, restart, Masker())
        assert set(raised.value.problems) == {""}
    with pytest.raises(InvalidAnswer):
        check_custom("int_1", {}, answer)


def test_c45_a_custom_answer_is_checked_by_its_schema_and_is_never_null():
    check_custom("int_1", {"type": "string"}, "yes")
    for answer in (None, 3):
        with pytest.raises(InvalidAnswer):
            check_custom("int_1", {"type": "string"}, answer)


def test_c16_texts_are_in_both_languages_and_fill_in_the_same_values():
    import string

    for key, texts in TEXTS.items():
        assert set(texts) >= {"en", "zh"}, key
        names = [
            {field for _, field, _, _ in string.Formatter().parse(text) if field} for text in texts.values()
        ]
        assert all(one == names[0] for one in names), key


def test_c16_the_user_s_language():
    assert (language_of("查一下"), language_of("look"), language_of("")) == ("zh", "en", "en")
    assert say("cancelled", "zh", tool="x").startswith("x")
    assert say("cancelled", "fr", tool="x") == say("cancelled", "en", tool="x")

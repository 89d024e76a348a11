"""C-76: what of a long history is sent. Hypothesis makes the histories."""

import copy
import json
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from adjourn.checkpoints.lifecycle import ErrorCode
from adjourn.nodes.history import is_legal
from adjourn.nodes.observations import failure, success
from adjourn.nodes.scripted import illegal
from adjourn.nodes.texts import say
from adjourn.nodes.tokens import counter_for
from adjourn.nodes.trimming import trimmed

FAILED = failure(ErrorCode.TOOL_ERROR, "query_logs failed: the index is closed")


def count(message):
    """Exact and simple: one for each character, one for the message."""
    return 1 + len(message.text) + len(json.dumps(getattr(message, "tool_calls", [])))


def cost(messages):
    return sum(map(count, messages))


def fit(messages, budget, language="en"):
    return trimmed(messages, budget, count, language)


def found(data):
    return success(data, limit=100_000, language="en")


def calling(*ids, args=None):
    calls = [{"name": "query_logs", "args": args or {}, "id": one, "type": "tool_call"} for one in ids]
    return AIMessage("", tool_calls=calls)


def answer(call_id, text):
    status = "error" if text == FAILED else "success"
    return ToolMessage(text, tool_call_id=call_id, name="query_logs", status=status)


def exchange(question, *results, ended=True):
    """One step for each result, and an answer at the end."""
    steps = [
        one
        for number, text in enumerate(results)
        for one in (calling(f"c{number}"), answer(f"c{number}", text))
    ]
    return [HumanMessage(question), *steps, *([AIMessage("done")] if ended else [])]


def numbered(messages):
    """With ids, as stored messages have them."""
    return [one.model_copy(update={"id": f"m{place}"}) for place, one in enumerate(messages)]


def ids(messages):
    return [one.id for one in messages]


def cuts(messages):
    """The places of the markers."""
    return [place for place, one in enumerate(messages) if one.type == "tool" and '"cut"' in one.text]


RESULTS = st.one_of(
    st.integers(0, 600).map(lambda size: found("x" * size)),
    st.just(FAILED),
    st.sampled_from(["", "no JSON " * 20, "[1, 2]", "null", '"text"', '{"rows": 3}', found(None)]),
)
STEPS = st.lists(RESULTS, min_size=1, max_size=3).map(
    lambda results: [
        calling(*(f"c{place}" for place in range(len(results)))),
        *(answer(f"c{place}", text) for place, text in enumerate(results)),
    ]
)
TEXTS = st.integers(0, 200).map("y".__mul__)
EXCHANGES = st.builds(
    lambda question, steps, said: [HumanMessage(question), *chain(*steps), *map(AIMessage, said)],
    TEXTS,
    st.lists(STEPS, max_size=3),
    st.lists(TEXTS, max_size=1),
)
HISTORIES = st.builds(
    lambda systems, before, exchanges: numbered(
        [*map(SystemMessage, systems), *map(AIMessage, before), *chain(*exchanges)]
    ),
    st.lists(TEXTS, max_size=2),
    st.lists(TEXTS, max_size=1),
    st.lists(EXCHANGES, max_size=6),
)
BUDGETS = st.integers(-10, 5000)


@given(HISTORIES, BUDGETS)
def test_c15_c76_what_is_sent_is_legal(messages, budget):
    assert is_legal(messages)
    shown = fit(messages, budget)
    assert is_legal(shown)
    assert illegal(shown) is None  # told by another implementation


@given(HISTORIES, BUDGETS)
def test_c76_system_messages_and_the_current_exchange_stay_and_the_oldest_exchanges_go(messages, budget):
    shown = fit(messages, budget)
    places = [int(one.id[1:]) for one in shown]
    head = [place for place, one in enumerate(messages) if one.type == "system"]
    starts = [place for place, one in enumerate(messages) if one.type == "human"]
    first = places[len(head)] if len(places) > len(head) else len(messages)
    assert places == [*head, *range(first, len(messages))]
    assert first in {len(head), *starts}
    assert first <= (starts[-1] if starts else len(head))


@given(HISTORIES, BUDGETS)
def test_c76_only_results_are_replaced_and_only_by_valid_observations(messages, budget):
    stored = {one.id: one for one in messages}
    for one in fit(messages, budget):
        before = stored[one.id]
        if one is before:
            continue
        assert one.type == "tool" and before.text != FAILED
        assert (one.tool_call_id, one.name, one.status) == (before.tool_call_id, before.name, before.status)
        marker = json.loads(one.text)
        assert marker["ok"] is True and marker["data"] is None
        assert str(len(before.text)) in marker["cut"]
        assert count(one) < count(before)


@given(HISTORIES, BUDGETS)
def test_c76_within_the_budget_wherever_that_is_possible(messages, budget):
    least = cost(fit(messages, -1_000_000))  # system messages, and the current exchange with markers only
    shown = fit(messages, budget)
    assert cost(shown) <= max(budget, least)
    if cost(messages) <= budget:
        assert shown is messages


@given(HISTORIES, BUDGETS)
def test_c76_nothing_stored_changes_and_the_same_history_is_shown_in_the_same_way(messages, budget):
    stored = copy.deepcopy(messages)
    shown = fit(messages, budget)
    assert messages == stored
    assert fit(stored, budget) == shown


@given(HISTORIES, BUDGETS)
def test_c76_trimming_twice_is_trimming_once(messages, budget):
    shown = fit(messages, budget)
    assert fit(shown, budget) is shown


def test_c76_an_old_exchange_goes_with_all_its_results():
    system, new = [SystemMessage("Be brief.")], exchange("and now?", ended=False)
    messages = numbered(
        [*system, *exchange("one", found("x" * 500)), *exchange("two", found("y" * 50)), *new]
    )
    assert ids(fit(messages, cost(messages) - 1)) == ["m0", "m5", "m6", "m7", "m8", "m9"]


def test_c76_what_stands_before_the_first_user_message_is_the_oldest():
    messages = numbered([AIMessage("Hello! " * 20), *exchange("one"), *exchange("two", ended=False)])
    assert ids(fit(messages, cost(messages) - 1)) == ["m1", "m2", "m3"]


def test_c76_a_large_current_exchange_loses_its_oldest_results_first():
    messages = exchange("why?", *(found(f"{number}" * 400) for number in range(4)), ended=False)
    assert cuts(fit(messages, cost(messages) - 1)) == [2, 4]  # one would do; the second keeps the cut calm
    assert cuts(fit(messages, 1100)) == [2, 4, 6]
    assert cuts(fit(messages, 0)) == [2, 4, 6, 8]


def test_c76_results_that_the_model_has_not_seen_are_replaced_last_and_only_as_far_as_needed():
    new = [calling("a", "b", "c"), *(answer(one, found(one * 400)) for one in "abc")]
    messages = [*exchange("why?", found("x" * 400), ended=False), *new]
    assert cuts(fit(messages, cost(messages) - 1)) == [2]
    assert cuts(fit(messages, cost(messages) - 400)) == [2, 4]


def test_c76_failures_and_the_arguments_of_calls_stay():
    call = calling("a", "b", args={"query": "z" * 500})
    messages = [HumanMessage("why?"), call, answer("a", FAILED), answer("b", found("x" * 500))]
    shown = fit(messages, 10)
    assert shown[1] is call
    assert shown[2] is messages[2]
    assert cuts(shown) == [3]


def test_c76_the_failure_of_another_program_stays():
    failed = ToolMessage("Error: " + "x" * 500, tool_call_id="a", name="t", status="error")
    messages = [HumanMessage("why?"), calling("a"), failed]
    assert fit(messages, 10) is messages


@pytest.mark.parametrize("language", ["en", "zh"])
def test_c76_a_marker_says_how_much_is_missing_in_the_users_language(language):
    messages = [HumanMessage("why?"), calling("a"), answer("a", found("x" * 403))]
    marker = json.loads(fit(messages, 200, language)[2].text)
    cut = say("cut", language, missing=427, total=427)
    assert marker == {"ok": True, "data": None, "cut": cut}


def test_c44_c76_a_marker_keeps_what_really_ran():
    note = {"ran": {"environment": "staging"}, "edited": "A person changed the arguments."}
    result = success(["row"] * 200, limit=10_000, language="en", note=note)
    marker = json.loads(fit([HumanMessage("why?"), calling("a"), answer("a", result)], 100)[2].text)
    assert {key: marker[key] for key in note} == note
    assert marker["data"] is None


def test_c76_results_in_blocks_are_replaced_too():
    image = [{"type": "text", "text": "a chart"}, {"type": "image", "base64": "A" * 3000}]
    messages = [HumanMessage("why?"), calling("a"), ToolMessage(image, tool_call_id="a", name="t")]
    shown = trimmed(messages, 500, counter_for(None), "en")
    assert json.loads(shown[2].text)["data"] is None


def test_c76_nothing_is_raised_when_what_must_stay_is_too_large():
    messages = [SystemMessage("s" * 900), HumanMessage("h" * 900)]
    assert fit(messages, 100) is messages
    assert fit([SystemMessage("s" * 900)], 100) == [SystemMessage("s" * 900)]
    empty = []
    assert fit(empty, 0) is empty


def moves(requests):
    """How often the beginning of the request was another than that of the one before."""
    return sum(later[: len(earlier)] != earlier for earlier, later in pairwise(requests))


def test_c76_the_cut_moves_rarely_between_exchanges():
    whole = numbered([one for number in range(200) for one in exchange(f"{number:03}", found("x" * 200))])
    requests = [fit(whole[:end], 8000) for end in range(1, len(whole), 4)]
    left_out = int(requests[-1][0].id[1:]) // 4
    assert left_out > 170
    # six exchanges fit between three quarters of the budget and all of it, so every fourth is a good place
    assert moves(requests) <= left_out / 4
    assert min(map(cost, requests[30:])) >= 8000 * 0.7


def test_c76_the_cut_moves_rarely_within_a_long_exchange():
    whole = exchange("why?", *(found(f"{number:03}" * 70) for number in range(100)), ended=False)
    ends = range(3, len(whole) + 1, 2)  # the requests: before each answer of the model
    requests = [fit(whole[:end], 20_000) for end in ends]
    assert all(cost(one) <= 20_000 for one in requests)
    assert cuts(requests[-1])
    assert moves(requests) <= len(cuts(requests[-1])) / 4


def test_c76_an_exchange_shown_with_markers_keeps_them_when_the_next_one_begins():
    old = exchange("why?", *(found(f"{number}" * 400) for number in range(4)))
    before = fit(old[:-1], 1500)
    after = fit([*old, *exchange("and?", ended=False)], 1500)
    assert cuts(before)
    assert after[: len(before)] == before


def test_c76_only_what_is_sent_is_counted():
    whole = [one for number in range(1000) for one in exchange(f"{number:03}", found("x" * 200))]
    counted = []

    def watched(message):
        counted.append(id(message))
        return count(message)

    shown = trimmed(whole, 8000, watched, "en")
    assert len(set(counted)) <= 2 * len(shown)

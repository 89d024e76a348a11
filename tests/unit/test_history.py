"""C-15: is it legal, and what heals it. Hypothesis makes the histories."""

import json

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from adjourn.nodes.history import Checked, healed, is_legal
from adjourn.nodes.observations import with_attached
from adjourn.nodes.scripted import illegal

IDS = st.sampled_from(["a", "b", "c", "call_0"])


def assistant(ids):
    calls = [{"name": "t", "args": {}, "id": one, "type": "tool_call"} for one in ids]
    return AIMessage("", tool_calls=calls, id=f"m{'-'.join(ids)}")


MESSAGES = st.lists(
    st.one_of(
        st.just(HumanMessage("hi")),
        st.just(AIMessage("text")),
        st.lists(IDS, min_size=1, max_size=3, unique=True).map(assistant),
        IDS.map(lambda one: ToolMessage("{}", tool_call_id=one, name="t")),
    ),
    max_size=12,
)


def missing(call_id, name):
    return json.dumps({"ok": False, "errorCode": "cancelled", "tool": name})


@given(MESSAGES)
def test_c15_any_history_can_be_healed(messages):
    mended = healed(messages, missing)
    assert is_legal(mended)
    assert illegal(mended) is None  # told by another implementation
    assert [one for one in mended if not isinstance(one, ToolMessage)] == [
        one for one in messages if not isinstance(one, ToolMessage)
    ]
    if is_legal(messages):
        assert mended == messages


@given(MESSAGES)
def test_c15_both_judges_agree(messages):
    assert is_legal(messages) == (illegal(messages) is None)


def test_c15_finished_results_are_kept_wherever_they_stand():
    done = ToolMessage("kept", tool_call_id="b", name="t", id="x")
    messages = [assistant(["a", "b"]), HumanMessage("next"), done]
    mended = healed(messages, missing)
    assert [one.type for one in mended] == ["ai", "tool", "tool", "human"]
    assert mended[2] is done
    assert json.loads(mended[1].text)["errorCode"] == "cancelled"


def test_c15_invalid_calls_are_answered_too():
    turn = AIMessage("", invalid_tool_calls=[{"name": "t", "args": "{", "id": "x", "error": "e"}], id="m")
    assert not is_legal([turn])
    assert [one.tool_call_id for one in healed([turn], missing) if isinstance(one, ToolMessage)] == ["x"]


def test_a_system_message_is_no_answer():
    assert not is_legal([assistant(["a"]), SystemMessage("x"), ToolMessage("{}", tool_call_id="a", name="t")])


@given(MESSAGES, MESSAGES)
def test_c15_what_was_found_legal_is_remembered_for_the_same_messages_only(messages, others):
    legal = Checked()
    for end in range(len(messages) + 1):  # a history that grows
        assert legal.are(messages[:end]) == is_legal(messages[:end])
    for history in (others, messages, [one.model_copy() for one in messages], messages[:1], others):
        assert legal.are(history) == is_legal(history)


def test_c15_a_changed_message_in_a_long_history_is_looked_at_again():
    asked, answer = assistant(["a"]), ToolMessage("{}", tool_call_id="a", name="t")
    legal = Checked()
    assert legal.are([asked, answer])
    stray = answer.model_copy(update={"tool_call_id": "b"})
    assert not legal.are([asked, stray, HumanMessage("hi")])


def test_an_answer_that_is_made_from_the_ledger_has_what_was_attached_to_it():
    image = {"type": "image", "url": "https://example.com/a.png"}
    kept = with_attached('{"ok": true, "data": "[image/png]"}', [image])
    turn = AIMessage("", tool_calls=[{"name": "shot", "args": {}, "id": "a"}])
    answer = healed([turn], lambda call_id, name: kept)[-1]
    assert answer.content == [{"type": "text", "text": '{"ok": true, "data": "[image/png]"}'}, image]
    assert answer.status == "success"

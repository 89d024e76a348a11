"""How the conversation grows: `put_behind` gives what LangGraph's `add_messages` gives."""

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, RemoveMessage, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from adjourn.nodes.state import put_behind

IDS = st.sampled_from(["a", "b", "c", "d"])
HISTORY = st.lists(IDS, unique=True).map(lambda ids: [HumanMessage(f"was {one}", id=one) for one in ids])
NEW = st.one_of(
    IDS.map(lambda one: HumanMessage("new", id=one)),
    IDS.map(lambda one: AIMessage("new", id=one)),
    IDS.map(lambda one: ToolMessage("new", tool_call_id="x", id=one)),
    IDS.map(lambda one: AIMessageChunk("new", id=one)),
    IDS.map(lambda one: ("user", f"new {one}")),
    IDS.map(lambda one: {"role": "user", "content": "new", "id": one}),
    IDS.map(lambda one: RemoveMessage(id=one)),
    st.just(RemoveMessage(id=REMOVE_ALL_MESSAGES)),
)


def _told(merge, left, right):
    """What a merge gives, with ids that it made left out; or that it refuses."""
    try:
        merged = merge(left, right)
    except ValueError as error:
        return str(error)
    return [(type(one), one.text, one.id if one.id in {*"abcd"} else None) for one in merged]


@given(HISTORY, st.one_of(NEW, st.lists(NEW, max_size=4)))
def test_it_gives_what_langgraph_gives(left, right):
    before = [*left]
    assert _told(put_behind, left, right) == _told(add_messages, [*before], right)
    assert left == before


def test_what_an_overwrite_left_becomes_messages():
    for left in (
        [("user", "was")],
        [{"role": "user", "content": "was"}],
        [HumanMessage("was")],
        ("user", "was"),
    ):
        merged = put_behind(left, [AIMessage("new", id="b")])
        assert [one.text for one in merged] == ["was", "new"]
        assert merged[0].id


def test_a_message_without_an_id_gets_one():
    new = HumanMessage("new")
    (only,) = put_behind([], [new])
    assert only is new
    assert only.id


def test_two_of_one_id_in_one_update_stay_one():
    new = [AIMessage("first", id="a"), AIMessage("second", id="a")]
    assert [one.text for one in put_behind([], new)] == [one.text for one in add_messages([], [*new])]


def test_new_messages_are_the_very_objects_and_the_old_list_is_left_alone():
    left, new = [HumanMessage("was", id="a")], AIMessage("new", id="b")
    merged = put_behind(left, [new])
    assert merged[0] is left[0]
    assert merged[1] is new
    assert len(left) == 1

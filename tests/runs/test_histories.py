"""A run goes on from a history and submitted values alone (C-87)."""

import asyncio
import json

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from runs.shop import Shop

from adjourn.checkpoints.errors import UsageError
from adjourn.graph.drive import Drive
from adjourn.nodes import approve
from adjourn.nodes.history import is_legal
from adjourn.nodes.scripted import call, says

VALUES = {"environment": "prod", "service_id": "svc-pay-001"}
AWAITING = json.dumps({"ok": False, "errorCode": "awaiting_user", "message": "query_logs waits for the user"})
OPENAI = [
    {"role": "system", "content": "You are somebody else."},
    {"role": "user", "content": "看看日志"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "q1",
                "type": "function",
                "function": {"name": "query_logs", "arguments": '{ "minutes":5}'},
            },
            {
                "id": "d1",
                "type": "function",
                "function": {"name": "search_docs", "arguments": '{"query": "x"}'},
            },
        ],
    },
    {"role": "tool", "tool_call_id": "q1", "content": AWAITING},
    {"role": "tool", "tool_call_id": "d1", "content": '{"ok": true, "data": []}'},
]
ANEW = [says("", call("query_logs", {**VALUES, "minutes": 5}, id="q2")), "done"]


def shown(house):
    """The request that the model was sent last, without its system prompt."""
    return house.models[-1].requests[0][1:]


async def test_c87_a_run_goes_on_from_a_history_and_values_and_the_model_calls_again(house, rows):
    shop = Shop()
    runner = house.runner(["never said", *ANEW], shop)
    run = await runner.run_from_history(OPENAI, VALUES, by="wang", on_event=house.hear)
    assert (run.status, run.answer, run.row.input) == (
        "finished",
        "done",
        "environment: prod\nservice_id: svc-pay-001",
    )
    assert [(one.call_id, one.outcome) for one in run.calls] == [("q2", "ok")]
    assert [one[1] for one in shop.ran] == ["prod/svc-pay-001/5"]
    user, asked, provisional, found, said = shown(house)
    assert (user.text, provisional.text, said.text) == ("看看日志", AWAITING, run.row.input)
    assert (provisional.status, found.status, found.name) == ("error", "success", "search_docs")
    raw = asked.additional_kwargs["tool_calls"][0]["function"]["arguments"]
    assert raw == '{ "minutes":5}'  # byte for byte
    assert not any("somebody else" in one.text for one in house.models[-1].requests[0])
    house.check([run.id])
    assert [one["role"] for one in rows("SELECT role FROM v_messages")] == [
        *("user", "assistant", "tool", "tool", "user", "assistant", "tool", "assistant")
    ]


async def test_c87_langchain_messages_of_a_run_that_is_stored_elsewhere(house, tmp_path):
    elsewhere = house.runner([says("", call("query_logs", {}, id="q1")), *ANEW])
    waiting = await elsewhere.start("看看日志")
    state = await elsewhere.graph.aget_state({"configurable": {"thread_id": waiting.thread_id}})
    other = house.runner([says("", call("query_logs", {}, id="q1")), *ANEW])
    run = await other.run_from_history(state.values["messages"], VALUES, thread_id="new")
    assert (run.status, run.thread_id, run.calls[0].call_id) == ("finished", "new", "q2")
    assert (await elsewhere.get(waiting.id)).status == "interrupted"
    ids = [one.id for one in state.values["messages"]]
    fresh = await other.graph.aget_state({"configurable": {"thread_id": "new"}})
    assert not {one.id for one in fresh.values["messages"]} & set(ids)


async def test_c87_a_history_that_ends_with_the_users_words_needs_no_values(house):
    runner = house.runner(["said before", "hello again"])
    said = [HumanMessage("hi"), AIMessageChunk("said before"), HumanMessage("and now?")]
    run = await runner.run_from_history(said)
    assert (run.answer, run.row.input) == ("hello again", "and now?")
    assert [one.text for one in shown(house)] == ["hi", "said before", "and now?"]


async def test_c87_an_image_beside_the_users_words_reaches_the_model(house):
    image = {"type": "image", "url": "https://example.com/a.png"}
    runner = house.runner(["a cat", "still a cat"])
    run = await runner.run_from_history([HumanMessage([{"type": "text", "text": "What is it?"}, image])])
    assert run.row.input == "What is it?\n[image: https://example.com/a.png]"
    said = [{"type": "text", "text": "What is it?"}, image]
    assert [one.content for one in shown(house)] == [said]
    await runner.start("Sure?", thread_id=run.thread_id)
    assert house.models[-1].requests[-1][1].content == said


async def test_c87_it_can_ask_again_and_the_thread_goes_on(house):
    shop = Shop()
    restart = call("restart_service", {"service_id": "svc-pay-001", "environment": "prod"}, id="r")
    runner = house.runner(["", says("", restart), "done", "bye"], shop)
    run = await runner.run_from_history(OPENAI, "prod, please")
    assert run.status == "interrupted"
    done = await runner.resume(run.id, {run.interrupts[0].id: approve()})
    assert (done.answer, shop.count("restart_service")) == ("done", 1)
    assert (await runner.start("thanks", thread_id=run.thread_id)).answer == "bye"


async def test_c15_c87_a_history_with_open_calls_is_mended(house):
    open_calls = AIMessage(
        "",
        tool_calls=[
            {"name": "search_docs", "args": {"query": "x"}, "id": "a"},
            {"name": "publish_release", "args": {}, "id": "b"},
            {"name": "search_docs", "args": {"query": "y"}, "id": "c"},
        ],
    )
    stray = ToolMessage("of nobody", tool_call_id="z")
    kept = ToolMessage("it broke", tool_call_id="c", status="error")
    runner = house.runner(["", "done"])
    run = await runner.run_from_history(
        [stray, HumanMessage("go"), open_calls, kept], {"environment": "prod"}
    )
    assert run.status == "finished"
    request = shown(house)
    assert is_legal(request)
    answers = [one for one in request if isinstance(one, ToolMessage)]
    assert [one.tool_call_id for one in answers] == ["a", "b", "c"]
    assert "cancelled" in answers[0].text
    assert "outcome_unknown" in answers[1].text
    assert (answers[2].text, answers[2].status, answers[2].name) == ("it broke", "error", "search_docs")


WRONG = {
    "a list of messages": "hello",
    "not dict": {"role": "user"},
    "no message of a user": [SystemMessage("x")],
    "message 1 of the history is int": [1],
    "has the role 'robot'": [{"role": "robot", "content": "x"}],
    "content is a text or a list, not int": [{"role": "user", "content": 3}],
    "no tool_call_id": [{"role": "tool", "content": "x"}],
    "a tool call is": [{"role": "assistant", "tool_calls": [{"id": "a"}]}],
    "an id of its own, not": [
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}] * 2}
    ],
    "does not end with a user's message": [HumanMessage("x"), AIMessage("y")],
}


@pytest.mark.parametrize("sentence", WRONG)
async def test_c87_what_is_no_history_is_refused_in_one_sentence(house, rows, sentence):
    runner = house.runner(["never"])
    with pytest.raises(UsageError, match=sentence) as refused:
        await runner.run_from_history(WRONG[sentence])
    assert "\n" not in str(refused.value)
    assert rows("SELECT * FROM runs") == rows("SELECT * FROM threads") == []


async def test_c87_a_thread_that_exists_and_values_that_are_none_are_refused(house, rows):
    runner = house.runner(["one"])
    await runner.start("hi", thread_id="t")
    with pytest.raises(UsageError, match="already"):
        await runner.run_from_history(OPENAI, VALUES, thread_id="t")
    with pytest.raises(UsageError, match="no JSON data"):
        await runner.run_from_history(OPENAI, {"environment": object()})
    with pytest.raises(UsageError, match="values were submitted"):
        await runner.run_from_history(OPENAI, {})
    assert len(rows("SELECT * FROM runs")) == 1


@pytest.mark.in_process  # its caller is cancelled
async def test_c87_the_history_is_stored_with_the_run_before_anything_runs(house, monkeypatch):
    async def dies(self):
        raise asyncio.CancelledError

    runner = house.runner(["", *ANEW], lease_s=0.05)
    monkeypatch.setattr(Drive, "to_its_end", dies)
    with pytest.raises(asyncio.CancelledError):
        await runner.run_from_history(OPENAI, VALUES)
    monkeypatch.undo()
    (lost,) = await runner.list()
    await asyncio.sleep(0.1)
    done = await house.runner(["", *ANEW]).recover(lost.id)
    assert (done.answer, shown(house)[0].text) == ("done", "看看日志")


def test_c87_for_a_script(house):
    runner = house.runner(["", *ANEW])
    assert runner.run_from_history_sync(OPENAI, VALUES).answer == "done"


async def test_c66_who_follows_a_run_from_a_history_hears_its_first_words(house):
    runner, began = house.runner([says(["a ", "b ", "c "], each_s=0.05)]), asyncio.Event()
    ids: list[str] = []

    def hear(event):
        ids.append(event.run_id)
        began.set()

    driving = asyncio.create_task(
        runner.run_from_history([{"role": "user", "content": "hello"}], on_event=hear)
    )
    await began.wait()
    words = [event.word async for event in runner.follow(ids[0])]
    await driving
    assert "text_delta" in words

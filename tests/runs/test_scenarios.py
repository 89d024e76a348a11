"""The whole runs of the scenarios, with a scripted model."""

import json

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from runs.shop import Shop

from adjourn.checkpoints.errors import AlreadyAnswered, InvalidAnswer
from adjourn.graph import Limits
from adjourn.nodes.scripted import call, says

S1_TEXT = "看看支付服务最近报错，顺便对照一下文档里的处理建议"


def roles(messages):
    return [message.type for message in messages]


def tool_events(house):
    return [(one.word, one.call_id) for one in house.sent if one.word in ("tool_call", "tool_result")]


@pytest.mark.alone
async def test_s1_two_reads_then_a_second_message(house):
    shop = Shop({"search_resource": 0.4, "search_docs": 0.2})
    runner = house.runner(
        [
            says(
                "我先同时查两边。",
                call("search_resource", {"query": "支付服务"}, id="call_a"),
                call("search_docs", {"query": "支付 5xx", "top_k": 2}, id="call_b"),
            ),
            says("先查依赖，再回滚。"),
            says("要审批。"),
        ],
        shop,
    )
    run = await runner.start(S1_TEXT, thread_id="ops-1", on_event=house.hear)

    assert (run.status, run.stop_reason, run.row.steps) == ("finished", "answered", 2)
    assert tool_events(house) == [
        ("tool_call", "call_a"),
        ("tool_call", "call_b"),
        ("tool_result", "call_b"),
        ("tool_result", "call_a"),
    ]
    began = min(one[2] for one in shop.ran)
    ended = max(one[3] for one in shop.ran)
    assert ended - began < 0.55
    requests = house.models[0].requests
    assert roles(requests[1]) == ["system", "human", "ai", "tool", "tool"]
    assert [one.tool_call_id for one in requests[1] if isinstance(one, ToolMessage)] == ["call_a", "call_b"]

    before = len(house.sent)
    second = await runner.start("那回滚要审批吗？", thread_id="ops-1", on_event=house.hear)
    assert second.answer == "要审批。"
    assert {event.run_id for event in house.sent[before:]} == {second.id}
    assert roles(requests[2]) == ["system", "human", "ai", "tool", "tool", "ai", "human"]
    house.check([run.id, second.id])


async def test_s3_one_fails_one_is_too_long(house):
    class Long(Shop):
        pass

    shop = Shop(fails={"search_resource": RuntimeError("db down at 10.0.0.8")})
    runner = house.runner(
        [
            says(
                "",
                call("search_resource", {"query": "支付"}, id="call_1"),
                call("search_docs", {"query": "x"}, id="call_2"),
            ),
            "好的",
        ],
        shop,
    )
    run = await runner.start("查一下", on_event=house.hear)
    assert run.stop_reason == "answered"
    first, second = run.calls
    told = json.loads(first.result)
    assert (told["ok"], told["errorCode"]) == (False, "tool_error")
    assert "search_resource" in told["message"]
    assert "Traceback" not in first.result
    assert first.error["class"] == "builtins.RuntimeError"
    assert json.loads(second.result)["ok"] is True


async def test_s5_a_missing_parameter_then_going_on_elsewhere(house):
    shop = Shop({"search_docs": 0.3})
    turns = [
        says("", call("query_logs", {}, id="q1"), call("search_docs", {"query": "处理手册"}, id="q2")),
        "日志里是连接池耗尽。",
    ]
    first = house.runner(turns, shop)
    run = await first.start("看看最近的报错日志，再查一下处理手册", on_event=house.hear)
    assert (run.status, run.shown_reason) == ("interrupted", "ask_user")
    assert house.words()[-4:] == ["tool_call", "tool_call", "tool_result", "loop_interrupt"]
    assert tool_events(house)[-1] == ("tool_result", "q2")
    (question,) = run.interrupts
    assert (question.type, question.call_id) == ("params_required", "q1")
    assert set(question.response_schema["properties"]) == {"environment", "service_id"}
    assert shop.count("search_docs") == 1
    first.close()

    other = house.runner(turns, shop)
    with pytest.raises(InvalidAnswer, match="environment"):
        await other.resume(run.id, {question.id: {"environment": "moon", "service_id": "svc-pay-001"}})
    assert (await other.get(run.id)).interrupts == (question,)

    before = len(house.sent)
    answer = {question.id: {"environment": "prod", "service_id": "svc-pay-001"}}
    done = await other.resume(run.id, answer, by="wang", on_event=house.hear)
    assert (done.status, done.answer) == ("finished", "日志里是连接池耗尽。")
    assert [one[:2] for one in shop.ran] == [
        ("search_docs", "处理手册"),
        ("query_logs", "prod/svc-pay-001/30"),
    ]
    assert [event.word for event in house.sent[before:] if event.stored] == [
        "interrupt_answered",
        "tool_result",
        "step_started",
        "message",
        "run_finished",
    ]
    (request,) = house.models[1].requests
    assert [one.tool_call_id for one in request if isinstance(one, ToolMessage)] == ["q1", "q2"]
    with pytest.raises(AlreadyAnswered, match="wang"):
        await other.resume(run.id, answer)
    assert shop.count("query_logs") == 1
    house.check([run.id])


async def test_s5_everything_known_asks_nothing(house):
    shop = Shop()
    runner = house.runner(
        [says("", call("query_logs", {"environment": "prod", "service_id": "svc-pay-001"}, id="q1")), "ok"],
        shop,
    )
    run = await runner.start("看看日志")
    assert (run.status, run.questions) == ("finished", [])


async def test_s5_a_plain_message_instead(house):
    shop = Shop()
    turns = [
        says("", call("query_logs", {}, id="q1"), call("search_docs", {"query": "手册"}, id="q2")),
        "只看手册：查依赖。",
    ]
    runner = house.runner(turns, shop)
    run = await runner.start("看日志和手册", thread_id="t", on_event=house.hear)
    second = await runner.start("算了，只看手册", thread_id="t", on_event=house.hear)
    old = await runner.get(run.id)
    assert (old.status, old.stop_reason, old.questions[0].state) == ("finished", "dismissed", "dismissed")
    assert [one.outcome for one in old.calls] == ["dismissed", "ok"]
    assert (second.status, second.answer) == ("finished", "只看手册：查依赖。")
    request = house.models[0].requests[1]
    assert roles(request) == ["system", "human", "ai", "tool", "tool", "human"]
    told = {one.tool_call_id: json.loads(one.text) for one in request if isinstance(one, ToolMessage)}
    assert told["q1"]["errorCode"] == "user_dismissed"
    assert told["q2"]["ok"] is True
    assert shop.count("search_docs") == 1
    assert shop.count("query_logs") == 0


def s7_turn():
    return says(
        "",
        call("search_resource", {"query": "1"}, id="a"),
        call("search_resource", {"query": "2"}, id="b"),
        call("publish_release", {"service_id": "s", "version": "c"}, id="c"),
        call("search_resource", {"query": "4"}, id="d"),
        call("publish_release", {"service_id": "s", "version": "e"}, id="e"),
    )


S7_DELAYS = {
    "search_resource:1": 0.3,
    "search_resource:2": 0.3,
    "publish_release:c": 0.2,
    "search_resource:4": 0.1,
    "publish_release:e": 0.2,
}


@pytest.mark.alone
async def test_s7_reads_and_writes_in_one_step(house):
    shop = Shop(S7_DELAYS)
    runner = house.runner([s7_turn(), "done"], shop)
    run = await runner.start("go")
    took = max(one[3] for one in shop.ran) - min(one[2] for one in shop.ran)
    assert [(one.call_id, one.batch) for one in run.calls] == [
        ("a", 0),
        ("b", 0),
        ("c", 1),
        ("d", 2),
        ("e", 3),
    ]
    for name, _, start, end in shop.ran:
        if name == "publish_release":
            assert not [one for one in shop.ran if one[2] < end and one[3] > start and one[2] != start]
    assert 0.8 <= took < 1.3
    told = [one.tool_call_id for one in house.models[0].requests[1] if isinstance(one, ToolMessage)]
    assert told == ["a", "b", "c", "d", "e"]


async def test_s7_a_write_limit(house):
    runner = house.runner([s7_turn(), "done"], limits=Limits(max_writes_per_step=1))
    run = await runner.start("go")
    assert [one.error_code for one in run.calls] == [None, None, None, None, "skipped_write_limit"]


async def test_s7_a_write_fails(house):
    shop = Shop(fails={"publish_release:c": ValueError("no")})
    run = await house.runner([s7_turn(), "done"], shop).start("go")
    assert [one.error_code for one in run.calls] == [None, None, "tool_error", None, "skipped_after_failure"]
    assert shop.count("publish_release") == 1


async def test_s7_a_write_needs_agreement(house):
    shop = Shop()
    turn = says(
        "",
        call("search_resource", {"query": "1"}, id="a"),
        call("restart_service", {"service_id": "s", "environment": "prod"}, id="c"),
        call("search_resource", {"query": "4"}, id="d"),
        call("publish_release", {"service_id": "s", "version": "e"}, id="e"),
    )
    runner = house.runner([turn, "done"], shop)
    run = await runner.start("go")
    assert [one[:2] for one in shop.ran] == [("search_resource", "1"), ("search_resource", "4")]
    assert [one.outcome for one in run.calls] == ["ok", "waiting", "ok", "planned"]
    done = await runner.resume(run.id, {run.interrupts[0].id: {"action": "approve"}})
    assert [one[0] for one in shop.ran[2:]] == ["restart_service", "publish_release"]
    assert done.status == "finished"


async def test_s9_the_next_message_after_a_forced_stop_works(house):
    turns = [says("", call("search_docs", {"query": "1"}, id="c1")), AIMessage("hello")]
    runner = house.runner(turns, limits=Limits(max_steps=1))
    run = await runner.start("find it", thread_id="t")
    assert run.stop_reason == "max_steps"
    again = house.runner(["x", "x", "hello"], limits=Limits(max_steps=1))
    assert (await again.start("hi", thread_id="t")).answer == "hello"

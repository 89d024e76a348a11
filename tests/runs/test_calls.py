"""One assistant message, N observations; what a call may do to a run: nothing but its outcome (C-8, C-14 to C-32)."""

import asyncio
import json
import threading
import time
from typing import Annotated

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from pydantic import Field
from runs.shop import Shop

from adjourn.checkpoints.errors import ToolDefinitionError, UsageError
from adjourn.graph import Limits, build_react
from adjourn.nodes import ScriptedModel, ToolContext, tool
from adjourn.nodes.scripted import call, says


def observations(house, request=-1):
    messages = house.models[-1].requests[request]
    return {one.tool_call_id: json.loads(one.text) for one in messages if isinstance(one, ToolMessage)}


def broken(name, raw, id_):
    """A call whose argument text is given byte for byte."""
    return AIMessageChunk(
        "", tool_call_chunks=[{"name": name, "args": raw, "id": id_, "index": int(id_[-1])}]
    )


def last(finish="tool_calls"):
    return AIMessageChunk("", response_metadata={"finish_reason": finish})


async def test_c7_c8_an_unparsable_call_does_not_touch_its_siblings(house):
    shop = Shop()
    turn = [
        broken("search_docs", '{"query": "x"', "c0"),
        broken("search_docs", '{"query": "y"}', "c1"),
        last(),
    ]
    run = await house.runner([turn, "ok"], shop).start("go")
    told = observations(house)
    assert told["c0"]["errorCode"] == "invalid_arguments"
    assert '{"query": "x"' in told["c0"]["message"]
    assert told["c1"]["ok"] is True
    assert [one[1] for one in shop.ran] == ["y"]
    assert (run.calls[0].arguments, run.calls[0].raw) == (None, '{"query": "x"')


async def test_c12_a_turn_of_nothing_but_invalid_calls_is_asked_again(house):
    run = await house.runner([[broken("search_docs", "{", "c0"), last()], "I see."]).start("go")
    assert (run.stop_reason, run.answer) == ("answered", "I see.")


async def test_c9_a_turn_that_cannot_be_used_is_asked_again_with_the_reason(house):
    nothing = [AIMessageChunk("", response_metadata={"finish_reason": "stop"})]
    run = await house.runner(ScriptedModel(turns=[nothing, "hello"])).start("go", on_event=house.hear)
    assert (run.answer, run.row.steps) == ("hello", 2)
    request = house.models[0].requests[1]
    assert isinstance(request[-1], HumanMessage)
    assert "[runtime]" in request[-1].text  # C-88: in the request only
    state = await house.runners[0].graph.aget_state({"configurable": {"thread_id": run.thread_id}})
    assert [one.type for one in state.values["messages"]] == ["human", "ai"]
    house.check([run.id])


async def test_c9_two_such_turns_end_the_run(house):
    twice = says("", call("search_docs", {"query": "x"}, id="a"), call("search_docs", {"query": "x"}, id="a"))
    run = await house.runner(ScriptedModel(turns=[twice, twice])).start("go")
    assert (run.status, run.stop_reason) == ("finished", "protocol_error")
    assert run.answer


async def test_c10_writes_of_a_cut_turn_do_not_run(house):
    shop = Shop()
    turn = [
        broken("search_docs", '{"query": "x"}', "c0"),
        broken("publish_release", '{"service_id": "s", "version": "1"}', "c1"),
        broken("search_docs", '{"query": "y', "c2"),
        last("length"),
    ]
    run = await house.runner([turn, "ok"], shop).start("go")
    assert [one.error_code for one in run.calls] == [None, "output_cut", "output_cut"]
    assert [one[0] for one in shop.ran] == ["search_docs"]


@pytest.mark.in_process  # deltas
async def test_c10_a_stream_without_an_end_is_asked_again(house, monkeypatch):
    monkeypatch.setattr("adjourn.nodes.model_errors.BACKOFF_S", 0.0)
    run = await house.runner(ScriptedModel(turns=[[AIMessageChunk("half")], "whole"])).start(
        "go", on_event=house.hear
    )
    assert (run.answer, run.row.steps) == ("whole", 1)
    assert [one.word for one in house.sent if "text" in one.word] == [
        "text_delta",
        "text_discarded",
        "text_delta",
    ]


async def test_c14_each_call_is_answered_once_in_request_order_whatever_became_of_it(house):
    shop = Shop(fails={"search_resource": RuntimeError("x")})
    turn = says(
        "",
        call("search_resource", {"query": "1"}, id="a"),
        call("nothing", {}, id="b"),
        call("search_docs", {"query": "x", "top_k": 99}, id="c"),
        call("search_docs", {"query": "x"}, id="d"),
    )
    run = await house.runner([turn, "ok"], shop).start("go")
    answers = [one for one in house.models[0].requests[1] if isinstance(one, ToolMessage)]
    assert [(one.tool_call_id, one.name) for one in answers] == [
        ("a", "search_resource"),
        ("b", "nothing"),
        ("c", "search_docs"),
        ("d", "search_docs"),
    ]
    assert [one.error_code for one in run.calls] == ["tool_error", "unknown_tool", "invalid_arguments", None]
    assert [one.outcome for one in run.calls] == ["failed", "invalid", "invalid", "ok"]


async def test_c15_a_thread_that_another_program_left_open_is_healed(house):
    runner = house.runner(["x", "hello"])
    config = {"configurable": {"thread_id": "t"}}
    open_turn = AIMessage("", tool_calls=[{"name": "publish_release", "args": {}, "id": "x1"}], id="m1")
    left = {"messages": [HumanMessage("hi", id="h1"), open_turn], "outcome": "tools", "step": 1, "calls": []}
    await runner.graph.aupdate_state(config, left, as_node="model")
    run = await runner.start("and?", thread_id="t")
    assert (run.status, run.answer) == ("finished", "hello")
    assert observations(house)["x1"]["errorCode"] == "outcome_unknown"
    again = house.runner(["x", "x", "again"])
    assert (await again.start("more", thread_id="t")).answer == "again"


def test_a_script_without_an_event_loop_may_write_to_a_thread_as_a_node(house):
    graph = house.runner(["x"]).graph
    config = {"configurable": {"thread_id": "t"}}
    said = {"messages": [HumanMessage("hi", id="h1")], "step": 1, "calls": []}
    for outcome in ("tools", "model", "finish"):
        graph.update_state(config, {**said, "outcome": outcome}, as_node="model")
        assert graph.get_state(config).next == (outcome,)


async def test_c16_c29_an_exception_is_an_observation_without_our_stack(house):
    def inner():
        raise RuntimeError("cannot open /etc/secret/key.pem")

    @tool(effect="read")
    def fails() -> str:
        """Fails."""
        inner()
        return ""

    run = await house.runner([says("", call("fails", {}, id="f")), "ok"], tools=[fails]).start("go")
    told = observations(house)["f"]
    assert told["errorCode"] == "tool_error"
    assert "fails" in told["message"]
    assert "/etc" not in told["message"]
    assert "inner" in run.calls[0].error["stack"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConnectionError("reset"), "unavailable"),
        (PermissionError(13, "Permission denied"), "permission_denied"),
        (FileNotFoundError(2, "No such file"), "not_found"),
        (KeyError("x"), "not_found"),
        (ValueError("x"), "tool_error"),
        (StopIteration(), "tool_error"),
        (SystemExit(3), "tool_error"),
        (asyncio.CancelledError(), "tool_error"),
    ],
)
async def test_c29_the_class_of_an_exception_decides_the_code(house, error, code):
    @tool(effect="read")
    def in_thread() -> str:
        """In a thread."""
        raise error

    @tool(effect="read")
    async def in_task() -> str:
        """In a task."""
        raise error

    turn = says("", call("in_thread", {}, id="a"), call("in_task", {}, id="b"))
    tools = [in_thread, in_task] if not isinstance(error, StopIteration) else [in_thread]
    run = await house.runner([turn, "ok"], tools=tools).start("go")
    assert run.status == "finished"
    assert run.calls[0].error_code == code
    assert run.calls[1].error_code == (code if len(tools) == 2 else "unknown_tool")


async def test_c21_no_more_than_max_parallel_reads_at_once(house):
    running, most = 0, 0

    @tool(effect="read")
    async def read(n: int) -> int:
        """Read."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return n

    turn = says("", *(call("read", {"n": n}, id=f"r{n}") for n in range(7)))
    run = await house.runner([turn, "ok"], tools=[read], limits=Limits(max_parallel=3)).start("go")
    assert (most, len([one for one in run.calls if one.outcome == "ok"])) == (3, 7)


async def test_c24_calls_above_the_limit_are_answered(house):
    turn = says("", *(call("search_docs", {"query": str(n)}, id=f"s{n}") for n in range(4)))
    run = await house.runner([turn, "ok"], limits=Limits(max_calls_per_step=2)).start("go")
    assert [one.error_code for one in run.calls] == [None, None, "too_many_calls", "too_many_calls"]


async def test_c26_messages_that_a_model_can_act_on(house):
    turn = says(
        "",
        call("search_docs", {"query": 7, "topk": 1}, id="a"),
        call("search_doc", {"query": "x"}, id="b"),
    )
    await house.runner([turn, "ok"]).start("go")
    told = observations(house)
    assert "query" in told["a"]["message"]
    assert "topk" in told["a"]["message"]
    assert "search_docs" in told["b"]["message"]
    assert "search_docs" in told["a"]["suggestion"]


async def test_c28_a_read_that_takes_too_long_is_given_up_and_its_siblings_go_on(house):
    late = threading.Event()

    @tool(effect="read", timeout_s=0.1)
    def slow() -> str:
        """A thread that cannot be stopped."""
        late.wait(5)
        return "late"

    @tool(effect="read", timeout_s=0.1)
    async def slow_too() -> str:
        """A task."""
        await asyncio.sleep(5)
        return "late"

    @tool(effect="read")
    async def quick() -> str:
        """Quick."""
        return "ok"

    turn = says("", *(call(name, {}, id=name) for name in ("slow", "slow_too", "quick")))
    began = time.monotonic()
    run = await house.runner([turn, "ok"], tools=[slow, slow_too, quick]).start("go")
    assert time.monotonic() - began < 2
    late.set()
    assert [one.error_code for one in run.calls] == ["timeout", "timeout", None]


async def test_c28_a_write_that_passed_its_limit_is_unknown(house):
    @tool(effect="write", timeout_s=0.05)
    async def write() -> str:
        """Write."""
        await asyncio.sleep(5)
        return "late"

    run = await house.runner([says("", call("write", {}, id="w")), "ok"], tools=[write]).start("go")
    assert (run.calls[0].outcome, run.calls[0].error_code) == ("unknown", "outcome_unknown")


async def test_c31_a_tool_gets_its_context(house):
    seen = []

    @tool(effect="write")
    def write(context: ToolContext) -> str:
        """Write."""
        seen.append(context)
        return "ok"

    run = await house.runner([says("", call("write", {}, id="w")), "ok"], tools=[write]).start(
        "go", by="wang"
    )
    (context,) = seen
    assert (context.run_id, context.call_id, context.started_by, context.attempt) == (run.id, "w", "wang", 1)
    assert context.idempotency_key == run.calls[0].idempotency_key
    assert 0 < context.seconds_left <= 30


async def test_c74_a_long_result_stays_valid_json_and_says_what_is_missing(house):
    @tool(effect="read", result_limit=500)
    def long_list() -> list[dict]:
        """Long."""
        return [{"n": n, "text": "字" * 20} for n in range(200)]

    @tool(effect="read", result_limit=500)
    def long_text() -> str:
        """Long."""
        return '"\n' * 5000

    turn = says("", call("long_list", {}, id="a"), call("long_text", {}, id="b"))
    await house.runner([turn, "ok"], tools=[long_list, long_text]).start("go")
    answers = [one.text for one in house.models[0].requests[1] if isinstance(one, ToolMessage)]
    assert all(len(one) <= 500 for one in answers)
    cut, text = (json.loads(one) for one in answers)
    assert cut["data"] == [{"n": n, "text": "字" * 20} for n in range(len(cut["data"]))]
    assert len(cut["data"]) > 3
    assert "cut" in cut
    assert "10000" in text["cut"]
    assert len(text["data"]) > 150


async def test_a_result_without_json_form_does_not_harm(house):
    class Odd:
        def __str__(self):
            raise RuntimeError("no text")

    loop: list = []
    loop.append(loop)
    results = {"odd": Odd(), "loop": loop, "nan": float("nan"), "keys": {1: {2, 3}}, "bytes": b"\xff"}

    @tool(effect="read")
    def get(what: str):
        """Get."""
        return results[what]

    turn = says("", *(call("get", {"what": name}, id=name) for name in results))
    run = await house.runner([turn, "ok"], tools=[get]).start("go")
    assert run.status == "finished"
    told = observations(house)
    assert [told[name]["ok"] for name in results] == [True] * 5
    assert told["keys"]["data"] == {"1": [2, 3]}


async def test_langchain_tools_and_plain_functions_are_tools_too(house):
    @langchain_tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    def plain(n: int) -> int:
        """A plain function counts as a write."""
        return n + 1

    turn = says("", call("add", {"a": 1, "b": 2}, id="a"), call("plain", {"n": 1}, id="p"))
    run = await house.runner([turn, "ok"], tools=[add, plain]).start("go")
    told = observations(house)
    assert (told["a"]["data"], told["p"]["data"]) == (3, 2)
    assert [one.effect for one in run.calls] == ["write", "write"]


def test_c19_a_bad_definition_is_refused_when_it_is_made():
    with pytest.raises(ToolDefinitionError, match="description"):

        @tool
        def nameless(x: int) -> int:
            return x

    with pytest.raises(ToolDefinitionError, match="effect"):
        tool(effect="destroy", name="x", description="Destroys.")(lambda: None)

    with pytest.raises(ToolDefinitionError, match="ask_for"):

        @tool(ask_for=("nope",))
        def ask(x: int) -> int:
            """Ask."""
            return x

    with pytest.raises(ToolDefinitionError, match="plain parameters"):

        @tool
        def many(*values: int) -> int:
            """Many."""
            return 0

    @tool(effect="read")
    def twice() -> int:
        """Twice."""
        return 2

    with pytest.raises(UsageError, match="twice"):
        build_react(ScriptedModel(turns=[]), [twice, twice])


def test_c19_a_declaration_that_raises_is_a_write():
    @tool(effect=lambda arguments: arguments["mode"])
    def either(mode: str = "read") -> str:
        """Either."""
        return mode

    assert [either.effect_of(one) for one in ({"mode": "read"}, {"mode": "x"}, {})] == [
        "read",
        "write",
        "write",
    ]


def test_parameters_may_be_named_like_methods():
    @tool(effect="read")
    def odd(json: str, copy: int, schema: Annotated[list[str], Field(max_length=2)]) -> str:
        """Odd names."""
        return json

    context = ToolContext(run_id="r", thread_id="t", step=1, call_id="c", tool="odd", idempotency_key="k")
    assert odd.bind({"json": "x", "copy": 1, "schema": []}, context) == {"json": "x", "copy": 1, "schema": []}
    assert odd.problems({"json": "x", "copy": "1", "schema": []}).wrong.keys() == {"copy"}


async def test_c76_a_long_history_is_held_within_its_budget_and_stays_whole_in_the_database(house):
    answers = [f"answer {n} " + "word " * 100 for n in range(8)]
    runner = house.runner(answers, max_history_tokens=500)
    for n in range(8):
        run = await runner.start(f"question {n}", thread_id="t")
        assert run.status == "finished"
    sent = house.models[0].requests[-1]
    assert sent[0].type == "system"
    assert sent[-1].text == "question 7"
    assert len(sent) < 10
    state = await runner.graph.aget_state({"configurable": {"thread_id": "t"}})
    assert len(state.values["messages"]) == 16


async def test_c74_three_megabytes_are_cut_and_stored_once(house, tmp_path):
    @tool(effect="read")
    def huge() -> list[dict]:
        """Huge."""
        return [{"n": n, "text": "x" * 1000} for n in range(3000)]

    run = await house.runner([says("", call("huge", {}, id="h")), "ok"], tools=[huge]).start("go")
    (answer,) = [one for one in house.models[0].requests[1] if isinstance(one, ToolMessage)]
    assert len(answer.text) <= 8_000
    assert "cut" in json.loads(answer.text)
    assert run.calls[0].result == answer.text
    assert (tmp_path / "adjourn.db").stat().st_size < 1_000_000

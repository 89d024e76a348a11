"""Whole runs through langchain-openai's client and real HTTP: where bytes matter (S1, S5, C-7, C-15, C-43, C-58)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from runs.shop import Shop
from wire.conftest import Wire
from wire.openai_server import OpenAIServer, fails, fragment, streams
from wire.s1 import DOCS, QUESTION, RESOURCE, VARIANTS


def calls_in(body: dict) -> list[tuple[str, str, str]]:
    """The calls of the first assistant message of a request."""
    message = next(one for one in body["messages"] if one["role"] == "assistant")
    return [
        (one["id"], one["function"]["name"], one["function"]["arguments"]) for one in message["tool_calls"]
    ]


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # the openai client is typed for text
@pytest.mark.parametrize("name", VARIANTS)
async def test_s1_on_the_wire(wire: Wire, name: str) -> None:
    shop = Shop({"search_resource": 0.2, "search_docs": 0.1})
    wire.server.replies += [
        streams(*VARIANTS[name], finish="tool_calls", usage=(20, 9)),
        streams("先查", "依赖，", "再回滚。"),
        streams("要审批。"),
    ]
    runner = wire.runner(shop)
    events = [event async for event in runner.stream(QUESTION, thread_id="t")]
    run = await runner.get(events[0].run_id)
    assert (run.status, run.answer, run.row.steps) == ("finished", "先查依赖，再回滚。", 2)
    assert (run.row.input_tokens, run.row.output_tokens) == (20, 9)
    told = [(one.word, one.call_id) for one in events if one.word in ("tool_call", "tool_result")]
    assert told == [
        ("tool_call", "call_a"),
        ("tool_call", "call_b"),
        ("tool_result", "call_b"),
        ("tool_result", "call_a"),
    ]
    assert [one.text for one in events if one.word == "text_delta"][-3:] == ["先查", "依赖，", "再回滚。"]
    body = wire.server.requests[1].body
    assert [one["role"] for one in body["messages"]] == ["system", "user", "assistant", "tool", "tool"]
    if name != "arguments as objects":
        assert calls_in(body) == [("call_a", "search_resource", RESOURCE), ("call_b", "search_docs", DOCS)]
    second = await runner.start("那回滚要审批吗？", thread_id="t")
    assert second.answer == "要审批。"
    roles = [one["role"] for one in wire.server.requests[2].body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "user"]


async def test_c7_c12_valid_and_invalid_calls_go_back_byte_for_byte_in_order(wire: Wire) -> None:
    cut = '{"query":"支付", "top_k'
    spaced = '{ "query" :"x" ,"top_k":2.0e0}'
    wire.server.replies += [
        streams(
            [fragment(0, "a", "search_docs", cut)],
            [fragment(1, "b", "search_docs", spaced)],
            finish="tool_calls",
        ),
        streams("ok"),
    ]
    run = await wire.runner(Shop()).start(QUESTION)
    assert calls_in(wire.server.requests[1].body) == [("a", "search_docs", cut), ("b", "search_docs", spaced)]
    assert run.calls[0].outcome == "invalid"


async def test_s5_c43_a_run_goes_on_elsewhere_with_the_same_bytes(wire: Wire) -> None:
    shop = Shop()
    wire.server.replies += [
        streams(
            [fragment(0, "q1", "query_logs", "")],
            [fragment(1, "q2", "search_docs", DOCS)],
            finish="tool_calls",
        ),
        streams("连接池耗尽。"),
    ]
    first = wire.runner(shop)
    run = await first.start(QUESTION)
    assert run.status == "interrupted"
    first.close()
    answer = {run.interrupts[0].id: {"environment": "prod", "service_id": "svc-pay-001"}}
    done = await wire.runner(shop).resume(run.id, answer)
    assert (done.status, done.answer) == ("finished", "连接池耗尽。")
    body = wire.server.requests[1].body
    assert calls_in(body) == [("q1", "query_logs", ""), ("q2", "search_docs", DOCS)]
    told = [json.loads(one["content"])["ok"] for one in body["messages"] if one["role"] == "tool"]
    assert told == [True, True]


async def test_s5_c50_a_plain_message_on_a_waiting_thread_is_a_legal_request(wire: Wire) -> None:
    wire.server.replies += [
        streams([fragment(0, "q1", "query_logs", "{}")], finish="tool_calls"),
        streams("好的。"),
    ]
    runner = wire.runner(Shop())
    run = await runner.start(QUESTION, thread_id="t")
    assert run.status == "interrupted"
    assert (await runner.start("算了", thread_id="t")).answer == "好的。"


@pytest.mark.parametrize("status", [429, 500])
async def test_c58_a_busy_server_is_asked_again(
    wire: Wire, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adjourn.nodes.model_errors.BACKOFF_S", 0.0)
    wire.server.replies += [fails(status), streams("ok")]
    assert (await wire.runner(Shop()).start("hi")).answer == "ok"


async def test_c58_a_refusal_of_the_key_is_final_and_the_run_can_be_resumed(wire: Wire) -> None:
    wire.server.replies += [fails(401), streams("ok")]
    runner = wire.runner(Shop())
    run = await runner.start("hi")
    assert (run.status, len(wire.server.requests)) == ("failed", 1)
    assert (await runner.resume(run.id)).answer == "ok"


TWO_LOOPS = """
import asyncio, sys
from adjourn.graph import Runner, build_react
from adjourn.nodes import approve, tool

@tool(effect="write", confirm="Restart {service}?")
def restart(service: str) -> str:
    "Restart."
    return "ok"

runner = Runner(build_react("openai:scripted-1", [restart]), sys.argv[1])
for _ in range(2):
    run = asyncio.run(runner.start("go"))
    run = runner.resume_sync(run.id, {run.interrupts[0].id: approve()})
    print(run.status, run.answer, run.error)
runner.close()
"""


def test_c43_a_script_may_use_several_event_loops(server: OpenAIServer, tmp_path: Path) -> None:
    """`asyncio.run` twice and sync twins between: pooled connections belong to the loop that opened them."""
    ask = streams([fragment(0, "q", "restart", '{"service":"pay"}')], finish="tool_calls")
    server.replies += [ask, streams("one"), ask, streams("two")]
    environment = {**os.environ, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "x"}
    command = [sys.executable, "-c", TWO_LOOPS, f"sqlite:///{tmp_path / 'a.db'}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["finished one None", "finished two None"]


def test_the_demo_with_a_real_model_by_key_and_address(server: OpenAIServer, tmp_path: Path) -> None:
    server.replies += [
        streams("Let me look. ", [fragment(0, "c", "search_docs", '{"query":"5xx"}')], finish="tool_calls"),
        streams("The runbook says: ", "check the pool."),
    ]
    environment = {**os.environ, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "x"}
    command = [sys.executable, "-m", "adjourn.graph", "demo", "--model", "openai:scripted-1", "--lang", "en"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "The model is openai:scripted-1." in done.stdout
    assert "The runbook says: check the pool." in done.stdout
    assert "finished (answered)" in done.stdout
    assert server.requests[0].body["stream"] is True

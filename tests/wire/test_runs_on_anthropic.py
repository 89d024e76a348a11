"""Whole runs through langchain-anthropic's client, and threads that change their provider (S2, C-13)."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from runs.shop import Shop
from wire.anthropic_server import AnthropicServer, answers, error_event, fails, says, thinks, uses, whole
from wire.conftest import Chat, Claude
from wire.loopback import Cut
from wire.openai_server import OpenAIServer, fragment, streams
from wire.s1 import DOCS, QUESTION, RESOURCE
from wire.test_anthropic_wire import RESULT

from adjourn.graph import Limits, Runner, build_react
from adjourn.nodes import tool


@tool(effect="read")
async def list_runbooks() -> list[str]:
    """List all runbooks."""
    return ["5xx"]


class Wires:
    """Runners over one store, each with a model of its own."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path / 'adjourn.db'}"
        self.shop = Shop({"search_resource": 0.1})
        self.made: list[Runner] = []

    def runner(self, model: BaseChatModel) -> Runner:
        """A runner as another process would make it."""
        tools = [*self.shop.tools(), list_runbooks]
        graph = build_react(
            model,
            tools,
            limits=Limits(max_steps=8),
            system_prompt="You help.",
            provider_tools=[{"type": "web_search_20250305", "name": "web_search"}],
        )
        self.made.append(Runner(graph, self.url))
        return self.made[-1]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjourn.nodes.model_errors.BACKOFF_S", 0.0)


@pytest.fixture
async def wires(tmp_path: Path) -> AsyncIterator[Wires]:
    one = Wires(tmp_path)
    yield one
    for runner in one.made:
        runner.close()


def kinds(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    return ["text"] if isinstance(content, str) else [block["type"] for block in content]


async def test_s2_the_same_through_anthropic(
    wires: Wires, anthropic: AnthropicServer, claude: Claude
) -> None:
    anthropic.replies += [
        answers(
            says("我先同时查两边。"),
            uses("toolu_a", "search_resource", RESOURCE[:9], RESOURCE[9:]),
            uses("toolu_b", "list_runbooks"),
            stop="tool_use",
            usage={
                "input_tokens": 20,
                "output_tokens": 9,
                "cache_read_input_tokens": 5,
                "cache_creation_input_tokens": 3,
            },
        ),
        answers(says("先查", "依赖，", "再回滚。")),
        answers(says("要审批。")),
    ]
    runner = wires.runner(claude())
    events = [event async for event in runner.stream(QUESTION, thread_id="t")]
    run = await runner.get(events[0].run_id)
    assert (run.status, run.stop_reason, run.answer) == ("finished", "answered", "先查依赖，再回滚。")
    assert (run.row.steps, run.row.input_tokens, run.row.output_tokens) == (2, 29, 10)
    first = run.steps[0]
    assert (first.input_tokens, first.cached_tokens, first.cache_write_tokens) == (28, 5, 3)
    told = [(one.word, one.call_id) for one in events if one.word in ("tool_call", "tool_result")]
    assert told == [
        ("tool_call", "toolu_a"),
        ("tool_call", "toolu_b"),
        ("tool_result", "toolu_b"),
        ("tool_result", "toolu_a"),
    ]
    assert [(one.call_id, one.tool, one.arguments, one.outcome) for one in run.calls] == [
        ("toolu_a", "search_resource", {"query": "支付服务"}, "ok"),
        ("toolu_b", "list_runbooks", {}, "ok"),
    ]
    body = anthropic.requests[1].body
    assert body["system"] == "You help."
    user, assistant, results = body["messages"]
    assert [block.get("input") for block in assistant["content"]] == [None, {"query": "支付服务"}, {}]
    assert (user["role"], kinds(assistant)) == ("user", ["text", "tool_use", "tool_use"])
    assert [(one["tool_use_id"], one["is_error"]) for one in results["content"]] == [
        ("toolu_a", False),
        ("toolu_b", False),
    ]
    second = await runner.start("那回滚要审批吗？", thread_id="t")
    assert second.answer == "要审批。"
    assert [one["role"] for one in anthropic.requests[2].messages] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]


async def test_s2_c13_is_error_is_exactly_ok_false(
    wires: Wires, anthropic: AnthropicServer, claude: Claude
) -> None:
    wires.shop.fails = {"search_docs": RuntimeError("down")}
    cut = '{"query":"支付'
    anthropic.replies += [
        answers(
            uses("a", "search_docs", DOCS),
            uses("b", "list_runbooks"),
            uses("c", "search_resource", cut),
            uses("d", "no such tool"),
            stop="tool_use",
        ),
        answers(says("ok")),
    ]
    run = await wires.runner(claude()).start(QUESTION)
    _, assistant, results = anthropic.requests[1].messages
    assert [(one["tool_use_id"], one["is_error"]) for one in results["content"]] == [
        ("a", True),
        ("b", False),
        ("c", True),
        ("d", True),
    ]
    assert [block["input"] for block in assistant["content"]][2:] == [{}, {}]
    assert assistant["content"][3]["name"] == "unknown_tool"
    assert json.loads(results["content"][2]["content"])["message"].endswith(cut)  # the raw text is quoted
    assert run.answer == "ok"


async def test_s2_c13_a_tool_that_the_provider_runs_and_a_paused_turn(
    wires: Wires, anthropic: AnthropicServer, claude: Claude
) -> None:
    searched = uses("srvtoolu_1", "web_search", '{"query":"5xx"}', kind="server_tool_use")
    anthropic.replies += [
        answers(says("我查一下。"), searched, stop="pause_turn"),
        answers(
            whole(type="web_search_tool_result", **RESULT),
            says("找到了。"),
            usage={"input_tokens": 2, "output_tokens": 3},
        ),
        answers(says("是。")),
    ]
    runner = wires.runner(claude())
    events = [event async for event in runner.stream(QUESTION, thread_id="t")]
    run = await runner.get(events[0].run_id)
    assert (run.status, run.answer, run.row.steps, run.calls) == ("finished", "找到了。", 2, [])
    assert not [one for one in events if one.word in ("tool_call", "tool_result", "text_discarded")]
    assert [one.step for one in events if one.word == "step_started"] == [1, 2]
    sent_back = anthropic.requests[1].messages[-1]
    assert (sent_back["role"], kinds(sent_back)) == ("assistant", ["text", "server_tool_use"])
    assert sent_back["content"][1]["input"] == {"query": "5xx"}
    assert anthropic.requests[0].body["tools"][-1] == {"type": "web_search_20250305", "name": "web_search"}
    await runner.start("确定吗？", thread_id="t")
    later = anthropic.requests[2].messages
    assert [kinds(one) for one in later] == [
        ["text"],
        ["text", "server_tool_use"],
        ["web_search_tool_result", "text"],
        ["text"],
    ]


async def test_c13_a_thread_changes_its_provider_and_comes_back(
    wires: Wires,
    server: OpenAIServer,
    anthropic: AnthropicServer,
    chat: Chat,
    claude: Claude,
) -> None:
    cut, spaced = '{"query":"支付', '{ "query" :"支付","top_k":2 }'
    server.replies += [
        streams(
            "先看。",
            [fragment(0, "functions.search_docs:0", "search_docs", spaced)],
            [fragment(1, "call_1", "search_docs", cut)],
            finish="tool_calls",
        ),
        streams("好的。"),
    ]
    anthropic.replies += [
        answers(
            thinks("hm"),
            says("再查。"),
            uses("srvtoolu_1", "web_search", '{"query":"x"}', kind="server_tool_use"),
            whole(type="web_search_tool_result", **RESULT),
            uses("call_1", "search_resource", RESOURCE),
            stop="tool_use",
        ),
        answers(says("都查过了。")),
    ]
    assert (await wires.runner(chat()).start(QUESTION, thread_id="t")).answer == "好的。"
    thinking = {"type": "enabled", "budget_tokens": 1024}
    model = claude(max_tokens=4096, thinking=thinking)
    assert (await wires.runner(model).start("还有呢？", thread_id="t")).answer == "都查过了。"

    there = anthropic.requests[0].messages  # the thread so far, in Anthropic's form
    assert [one["role"] for one in there] == ["user", "assistant", "user", "assistant", "user"]
    first, second = (block for block in there[1]["content"] if block["type"] == "tool_use")
    assert (first["input"], second["input"]) == ({"query": "支付", "top_k": 2}, {})
    assert [block["tool_use_id"] for block in there[2]["content"]] == [first["id"], second["id"]]
    again = anthropic.requests[1].messages
    assert kinds(again[-2]) == ["thinking", "text", "server_tool_use", "web_search_tool_result", "tool_use"]
    assert again[-2]["content"][-1]["id"] == again[-1]["content"][0]["tool_use_id"] != second["id"]

    server.replies.append(streams("是的。"))
    assert (await wires.runner(chat()).start("确定吗？", thread_id="t")).answer == "是的。"
    back = server.requests[-1].messages
    assert [one["role"] for one in back] == [
        *("system", "user", "assistant", "tool", "tool", "assistant"),
        *("user", "assistant", "tool", "assistant", "user"),
    ]
    assert [call["function"]["arguments"] for call in back[2]["tool_calls"]] == [spaced, cut]
    assert back[2]["tool_calls"][0]["id"] == "functions.search_docs:0"
    assert (back[7]["content"], back[7]["tool_calls"][0]["function"]["arguments"]) == ("再查。", RESOURCE)
    assert "thinking" not in json.dumps(back)
    assert "srvtoolu_1" not in json.dumps(back)

    anthropic.replies.append(answers(says("完。")))
    assert (await wires.runner(model).start("好", thread_id="t")).answer == "完。"
    assert kinds(anthropic.requests[-1].messages[5]) == kinds(again[-2])


async def test_c13_c43_a_waiting_run_goes_on_with_another_provider(
    wires: Wires,
    server: OpenAIServer,
    anthropic: AnthropicServer,
    chat: Chat,
    claude: Claude,
) -> None:
    server.replies.append(
        streams(
            [fragment(0, "q1", "query_logs", "")],
            [fragment(1, "q2", "list_runbooks", "")],
            finish="tool_calls",
        )
    )
    anthropic.replies.append(answers(says("连接池耗尽。")))
    run = await wires.runner(chat()).start(QUESTION)
    assert run.status == "interrupted"
    answer = {run.interrupts[0].id: {"environment": "prod", "service_id": "svc-pay-001"}}
    done = await wires.runner(claude()).resume(run.id, answer)
    assert (done.status, done.answer) == ("finished", "连接池耗尽。")
    results = anthropic.requests[0].messages[-1]["content"]
    assert [(one["tool_use_id"], one["is_error"]) for one in results] == [("q1", False), ("q2", False)]


async def test_c13_a_paused_turn_that_says_nothing_is_left_out_for_others(
    wires: Wires,
    server: OpenAIServer,
    anthropic: AnthropicServer,
    chat: Chat,
    claude: Claude,
) -> None:
    searched = uses("srvtoolu_1", "web_search", '{"query":"5xx"}', kind="server_tool_use")
    anthropic.replies += [answers(searched, stop="pause_turn"), fails(401)]
    first = await wires.runner(claude()).start(QUESTION)
    assert first.status == "failed"
    server.replies.append(streams("好的。"))
    assert (await wires.runner(chat()).resume(first.id)).answer == "好的。"
    assert [one["role"] for one in server.requests[0].messages] == ["system", "user"]


@pytest.mark.parametrize(
    "broken",
    [
        answers(says("half"), Cut()),
        answers(says("half"), error_event()),
        answers(says("half"), stop=None),
        fails(529),
        fails(429, retry_after_s=0.01),
    ],
)
async def test_c10_c58_c66_a_broken_stream_is_asked_for_again_and_its_text_voided(
    wires: Wires, anthropic: AnthropicServer, claude: Claude, broken: Any
) -> None:
    anthropic.replies += [broken, answers(says("whole"))]
    runner = wires.runner(claude())
    events = [event async for event in runner.stream(QUESTION)]
    told = [(one.word, one.attempt) for one in events if one.word in ("text_delta", "text_discarded")]
    voided = [("text_delta", 1), ("text_discarded", 1)] if broken.parts else []
    assert told == [*voided, ("text_delta", 2)]
    assert (await runner.get(events[0].run_id)).answer == "whole"


async def test_c11_a_refusal_without_a_word_is_an_answer(
    wires: Wires, anthropic: AnthropicServer, claude: Claude
) -> None:
    anthropic.replies.append(answers(stop="refusal"))
    run = await wires.runner(claude()).start(QUESTION)
    assert (run.status, run.stop_reason) == ("finished", "answered")
    assert run.answer == "模型拒绝回答。"


async def test_c13_a_search_that_waits_for_our_tools_goes_back_open_and_is_answered_later(
    wires: Wires, anthropic: AnthropicServer, claude: Claude
) -> None:
    """The provider runs its own tool when the results of ours are there, and says so in its next turn."""
    searched = uses("srvtoolu_1", "web_search", '{"query":"5xx"}', kind="server_tool_use")
    anthropic.replies += [
        answers(says("Both."), searched, uses("toolu_a", "list_runbooks"), stop="tool_use"),
        answers(whole(type="web_search_tool_result", **RESULT), says("找到了。")),
        answers(says("是。")),
    ]
    runner = wires.runner(claude())
    assert (await runner.start(QUESTION, thread_id="t")).answer == "找到了。"
    assert (await runner.start("确定吗？", thread_id="t")).answer == "是。"
    for request in anthropic.requests[1:]:
        assert kinds(request.messages[1]) == ["text", "server_tool_use", "tool_use"]
    assert kinds(anthropic.requests[2].messages[3]) == ["web_search_tool_result", "text"]


async def test_c13_c15_a_search_that_nobody_answered_is_left_out(
    wires: Wires, anthropic: AnthropicServer, claude: Claude
) -> None:
    searched = uses("srvtoolu_1", "web_search", '{"query":"5xx"}', kind="server_tool_use")
    anthropic.replies += [
        answers(says("我查。"), searched, stop="pause_turn"),
        fails(401),
        answers(says("好。")),
    ]
    runner = wires.runner(claude())
    assert (await runner.start(QUESTION, thread_id="t")).status == "failed"
    assert (await runner.start("算了", thread_id="t")).answer == "好。"
    assert [kinds(one) for one in anthropic.requests[2].messages] == [["text"]] * 3


async def test_c13_a_fallback_of_another_provider_takes_the_same_thread(
    wires: Wires, server: OpenAIServer, anthropic: AnthropicServer, chat: Chat, claude: Claude, tmp_path: Path
) -> None:
    anthropic.replies += [
        answers(thinks("hm"), uses("toolu_a", "list_runbooks"), stop="tool_use"),
        *[fails(529)] * 3,
    ]
    server.replies.append(streams("好。"))
    graph = build_react(claude(), [list_runbooks], fallbacks=[chat()])
    runner = Runner(graph, f"sqlite:///{tmp_path / 'b.db'}")
    run = await runner.start(QUESTION)
    runner.close()
    assert (run.status, run.answer) == ("finished", "好。")
    sent = server.requests[0].messages
    assert [one["role"] for one in sent] == ["user", "assistant", "tool"]
    assert set(sent[1]) == {"role", "content", "tool_calls"}


TWO_LOOPS = """
import asyncio, sys
from langchain_anthropic import ChatAnthropic
from adjourn.graph import Runner, build_react
from adjourn.nodes import approve, tool

@tool(effect="write", confirm="Restart {service}?")
def restart(service: str) -> str:
    "Restart."
    return "ok"

model = ChatAnthropic(model="claude-scripted", base_url=sys.argv[2], api_key="x", max_retries=0)
runner = Runner(build_react(model, [restart]), sys.argv[1])
for _ in range(2):
    run = asyncio.run(runner.start("go"))
    run = runner.resume_sync(run.id, {run.interrupts[0].id: approve()})
    print(run.status, run.answer, run.error)
runner.close()
"""


def test_c43_a_script_may_use_several_event_loops_with_anthropic_too(
    anthropic: AnthropicServer, tmp_path: Path
) -> None:
    ask = answers(uses("q", "restart", '{"service":"pay"}'), stop="tool_use")
    anthropic.replies += [ask, answers(says("one")), ask, answers(says("two"))]
    command = [sys.executable, "-c", TWO_LOOPS, f"sqlite:///{tmp_path / 'a.db'}", anthropic.url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["finished one None", "finished two None"]

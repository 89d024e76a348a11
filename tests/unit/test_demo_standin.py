"""The stand-in model: legal streams, and turns that make sense on Chinese and English sentences."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from adjourn.graph.demo.sentence import minutes_in, named_file, topic, wishes_of
from adjourn.graph.demo.standin import StandInModel
from adjourn.graph.demo.tools import make_tools
from adjourn.graph.demo.workspace import Workspace
from adjourn.nodes import Tool, ToolContext

ZH = "看看支付服务最近报错，顺便对照一下文档里的处理建议"
EN = "Check the payment service's recent errors and compare them with what the docs advise."
PAY = {"environment": "prod", "service_id": "svc-pay-001"}
Asked = list[tuple[str, dict[str, Any]]]


class Talk:
    """A thread with the stand-in: its calls are run here, as the runtime would, and noted in `asked`."""

    def __init__(self, workspace: Workspace) -> None:
        self.tools: dict[str, Tool] = {tool.name: tool for tool in make_tools(workspace)}
        self.model = StandInModel().bind_tools([tool.for_model for tool in self.tools.values()])
        self.history: list[BaseMessage] = [SystemMessage("be useful")]
        self.asked: Asked = []

    def say(self, sentence: str, values: dict[str, Any] | None = None, code: str | None = None) -> str:
        """The answer. `values` fill in what is missing; `code` is how a call that needs agreement ends."""
        self.history.append(HumanMessage(sentence))
        for _ in range(6):
            turn = self.model.invoke(self.history)
            assert isinstance(turn, AIMessage)
            self.history.append(turn)
            if not turn.tool_calls:
                return str(turn.text)
            self.history += [self._observe(call, values or {}, code) for call in turn.tool_calls]
        raise AssertionError("the stand-in does not come to an end")

    def _observe(self, call: Any, values: dict[str, Any], code: str | None) -> ToolMessage:
        self.asked.append((call["name"], call["args"]))
        tool, arguments = self.tools[call["name"]], dict(call["args"])
        assert not tool.problems(arguments).wrong
        arguments |= {name: values[name] for name in tool.problems(arguments).missing}
        if code and tool.question_of(arguments):
            told = {"ok": False, "errorCode": code, "message": "高峰期，不行。"}
        else:
            context = ToolContext("r", "t", 1, call["id"], tool.name, call["id"])
            told = {"ok": True, "data": tool.function(**tool.bind(arguments, context))}
        return ToolMessage(json.dumps(told, ensure_ascii=False), tool_call_id=call["id"], name=tool.name)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.asked]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjourn.graph.demo.tools.RESTART_TAKES_S", 0)


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(Workspace.create(tmp_path))


def merged(chunks: Sequence[AIMessageChunk]) -> AIMessageChunk:
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    return whole


async def test_a_stream_is_what_an_openai_stream_becomes(talk: Talk) -> None:
    chunks = [chunk async for chunk in talk.model.astream([HumanMessage(ZH)])]
    assert all(isinstance(chunk, AIMessageChunk) for chunk in chunks)
    parts = [part for chunk in chunks for part in getattr(chunk, "tool_call_chunks", ())]
    heads = [part for part in parts if part["id"]]
    assert [(head["index"], head["name"], head["args"]) for head in heads] == [
        (0, "query_logs", ""),
        (1, "search_docs", ""),
    ]
    assert len({head["id"] for head in heads}) == 2
    assert all(part["name"] is None and part["args"] for part in parts if not part["id"])
    assert len(parts) > 6
    assert len([chunk for chunk in chunks if chunk.content]) > 5


@pytest.mark.parametrize(
    ("sentence", "finish"), [(ZH, "tool_calls"), (EN, "tool_calls"), ("你好", "stop"), ("Hello!", "stop")]
)
def test_a_stream_ends_with_a_finish_reason_and_usage(talk: Talk, sentence: str, finish: str) -> None:
    chunks = [
        chunk for chunk in talk.model.stream([HumanMessage(sentence)]) if isinstance(chunk, AIMessageChunk)
    ]
    whole = merged(chunks)
    assert whole.response_metadata["finish_reason"] == finish
    assert whole.usage_metadata is not None and whole.usage_metadata["output_tokens"] > 0
    assert bool(whole.tool_calls) == (finish == "tool_calls")
    assert whole.invalid_tool_calls == []


@pytest.mark.parametrize(
    ("sentence", "notice"), [(ZH, "不是语言模型"), (EN, "no language model"), ("hi", "no language model")]
)
def test_it_says_once_what_it_is(talk: Talk, sentence: str, notice: str) -> None:
    talk.say(sentence, PAY)
    assert [notice in str(m.text) for m in talk.history if isinstance(m, AIMessage)].count(True) == 1


@pytest.mark.parametrize(
    ("sentence", "title"), [(ZH, "支付服务 5xx 处理手册"), (EN, "Payment service: 5xx runbook")]
)
def test_the_whole_story(talk: Talk, sentence: str, title: str) -> None:
    answer = talk.say(sentence, PAY)
    assert talk.names == ["query_logs", "search_docs", "restart_service"]
    assert talk.asked[0][1] == {}  # what it did not see, it leaves out
    assert talk.asked[2][1] == PAY
    for told in (
        "442",
        "20:09:48",
        "20:30:59",
        "connection pool exhausted",
        "release 2.14.0",
        title,
        "1. ",
        "6. ",
    ):
        assert told in answer


def test_a_no_is_respected(talk: Talk) -> None:
    answer = talk.say(ZH, PAY, code="user_declined")
    assert "没有重启：高峰期，不行。" in answer
    assert "442" in answer
    talk.say("再看看日志", PAY)
    assert talk.names.count("restart_service") == 1


@pytest.mark.parametrize(
    "code", ["expired", "user_dismissed", "permission_denied", "outcome_unknown", "tool_error"]
)
def test_a_restart_that_did_not_go_through_is_told(talk: Talk, code: str) -> None:
    assert "did not go through" in talk.say(EN, PAY, code=code)
    assert talk.names.count("restart_service") == 1


def test_what_the_sentence_says_is_not_asked(talk: Talk) -> None:
    talk.say("svc-pay-001 生产环境最近 10 分钟的报错", code="user_declined")
    assert talk.asked[0] == ("query_logs", {**PAY, "minutes": 10})


def test_what_the_thread_showed_is_not_asked_again(talk: Talk) -> None:
    talk.say(ZH, PAY)
    talk.say("再看看日志")
    assert [args for name, args in talk.asked if name == "query_logs"] == [{}, PAY]


@pytest.mark.parametrize(
    "sentence", [f"{ZH}，不要重启", "Just look at the errors and the docs, svc-pay-001 prod, don't restart"]
)
def test_no_restart_where_the_user_forbids_it(talk: Talk, sentence: str) -> None:
    talk.say(sentence, PAY)
    assert "restart_service" not in talk.names


def test_a_healthy_service_is_not_restarted(talk: Talk) -> None:
    answer = talk.say("check the logs of svc-crt-003 in production and the runbook")
    assert talk.names == ["query_logs", "search_docs"]
    assert "0 of them errors" in answer


@pytest.mark.parametrize(
    ("sentence", "tools"),
    [
        ("你好", []),
        ("What can you do?", []),
        ("那回滚要审批吗？", ["search_docs"]),
        ("How should we handle 503 errors?", ["search_docs"]),
        ("算了，只看手册", ["search_docs"]),
        ("今天天气怎么样", ["search_docs"]),
        ("What happened to the orders?", ["query_logs"]),
        ("which services are there?", ["search_resource"]),
        ("支付服务谁负责？", ["search_resource"]),
        ("重启 svc-ord-002 生产环境", ["restart_service"]),
        ("Restart the payment service", ["search_resource"]),
        ("?", ["search_docs"]),
    ],
)
def test_other_sentences(talk: Talk, sentence: str, tools: list[str]) -> None:
    assert talk.say(sentence, {"environment": "staging", "service_id": "svc-ord-002"}) != ""
    assert talk.names == tools


def test_a_question_back_is_understood_with_the_sentence_before(talk: Talk) -> None:
    assert "in which environment?" in talk.say("Restart the payment service")
    talk.say("staging")
    assert talk.asked[-1] == ("restart_service", {"environment": "staging", "service_id": "svc-pay-001"})


def test_values_given_as_text_go_on_with_a_call_that_waits(talk: Talk) -> None:
    call = {"name": "query_logs", "args": {}, "id": "q1"}
    waits = json.dumps({"ok": False, "errorCode": "awaiting_user", "message": "query_logs waits"})
    talk.history += [
        HumanMessage(ZH),
        AIMessage("", tool_calls=[call]),
        ToolMessage(waits, tool_call_id="q1"),
    ]
    talk.say("environment: prod, service_id: svc-pay-001")
    assert talk.asked[0] == ("query_logs", PAY)


def test_the_runtimes_note_is_no_sentence_of_the_user(talk: Talk) -> None:
    turn = talk.model.invoke([HumanMessage(ZH), HumanMessage("[runtime] 3 steps are left.")])
    assert [call["name"] for call in turn.tool_calls] == ["query_logs", "search_docs"]


def test_with_tools_switched_off_it_tells_what_was_found(talk: Talk) -> None:
    talk.say(ZH, PAY)
    off = StandInModel().invoke(talk.history[:-1])
    assert off.tool_calls == []
    assert "442" in str(off.text)
    assert StandInModel().invoke([HumanMessage(EN)]).tool_calls == []


def test_a_folder_of_ones_own(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "app.log").write_text("2026-03-18 20:00:00 ERROR disk is full\n", encoding="utf-8")
    (data / "web.log").write_text("2026-03-18 20:00:00 INFO well\n", encoding="utf-8")
    (data / "disk.md").write_text("# Full disks\n1. Delete old files\n", encoding="utf-8")
    talk = Talk(Workspace.create(tmp_path / "w", data))
    answer = talk.say("Any errors lately?", {"file": "app.log"})
    assert talk.asked[0] == ("query_logs", {})
    assert "disk is full" in answer and "1. Delete old files" in answer
    talk.say("看看 web.log")
    assert talk.asked[-1] == ("query_logs", {"file": "web.log"})


def test_words_of_a_sentence() -> None:
    assert topic(ZH) == "支付服务 报错 处理建议"
    assert topic(EN) == "payment service errors advise"
    assert topic("看看", ["支付服务"]) == "支付服务"
    assert [minutes_in(text) for text in ("过去两天", "最近 2 小时", "last hour", "半小时", "99 days")] == [
        None,
        120,
        60,
        30,
        1440,
    ]
    assert named_file("dpkg please", ["dpkg.log", "apt/term.log"]) == "dpkg.log"
    assert named_file("error.log", ["a/error.log", "b/error.log"]) is None
    assert wishes_of("不用看日志了，查手册").logs is False

"""The scripted model: what it plays, what it records, and what it refuses."""

import asyncio
import pickle
import time
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
from langchain_core.messages.tool import tool_call
from langchain_core.tools import tool

from adjourn.nodes.assembly import Fragment, Turn, Usage
from adjourn.nodes.providers import provider_of
from adjourn.nodes.scripted import Fails, ScriptedModel, ScriptedTurn, call, ends, says
from adjourn.nodes.wire_in import read


async def play(model: ScriptedModel, *messages: BaseMessage) -> Turn:
    provider = provider_of(model)
    assembler = provider.assembler()
    async for chunk in model.astream(list(messages) or [HumanMessage("hi")]):
        assembler.feed(read(chunk, provider))
    return assembler.finish()


def play_sync(model: ScriptedModel) -> Turn:
    provider = provider_of(model)
    assembler = provider.assembler()
    for chunk in model.stream("hi"):
        assembler.feed(read(chunk, provider))
    return assembler.finish()


TURNS: dict[str, tuple[ScriptedTurn, tuple[str, list[tuple[str | None, str, str]], str | None]]] = {
    "text": ("plain", ("plain", [], "stop")),
    "deltas": (says(["a", "b"]), ("ab", [], "stop")),
    "an object": (
        says("t", call("s", {"q": "支付"})),
        ("t", [("call_1", "s", '{"q":"支付"}')], "tool_calls"),
    ),
    "no arguments": (
        says("", call("s"), call("s")),
        ("", [("call_1", "s", "{}"), ("call_2", "s", "{}")], "tool_calls"),
    ),
    "raw text": (says("", call("s", "{bad", id="x")), ("", [("x", "s", "{bad")], "tool_calls")),
    "text pieces": (
        says("", call("s", ['{"q":', "1}"], id="x")),
        ("", [("x", "s", '{"q":1}')], "tool_calls"),
    ),
    "no id": (says("", call("s", id=None)), ("", [(None, "s", "{}")], "tool_calls")),
    "cut": (says("half", finish="length"), ("half", [], "length")),
    "no end signal": (says("half", finish=None), ("half", [], None)),
    "fragments": (
        [
            "t",
            Fragment(1, "b", "u", "{}"),
            (Fragment(0, "a", "s", "{"), Fragment(0, None, None, "}")),
            ends("tool_calls"),
        ],
        ("t", [("a", "s", "{}"), ("b", "u", "{}")], "tool_calls"),
    ),
    "fragments without an end": ([Fragment(0, "a", "s", "{}")], ("", [("a", "s", "{}")], None)),
    "a message": (
        AIMessage("t", tool_calls=[tool_call(name="s", args={"q": 1}, id="x")]),
        ("t", [("x", "s", '{"q":1}')], "tool_calls"),
    ),
    "a chunk": (AIMessageChunk(content="t", response_metadata={"finish_reason": "stop"}), ("t", [], "stop")),
}


@pytest.mark.parametrize("name", TURNS)
@pytest.mark.parametrize("way", ["async", "sync"])
async def test_turns_are_played_down_to_fragments(name: str, way: str) -> None:
    scripted, expected = TURNS[name]
    model = ScriptedModel(turns=[scripted])
    turn = await play(model) if way == "async" else play_sync(model)
    assert (turn.text, [(one.id, one.name, one.raw) for one in turn.calls], turn.finish) == expected


async def test_f42_a_model_that_does_not_stream_plays_the_same() -> None:
    scripted = says("t", call("s", '{ "q" :1.0}'), call("s", "{bad"), usage=(3, 4))
    turn = await play(ScriptedModel(turns=[scripted], disable_streaming=True))
    assert [one.raw for one in turn.calls] == ['{ "q" :1.0}', "{bad"]
    assert (turn.text, turn.finish, turn.usage) == ("t", "tool_calls", Usage(3, 4))
    message = ScriptedModel(turns=[scripted]).invoke("hi")
    assert [one["name"] for one in message.tool_calls + message.invalid_tool_calls] == ["s", "s"]


async def test_reasoning_refusal_and_usage() -> None:
    turn = await play(ScriptedModel(turns=[says("", reasoning="hm", refusal="no", usage=(3, 4))]))
    assert (turn.reasoning, turn.refusal, turn.usage, turn.model) == ("hm", "no", Usage(3, 4), "scripted")


async def test_errors_are_raised_at_once_or_after_text() -> None:
    model = ScriptedModel(
        turns=[ConnectionError("gone"), Fails(ConnectionError("later"), ("ha", "lf")), "fine"]
    )
    with pytest.raises(ConnectionError, match="gone"):
        await play(model)
    seen = []
    with pytest.raises(ConnectionError, match="later"):
        async for chunk in model.astream([HumanMessage("hi")]):
            seen.append(chunk.text)
    assert seen == ["ha", "lf"]
    assert (await play(model)).text == "fine"


async def test_requests_and_tools_are_recorded() -> None:
    @tool
    def search(query: str) -> str:
        """Search."""
        return query

    model = ScriptedModel(turns=["one", "two"])
    bound = model.bind_tools([search], tool_choice="any")
    await bound.ainvoke([SystemMessage("s"), HumanMessage("q")])
    await model.ainvoke("again")
    assert [[message.text for message in request] for request in model.requests] == [["s", "q"], ["again"]]
    assert model.offered == [["search"], []]
    assert model.settings[0]["tool_choice"] == "any"
    assert model.violations == []


async def test_when_the_turns_run_out_the_error_says_so() -> None:
    model = ScriptedModel(turns=["one"])
    await play(model)
    with pytest.raises(AssertionError, match=r"has 1 turns, but turn 2 was asked for.*human: 'hi'"):
        await play(model)


async def test_by_history_a_fresh_process_goes_on_where_the_last_one_stopped() -> None:
    model = pickle.loads(pickle.dumps(ScriptedModel(turns=["one", "two"], by_history=True)))
    history = [HumanMessage("a"), AIMessage("one"), HumanMessage("b")]
    assert [(await play(model, *history)).text for _ in range(2)] == ["two", "two"]
    assert (await play(model, history[0])).text == "one"


async def test_delays_and_gates() -> None:
    gate = asyncio.Event()
    model = ScriptedModel(turns=[says("a", gate=gate), says(["a", "b"], delay_s=0.05, each_s=0.02)])
    waiting = asyncio.create_task(play(model))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    gate.set()
    assert (await waiting).text == "a"
    began = time.perf_counter()
    await play(model)
    assert time.perf_counter() - began >= 0.1
    with pytest.raises(TypeError, match="async"):
        play_sync(ScriptedModel(turns=[says("a", gate=gate)]))


def asks(*ids: str) -> AIMessage:
    return AIMessage("", tool_calls=[tool_call(name="t", args={}, id=id_) for id_ in ids])


def answers(id_: str) -> ToolMessage:
    return ToolMessage("{}", tool_call_id=id_)


LEGAL: list[list[BaseMessage]] = [
    [HumanMessage("q")],
    [HumanMessage("q"), asks("a", "b"), answers("a"), answers("b")],
    [HumanMessage("q"), asks("a"), answers("a"), asks("a"), answers("a"), AIMessage("x"), HumanMessage("y")],
]

ILLEGAL: dict[str, tuple[list[BaseMessage], str]] = {
    "no answer": ([asks("a")], "['a'] have no answer"),
    "one answer of two": ([asks("a", "b"), answers("a")], "['b'] have no answer"),
    "a message in between": ([asks("a"), HumanMessage("x"), answers("a")], "(human) comes while ['a']"),
    "out of order": ([asks("a", "b"), answers("b"), answers("a")], "'a' comes first"),
    "an answer without a call": ([answers("a")], "no call waits"),
    "answered twice": ([asks("a"), answers("a"), answers("a")], "no call waits"),
    "two calls of one id": ([asks("a", "a"), answers("a"), answers("a")], "the ids ['a', 'a']"),
    "an invalid call without answer": (
        [
            AIMessage(
                "",
                invalid_tool_calls=[
                    {"name": "t", "args": "{", "id": "a", "error": "x", "type": "invalid_tool_call"}
                ],
            )
        ],
        "['a'] have no answer",
    ),
}


@pytest.mark.parametrize("history", LEGAL)
async def test_i1_legal_histories_are_answered(history: list[BaseMessage]) -> None:
    assert (await play(ScriptedModel(turns=["ok"]), *history)).text == "ok"


@pytest.mark.parametrize("case", ILLEGAL)
async def test_i1_illegal_histories_fail_loudly(case: str) -> None:
    history, words = ILLEGAL[case]
    model = ScriptedModel(turns=["ok"])
    with pytest.raises(AssertionError) as raised:
        await play(model, *history)
    assert words in str(raised.value)
    assert model.violations == [str(raised.value)]
    assert (await play(ScriptedModel(turns=["ok"], check=False), *history)).text == "ok"


async def test_a_turn_can_be_played_again_by_another_model() -> None:
    turns: list[Any] = [[AIMessageChunk(content="a"), ends("stop")]]
    for _ in range(2):
        assert (await play(ScriptedModel(turns=turns))).finish == "stop"
    assert turns[0][0].response_metadata == {}

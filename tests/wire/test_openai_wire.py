"""From a real server to calls and back, through langchain-openai's own client (C-1 to C-13)."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI
from wire.conftest import Chat
from wire.openai_server import Chunk, Cut, Delta, Line, OpenAIServer, fails, fragment, streams
from wire.reading import called, stream
from wire.s1 import DOCS, QUESTION, RESOURCE, S1, VARIANTS

from adjourn.nodes.assembly import Usage
from adjourn.nodes.listening import listening
from adjourn.nodes.providers import provider_of
from adjourn.nodes.stored_form import assistant_message
from adjourn.nodes.wire_in import read
from adjourn.nodes.wire_out import request_messages

BOTH = [
    ("call_a", "search_resource", RESOURCE, {"query": "支付服务"}),
    ("call_b", "search_docs", DOCS, {"query": "支付 5xx", "top_k": 2}),
]


# The openai client is typed for text; pydantic says so when LangChain dumps a chunk that holds an object.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("variant", VARIANTS)
async def test_c1_c3_s1_and_its_variants_give_the_same_two_calls(
    server: OpenAIServer, chat: Chat, variant: str
) -> None:
    server.replies.append(streams(*VARIANTS[variant], finish="tool_calls", usage=(120, 34)))
    turn, deltas = await stream(chat())
    assert called(turn) == BOTH
    assert deltas == ["我先同时查两边。"]
    assert ("tool_calls", Usage(120, 34), None) == (turn.finish, turn.usage, turn.problem)


async def test_c1_pings_comments_and_chunks_without_choices_are_skipped(
    server: OpenAIServer, chat: Chat
) -> None:
    noise: list[Delta] = [Line(": ping\n\n"), Chunk({"choices": []}), {}, [], {"tool_calls": None}]
    noisy = [part for delta in S1 for part in (*noise, delta)]
    server.replies.append(streams(*noisy, finish="tool_calls"))
    turn, _ = await stream(chat())
    assert called(turn) == BOTH


async def test_c2_the_old_function_call_is_a_call(server: OpenAIServer, chat: Chat) -> None:
    server.replies.append(
        streams(
            {"function_call": {"name": "search_docs", "arguments": ""}},
            {"function_call": {"arguments": DOCS[:9]}},
            {"function_call": {"arguments": DOCS[9:]}},
            finish="function_call",
        )
    )
    turn, _ = await stream(chat())
    assert [("function_call", "search_docs", DOCS, json.loads(DOCS))] == called(turn)
    assert turn.finish == "tool_calls"


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
async def test_c2_types_that_the_api_does_not_know_are_normalised(server: OpenAIServer, chat: Chat) -> None:
    odd = [{"index": "0", "id": 7, "function": {"name": "t", "arguments": [1]}}]
    server.replies.append(streams(odd, finish="tool_calls"))
    turn, _ = await stream(chat())
    assert called(turn) == [("7", "t", "[1]", None)]


@pytest.mark.parametrize("cut", ['{"service":"pay-api","env":"pro', "{bad"])
async def test_c5_c8_a_cut_off_text_is_a_parse_error_of_its_own_call(
    server: OpenAIServer, chat: Chat, cut: str
) -> None:
    first, second = [fragment(0, "call_a", "restart", cut)], [fragment(1, "call_b", "search_docs", DOCS)]
    server.replies.append(streams(first, second, finish="tool_calls"))
    turn, _ = await stream(chat())
    broken, whole = turn.calls
    assert (cut, None) == (broken.raw, broken.arguments)
    assert broken.error is not None
    assert (json.loads(DOCS), None) == (whole.arguments, whole.error)


BYTES = [
    '{ "x" :1.0,\t"y": 1e2}',
    "{bad 支付",
    '{"q": "\\u652f\\u4ed8"}',
    "",
    '{"service":"pay-api","env":"pro',
]


async def _next_request(server: OpenAIServer, model: ChatOpenAI) -> tuple[bytes, list[dict[str, Any]]]:
    """A turn with `BYTES` as arguments, its answers, and what the request after it holds."""
    calls = [fragment(at, f"call_{at}", "search_docs", text) for at, text in enumerate(BYTES)]
    server.replies += [streams(calls, finish="tool_calls"), streams("ok")]
    turn, _ = await stream(model)
    message = assistant_message(turn, "m1")
    answers = [ToolMessage("{}", tool_call_id=call.id or "", name=call.name) for call in turn.calls]
    await stream(model, HumanMessage(QUESTION), message, *answers)
    return server.requests[1].raw, server.requests[1].messages


async def test_c7_every_request_holds_the_calls_in_order_byte_for_byte(
    server: OpenAIServer, chat: Chat
) -> None:
    raw, messages = await _next_request(server, chat())
    sent = messages[1]["tool_calls"]
    expected = [
        {"id": f"call_{at}", "type": "function", "function": {"name": "search_docs", "arguments": text}}
        for at, text in enumerate(BYTES)
    ]
    assert expected == sent
    for text in BYTES:
        assert json.dumps(text, ensure_ascii=False).encode() in raw
    assert ["user", "assistant", *["tool"] * len(BYTES)] == [message["role"] for message in messages]


async def test_c7_without_our_copies_the_client_would_change_order_and_bytes(
    server: OpenAIServer, chat: Chat
) -> None:
    calls = [fragment(at, f"call_{at}", "search_docs", text) for at, text in enumerate(BYTES)]
    server.replies += [streams(calls, finish="tool_calls"), streams("ok")]
    turn, _ = await stream(chat())
    answers = [ToolMessage("{}", tool_call_id=call.id or "") for call in turn.calls]
    await chat().ainvoke([HumanMessage(QUESTION), assistant_message(turn, "m1"), *answers])
    sent = [call["function"]["arguments"] for call in server.requests[1].messages[1]["tool_calls"]]
    assert sorted(sent) != sorted(BYTES)
    assert server.requests[1].messages[1]["tool_calls"][-2]["id"] == "call_1"


@pytest.mark.parametrize("name", ["", "search docs", "x" * 65, "搜索"])
async def test_c9_an_impossible_name_stands_in_requests_under_a_legal_one(
    server: OpenAIServer, chat: Chat, name: str
) -> None:
    server.replies += [streams([fragment(0, "call_a", name, DOCS)], finish="tool_calls"), streams("ok")]
    turn, _ = await stream(chat())
    assert (name, None) == (turn.calls[0].name, turn.problem)
    stored = assistant_message(turn, "m1")
    await stream(chat(), HumanMessage("x"), stored, ToolMessage("{}", tool_call_id="call_a", name=name))
    assert server.requests[1].messages[1]["tool_calls"][0]["function"]["name"] == "unknown_tool"
    assert name == stored.tool_calls[0]["name"]


async def test_c10_a_stream_that_closes_without_an_end_signal_has_no_finish(
    server: OpenAIServer, chat: Chat
) -> None:
    for done in (True, False):
        server.replies.append(streams(*S1, finish=None, usage=(1, 1), done=done))
        turn, _ = await stream(chat())
        assert (called(turn), turn.finish) == (BOTH, None)


async def test_c10_a_connection_that_breaks_before_the_first_chunk_is_no_turn(chat: Chat) -> None:
    """What LangChain makes of a stream that closes in order and holds nothing."""
    with OpenAIServer([streams(first=False, finish=None, done=done) for done in (True, False)]) as server:
        for _ in server.replies:
            with pytest.raises(ValueError, match="No generation"):
                await stream(chat(base_url=server.url))


async def test_c10_a_connection_that_breaks_is_a_connection_error(server: OpenAIServer, chat: Chat) -> None:
    server.replies.append(streams(*S1[:4], Cut()))
    with pytest.raises(openai.APIConnectionError):
        await stream(chat())


async def test_c10_a_break_in_the_middle_of_an_event_is_an_error_too(
    server: OpenAIServer, chat: Chat
) -> None:
    server.replies.append(streams(*S1[:4], Line('data: {"id":"chatcmpl-1","choices":[{"ind'), Cut()))
    with pytest.raises(openai.APIConnectionError):
        await stream(chat())


async def test_c10_an_error_event_in_the_stream_is_an_error(server: OpenAIServer, chat: Chat) -> None:
    server.replies.append(streams(*S1[:4], Line('data: {"error":{"message":"overloaded"}}\n\n')))
    with pytest.raises(openai.APIError, match="overloaded"):
        await stream(chat())


async def test_c10_an_end_signal_without_a_delta_counts(server: OpenAIServer, chat: Chat) -> None:
    last = Chunk({"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]})
    server.replies.append(streams("Hello", last, finish=None))
    turn, _ = await stream(chat())
    assert (turn.text, turn.finish) == ("Hello", "stop")


async def test_c10_length_marks_the_cut_call_and_no_other(server: OpenAIServer, chat: Chat) -> None:
    calls = [
        fragment(0, "call_a", "search_docs", DOCS),
        fragment(1, "call_b", "search_docs", DOCS[:9]),
        fragment(2, "call_c", "search_docs", ""),
    ]
    server.replies.append(streams(calls, finish="length"))
    turn, _ = await stream(chat())
    assert [call.cut for call in turn.calls] == [False, True, True]
    assert turn.truncated


async def test_c11_text_is_passed_on_while_fragments_still_come(server: OpenAIServer, chat: Chat) -> None:
    server.replies.append(streams("one ", [fragment(0, "a", "t", "{")], "two", [fragment(0, arguments="}")]))
    turn, deltas = await stream(chat())
    assert deltas == ["one ", "two"]
    assert (turn.text, turn.calls[0].raw) == ("one two", "{}")


async def test_c11_reasoning_is_kept_apart_and_a_refusal_is_an_answer(
    server: OpenAIServer, chat: Chat
) -> None:
    server.replies += [
        streams(
            {"reasoning_content": "hm, "},
            {"reasoning_content": "no"},
            {"refusal": "I "},
            {"refusal": "won't"},
        ),
        streams("ok"),
    ]
    turn, deltas = await stream(chat())
    assert (turn.reasoning, turn.refusal, turn.answer, turn.problem) == ("hm, no", "I won't", "I won't", None)
    assert deltas == ["I ", "won't"]
    await stream(chat(), HumanMessage("x"), assistant_message(turn, "m1"), HumanMessage("why?"))
    assert server.requests[1].messages[1]["content"] == "I won't"


async def test_a_model_that_does_not_stream_gives_the_same_turn_byte_for_byte(
    server: OpenAIServer, chat: Chat
) -> None:
    calls = [fragment(at, f"call_{at}", "search_docs", text) for at, text in enumerate(BYTES)]
    server.replies.append(streams("text", calls, finish="tool_calls", usage=(5, 6)))
    turn, deltas = await stream(chat(disable_streaming=True))
    assert not server.requests[0].body.get("stream")
    assert [call.raw for call in turn.calls] == BYTES
    assert all(call.exact for call in turn.calls)
    assert (["text"], "tool_calls", Usage(5, 6)) == (deltas, turn.finish, turn.usage)


async def test_a_model_that_does_not_stream_may_send_objects(server: OpenAIServer, chat: Chat) -> None:
    server.replies.append(streams([fragment(0, "call_a", "t", {"q": "支付"})], finish="tool_calls"))
    turn, _ = await stream(chat(disable_streaming=True))
    assert called(turn) == [("call_a", "t", '{"q":"支付"}', {"q": "支付"})]


async def test_a_model_that_does_not_stream_may_refuse(server: OpenAIServer, chat: Chat) -> None:
    server.replies.append(streams({"refusal": "no"}))
    turn, _ = await stream(chat(disable_streaming=True))
    assert (turn.answer, turn.finish, turn.problem) == ("no", "stop", None)


async def test_listening_leaves_the_given_model_as_it_is_and_binds_tools(
    server: OpenAIServer, chat: Chat
) -> None:
    model = chat()
    twin = listening(model)
    assert isinstance(twin, ChatOpenAI)
    assert type(model) is ChatOpenAI
    assert type(listening(twin)).__mro__.count(ChatOpenAI) == 1
    server.replies.append(streams({"refusal": "no"}))
    tool = {"type": "function", "function": {"name": "t", "description": "d", "parameters": {}}}
    provider = provider_of(twin.bind_tools([tool]))
    assembler = provider.assembler()
    async for chunk in twin.bind_tools([tool]).astream("hi"):
        assembler.feed(read(chunk, provider))
    assert (assembler.finish().refusal, provider.name) == ("no", "openai")
    assert server.requests[0].body["tools"][0]["function"]["name"] == "t"


def test_the_synchronous_client_reads_the_same(server: OpenAIServer) -> None:
    server.replies.append(streams(*S1, finish="tool_calls"))
    model = ChatOpenAI(base_url=server.url, api_key="x", model="scripted-1")  # type: ignore[arg-type]
    assembler = provider_of(model).assembler()
    for chunk in listening(model).stream("hi"):
        assembler.feed(read(chunk, provider_of(model)))
    model.root_client.close()
    assert called(assembler.finish()) == BOTH


def test_the_responses_api_gets_calls_as_items_byte_for_byte() -> None:
    model = ChatOpenAI(api_key="x", model="gpt-5-pro", use_responses_api=True)  # type: ignore[arg-type]
    raw = [{"id": "a", "type": "function", "function": {"name": "t", "arguments": '{ "x":1.0}'}}]
    raw.append({"id": "b", "type": "function", "function": {"name": "t", "arguments": "{bad"}})
    stored = AIMessage("text", additional_kwargs={"tool_calls": raw})
    answers = [ToolMessage("1", tool_call_id="a"), ToolMessage("2", tool_call_id="b")]
    payload = model._get_request_payload(request_messages([HumanMessage("q"), stored, *answers], model))
    items = [item for item in payload["input"] if item.get("type") == "function_call"]
    assert [(item["call_id"], item["arguments"]) for item in items] == [("a", '{ "x":1.0}'), ("b", "{bad")]
    kinds = [item.get("type", item.get("role")) for item in payload["input"]]
    assert kinds[-2:] == ["function_call_output"] * 2


ASKED = AIMessage(
    "",
    tool_calls=[
        {"name": "t", "args": {}, "id": "call_a"},
        {"name": "t", "args": {}, "id": "call_b"},
    ],
)
A, B = ToolMessage("1", tool_call_id="call_a"), ToolMessage("2", tool_call_id="call_b")

ILLEGAL: dict[str, tuple[list[BaseMessage], str]] = {
    "an unanswered call": ([ASKED, A], "did not have response messages: call_b"),
    "two unanswered calls": ([ASKED], "did not have response messages: call_a, call_b"),
    "a message in between": ([ASKED, A, HumanMessage("x"), B], "did not have response messages: call_b"),
    "an answer without a call": ([A], "must be a response to a preceeding message with 'tool_calls'"),
    "an answer too much": ([ASKED, A, B, A], "Duplicate value for 'tool_call_id' of 'call_a'"),
    "an answer far from its call": (
        [ASKED, A, B, HumanMessage("x"), B],
        "must be a response to a preceeding",
    ),
}


@pytest.mark.parametrize("case", ILLEGAL)
async def test_c15_the_server_refuses_an_illegal_history_as_openai_does(
    server: OpenAIServer, chat: Chat, case: str
) -> None:
    history, words = ILLEGAL[case]
    server.replies.append(streams("never"))
    with pytest.raises(openai.BadRequestError, match=words):
        await stream(chat(), SystemMessage("s"), HumanMessage("q"), *history)
    assert len(server.requests) == 1


async def test_c15_a_legal_history_is_answered(server: OpenAIServer, chat: Chat) -> None:
    server.replies.append(streams("fine"))
    turn, _ = await stream(chat(), HumanMessage("q"), ASKED, B, A, AIMessage("done"), HumanMessage("x"))
    assert turn.text == "fine"


async def test_errors_come_with_their_status_and_waiting_time(server: OpenAIServer, chat: Chat) -> None:
    server.replies += [fails(429, "slow down", retry_after_s=7), fails(500), streams("fine")]
    with pytest.raises(openai.RateLimitError) as limited:
        await stream(chat())
    assert limited.value.response.headers["retry-after"] == "7"
    with pytest.raises(openai.InternalServerError):
        await stream(chat())
    assert (await stream(chat()))[0].text == "fine"


async def test_the_reply_may_follow_from_the_history(chat: Chat) -> None:
    with OpenAIServer([streams("first"), streams("second")], by_history=True) as server:
        model = chat(base_url=server.url)
        assert (await stream(model, HumanMessage("a"), AIMessage("first"), HumanMessage("b")))[
            0
        ].text == "second"
        assert (await stream(model, HumanMessage("a")))[0].text == "first"


def test_the_server_runs_as_a_program(tmp_path: Path) -> None:
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    script.write_text(json.dumps([{"deltas": ["hello"], "usage": [1, 2]}]))
    here = Path(__file__).parent
    command = [sys.executable, str(here / "openai_server.py"), str(script), "--log", str(log)]
    environment = {**os.environ, "PYTHONPATH": str(here.parent)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        body = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
        with urllib.request.urlopen(f"{url}/chat/completions", data=body, timeout=5) as response:
            answer = json.loads(response.read())
        process.terminate()
    assert answer["choices"][0]["message"]["content"] == "hello"
    assert body == log.read_bytes().strip()


async def test_c4_f42_many_fragments_over_the_wire(server: OpenAIServer, chat: Chat) -> None:
    """Not a measurement: 2,000 interleaved fragments must not take what a quadratic merge takes."""
    opened: list[Delta] = [[fragment(at, f"call_{at}", "t", '{"q":"')] for at in range(2)]
    many: list[Delta] = [[fragment(at % 2, arguments="abcdefgh")] for at in range(2_000)]
    server.replies.append(streams(*opened, *many, [fragment(0, arguments='"}'), fragment(1, arguments='"}')]))
    started = time.perf_counter()
    turn, _ = await stream(chat())
    assert [len(call.raw) for call in turn.calls] == [8_008, 8_008]
    assert time.perf_counter() - started < 15

"""OpenAI's Responses API through langchain-openai's own client: reasoning, items, its own tools (C-7, C-10, C-11, C-13)."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from runs.shop import Shop
from wire.anthropic_server import AnthropicServer, answers, says
from wire.conftest import Claude
from wire.loopback import Cut
from wire.reading import called, stream
from wire.responses_server import (
    ResponsesServer,
    calls,
    message,
    reasons,
    refuses,
    responds,
    searches,
    used,
)
from wire.s1 import DOCS, QUESTION, RESOURCE

from adjourn.graph import Runner, build_react
from adjourn.nodes.assembly import Turn, Usage
from adjourn.nodes.model_errors import is_transient
from adjourn.nodes.stored_form import assistant_message

Make = Callable[..., ChatOpenAI]


@pytest.fixture
def responses() -> Iterator[ResponsesServer]:
    with ResponsesServer() as running:
        yield running


@pytest.fixture
async def make(responses: ResponsesServer) -> AsyncIterator[Make]:
    """Makes real clients for the server."""
    made: list[ChatOpenAI] = []

    def one(**settings: Any) -> ChatOpenAI:
        defaults = {
            "base_url": responses.url,
            "api_key": "x",
            "model": "gpt-scripted",
            "max_retries": 0,
            "use_responses_api": True,
        }
        made.append(ChatOpenAI(**{**defaults, **settings}))
        return made[-1]

    yield one
    for model in made:
        await model.root_async_client.close()
        model.root_client.close()


async def next_input(
    server: ResponsesServer, model: ChatOpenAI, turn: Turn, *more: BaseMessage
) -> list[dict[str, Any]]:
    """What the request after `turn` and its answers holds."""
    server.replies.append(responds(message("ok")))
    answers = [ToolMessage("1", tool_call_id=call.id or "") for call in turn.calls]
    await stream(model, HumanMessage(QUESTION), assistant_message(turn, "m1"), *answers, *more)
    items: list[dict[str, Any]] = server.requests[-1].body["input"]
    return items[1:]


async def test_c1_c7_items_become_text_and_calls_byte_for_byte(
    responses: ResponsesServer, make: Make
) -> None:
    spaced = '{ "query" :"x" ,"top_k":2.0e0}'
    responses.replies.append(
        responds(
            message("我先", "查。"),
            calls("call_a", "search_docs", spaced[:7], spaced[7:]),
            calls("call_b", "search_docs", '{"query":"支', id="fc_2"),
            usage=used(120, 34, cached=100, reasoning=7),
        )
    )
    model = make()
    turn, deltas = await stream(model)
    assert [call[:3] for call in called(turn)] == [
        ("call_a", "search_docs", spaced),
        ("call_b", "search_docs", '{"query":"支'),
    ]
    assert (deltas, turn.finish, turn.usage) == (
        ["我先", "查。"],
        "stop",
        Usage(120, 34, cached_tokens=100, reasoning_tokens=7),
    )
    sent = await next_input(responses, model, turn)
    assert [(one["call_id"], one["arguments"]) for one in sent if one["type"] == "function_call"] == [
        ("call_a", spaced),
        ("call_b", '{"query":"支'),
    ]
    assert [one["type"] for one in sent] == [
        "message",
        *["function_call"] * 2,
        *["function_call_output"] * 2,
    ]


@pytest.mark.parametrize("store", [None, False])
async def test_c11_c13_reasoning_is_no_text_and_goes_back_before_its_call(
    responses: ResponsesServer, make: Make, store: bool | None
) -> None:
    responses.replies.append(
        responds(reasons("both ", "at once"), calls("call_a", "search_docs", DOCS), message("Looking."))
    )
    model = make(store=store, include=["reasoning.encrypted_content"])
    turn, deltas = await stream(model)
    assert (turn.reasoning, turn.answer, deltas) == ("both at once", "Looking.", ["Looking."])
    sent = await next_input(responses, model, turn)
    assert [one["type"] for one in sent] == ["reasoning", "function_call", "message", "function_call_output"]
    assert sent[0] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "both at once"}],
        "encrypted_content": "gAAAAABo",
    }
    assert sent[1].get("id") == (None if store is False else "fc_1")
    assert (sent[1]["call_id"], sent[1]["arguments"]) == ("call_a", DOCS)


async def test_c13_reasoning_that_is_not_sealed_is_left_out_where_nothing_is_stored(
    responses: ResponsesServer, make: Make
) -> None:
    responses.replies.append(responds(reasons("hm", encrypted=None), calls("call_a", "search_docs", DOCS)))
    model = make(store=False)
    turn, _ = await stream(model)
    sent = await next_input(responses, model, turn)
    assert [one["type"] for one in sent] == ["function_call", "function_call_output"]


async def test_c13_a_search_of_the_providers_own_is_no_call_and_goes_back(
    responses: ResponsesServer, make: Make
) -> None:
    responses.replies.append(responds(reasons("hm"), searches("5xx"), message("Found.")))
    model = make()
    turn, _ = await stream(model)
    assert (turn.calls, turn.answer) == ((), "Found.")
    sent = await next_input(responses, model, turn, HumanMessage("more"))
    assert [one["type"] for one in sent] == ["reasoning", "web_search_call", "message", "message"]


async def test_c11_a_refusal_is_an_answer(responses: ResponsesServer, make: Make) -> None:
    responses.replies.append(responds(refuses("I won't.")))
    turn, deltas = await stream(make())
    assert (turn.answer, deltas, turn.finish, turn.problem) == ("I won't.", ["I won't."], "stop", None)
    assert "I won't." in json.dumps(await next_input(responses, make(), turn, HumanMessage("why?")))


@pytest.mark.parametrize(
    ("incomplete", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter")]
)
async def test_c10_an_incomplete_response_is_cut(
    responses: ResponsesServer, make: Make, incomplete: str, finish: str
) -> None:
    cut = calls("call_b", "search_docs", DOCS[:9], id="fc_2")
    responses.replies.append(
        responds(calls("call_a", "search_docs", DOCS), cut, status="incomplete", incomplete=incomplete)
    )
    turn, _ = await stream(make())
    assert (turn.finish, [call.cut for call in turn.calls]) == (finish, [False, True])


async def test_c10_a_stream_without_its_end_has_no_finish(responses: ResponsesServer, make: Make) -> None:
    responses.replies.append(responds(message("half"), status=None))
    turn, _ = await stream(make())
    assert (turn.text, turn.finish) == ("half", None)


async def test_c10_a_connection_that_breaks_may_be_tried_again(
    responses: ResponsesServer, make: Make
) -> None:
    responses.replies.append(responds(message("half", Cut())))
    with pytest.raises(openai.APIConnectionError) as broken:
        await stream(make())
    assert is_transient(broken.value)


@pytest.mark.parametrize("status", ["failed", "error"])
async def test_c10_a_response_that_failed_may_be_tried_again(
    responses: ResponsesServer, make: Make, status: str
) -> None:
    error = {"code": "server_error", "message": "The model is overloaded."}
    responses.replies.append(responds(message("half"), status=status, error=error))
    with pytest.raises(Exception, match="overloaded") as broken:
        await stream(make())
    assert is_transient(broken.value)


async def test_c13_whole_responses_keep_the_same(responses: ResponsesServer, make: Make) -> None:
    responses.replies.append(
        responds(reasons("hm"), message("Looking."), calls("call_a", "search_docs", DOCS), usage=used(3, 4))
    )
    model = make(disable_streaming=True)
    turn, _ = await stream(model)
    assert (turn.text, turn.reasoning, turn.usage) == ("Looking.", "hm", Usage(3, 4))
    assert turn.calls[0].arguments == json.loads(DOCS)
    sent = await next_input(responses, model, turn)
    assert [one["type"] for one in sent] == ["reasoning", "message", "function_call", "function_call_output"]


@pytest.mark.parametrize("output_version", ["v0", "v1", "responses/v1"])
async def test_c13_blocks_in_a_form_of_langchains_own_are_not_asked_for(
    responses: ResponsesServer, make: Make, output_version: str
) -> None:
    responses.replies.append(responds(reasons("hm"), calls("call_a", "search_docs", DOCS)))
    model = make(output_version=output_version)
    turn, _ = await stream(model)
    assert (called(turn)[0][2], turn.reasoning) == (DOCS, "hm")
    sent = await next_input(responses, model, turn)
    assert [one["type"] for one in sent] == ["reasoning", "function_call", "function_call_output"]


ASKED = AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": "call_a"}])


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ([ASKED], "No tool output found for function call call_a."),
        (
            [ToolMessage("1", tool_call_id="call_a")],
            "No tool call found for function call output with call_id call_a",
        ),
    ],
)
async def test_c15_the_server_refuses_an_illegal_history_as_openai_does(
    responses: ResponsesServer, make: Make, history: list[BaseMessage], words: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=words):
        await stream(make(), HumanMessage("q"), *history)


async def test_s1_c13_a_run_on_the_responses_api_goes_on_with_anthropic(
    responses: ResponsesServer,
    make: Make,
    anthropic: AnthropicServer,
    claude: Claude,
    tmp_path: Path,
) -> None:
    responses.replies += [
        responds(
            reasons("both"),
            message("我先同时查两边。"),
            calls("call_a", "search_resource", RESOURCE),
            calls("call_b", "search_docs", DOCS, id="fc_2"),
            usage=used(20, 9),
        ),
        responds(message("先查", "依赖，", "再回滚。", id="msg_2")),
    ]
    anthropic.replies.append(answers(says("要审批。")))
    url, shop = f"sqlite:///{tmp_path / 'a.db'}", Shop()
    runner = Runner(build_react(make(), shop.tools()), url)
    run = await runner.start(QUESTION, thread_id="t")
    runner.close()
    assert (run.answer, run.row.input_tokens, run.row.output_tokens) == ("先查依赖，再回滚。", 21, 10)
    kinds = [item["type"] for item in responses.requests[1].body["input"]]
    assert kinds == ["message", "reasoning", "message", *["function_call"] * 2, *["function_call_output"] * 2]
    other = Runner(build_react(claude(), shop.tools()), url)
    assert (await other.start("那回滚要审批吗？", thread_id="t")).answer == "要审批。"
    other.close()
    assert [one["role"] for one in anthropic.requests[0].messages] == [
        *("user", "assistant", "user", "assistant", "user"),
    ]
    assert "rs_1" not in json.dumps(anthropic.requests[0].body)

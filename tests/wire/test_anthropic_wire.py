"""From Anthropic's API to calls and back, through langchain-anthropic's own client (C-1 to C-13)."""

import json
from typing import Any

import anthropic as sdk
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable
from wire.anthropic_server import (
    PING,
    AnthropicServer,
    answers,
    error_event,
    fails,
    says,
    thinks,
    uses,
    whole,
)
from wire.conftest import Claude
from wire.loopback import Cut, Line
from wire.reading import called, stream
from wire.s1 import DOCS, QUESTION

from adjourn.nodes.assembly import Turn, Usage
from adjourn.nodes.model_errors import is_transient
from adjourn.nodes.stored_form import assistant_message

TOOLS = [
    {"name": name, "description": name, "input_schema": {"type": "object", "properties": {}}}
    for name in ("search_docs", "search_resource")
]
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
RESULT = {
    "tool_use_id": "srvtoolu_1",
    "content": [
        {
            "type": "web_search_result",
            "url": "https://example.org",
            "title": "t",
            "encrypted_content": "EqgfCioIARgB",
            "page_age": None,
        }
    ],
}


def with_tools(model: ChatAnthropic) -> Runnable[Any, Any]:
    return model.bind_tools([*TOOLS, SEARCH])


def replied(turn: Turn, *contents: str) -> list[BaseMessage]:
    """The turn as it is stored, and the answers of its calls."""
    answers = [
        ToolMessage(content, tool_call_id=call.id or "", name=call.name)
        for call, content in zip(turn.calls, contents, strict=True)
    ]
    return [assistant_message(turn, "m1"), *answers]


async def next_content(
    server: AnthropicServer, model: Runnable[Any, Any], *history: BaseMessage
) -> list[dict[str, Any]]:
    """The content of the first assistant message of the request that follows `history`."""
    server.replies.append(answers(says("ok")))
    await stream(model, HumanMessage(QUESTION), *history)
    message = next(one for one in server.requests[-1].messages if one["role"] == "assistant")
    content: list[dict[str, Any]] = message["content"]
    return content


async def test_c1_c5_content_blocks_become_text_and_calls(anthropic: AnthropicServer, claude: Claude) -> None:
    anthropic.replies.append(
        answers(
            says("我先", "查。"),
            uses("toolu_a", "search_docs", DOCS[:9], DOCS[9:]),
            uses("toolu_b", "search_resource"),
            stop="tool_use",
            usage={"input_tokens": 120, "output_tokens": 34},
        )
    )
    turn, deltas = await stream(with_tools(claude()))
    assert called(turn) == [
        ("toolu_a", "search_docs", DOCS, json.loads(DOCS)),
        ("toolu_b", "search_resource", "", {}),
    ]
    assert (deltas, turn.finish, turn.usage, turn.model) == (
        ["我先", "查。"],
        "tool_calls",
        Usage(120, 34),
        "claude-scripted",
    )
    assert turn.blocks == ()  # text and calls say it all


async def test_c1_pings_and_comments_are_skipped(anthropic: AnthropicServer, claude: Claude) -> None:
    anthropic.replies.append(answers(PING, Line(": x\n\n"), says("a", "b"), PING, stop="end_turn"))
    turn, deltas = await stream(with_tools(claude()))
    assert (deltas, turn.finish) == (["a", "b"], "stop")


async def test_c5_c8_an_input_that_does_not_parse_is_a_parse_error_of_its_own_call(
    anthropic: AnthropicServer, claude: Claude
) -> None:
    anthropic.replies.append(
        answers(uses("a", "search_docs", '{"query":"5'), uses("b", "search_docs", DOCS), stop="tool_use")
    )
    turn, _ = await stream(with_tools(claude()))
    assert [(call.raw, call.error is None) for call in turn.calls] == [('{"query":"5', False), (DOCS, True)]


async def test_c13_results_of_a_turn_stand_in_one_message_and_is_error_is_exactly_ok_false(
    anthropic: AnthropicServer, claude: Claude
) -> None:
    anthropic.replies.append(
        answers(uses("a", "search_docs", '{"q'), uses("b", "search_docs", DOCS), stop="tool_use")
    )
    model = with_tools(claude())
    turn, _ = await stream(model)
    history = [
        assistant_message(turn, "m1"),
        ToolMessage('{"ok":false}', tool_call_id="a", name="search_docs", status="error"),
        ToolMessage('{"ok":true}', tool_call_id="b", name="search_docs"),
        HumanMessage("[runtime] 3 steps are left."),
    ]
    content = await next_content(anthropic, model, *history)
    assert [(block["id"], block["input"]) for block in content] == [("a", {}), ("b", json.loads(DOCS))]
    last = anthropic.requests[-1].messages[-1]
    assert last["role"] == "user"
    assert [(one["type"], one.get("is_error")) for one in last["content"]] == [
        ("tool_result", True),
        ("tool_result", False),
        ("text", None),
    ]


async def test_c13_ids_of_other_services_are_mapped_with_their_answers(
    anthropic: AnthropicServer, claude: Claude
) -> None:
    def asks(id_: str) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": "search_docs", "args": {}, "id": id_}])

    odd, same = "functions.search_docs:0", "call_0"
    history = [
        message
        for id_ in (odd, same, same, odd, "fine-1_A")
        for message in (asks(id_), ToolMessage("1", tool_call_id=id_))
    ]
    anthropic.replies.append(answers(says("ok")))
    await stream(with_tools(claude()), HumanMessage("q"), *history)
    sent = [block for one in anthropic.requests[0].messages[1:] for block in one["content"]]
    asked = [block["id"] for block in sent if block["type"] == "tool_use"]
    assert asked == [block["tool_use_id"] for block in sent if block["type"] == "tool_result"]
    assert len(set(asked)) == 5
    assert (asked[1], asked[4]) == ("call_0", "fine-1_A")
    assert history[0].tool_calls[0]["id"] == odd


async def test_c13_blank_texts_of_other_models_are_left_out(
    anthropic: AnthropicServer, claude: Claude
) -> None:
    asks = AIMessage("\n\n", tool_calls=[{"name": "search_docs", "args": {}, "id": "a"}])
    history = [asks, ToolMessage("1", tool_call_id="a"), AIMessage(" \n"), HumanMessage("more")]
    content = await next_content(anthropic, with_tools(claude()), *history)
    assert [block["type"] for block in content] == ["tool_use"]
    assert [one["role"] for one in anthropic.requests[0].messages] == ["user", "assistant", "user"]


async def test_c13_thinking_goes_back_unchanged_in_its_place(
    anthropic: AnthropicServer, claude: Claude
) -> None:
    anthropic.replies.append(
        answers(
            thinks("hm, ", "both"),
            whole(type="redacted_thinking", data="EvAFCoYBGAIiQL"),
            says("Looking."),
            uses("toolu_a", "search_docs", DOCS),
            stop="tool_use",
        )
    )
    model = with_tools(claude(max_tokens=4096, thinking={"type": "enabled", "budget_tokens": 1024}))
    turn, deltas = await stream(model)
    assert (turn.reasoning, turn.answer, deltas) == ("hm, both", "Looking.", ["Looking."])
    content = await next_content(anthropic, model, *replied(turn, "1"))
    assert content == [
        {"type": "thinking", "thinking": "hm, both", "signature": thinks("hm, both").deltas[-1]["signature"]},  # type: ignore[index]
        {"type": "redacted_thinking", "data": "EvAFCoYBGAIiQL"},
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "toolu_a", "name": "search_docs", "input": json.loads(DOCS)},
    ]


async def test_c13_a_tool_of_the_providers_is_kept_and_is_no_call(
    anthropic: AnthropicServer, claude: Claude
) -> None:
    anthropic.replies.append(
        answers(
            says("I search. "),
            uses("srvtoolu_1", "web_search", '{"query":', '"5xx"}', kind="server_tool_use"),
            whole(type="web_search_tool_result", **RESULT),
            says("Found. "),
            uses("toolu_a", "search_docs", DOCS),
            stop="tool_use",
        )
    )
    model = with_tools(claude())
    turn, _ = await stream(model)
    assert called(turn) == [("toolu_a", "search_docs", DOCS, json.loads(DOCS))]
    content = await next_content(anthropic, model, *replied(turn, "1"))
    assert [block["type"] for block in content] == [
        "text",
        "server_tool_use",
        "web_search_tool_result",
        "text",
        "tool_use",
    ]
    assert content[1] == {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "5xx"},
    }
    assert content[2]["content"] == RESULT["content"]


async def test_c13_citations_stay_with_their_text(anthropic: AnthropicServer, claude: Claude) -> None:
    cited = {
        "type": "web_search_result_location",
        "url": "https://example.org",
        "title": "t",
        "encrypted_index": "Eo8",
        "cited_text": "x",
    }
    block = says("It ", "does.")
    quoted = type(block)(block.start, (*block.deltas, {"type": "citations_delta", "citation": cited}))
    anthropic.replies.append(answers(quoted))
    model = with_tools(claude())
    turn, deltas = await stream(model)
    assert deltas == ["It ", "does."]
    content = await next_content(anthropic, model, *replied(turn), HumanMessage("more"))
    assert content == [{"type": "text", "text": "It does.", "citations": [cited]}]


async def test_c13_a_paused_turn_goes_back_as_it_is(anthropic: AnthropicServer, claude: Claude) -> None:
    anthropic.replies.append(
        answers(
            says("I search."),
            uses("srvtoolu_1", "web_search", '{"query":"5xx"}', kind="server_tool_use"),
            stop="pause_turn",
        )
    )
    model = with_tools(claude())
    turn, _ = await stream(model)
    assert (turn.finish, turn.paused, turn.problem, turn.calls) == ("pause", True, None, ())
    content = await next_content(anthropic, model, *replied(turn))
    assert [block["type"] for block in content] == ["text", "server_tool_use"]
    assert anthropic.requests[-1].messages[-1]["role"] == "assistant"


async def test_c13_whole_messages_keep_the_same(anthropic: AnthropicServer, claude: Claude) -> None:
    anthropic.replies.append(
        answers(
            thinks("hm"),
            says("Found."),
            uses("toolu_a", "search_docs", DOCS),
            stop="tool_use",
            usage={"input_tokens": 3, "output_tokens": 4},
        )
    )
    model = with_tools(claude(disable_streaming=True))
    turn, _ = await stream(model)
    assert "stream" not in anthropic.requests[0].body
    assert (turn.text, turn.reasoning, turn.finish, turn.usage) == ("Found.", "hm", "tool_calls", Usage(3, 4))
    content = await next_content(anthropic, model, *replied(turn, "1"))
    assert [block["type"] for block in content] == ["thinking", "text", "tool_use"]


async def test_c13_blocks_in_a_form_of_langchains_own_are_not_asked_for(
    anthropic: AnthropicServer, claude: Claude
) -> None:
    anthropic.replies.append(answers(thinks("hm"), uses("toolu_a", "search_docs", DOCS), stop="tool_use"))
    model = with_tools(claude(output_version="v1"))
    turn, _ = await stream(model)
    assert (called(turn)[0][2], turn.reasoning) == (DOCS, "hm")
    content = await next_content(anthropic, model, *replied(turn, "1"))
    assert [block["type"] for block in content] == ["thinking", "tool_use"]


async def test_c13_an_exact_prompt_cache_mark_and_the_system_prompt_stay(
    anthropic: AnthropicServer, claude: Claude
) -> None:
    marked = [{"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}}]
    anthropic.replies.append(
        answers(
            says("ok"),
            usage={
                "input_tokens": 10,
                "output_tokens": 5,
                "cache_read_input_tokens": 100,
                "cache_creation_input_tokens": 20,
            },
        )
    )
    turn, _ = await stream(claude(), SystemMessage(marked), HumanMessage(marked))
    body = anthropic.requests[0].body
    assert (body["system"], body["messages"][0]["content"]) == (marked, marked)
    assert turn.usage == Usage(130, 5, cached_tokens=100, cache_write_tokens=20)


async def test_c13_how_long_a_cache_is_kept_is_counted_once(
    anthropic: AnthropicServer, claude: Claude
) -> None:
    usage = {
        "input_tokens": 1,
        "output_tokens": 2,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    }
    anthropic.replies.append(answers(says("ok"), usage=usage))
    turn, _ = await stream(claude())
    assert turn.usage == Usage(31, 2, cache_write_tokens=30)


async def test_c13_system_messages_that_stand_later_join_the_first(
    anthropic: AnthropicServer, claude: Claude
) -> None:
    anthropic.replies.append(answers(says("ok")))
    history = [SystemMessage("a"), HumanMessage("q"), AIMessage("x"), SystemMessage("b"), HumanMessage("r")]
    await stream(claude(), *history)
    assert anthropic.requests[0].body["system"] == "a\n\nb"
    assert [one["role"] for one in anthropic.requests[0].messages] == ["user", "assistant", "user"]


async def test_c10_a_stream_without_an_end_signal_has_no_finish(
    anthropic: AnthropicServer, claude: Claude
) -> None:
    for ended in (True, False):
        anthropic.replies.append(answers(says("half an ans"), stop=None, whole=ended))
        turn, _ = await stream(with_tools(claude()))
        assert (turn.text, turn.finish) == ("half an ans", None)


async def test_c10_a_connection_that_breaks_may_be_tried_again(
    anthropic: AnthropicServer, claude: Claude
) -> None:
    anthropic.replies.append(answers(says("half"), Cut()))
    with pytest.raises(Exception, match=r"(?i)connection|incomplete|peer") as broken:
        await stream(with_tools(claude()))
    assert is_transient(broken.value)


@pytest.mark.parametrize("kind", ["overloaded_error", "api_error", "rate_limit_error"])
async def test_c10_an_error_event_in_the_stream_may_be_tried_again(
    anthropic: AnthropicServer, claude: Claude, kind: str
) -> None:
    anthropic.replies.append(answers(says("half"), error_event(kind)))
    with pytest.raises(sdk.APIStatusError, match="Overloaded") as broken:
        await stream(with_tools(claude()))
    assert is_transient(broken.value)


@pytest.mark.parametrize(
    ("stop", "finish", "cut"),
    [
        ("end_turn", "stop", False),
        ("stop_sequence", "stop", False),
        ("max_tokens", "length", True),
        ("model_context_window_exceeded", "length", True),
        ("refusal", "refusal", True),
    ],
)
async def test_c10_every_reason_to_stop(
    anthropic: AnthropicServer, claude: Claude, stop: str, finish: str, cut: bool
) -> None:
    anthropic.replies.append(answers(says("text"), stop=stop))
    turn, _ = await stream(claude())
    assert (turn.finish, turn.truncated, turn.problem) == (finish, cut, None)


async def test_c10_max_tokens_marks_the_cut_call_and_no_other(
    anthropic: AnthropicServer, claude: Claude
) -> None:
    calls = [uses("a", "search_docs", DOCS), uses("b", "search_docs", DOCS[:9])]
    anthropic.replies.append(answers(*calls, stop="max_tokens"))
    turn, _ = await stream(with_tools(claude()))
    assert [call.cut for call in turn.calls] == [False, True]


async def test_c11_why_the_provider_refused_is_the_answer(anthropic: AnthropicServer, claude: Claude) -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "That is against the policy."}
    anthropic.replies.append(answers(stop="refusal", details=details))
    turn, _ = await stream(with_tools(claude()))
    assert (turn.answer, turn.finish, turn.problem) == ("That is against the policy.", "refusal", None)


async def test_c58_errors_come_with_their_status_and_waiting_time(
    anthropic: AnthropicServer, claude: Claude
) -> None:
    anthropic.replies += [fails(429, retry_after_s=7), fails(529, "Overloaded"), fails(401)]
    with pytest.raises(sdk.RateLimitError) as limited:
        await stream(claude())
    assert limited.value.response.headers["retry-after"] == "7"
    with pytest.raises(sdk.APIStatusError) as overloaded:
        await stream(claude())
    assert (overloaded.value.status_code, is_transient(overloaded.value)) == (529, True)
    with pytest.raises(sdk.AuthenticationError) as refused:
        await stream(claude())
    assert not is_transient(refused.value)


ASKED = AIMessage(
    "",
    tool_calls=[
        {"name": "t", "args": {}, "id": "call_a"},
        {"name": "t", "args": {}, "id": "call_b"},
    ],
)
A, B = ToolMessage("1", tool_call_id="call_a"), ToolMessage("2", tool_call_id="call_b")

ILLEGAL: dict[str, tuple[list[BaseMessage], str]] = {
    "an unanswered call": ([ASKED, A], "without `tool_result` blocks immediately after: call_b"),
    "no answer": ([ASKED, HumanMessage("x")], "immediately after: call_a, call_b"),
    "an answer without a call": ([A], "unexpected `tool_use_id` found in `tool_result` blocks: call_a"),
    "two answers": ([ASKED, A, B, A], "each tool_use must have a single result"),
    "an answer far from its call": ([ASKED, A, B, AIMessage("x"), B], "unexpected `tool_use_id`"),
    "words of the user before the results": (
        [ASKED, HumanMessage("x"), A, B],
        "without `tool_result` blocks immediately after: call_a, call_b",
    ),
    "words put into the model's mouth": (
        [AIMessage("The answer is")],
        "does not support assistant message prefill",
    ),
}


@pytest.mark.parametrize("case", ILLEGAL)
async def test_c15_the_server_refuses_an_illegal_history_as_anthropic_does(
    anthropic: AnthropicServer, claude: Claude, case: str
) -> None:
    history, words = ILLEGAL[case]
    anthropic.replies.append(answers(says("never")))
    with pytest.raises(sdk.BadRequestError) as refused:
        await stream(claude(), SystemMessage("s"), HumanMessage("q"), *history)
    assert words in str(refused.value)
    assert not is_transient(refused.value)

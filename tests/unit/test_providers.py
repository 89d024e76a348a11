"""Reading chunks of any model, and writing history for any model (C-2, C-5, C-7, C-9, C-10, C-11, C-13)."""

import gc
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.runnables import RunnableBinding, RunnableLambda
from langchain_core.runnables.base import RunnableBindingBase
from langchain_openai import ChatOpenAI

from adjourn.nodes.assembly import AssembledCall, Fragment, Turn, Usage
from adjourn.nodes.bound_model import BoundModel
from adjourn.nodes.listening import listening
from adjourn.nodes.providers import PROVIDERS, UNKNOWN, Provider, provider_of
from adjourn.nodes.scripted import ScriptedModel
from adjourn.nodes.stored_form import assistant_message, sent_calls
from adjourn.nodes.tool import tool
from adjourn.nodes.wire_in import read
from adjourn.nodes.wire_memory import Made, Memory
from adjourn.nodes.wire_out import STAND_IN_NAME, Requested, request_messages

OPENAI = PROVIDERS["langchain_openai"]


def fake(*answers: AIMessage | str) -> GenericFakeChatModel:
    return GenericFakeChatModel(messages=iter(answers))


def openai(**settings: Any) -> ChatOpenAI:
    return ChatOpenAI(api_key="x", **{"model": "gpt-4o", **settings})  # type: ignore[arg-type]


def named(package: str) -> BaseChatModel:
    """A model whose class says that it comes from `package`."""
    kind: Any = type("Model", (GenericFakeChatModel,), {"__module__": f"{package}.chat_models"})
    model: BaseChatModel = kind(messages=iter(()))
    return model


# The table


def test_c13_a_model_is_found_by_the_package_it_comes_from() -> None:
    assert provider_of(openai()).name == "openai"
    assert provider_of(ScriptedModel(turns=[])).name == "scripted"
    assert provider_of(fake()) is UNKNOWN
    assert provider_of(named("langchain_anthropic")).name == "anthropic"


def test_c13_a_derived_class_and_a_bound_model_are_found_too() -> None:
    derived = type("Mine", (ChatOpenAI,), {"__module__": "my.models"})(api_key="x", model="m")
    tool = {"type": "function", "function": {"name": "t", "description": "d", "parameters": {}}}
    assert provider_of(derived).name == "openai"
    assert provider_of(openai().bind_tools([tool]).with_config(tags=["x"])).name == "openai"


def test_listening_returns_other_models_as_they_are() -> None:
    model = fake()
    assert listening(model) is model


# Reading


@pytest.mark.parametrize(
    ("metadata", "finish"),
    [
        ({"finish_reason": "stop"}, "stop"),
        ({"finish_reason": "tool_calls"}, "tool_calls"),
        ({"finish_reason": "function_call"}, "tool_calls"),
        ({"finish_reason": "length"}, "length"),
        ({"finish_reason": "content_filter"}, "content_filter"),
        ({"finish_reason": "insufficient_system_resource"}, None),
        ({"finish_reason": "a word of tomorrow"}, "stop"),
        ({"finish_reason": None}, None),
        ({"finish_reason": ""}, None),
        ({"stop_reason": "end_turn"}, "stop"),
        ({"stop_reason": "tool_use"}, "tool_calls"),
        ({"stop_reason": "max_tokens"}, "length"),
        ({"finish_reason": "STOP"}, "stop"),
        ({"finish_reason": SimpleNamespace(name="MAX_TOKENS")}, "length"),
        ({"done_reason": "stop"}, "stop"),
        ({"status": "completed"}, "stop"),
        ({"status": "failed"}, None),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"model_name": "m"}, None),
    ],
)
def test_c10_end_signals_by_the_words_of_many_providers(metadata: dict[str, Any], finish: str | None) -> None:
    assert read(AIMessageChunk(content="", response_metadata=metadata)).finish == finish


def test_c10_langchains_own_last_chunk_is_no_end_signal() -> None:
    assert read(AIMessageChunk(content="", chunk_position="last")).finish is None


def test_c10_a_whole_message_has_ended_unless_it_says_that_it_failed() -> None:
    asks = AIMessage("", tool_calls=[tool_call(name="t", args={}, id="a")])
    assert read(AIMessage("text")).finish == "stop"
    assert read(asks).finish == "tool_calls"
    assert read(AIMessage("text", response_metadata={"finish_reason": "length"})).finish == "length"
    assert read(AIMessage("", response_metadata={"status": "failed"})).finish is None


@pytest.mark.parametrize(
    ("content", "extras", "said"),
    [
        ("text", {}, ("text", "", "")),
        ([{"type": "text", "text": "a"}, "b", {"type": "text", "text": "c"}], {}, ("abc", "", "")),
        ([{"type": "thinking", "thinking": "hm", "signature": "s"}], {}, ("", "hm", "")),
        ([{"type": "reasoning", "reasoning": "hm"}], {}, ("", "hm", "")),
        ([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}], {}, ("", "hm", "")),
        ([{"type": "refusal", "refusal": "no"}], {}, ("", "", "no")),
        ([{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}], {}, ("", "", "")),
        ("", {"reasoning_content": "hm", "refusal": "no"}, ("", "hm", "no")),
        ("", {"reasoning_content": None, "refusal": None}, ("", "", "")),
    ],
)
def test_c11_text_reasoning_and_refusal_in_all_their_places(
    content: Any, extras: dict[str, Any], said: tuple[str, str, str]
) -> None:
    piece = read(AIMessageChunk(content=content, additional_kwargs=extras))
    assert (piece.text, piece.reasoning, piece.refusal) == said


def test_fragments_come_as_the_chunk_has_them() -> None:
    parts = [
        tool_call_chunk(name="t", args='{"q":', id="a", index=0),
        tool_call_chunk(name=None, args="1}", id=None, index=0),
    ]
    chunk = AIMessageChunk(content="", tool_call_chunks=parts)
    assert read(chunk, OPENAI).fragments == (Fragment(0, "a", "t", '{"q":'), Fragment(0, None, None, "1}"))


def test_c5_calls_that_langchain_wrote_out_are_canonical_and_marked() -> None:
    chunk = AIMessageChunk(content="", tool_calls=[tool_call(name="t", args={"q": "支付", "n": 1}, id="a")])
    assembler = UNKNOWN.assembler()
    assembler.feed(read(chunk, UNKNOWN))
    (call,) = assembler.finish().calls
    assert (call.raw, call.arguments, call.exact) == ('{"q":"支付","n":1}', {"q": "支付", "n": 1}, False)


def test_c5_a_whole_message_gives_raw_text_where_it_is_there_else_canonical_json() -> None:
    raw = {"id": "a", "type": "function", "function": {"name": "t", "arguments": '{ "q" :1.0}'}}
    kept = AIMessage(
        "", additional_kwargs={"tool_calls": [raw]}, tool_calls=[tool_call(name="t", args={"q": 1.0}, id="a")]
    )
    lost = AIMessage("", tool_calls=[tool_call(name="t", args={"q": 1.0}, id="a")])
    assert read(kept).fragments == (Fragment(0, "a", "t", '{ "q" :1.0}', exact=True),)
    assert read(lost).fragments == (Fragment(0, "a", "t", '{"q":1.0}', exact=False),)


def test_c2_the_old_function_call_of_a_whole_message() -> None:
    message = AIMessage("", additional_kwargs={"function_call": {"name": "t", "arguments": "{}"}})
    assert read(message).fragments == (Fragment(name="t", arguments="{}", old=True),)


def test_usage_and_model_are_read() -> None:
    chunk = AIMessageChunk(
        content="",
        usage_metadata={
            "input_tokens": 10,
            "output_tokens": 5,
            "total_tokens": 15,
            "input_token_details": {"cache_read": 4},
            "output_token_details": {"reasoning": 3},
        },
        response_metadata={"model_name": "m"},
    )
    assert (read(chunk).usage, read(chunk).model) == (Usage(10, 5, 4, 3), "m")


@pytest.mark.parametrize("answer", ["one two", AIMessage("one two")])
async def test_f42_models_of_other_people_work_streamed_or_not(answer: Any) -> None:
    for model in (fake(answer), fake(answer).model_copy(update={"disable_streaming": True})):
        provider = provider_of(model)
        assembler = provider.assembler()
        async for chunk in model.astream("hi"):
            assembler.feed(read(chunk, provider))
        turn = assembler.finish()
        assert (turn.text, turn.finish, turn.problem) == ("one two", "stop", None)


# Writing

GOOD = AssembledCall(0, "a", "t", '{ "q" :1.0}', {"q": 1.0})
BAD = AssembledCall(1, "b", "t", '{"q":', None, "it breaks off")
LAST = AssembledCall(2, "c", "u", "", {})
TURN = Turn("text", "hm", "", (BAD, GOOD, LAST), "tool_calls", Usage(10, 5, 4, 3), "m")


def sent(*calls: AssembledCall) -> list[dict[str, Any]]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.raw}}
        for call in calls
    ]


@pytest.mark.parametrize("whole", [False, True])
async def test_a_model_that_streams_in_its_own_way_is_given_the_list_of_messages(whole: bool) -> None:
    given: list[Any] = []

    class InItsOwnWay(GenericFakeChatModel):
        async def astream(self, input: Any, *args: Any, **named: Any) -> Any:
            given.append(input)
            yield AIMessageChunk(content=input[-1].text)

    class AsLangChain(GenericFakeChatModel):
        def _generate(self, messages: list[BaseMessage], *args: Any, **named: Any) -> Any:
            given.append(messages)
            return super()._generate(messages, *args, **named)

    messages = [SystemMessage("s"), HumanMessage("hi")]
    model = AsLangChain(messages=iter(["hi"])) if whole else InItsOwnWay(messages=iter([]))
    chunks = [one async for one in BoundModel.of(model, []).stream(messages, tools_off=False)]
    assert given == [messages]
    assert "".join(one.text for one in chunks) == "hi"


async def test_a_models_tools_cost_no_merging_of_configs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What LangChain binds tools with may change its class; the way around it is then still taken."""

    @tool(effect="read")
    def look(query: str) -> str:
        """Look."""
        return query

    def merged(*_: Any) -> Any:
        raise AssertionError("the binding's config was merged with the ambient one")

    monkeypatch.setattr(RunnableBinding, "_merge_configs", merged)
    bound = BoundModel.of(ScriptedModel(turns=["hi"]), [look])
    assert "tools" in bound.runnable.kwargs  # type: ignore[attr-defined]
    chunks = [one async for one in bound.stream([HumanMessage("hi")], tools_off=False)]
    assert "".join(one.text for one in chunks) == "hi"


def test_c7_the_stored_message_holds_each_call_twice() -> None:
    message = assistant_message(TURN, "msg_1")
    assert (message.id, message.content) == ("msg_1", "text")
    assert [call["args"] for call in message.tool_calls] == [{"q": 1.0}, {}]
    assert [(call["args"], call["error"]) for call in message.invalid_tool_calls] == [
        ('{"q":', "it breaks off")
    ]
    assert message.additional_kwargs["tool_calls"] == sent(BAD, GOOD, LAST) == sent_calls(message)
    assert message.additional_kwargs["reasoning_content"] == "hm"
    assert message.response_metadata == {"finish_reason": "tool_calls", "model_name": "m"}
    assert message.usage_metadata is not None
    assert message.usage_metadata["total_tokens"] == 15


def test_c7_the_stored_message_survives_a_round_trip() -> None:
    message = assistant_message(TURN, "msg_1")
    again = AIMessage.model_validate(message.model_dump())
    assert again == message
    assert sent_calls(again) == sent(BAD, GOOD, LAST)


def test_an_answer_is_stored_without_a_trace_of_calls() -> None:
    message = assistant_message(Turn("text", finish="stop"), "msg_1")
    assert (message.additional_kwargs, message.tool_calls, message.invalid_tool_calls) == ({}, [], [])
    assert message.usage_metadata is None


def test_c11_a_refusal_is_stored_as_the_answer() -> None:
    message = assistant_message(Turn(refusal="no", finish="stop"), "msg_1")
    assert (message.content, message.additional_kwargs) == ("no", {"refusal": "no"})


def test_c7_calls_of_other_programs_are_written_canonically() -> None:
    message = AIMessage(
        "",
        tool_calls=[tool_call(name="t", args={"q": "支付"}, id="a")],
        invalid_tool_calls=[invalid_tool_call(name="t", args="{bad", id="b", error="x")],
    )
    assert [call["function"]["arguments"] for call in sent_calls(message)] == ['{"q":"支付"}', "{bad"]


def test_c7_raw_text_that_belongs_to_other_calls_is_not_trusted() -> None:
    edited = assistant_message(TURN, "m").model_copy(
        update={"tool_calls": [tool_call(name="t", args={"q": 2}, id="z")], "invalid_tool_calls": []}
    )
    assert [call["id"] for call in sent_calls(edited)] == ["z"]


def _history(stored: AIMessage) -> list[BaseMessage]:
    answers = [ToolMessage("{}", tool_call_id=call["id"], name="t") for call in sent_calls(stored)]
    return [SystemMessage("s"), HumanMessage("q"), stored, *answers]


def test_c7_for_openai_the_payload_holds_calls_byte_for_byte_and_nothing_stored_changes() -> None:
    stored = assistant_message(TURN, "msg_1")
    before = stored.model_dump()
    model = openai()
    payload = model._get_request_payload(request_messages(_history(stored), model))
    assert payload["messages"][2] == {
        "role": "assistant",
        "content": "text",
        "tool_calls": sent(BAD, GOOD, LAST),
    }
    assert stored.model_dump() == before


def test_c7_the_responses_api_is_asked_by_items() -> None:
    stored = assistant_message(TURN, "msg_1")
    model = openai(use_responses_api=True)
    items = model._get_request_payload(request_messages(_history(stored), model))["input"]
    calls = [(item["call_id"], item["arguments"]) for item in items if item.get("type") == "function_call"]
    assert calls == [("b", '{"q":'), ("a", '{ "q" :1.0}'), ("c", "")]


@pytest.mark.parametrize("model", [fake(), named("langchain_anthropic"), ScriptedModel(turns=[])])
def test_c13_for_others_all_calls_are_objects_in_order_and_an_unparsable_one_is_empty(
    model: BaseChatModel,
) -> None:
    (message,) = request_messages([assistant_message(TURN, "msg_1")], model)
    assert isinstance(message, AIMessage)
    assert [(call["id"], call["args"]) for call in message.tool_calls] == [
        ("b", {}),
        ("a", {"q": 1.0}),
        ("c", {}),
    ]
    assert message.invalid_tool_calls == []


@pytest.mark.parametrize("model", [openai(), fake()])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", STAND_IN_NAME),
        ("a b", STAND_IN_NAME),
        ("搜索", STAND_IN_NAME),
        ("x" * 65, STAND_IN_NAME),
        ("a-b_C1", "a-b_C1"),
    ],
)
def test_c9_names_that_no_service_takes_back(model: BaseChatModel, name: str, expected: str) -> None:
    turn = Turn(calls=(AssembledCall(0, "a", name, "{}", {}),), finish="tool_calls")
    stored = assistant_message(turn, "msg_1")
    message, answer = request_messages([stored, ToolMessage("x", tool_call_id="a", name=name)], model)
    assert isinstance(message, AIMessage)
    assert [call["function"]["name"] for call in sent_calls(message)] == [expected]
    assert answer.name == expected
    assert stored.tool_calls[0]["name"] == name


def test_c9_a_tool_that_is_offered_keeps_its_name_however_odd() -> None:
    stored = assistant_message(Turn(calls=(AssembledCall(0, "a", "fs.read", "{}", {}),), finish="stop"), "m")
    (message,) = request_messages([stored], openai(), tools=["fs.read"])
    assert isinstance(message, AIMessage)
    assert sent_calls(message)[0]["function"]["name"] == "fs.read"


def test_messages_without_calls_are_passed_on_as_they_are() -> None:
    history = [SystemMessage("s"), HumanMessage("q"), AIMessage("a"), ToolMessage("x", tool_call_id="a")]
    for model in (openai(), fake()):
        assert all(
            given is kept for given, kept in zip(history, request_messages(history, model), strict=True)
        )


def test_a_row_of_the_table_makes_the_assembler() -> None:
    assert Provider("p", ends=False).assembler().finish().finish == "stop"
    assert Provider("p").assembler().finish().finish is None


# What is known about the service behind a package


@pytest.mark.parametrize(
    ("settings", "origin", "id_length"),
    [
        ({}, "openai-chat:api.openai.com", 40),
        ({"use_responses_api": True}, "openai-responses:api.openai.com", 64),
        ({"base_url": "http://127.0.0.1:8000/v1"}, "openai-chat:127.0.0.1", None),
        ({"base_url": "https://api.deepseek.com"}, "openai-chat:api.deepseek.com", None),
    ],
)
def test_c13_a_service_is_known_by_its_host(
    settings: dict[str, Any], origin: str, id_length: int | None
) -> None:
    provider = provider_of(openai(**settings))
    assert (provider.origin, provider.id_length) == (origin, id_length)


def test_c13_a_tool_of_the_providers_own_decides_which_api_is_asked() -> None:
    assert provider_of(openai()).items is False
    assert provider_of(openai().bind_tools([{"type": "web_search"}])).items is True


def test_c13_tools_of_other_providers_are_not_bound() -> None:
    dated, plain = {"type": "web_search_20250305", "name": "web_search"}, {"type": "web_search"}
    anthropic = PROVIDERS["langchain_anthropic"]
    assert [anthropic.runs(dated), anthropic.runs(plain)] == [True, False]
    assert [OPENAI.runs(dated), OPENAI.runs(plain)] == [False, True]
    assert [UNKNOWN.runs(dated), UNKNOWN.runs(plain)] == [False, False]
    bound = BoundModel.of(openai(), (), provider_tools=[dated, plain])
    assert bound.runnable.kwargs["tools"] == [plain]  # type: ignore[attr-defined]
    assert bound.provider.items


@pytest.mark.parametrize("config", [{}, {"tags": ["mine"]}])
async def test_a_bound_model_streams_with_what_is_bound_to_it_and_its_config(config: Any) -> None:
    model = ScriptedModel(turns=["hello", "again"])
    bound = BoundModel.of(model, [])
    told = {"tools": [{"name": "look"}]}
    binding: Any = RunnableBinding(bound=model, kwargs=told, config=config)
    heard: list[Any] = []

    class Listener(AsyncCallbackHandler):
        async def on_chat_model_start(self, serialized: Any, messages: Any, **more: Any) -> None:
            heard.append((more["tags"], more["metadata"].get("who")))

    async def whole(tools_off: bool) -> str:
        both = replace(bound, runnable=binding, quiet=model)
        return "".join([one.text async for one in both.stream([HumanMessage("hi")], tools_off=tools_off)])

    ambient: Any = {"callbacks": [Listener()], "metadata": {"who": "around"}, "tags": ["outer"]}
    said = await RunnableLambda(whole).ainvoke(False, ambient)
    assert said == "hello"
    assert await RunnableLambda(whole).ainvoke(True, ambient) == "again"
    assert [one["tools"] for one in model.settings[:1]] == [told["tools"]]
    assert "tools" not in model.settings[1]
    assert heard[0][1] == heard[1][1] == "around"
    assert ("mine" in heard[0][0]) == bool(config)


class Loud(RunnableBinding):  # type: ignore[type-arg]
    """A binding that does more than bind."""

    async def astream(self, *given: Any, **more: Any) -> Any:
        async for chunk in super().astream(*given, **more):
            yield chunk.model_copy(update={"content": str(chunk.content).upper()})


@pytest.mark.parametrize("wrapper", [RunnableBindingBase, RunnableBinding, Loud])
async def test_whatever_wraps_a_model_is_asked_with_what_it_binds(wrapper: Any) -> None:
    model = ScriptedModel(turns=["hello"])
    told = {"tools": [{"name": "look"}]}
    bound = replace(BoundModel.of(model, []), runnable=wrapper(bound=model, kwargs=told))
    said = [one.text async for one in bound.stream([HumanMessage("hi")], tools_off=False)]
    assert "".join(said) == ("HELLO" if wrapper is Loud else "hello")
    assert model.settings[0]["tools"] == told["tools"]


def payload(model: ChatOpenAI, *messages: BaseMessage) -> list[dict[str, Any]]:
    """What a listening client sends."""
    heard: Any = listening(model)
    found: list[dict[str, Any]] = heard._get_request_payload(request_messages(messages, model))["messages"]
    return found


def test_c13_deepseek_gets_the_field_with_every_call_and_others_do_not() -> None:
    stored = assistant_message(Turn(calls=(LAST,), finish="tool_calls"), "m1")
    history = (HumanMessage("q"), stored, ToolMessage("1", tool_call_id="c"), AIMessage("done"))
    more = (HumanMessage("and?"), AIMessage("no"), HumanMessage("more"))
    deepseek = payload(openai(base_url="https://api.deepseek.com"), *history, *more)
    assert [message.get("reasoning_content") for message in deepseek] == [None, "", None, "", *[None] * 3]
    assert "reasoning_content" not in payload(openai(base_url="http://127.0.0.1/v1"), *history)[1]


def test_c13_what_a_server_wants_back_goes_back_to_it_alone() -> None:
    here = openai(base_url="http://127.0.0.1:1/v1")
    signed = {"extra_content": {"google": {"thought_signature": "AY"}}}
    call = AssembledCall(0, "a", "t", "{}", {}, extra=signed)
    blocks = ({"type": "message_fields", "reasoning_content": "hm"},)
    turn = Turn(calls=(call,), finish="tool_calls", blocks=blocks, origin=provider_of(here).origin)
    history = (HumanMessage("q"), assistant_message(turn, "m1"), ToolMessage("1", tool_call_id="a"))
    sent = payload(here, *history)[1]
    assert (sent["reasoning_content"], sent["tool_calls"][0]["extra_content"]) == (
        "hm",
        signed["extra_content"],
    )
    other = payload(openai(base_url="http://127.0.0.2:1/v1"), *history)[1]
    assert set(other) == {"role", "content", "tool_calls"}
    assert set(other["tool_calls"][0]) == {"id", "type", "function"}


# Messages of other programs


FOREIGN = AIMessage(
    [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "I look. "},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "text", "text": "Found."},
        {"type": "tool_use", "id": "a", "name": "t", "input": {"q": 1}},
    ],
    tool_calls=[tool_call(name="t", args={"q": 1}, id="a")],
)


@pytest.mark.parametrize("settings", [{}, {"use_responses_api": True}])
def test_c13_blocks_of_anthropic_in_a_foreign_thread_are_text_for_openai(settings: dict[str, Any]) -> None:
    (message,) = request_messages([FOREIGN], openai(**settings))
    assert "hm" not in str(message.content)
    assert "srvtoolu" not in str(message.content)
    assert "I look. Found." in str(message.content)


def test_c13_blocks_of_a_foreign_thread_go_back_to_their_provider() -> None:
    (message,) = request_messages([FOREIGN], named("langchain_anthropic"))
    assert [block["type"] for block in message.content] == [block["type"] for block in FOREIGN.content]  # type: ignore[index]


def test_c13_reasoning_of_openai_in_a_foreign_thread_is_left_out_for_anthropic() -> None:
    said = [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "text", "text": "Yes.", "id": "msg_1"},
    ]
    stored = AIMessage(said, response_metadata={"model_provider": "openai"})
    (message,) = request_messages([stored], named("langchain_anthropic"))
    assert message.content == "Yes."
    assert stored.content == said


def test_c13_other_content_of_a_foreign_thread_is_left_alone() -> None:
    marked = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]
    for model in (openai(), named("langchain_anthropic"), fake()):
        (message,) = request_messages([AIMessage(marked)], model)
        assert message.content == marked


def test_a_turn_is_made_once_for_each_form_and_again_when_it_is_another_message():
    stored = assistant_message(TURN, "msg_1")
    model, other = named("langchain_anthropic"), openai()
    (first,) = request_messages([stored], model)
    (again,) = request_messages([stored], model)
    assert again is first  # a long history is not made again for each request
    (elsewhere,) = request_messages([stored], other)
    assert elsewhere is not first
    (changed,) = request_messages([stored.model_copy(update={"content": "other words"})], model)
    assert "other words" in str(changed.content)
    assert request_messages([stored], model)[0] == first


def _conversation() -> list[BaseMessage]:
    """Three runs; ids of calls return, and one of them is none that a stricter service takes."""
    said: list[BaseMessage] = [SystemMessage("s")]
    for number, ids in enumerate((("a", "b c"), ("a",), ("call_0", "a"))):
        calls = tuple(AssembledCall(place, id_, "t", "{}", {}) for place, id_ in enumerate(ids))
        said.append(HumanMessage(f"q{number}"))
        said.append(assistant_message(Turn(calls=calls, finish="tool_calls"), f"m{number}"))
        said += [ToolMessage("{}", tool_call_id=id_, name="t") for id_ in ids]
        said.append(assistant_message(Turn(f"answer {number}", finish="stop"), f"n{number}"))
    return said


@pytest.mark.parametrize(
    "model",
    [
        openai(),
        named("langchain_anthropic"),
        named("langchain_mistralai"),
        fake(),
        openai(use_responses_api=True),
    ],
)
def test_c13_a_history_that_grows_is_written_as_if_it_were_new(model: BaseChatModel) -> None:
    history, before = _conversation(), Requested()
    word = HumanMessage("[runtime] 3 steps left")  # the last of a request, and of no other
    for end in range(1, len(history) + 1):
        for request in ([*history[:end], word.model_copy()], history[:end]):
            assert request_messages(request, model, (), before) == request_messages(request, model)


def test_c13_another_history_another_model_or_other_tools_are_written_anew() -> None:
    history, before = _conversation(), Requested()
    anthropic, other = named("langchain_anthropic"), openai()
    shorter, changed = (
        history[:4],
        [*history[:5], history[5].model_copy(update={"content": "else"}), *history[6:]],
    )
    for request in (history, shorter, changed, history[2:], history):
        for model in (anthropic, other, anthropic):
            for tools in ((), ("t",)):
                assert request_messages(request, model, tools, before) == request_messages(
                    request, model, tools
                )


def test_what_was_made_goes_with_its_message():
    memory = Memory()
    message = AIMessage("x", id="m")
    memory.keep(message, Made((), [], None))
    assert memory.of(message) is not None and memory.of(AIMessage("x", id="m")) is None
    del message
    gc.collect()
    assert memory._kept == {}

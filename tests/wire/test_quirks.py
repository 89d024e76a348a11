"""Every known quirk of a compatible server has its right result, and goes back as that server wants it (C-1 to C-13)."""

import json

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from wire.conftest import Chat
from wire.openai_server import OpenAIServer, fragment, streams
from wire.quirks import PARIS, QUIRKS
from wire.reading import stream

from adjourn.nodes.assembly import Usage
from adjourn.nodes.stored_form import assistant_message

SERVERS = {"vllm", "ollama", "llama.cpp", "sglang", "deepseek", "qwen", "gemini", "azure"}


def test_c13_the_table_knows_each_server_and_where_each_quirk_comes_from() -> None:
    assert {name.partition(":")[0] for name in QUIRKS} >= SERVERS
    assert all(quirk.source.startswith("https://") for quirk in QUIRKS.values())


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # the openai client is typed for text
@pytest.mark.parametrize("name", QUIRKS)
async def test_c1_c13_the_quirk_has_its_right_result(server: OpenAIServer, chat: Chat, name: str) -> None:
    quirk = QUIRKS[name]
    server.replies += [streams(*quirk.deltas, finish=quirk.finish), streams("ok")]
    turn, deltas = await stream(chat())
    assert [(call.id, call.name, call.raw) for call in turn.calls] == quirk.calls
    assert [call.position for call in turn.calls if call.error] == list(quirk.unparsable)
    assert (turn.text, "".join(deltas), turn.reasoning) == (quirk.text, quirk.text, quirk.reasoning)
    assert turn.finish == (quirk.ends or None)
    if quirk.usage is not None:
        assert turn.usage == Usage(*quirk.usage)
    if quirk.problem is not None:
        assert quirk.problem in (turn.problem or "")
        return
    assert turn.problem is None
    answers = [ToolMessage("1", tool_call_id=call.id or "") for call in turn.calls]
    await stream(chat(), HumanMessage("q"), assistant_message(turn, "m1"), *answers, HumanMessage("more"))
    sent = server.requests[1].messages[1]
    for key, value in quirk.back.items():
        assert sent[key] == value
    assert set(sent) == {"role", "content", *(["tool_calls"] if quirk.calls else ()), *quirk.back}


async def test_c11_c13_what_one_server_thought_is_not_sent_to_another(
    server: OpenAIServer, chat: Chat
) -> None:
    quirk = QUIRKS["deepseek: comments keep the connection, reasoning comes first"]
    server.replies += [streams(*quirk.deltas, finish="tool_calls"), streams("ok")]
    turn, _ = await stream(chat())
    other = server.url.replace("127.0.0.1", "localhost")
    answer = ToolMessage("1", tool_call_id="call_a")
    await stream(chat(base_url=other), HumanMessage("q"), assistant_message(turn, "m1"), answer)
    assert "Two calls." not in json.dumps(server.requests[1].body)


async def test_c11_c13_reasoning_goes_back_up_to_the_answer_if_tools_were_called(
    server: OpenAIServer, chat: Chat
) -> None:
    """As DeepSeek's guide to its thinking mode says; its older models refuse reasoning where no tool was called."""
    thought = {"reasoning_content": "hm"}
    server.replies += [
        streams(thought, [fragment(0, "a", "weather", PARIS)], finish="tool_calls"),
        streams(thought, "Sunny."),
        streams(thought, "You are welcome."),
        streams("Bye."),
    ]
    history: list[BaseMessage] = [HumanMessage("Paris?")]
    for number, said in enumerate(
        (ToolMessage("1", tool_call_id="a"), HumanMessage("Thanks."), HumanMessage("Bye."))
    ):
        turn, _ = await stream(chat(), *history)
        history += [assistant_message(turn, f"m{number}"), said]
    await stream(chat(), *history)
    sent = server.requests[-1].messages
    assert [(one["role"], one.get("reasoning_content")) for one in sent] == [
        ("user", None),
        ("assistant", "hm"),
        ("tool", None),
        ("assistant", "hm"),
        ("user", None),
        ("assistant", None),
        ("user", None),
    ]

"""What is streamed: text as it comes, and what becomes of a turn that ends too early (C-9, C-10, C-11, C-66)."""

import threading
from typing import Any

import pytest
from runs.shop import Shop
from wire.anthropic_server import AnthropicServer, answers, says, thinks
from wire.conftest import Claude, Wire
from wire.loopback import Wait
from wire.openai_server import fragment, streams
from wire.s1 import DOCS, QUESTION

from adjourn.graph import Runner, build_react


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjourn.nodes.model_errors.BACKOFF_S", 0.0)


def told(events: list[Any], *words: str) -> list[tuple[Any, ...]]:
    return [(one.word, getattr(one, "text", one.word), one.attempt) for one in events if one.word in words]


async def test_c11_text_is_told_while_the_turn_still_comes(wire: Wire) -> None:
    """The server goes on only when the listener has heard what it said so far."""
    heard = [threading.Event(), threading.Event()]
    wire.server.replies += [
        streams(
            "one ",
            Wait(heard[0]),
            [fragment(0, "a", "search_docs", DOCS[:9])],
            "two",
            Wait(heard[1]),
            [fragment(0, None, None, DOCS[9:])],
            finish="tool_calls",
        ),
        streams("done"),
    ]
    waiting = list(heard)
    texts = []
    async for event in wire.runner(Shop()).stream(QUESTION):
        if event.word == "text_delta":
            texts.append(event.text)
            if waiting:
                waiting.pop(0).set()
        if event.word == "tool_call":
            assert not waiting
    assert texts == ["one ", "two", "done"]


async def test_c66_c60_a_cancel_voids_what_the_model_was_saying(wire: Wire) -> None:
    never = threading.Event()
    wire.server.replies += [streams("one ", "two ", Wait(never), "three"), streams("hello")]
    runner = wire.runner(Shop())
    events = []
    async for event in runner.stream(QUESTION, thread_id="t"):
        events.append(event)
        if event.word == "text_delta" and event.text == "two ":
            await runner.cancel(event.run_id)
    never.set()
    assert told(events, "text_delta", "text_discarded") == [
        ("text_delta", "one ", 1),
        ("text_delta", "two ", 1),
        ("text_discarded", "text_discarded", 1),
    ]
    assert (await runner.get(events[0].run_id)).status == "cancelled"
    assert (await runner.start("hi", thread_id="t")).answer == "hello"
    assert "one" not in str(wire.server.requests[1].messages)


async def test_c9_c66_a_turn_that_cannot_stand_is_voided_and_asked_for_again(wire: Wire) -> None:
    same = [fragment(0, "a", "search_docs", DOCS)], [fragment(1, "a", "search_docs", DOCS)]
    twice = [*same[0], {**same[1][0], "index": 1}]
    wire.server.replies += [
        streams("hm", {"tool_calls": twice}, finish="tool_calls"),
        streams("well", finish="tool_calls"),
    ]
    runner = wire.runner(Shop())
    events = [event async for event in runner.stream(QUESTION)]
    run = await runner.get(events[0].run_id)
    assert (run.status, run.stop_reason, run.calls) == ("finished", "protocol_error", [])
    assert told(events, "text_delta", "text_discarded") == [
        ("text_delta", "hm", 1),
        ("text_discarded", "text_discarded", 1),
        ("text_delta", "well", 1),
        ("text_discarded", "text_discarded", 1),
    ]
    again = wire.server.requests[1].messages
    assert [one["role"] for one in again] == ["system", "user", "user"]
    assert "same id" in again[-1]["content"]


@pytest.mark.parametrize("done", [True, False])
async def test_c10_without_an_end_signal_nothing_runs_and_the_turn_is_asked_for_again(
    wire: Wire, done: bool
) -> None:
    shop = Shop()
    call = [fragment(0, "a", "publish_release", '{"service_id":"s","version":"1"}')]
    wire.server.replies += [streams("I ", call, finish=None, done=done), streams("ok")]
    runner = wire.runner(shop)
    events = [event async for event in runner.stream(QUESTION)]
    assert told(events, "text_delta", "text_discarded") == [
        ("text_delta", "I ", 1),
        ("text_discarded", "text_discarded", 1),
        ("text_delta", "ok", 2),
    ]
    assert (shop.ran, (await runner.get(events[0].run_id)).answer) == ([], "ok")


async def test_c10_of_a_cut_turn_the_whole_reads_run_and_no_write(wire: Wire) -> None:
    shop = Shop()
    write = '{"service_id":"s","version":"1"}'
    wire.server.replies += [
        streams(
            [fragment(0, "a", "search_docs", DOCS)],
            [fragment(1, "b", "publish_release", write)],
            [fragment(2, "c", "search_docs", DOCS[:9])],
            finish="length",
        ),
        streams("ok"),
    ]
    run = await wire.runner(shop).start(QUESTION)
    assert [(one.outcome, one.error_code) for one in run.calls] == [
        ("ok", None),
        ("invalid", "output_cut"),
        ("invalid", "output_cut"),
    ]
    assert [one[0] for one in shop.ran] == ["search_docs"]


@pytest.mark.parametrize("second", ["stop", "length"])
async def test_c10_a_cut_answer_is_continued_once(wire: Wire, second: str) -> None:
    wire.server.replies += [streams("The ans", finish="length"), streams("wer is 4.", finish=second)]
    runner = wire.runner(Shop())
    events = [event async for event in runner.stream(QUESTION)]
    assert (await runner.get(events[0].run_id)).answer == "The answer is 4."
    assert [one.truncated for one in events if one.word == "message"] == [True, second == "length"]
    asked = wire.server.requests[1].messages
    assert [one["role"] for one in asked] == ["system", "user", "assistant", "user"]
    assert (asked[2]["content"], len(wire.server.requests)) == ("The ans", 2)


async def test_c10_c13_a_cut_answer_that_was_thought_about_is_continued_at_anthropic_too(
    anthropic: AnthropicServer, claude: Claude, tmp_path: Any
) -> None:
    anthropic.replies += [
        answers(thinks("2+2"), says("The ans"), stop="max_tokens"),
        answers(says("wer is 4.")),
        answers(says("yes")),
    ]
    runner = Runner(build_react(claude()), f"sqlite:///{tmp_path / 'a.db'}")
    assert (await runner.start("2+2?", thread_id="t")).answer == "The answer is 4."
    await runner.start("sure?", thread_id="t")
    runner.close()
    content = anthropic.requests[2].messages[1]["content"]
    assert [block["type"] for block in content] == ["thinking", "text", "text"]
    assert "".join(block.get("text", "") for block in content) == "The answer is 4."

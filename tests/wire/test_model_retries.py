"""A model that cannot be reached, over real HTTP (C-58): asked again, then its fallbacks; what its tokens cost (C-53)."""

import time
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from typing import Any

import pytest
from runs.shop import Shop
from wire.anthropic_server import AnthropicServer, answers, error_event, says, uses
from wire.anthropic_server import fails as fails_anthropic
from wire.conftest import Chat, Claude
from wire.openai_server import Chunk, OpenAIServer, Reply, fails, fragment, streams

from adjourn.checkpoints.events import Event
from adjourn.graph import Limits, Runner, build_react
from adjourn.nodes import Price
from adjourn.nodes.model_errors import ATTEMPTS

Make = Callable[..., Runner]


@pytest.fixture
async def runner(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    """Makes runners over one store, with models that wait hardly at all before they are asked again."""
    monkeypatch.setattr("adjourn.nodes.model_errors.BACKOFF_S", 0.001)
    made: list[Runner] = []

    def make(model: Any, **settings: Any) -> Runner:
        made.append(Runner(build_react(model, Shop().tools(), **settings), f"sqlite:///{tmp_path / 'a.db'}"))
        return made[-1]

    yield make
    for one in made:
        one.close()


def answer(text: str, model: str, usage: dict[str, Any] | None = None) -> Reply:
    """A whole turn of a model of this name."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    chunks = [Chunk({"model": model, "choices": [one]}) for one in (choice, end)]
    if usage is not None:
        chunks.append(Chunk({"model": model, "choices": [], "usage": usage}))
    return streams(*chunks, finish=None)


def asked(server: OpenAIServer) -> list[str]:
    """Which model each request was for."""
    return [one.body["model"] for one in server.requests]


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
async def test_c58_a_busy_server_is_asked_again_and_again(
    server: OpenAIServer, chat: Chat, runner: Make, status: int
) -> None:
    server.replies += [fails(status)] * (ATTEMPTS - 1) + [streams("ok")]
    run = await runner(chat()).start("hi")
    assert (run.status, run.answer, len(server.requests)) == ("finished", "ok", ATTEMPTS)


async def test_c58_then_the_fallbacks_in_their_order(server: OpenAIServer, chat: Chat, runner: Make) -> None:
    """The deltas of a failed attempt are voided; the row names the model that answered."""
    broken = streams("I think ", finish=None, done=False)
    server.replies += [broken, fails(500), fails(429), *[fails(503)] * ATTEMPTS, answer("ok", "small-2026")]
    heard: list[Event] = []
    models = [chat(model="small"), chat(model="tiny")]
    app = runner(chat(), fallbacks=[models[1], models[0]])
    run = await app.start("hi", on_event=heard.append)
    assert (run.status, run.answer) == ("finished", "ok")
    assert asked(server) == ["scripted-1"] * ATTEMPTS + ["tiny"] * ATTEMPTS + ["small"]
    assert [one.model for one in run.steps] == ["small-2026"]
    spoken = [one for one in heard if one.word in ("text_delta", "text_discarded")]
    assert [(one.word, one.attempt) for one in spoken] == [  # type: ignore[attr-defined]
        ("text_delta", 1),
        ("text_discarded", 1),
        ("text_delta", 2 * ATTEMPTS + 1),
    ]


async def test_c58_a_fallback_takes_over_in_the_middle_of_a_run(
    server: OpenAIServer, chat: Chat, runner: Make
) -> None:
    look = streams([fragment(0, "c", "search_docs", '{"query":"x"}')], finish="tool_calls")
    server.replies += [look, *[fails(500)] * ATTEMPTS, answer("ok", "small")]
    run = await runner(chat(), fallbacks=[chat(model="small")]).start("hi")
    assert (run.status, [one.model for one in run.steps]) == ("finished", ["scripted-1", "small"])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_c58_other_errors_go_to_no_fallback_and_the_run_goes_on_where_it_stood(
    server: OpenAIServer, chat: Chat, runner: Make, status: int
) -> None:
    look = streams([fragment(0, "c", "search_docs", '{"query":"x"}')], finish="tool_calls")
    server.replies += [look, fails(status), streams("ok")]
    app = runner(chat(), fallbacks=[chat(model="small")])
    run = await app.start("hi")
    assert (run.status, run.stop_reason, asked(server)) == ("failed", None, ["scripted-1"] * 2)
    assert run.error is not None
    done = await app.resume(run.id)
    assert (done.status, done.answer, len(done.calls), done.row.steps) == ("finished", "ok", 1, 2)


async def test_c58_when_all_are_spent_the_run_is_failed_and_says_what_each_said(
    server: OpenAIServer, chat: Chat, runner: Make
) -> None:
    server.replies += [*[fails(500, "out of order")] * ATTEMPTS, *[fails(429, "too many")] * ATTEMPTS]
    server.replies += [streams("ok")]
    app = runner(chat(), fallbacks=[chat(model="small")])
    run = await app.start("hi")
    assert run.status == "failed"
    assert run.error is not None
    for word in ("scripted-1", "out of order", "small", "too many"):
        assert word in run.error["message"]
    assert (await app.resume(run.id)).answer == "ok"


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_c58_retry_after_is_respected(
    server: OpenAIServer, chat: Chat, runner: Make, form: str
) -> None:
    wait_s = 0.4 if form == "seconds" else 2.0  # a date has whole seconds: 1 to 2 of them are left
    told = f"{wait_s}" if form == "seconds" else formatdate(time.time() + wait_s, usegmt=True)
    server.replies += [Reply(status=429, headers={"retry-after": told}), streams("ok")]
    began = time.monotonic()
    run = await runner(chat()).start("hi")
    took = time.monotonic() - began
    assert run.answer == "ok"
    assert took >= (0.4 if form == "seconds" else 0.9)


async def test_c58_it_is_not_waited_for_beyond_the_time_of_the_run(
    server: OpenAIServer, chat: Chat, runner: Make
) -> None:
    server.replies += [fails(429, retry_after_s=60), answer("ok", "small")]
    began = time.monotonic()
    limits = Limits(max_active_s=20)
    run = await runner(chat(), fallbacks=[chat(model="small")], limits=limits).start("hi")
    assert (run.answer, asked(server)) == ("ok", ["scripted-1", "small"])
    assert time.monotonic() - began < 5


async def test_c53_the_figures_of_the_provider_and_what_they_cost(
    server: OpenAIServer, chat: Chat, runner: Make
) -> None:
    usage = {
        "prompt_tokens": 1_000,
        "completion_tokens": 100,
        "total_tokens": 1_100,
        "prompt_tokens_details": {"cached_tokens": 400},
        "completion_tokens_details": {"reasoning_tokens": 60},
    }
    server.replies += [answer("ok", "scripted-1-2026", usage)]
    prices = {"scripted-1": Price(input=2.0, output=10.0, cached=0.5)}
    run = await runner(chat(stream_usage=True), prices=prices).start("hi")
    (step,) = run.steps
    assert (step.input_tokens, step.output_tokens, step.cached_tokens, step.reasoning_tokens) == (
        1_000,
        100,
        400,
        60,
    )
    assert step.cost == pytest.approx((600 * 2.0 + 400 * 0.5 + 100 * 10.0) / 1e6)
    assert run.row.cost == pytest.approx(step.cost)


async def test_c57_the_last_word_has_no_tools_on_the_wire(
    server: OpenAIServer, chat: Chat, runner: Make
) -> None:
    look = streams([fragment(0, "c", "search_docs", '{"query":"x"}')], finish="tool_calls")
    server.replies += [look, streams("It is the pool.")]
    run = await runner(chat(), limits=Limits(max_steps=1)).start("hi")
    assert (run.stop_reason, run.answer) == ("max_steps", "It is the pool.")
    first, last = (one.body for one in server.requests)
    assert "tools" in first
    assert "tools" not in last
    assert last["messages"][-1]["content"].startswith("[runtime] ")


async def test_c57_anthropic_is_told_the_tools_and_to_use_none(
    anthropic: AnthropicServer, claude: Claude, runner: Make
) -> None:
    """Its service wants the tools of a history that holds calls."""
    anthropic.replies += [
        answers(uses("toolu_a", "search_docs", '{"query":"x"}'), stop="tool_use"),
        answers(says("It is the pool.")),
    ]
    run = await runner(claude(), limits=Limits(max_steps=1)).start("hi")
    assert (run.stop_reason, run.answer) == ("max_steps", "It is the pool.")
    first, last = (one.body for one in anthropic.requests)
    assert last["tools"] == first["tools"]
    assert last["tool_choice"] == {"type": "none"}
    assert "tool_choice" not in first


async def test_c58_an_overloaded_service_says_so_in_mid_stream(
    anthropic: AnthropicServer, claude: Claude, runner: Make
) -> None:
    anthropic.replies += [answers(says("I think "), error_event()), fails_anthropic(529), answers(says("ok"))]
    run = await runner(claude()).start("hi")
    assert (run.status, run.answer, len(anthropic.requests)) == ("finished", "ok", 3)

"""Ways in which a run could go wrong that were once found, and must not come back."""

import asyncio
import contextvars
import datetime
import subprocess
import sys
from functools import reduce
from typing import Annotated, Any, Literal

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessageChunk, SystemMessage
from pydantic import AfterValidator
from runs.crash import RUN, Crash
from runs.observed import told
from runs.shop import Shop

from adjourn.checkpoints import journal
from adjourn.checkpoints.errors import IllegalMove, InvalidAnswer, UsageError
from adjourn.checkpoints.lifecycle import CallState
from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel, approve, confirm_risky, edit, params_required, tool
from adjourn.nodes.scripted import Fails, call, says


async def test_c44_an_agreement_does_not_outlive_a_change_of_the_arguments(house):
    ran = []

    @tool(effect="write", confirm="Pay {amount} to {to}?")
    def pay(amount: int, to: str = "") -> dict:
        """Pay."""
        if not to:
            return params_required({"to": {"type": "string"}, "amount": {"type": "integer"}})
        ran.append((amount, to))
        return {"paid": amount}

    runner = house.runner([says("", call("pay", {"amount": 5}, id="p")), "ok"], tools=[pay])
    run = await runner.start("go")
    assert run.interrupts[0].reason == "Pay 5 to ?"
    run = await runner.resume(run.id, {run.interrupts[0].id: approve()}, by="boss")
    run = await runner.resume(run.id, {run.interrupts[0].id: {"to": "mallory", "amount": 10**6}}, by="intern")
    assert (run.interrupts[0].type, run.interrupts[0].reason) == ("confirm_risky", "Pay 1000000 to mallory?")
    assert ran == []


async def test_c19_an_edit_that_makes_a_write_of_a_read_is_a_write(house):
    shop = Shop()

    @tool(effect=lambda arguments: "read" if arguments["mode"] == "get" else "write", confirm=True)
    async def api(mode: Literal["get", "delete", "purge"]) -> str:
        """Call the API."""
        await shop.work("api", mode)
        return mode

    turn = says("", call("api", {"mode": "get"}, id="a"), call("api", {"mode": "get"}, id="b"))
    runner = house.runner([turn, "ok"], tools=[api])
    shop.delays = {"api": 0.05}
    run = await runner.start("go")
    assert [one.effect for one in run.calls] == ["read", "read"]
    answers = {
        one.id: edit({"mode": mode}) for one, mode in zip(run.interrupts, ("delete", "purge"), strict=True)
    }
    run = await runner.resume(run.id, answers)
    assert [one.effect for one in run.calls] == ["write", "write"]
    assert all(one.idempotency_key for one in run.calls)
    (first, second) = shop.ran
    assert first[3] <= second[2]  # they did not overlap


def test_c35_a_write_in_doubt_that_is_passed_over_is_unknown(tmp_path):
    one = Crash(tmp_path, "pay")
    one.hold("pay")
    one.kill_in(one.start("start", RUN), "pay")
    one.wait_for_lease()
    assert one.finish("recover", RUN)["status"] == "interrupted"
    shown = one.finish("message", RUN)
    assert shown["status"] == "finished"
    assert shown["calls"] == [["look", "ok"], ["pay", "unknown"]]
    assert one.did() == ["look a", "pay b"]


async def test_c37_a_payload_that_is_no_json_is_shown_as_text(house):
    @tool(effect="write")
    def act(context_free: int = 0) -> dict:
        """Act."""
        return confirm_risky("Sure?", {"newest": datetime.date(2026, 1, 2)})

    run = await house.runner([says("", call("act", {}, id="a")), "ok"], tools=[act]).start("go")
    assert run.interrupts[0].payload == {"newest": "2026-01-02"}


@pytest.mark.parametrize(
    "fields",
    [
        {"nothing_it_takes": {"type": "string"}},
        {"what": {"type": "nonsense"}},
        {"what": {"$ref": "#/$defs/Nope"}},
        {"what": {"$ref": "http://127.0.0.1:9/what.json"}},
    ],
)
async def test_c40_a_question_that_nobody_could_answer_is_a_failed_call(house, fields):
    @tool(effect="read")
    def act(what: str = "") -> dict:
        """Act."""
        return params_required(fields)

    run = await house.runner([says("", call("act", {}, id="a")), "ok"], tools=[act]).start("go")
    assert (run.status, run.calls[0].error_code) == ("finished", "tool_error")


def deep(levels, key=None):
    """A value in so many lists, or objects of this key."""
    return reduce(lambda inner, _: [inner] if key is None else {key: inner}, range(levels), 1)


@pytest.mark.parametrize("levels", [70, 250, 900, 20_000])
async def test_c8_c26_arguments_that_are_nested_too_deeply_concern_their_own_call(house, levels):
    ran = []

    @tool(effect="read")
    def look(what: Any) -> str:
        """Look."""
        ran.append(what)
        return "seen"

    raw = '{"what": ' + "[" * levels + "]" * levels + "}"
    turn = says("", call("look", raw, id="a"), call("look", {"what": 1}, id="b"))
    run = await house.runner([turn, "ok"], tools=[look]).start("go")
    assert (run.status, ran) == ("finished", [1])
    assert [one.error_code for one in run.calls] == ["invalid_arguments", None]
    assert "nested deeper than 64 levels" in told(house, "a")["message"]


@pytest.mark.parametrize("levels", [70, 400, 5000])
async def test_c37_a_payload_that_is_nested_too_deeply_is_a_failed_call(house, levels):
    @tool(effect="write")
    def act(what: str = "") -> dict:
        """Act."""
        return confirm_risky("Sure?", {"why": deep(levels)})

    run = await house.runner([says("", call("act", {}, id="a")), "ok"], tools=[act]).start("go")
    assert (run.status, run.calls[0].error_code) == ("finished", "tool_error")


class Hostile:
    """A value that cannot even be shown."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("reason", "payload"), [(Hostile(), {}), ("Sure?", {"why": Hostile()})], ids=["r", "p"]
)
async def test_c37_a_question_of_values_that_raise_is_a_failed_call(house, reason, payload):
    @tool(effect="write")
    def act(what: str = "") -> dict:
        """Act."""
        return confirm_risky(reason, payload)

    run = await house.runner([says("", call("act", {}, id="a")), "ok"], tools=[act]).start("go")
    assert (run.status, run.calls[0].error_code) == ("finished", "tool_error")


@pytest.mark.parametrize("key", [None, "!"])  # a tag of what is stored: it takes more room there
async def test_c45_an_answer_that_is_accepted_can_be_stored(house, key):
    @tool(effect="read", ask_for=("what",))
    def look(what: Any) -> str:
        """Look."""
        return "seen"

    @tool(effect="write", confirm=True)
    def act(what: Any) -> str:
        """Act."""
        return "done"

    turn = says("", call("look", {}, id="l"), call("act", {"what": 1}, id="a"))
    runner = house.runner([turn, "ok"], tools=[look, act])
    run = await runner.start("go")
    values, verdict = (one.id for one in run.interrupts)
    for levels in (64, 65, 200, 3000):
        for answers in ({values: {"what": deep(levels, key)}}, {verdict: edit({"what": deep(levels, key)})}):
            with pytest.raises(InvalidAnswer, match="deeper than 64 levels"):
                await runner.resume(run.id, answers)
    run = await runner.resume(
        run.id, {values: {"what": deep(63, key)}, verdict: edit({"what": deep(62, key)})}
    )
    assert (run.status, [one.outcome for one in run.calls]) == ("finished", ["ok", "ok"])


TABLE = {"a": "A"}


@pytest.mark.parametrize(("name", "arguments"), [("big", {"n": 10**30}), ("look_up", {"key": "zz"})])
async def test_c26_no_argument_can_fail_a_run(house, name, arguments):
    @tool(effect="read")
    def big(n: int) -> str:
        """Big."""
        return str(n)

    @tool(effect="read")
    def look_up(key: Annotated[str, AfterValidator(lambda value: TABLE[value])]) -> str:
        """Look up."""
        return key

    run = await house.runner([says("", call(name, arguments, id="c")), "ok"], tools=[big, look_up]).start(
        "go"
    )
    assert run.status == "finished", run.error


async def test_c38_a_sentence_that_does_not_fit_its_values_is_shown_as_it_is(house):
    @tool(effect="write", ask_for=("amount",), confirm="Pay {amount:,.2f}?")
    def pay(amount: float | None = None) -> str:
        """Pay."""
        return "ok"

    runner = house.runner([says("", call("pay", {}, id="p")), "ok"], tools=[pay])
    run = await runner.start("go")
    run = await runner.resume(run.id, {run.interrupts[0].id: {"amount": None}})
    assert run.interrupts[0].reason == "Pay {amount:,.2f}?"


async def test_c45_an_edit_with_a_number_of_any_size_is_an_answer(house):
    @tool(effect="write", confirm=True)
    def act(text: str) -> str:
        """Act."""
        return text

    runner = house.runner([says("", call("act", {"text": "x"}, id="a")), "ok"], tools=[act])
    run = await runner.start("go")
    with pytest.raises(InvalidAnswer):
        await runner.resume(run.id, {run.interrupts[0].id: edit({"text": 10**30})})


async def test_c24_nobody_is_asked_about_a_write_that_would_be_skipped(house):
    shop = Shop(fails={"publish_release": ValueError("no")})
    turn = says(
        "",
        call("publish_release", {"service_id": "s", "version": "1"}, id="p"),
        call("restart_service", {"service_id": "s", "environment": "prod"}, id="r"),
    )
    run = await house.runner([turn, "ok"], shop).start("go")
    assert (run.status, [one.error_code for one in run.calls]) == (
        "finished",
        ["tool_error", "skipped_after_failure"],
    )


@pytest.mark.in_process  # deltas
async def test_c66_attempts_count_on_over_a_retry_of_the_run(house, monkeypatch):
    monkeypatch.setattr("adjourn.nodes.model_errors.BACKOFF_S", 0.0)
    half = [AIMessageChunk("half ")]
    broken = house.runner(ScriptedModel(turns=[half, half, half]))
    run = await broken.start("go", on_event=house.hear)
    assert run.status == "failed"
    again = house.runner(ScriptedModel(turns=[half, "whole"]))
    run = await again.resume(run.id, on_event=house.hear)
    assert run.answer == "whole"
    spoken = [(one.word, one.attempt) for one in house.sent if one.word in ("text_delta", "text_discarded")]
    voided = {attempt for word, attempt in spoken if word == "text_discarded"}
    assert voided == {1, 2, 3, 4}
    assert spoken[-1] == ("text_delta", 5)
    house.check([run.id])


async def test_c60_a_message_on_a_run_that_failed_at_once_keeps_what_the_user_had_said(house):
    broken = house.runner(ScriptedModel(turns=["one", Fails(ValueError("no key"))]))
    await broken.start("first", thread_id="t")
    failed = await broken.start("my order is 4711", thread_id="t")
    assert failed.status == "failed"
    again = house.runner(ScriptedModel(turns=["fine"]))
    await again.start("and now?", thread_id="t")
    said = [one.text for one in house.models[-1].requests[-1] if one.type == "human"]
    assert said == ["first", "my order is 4711", "and now?"]


async def test_c63_a_listener_that_fails_does_the_run_no_harm_and_a_coroutine_is_refused(house):
    def broken(event):
        raise RuntimeError("no")

    async def never_awaited(event): ...

    run = await house.runner(["ok"]).start("go", on_event=broken)
    assert run.status == "finished"
    with pytest.raises(UsageError, match="plain function"):
        await house.runner(["ok"]).start("go", on_event=never_awaited)


@pytest.mark.in_process
async def test_a_listener_is_called_in_the_context_of_who_began_the_run(house):
    tenant = contextvars.ContextVar("tenant", default="nobody")
    tenant.set("acme")
    told = []
    turns = [says("", call("search_docs", {"query": "x"}, id="s")), "ok"]
    await house.runner(turns).start("go", on_event=lambda event: told.append((event.word, tenant.get())))
    assert {word for word, _ in told} >= {"run_started", "tool_call", "tool_result", "run_finished"}
    assert {whose for _, whose in told} == {"acme"}


async def test_c45_two_cancels_of_a_waiting_run_at_once_are_one(house):
    restart = {"service_id": "s", "environment": "prod"}
    runner = house.runner([says("", call("restart_service", restart, id="r"))])
    run = await runner.start("go")
    both = await asyncio.gather(runner.cancel(run.id), runner.cancel(run.id))
    assert [one.status for one in both] == ["cancelled", "cancelled"]


async def test_long_names_and_ids_do_no_harm(house):
    turn = says(
        "",
        call("search_docs", {"query": "x"}, id="i" * 600),
        call("n" * 600, {}, id="other"),
    )
    run = await house.runner([turn, "ok"]).start("go", on_event=house.hear)
    assert (run.status, [one.outcome for one in run.calls]) == ("finished", ["ok", "invalid"])
    assert all(len(one.call_id) <= 255 and len(one.tool) <= 255 for one in run.calls)
    assert told(house, "i" * 600)["ok"] is True
    house.check([run.id])


def test_a_call_moves_only_as_its_table_says(house):
    runner = house.runner(["ok"])
    run = runner.start_sync("go")
    with pytest.raises(IllegalMove, match="no row"):
        runner.database.write(lambda c: journal.update_call(c, run.id, 1, "nope", outcome=CallState.OK))


STREAM = """
import asyncio, sys
from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel, tool
from adjourn.nodes.scripted import call, says

@tool(effect="write")
async def slow() -> str:
    "Slow."
    print("in", flush=True)
    await asyncio.sleep(60)

async def main():
    async for event in runner.stream("go", run_id="run_c"):
        pass

runner = Runner(build_react(ScriptedModel(turns=[says("", call("slow", {}, id="s"))]), [slow]), sys.argv[1])
try:
    asyncio.run(main())
except KeyboardInterrupt:
    run = runner.get_sync("run_c")
    print(run.status, run.calls[0].outcome, run.row.lease_owner, flush=True)
    runner.close()
"""


def test_c62_ctrl_c_in_a_loop_over_a_stream_ends_the_run(url):
    import signal

    process = subprocess.Popen([sys.executable, "-c", STREAM, url], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "in\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert out == "cancelled unknown None\n"


async def test_a_system_prompt_with_marks_of_a_provider_is_sent_as_it_is(url):
    prompt = SystemMessage([{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])
    model = ScriptedModel(turns=["done"])
    with Runner(build_react(model, system_prompt=prompt), url) as runner:
        assert (await runner.start("go")).answer == "done"
    assert model.requests[0][0] == prompt


@pytest.mark.parametrize(
    ("model", "settings", "why"),
    [
        (
            ScriptedModel(turns=[]),
            {"system_prompt": 7},
            "a text, a SystemMessage or a function that gives one, not int",
        ),
        (
            GenericFakeChatModel(messages=iter([])),
            {"tools": Shop().tools()},
            "GenericFakeChatModel has no `bind_tools`",
        ),
    ],
)
def test_what_no_model_can_be_sent_is_refused_when_the_graph_is_built(model, settings, why):
    with pytest.raises(UsageError, match=why):
        build_react(model, **settings)

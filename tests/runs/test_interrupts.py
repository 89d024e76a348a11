"""Stop for a person, go on exactly there (C-37 to C-51, C-86)."""

import asyncio
import json
import re
from dataclasses import replace
from typing import Annotated, Literal

import pytest
from langchain_core.messages import ToolMessage
from pydantic import Field
from runs.shop import Shop

from adjourn.checkpoints.errors import (
    AlreadyAnswered,
    InterruptNotFound,
    InvalidAnswer,
    NotResumable,
    RunBusy,
    RunNotFound,
    ToolDefinitionError,
    UsageError,
    WrongGraph,
)
from adjourn.nodes import ToolContext, approve, confirm_risky, edit, params_required, reject, tool
from adjourn.nodes.scripted import Fails, call, says

RESTART = {"service_id": "svc-pay-001", "environment": "prod"}


def restart_turns(answer="done"):
    return [says("", call("restart_service", RESTART, id="r1")), answer]


def told(house, call_id, model=-1, request=-1):
    """The observation of a call, as a request showed it."""
    messages = house.models[model].requests[request]
    return json.loads(
        next(one.text for one in messages if isinstance(one, ToolMessage) and one.tool_call_id == call_id)
    )


async def test_c37_a_tool_asks_by_returning_an_interrupt(house):
    seen = []

    @tool(effect="write")
    def deploy(version: str, environment: str = "", context: ToolContext = None) -> dict:
        """Deploy."""
        if not environment:
            return params_required({"environment": {"enum": ["prod", "staging"]}}, "where to?")
        if environment == "prod" and not context.approved:
            return confirm_risky("Deploy to prod?")
        seen.append((version, environment, context.approved_by))
        return {"deployed": version}

    runner = house.runner([says("", call("deploy", {"version": "2"}, id="d")), "ok"], tools=[deploy])
    run = await runner.start("deploy")
    (where,) = run.interrupts
    assert (where.type, where.reason) == ("params_required", "where to?")
    with pytest.raises(InvalidAnswer, match="environment"):
        await runner.resume(run.id, {where.id: {"environment": "moon"}})
    run = await runner.resume(run.id, {where.id: {"environment": "prod"}})
    (sure,) = run.interrupts
    assert (sure.type, sure.arguments) == ("confirm_risky", {"version": "2", "environment": "prod"})
    run = await runner.resume(run.id, {sure.id: approve()}, by="li")
    assert (run.status, seen) == ("finished", [("2", "prod", "li")])


async def test_c37_a_question_of_an_unknown_type_is_a_failed_call(house):
    @tool(effect="read")
    def odd() -> dict:
        """Odd."""
        return {"interrupt": True, "interruptType": "guess"}

    run = await house.runner([says("", call("odd", {}, id="o")), "ok"], tools=[odd]).start("go")
    assert (run.status, run.calls[0].error_code) == ("finished", "tool_error")


async def test_c38_parameters_first_then_agreement_on_the_complete_arguments(house):
    ran = []

    @tool(effect="write", ask_for=("environment",), confirm="Restart {service} in {environment}?")
    def restart(service: str, environment: Literal["prod", "staging"]) -> str:
        """Restart."""
        ran.append((service, environment))
        return "ok"

    runner = house.runner([says("", call("restart", {"service": "pay"}, id="r")), "ok"], tools=[restart])
    run = await runner.start("go")
    assert run.interrupts[0].type == "params_required"
    run = await runner.resume(run.id, {run.interrupts[0].id: {"environment": "staging"}})
    assert (run.interrupts[0].type, run.interrupts[0].reason) == ("confirm_risky", "Restart pay in staging?")
    run = await runner.resume(run.id, {run.interrupts[0].id: approve()})
    assert (run.status, ran) == ("finished", [("pay", "staging")])


async def test_c38_risk_by_a_function_of_the_arguments(house):
    @tool(effect="write", confirm=lambda given: given["amount"] > 100 and f"Pay {given['amount']}?")
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    runner = house.runner(
        [says("", call("pay", {"amount": 5}, id="a"), call("pay", {"amount": 500}, id="b")), "ok"],
        tools=[pay],
    )
    run = await runner.start("pay")
    assert [one.outcome for one in run.calls] == ["ok", "waiting"]
    assert run.interrupts[0].reason == "Pay 500?"


@pytest.mark.parametrize("confirm", [lambda given: f"Delete {given['path']}?", "Delete {path}?"])
@pytest.mark.parametrize(
    "path", ["{note}", "{path:>300000000}", "{note.__class__}", "{", "{}", "%s {0!r}", "a{{b}}"]
)
async def test_c38_what_a_model_says_is_shown_as_it_is_and_never_filled_in(house, confirm, path):
    """What the approver reads is what the tool gets."""

    @tool(effect="write", confirm=confirm)
    def delete(path: str, note: str = "/tmp/cache") -> str:
        """Delete."""
        return "deleted"

    run = await house.runner([says("", call("delete", {"path": path}, id="d")), "ok"], tools=[delete]).start(
        "go"
    )
    assert run.interrupts[0].reason == f"Delete {path}?"


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("Pay {amount:,.2f} to {to!r}? {{sure}} {note}", "Pay 1,234.50 to 'li'? {sure} none"),
        ("Pay {to.__class__}?", "Pay {to.__class__}?"),
        ("Pay {to[0]}?", "Pay {to[0]}?"),
        ("Pay {amount:{to}}?", "Pay {amount:{to}}?"),
        ("Pay {whom}?", "Pay {whom}?"),
        ("Pay {}?", "Pay {}?"),
        ("Pay {to?", "Pay {to?"),
    ],
)
def test_c38_a_declared_sentence_takes_names_of_parameters_alone(sentence, shown):
    @tool(effect="write")
    def pay(amount: float, to: str, note: str = "none") -> str:
        """Pay."""
        return "paid"

    made = replace(pay, confirm=sentence)  # not through `@tool`
    assert made.question_of({"amount": 1234.5, "to": "li"}) == shown


@pytest.mark.parametrize("name", ["to[0]", "to.name", "amount:{to}", "whom"])
def test_c38_a_sentence_that_would_be_shown_with_its_braces_is_refused_when_it_is_declared(name):
    with pytest.raises(ToolDefinitionError, match=f"confirm names {re.escape(name)}, which it does not take"):

        @tool(effect="write", confirm=f"Pay {{{name}}}?")
        def pay(amount: float, to: str) -> str:
            """Pay."""
            return "paid"


BY_LANGUAGE = {"en": "Pay {amount} to {to}?", "zh": "付 {amount} 给 {to} 吗？"}


@pytest.mark.parametrize(("said", "asks"), [("pay li", "Pay 5 to li?"), ("给 li 付款", "付 5 给 li 吗？")])
async def test_c38_a_sentence_is_in_the_language_of_the_run(house, said, asks):
    @tool(effect="write", confirm=BY_LANGUAGE)
    def pay(amount: int, to: str) -> str:
        """Pay."""
        return "paid"

    runner = house.runner([says("", call("pay", {"amount": 5, "to": "li"}))], tools=[pay])
    assert (await runner.start(said)).interrupts[0].reason == asks
    assert pay.question_of({"amount": 5, "to": "li"}, "fr") == "Pay 5 to li?"


@pytest.mark.parametrize(
    "odd", [{}, {"en": ""}, {"en": 1}, {"en": "Pay {whom}?"}, {"en": "Pay?", "zh": "付 {谁} 吗？"}]
)
def test_c38_sentences_that_cannot_be_asked_are_refused_when_the_tool_is_defined(odd):
    with pytest.raises(ToolDefinitionError, match="confirm"):

        @tool(confirm=odd)
        def pay(amount: int) -> str:
            """Pay."""
            return "paid"


async def test_c38_the_verdict_is_stored_and_not_computed_again_at_resume(house):
    """Neither the function that found the risk nor its sentence is asked again, also where it says otherwise now."""
    asked, ran = [], []

    def payer(verdict):
        def risk(arguments):
            asked.append(dict(arguments))
            return verdict

        @tool(effect="write", confirm=risk)
        def pay(amount: int) -> str:
            """Pay."""
            ran.append(amount)
            return "paid"

        return pay

    turns = [says("", call("pay", {"amount": 500}, id="p")), "ok"]
    first = house.runner(turns, tools=[payer("Pay 500?")])
    run = await first.start("pay")
    assert run.interrupts[0].reason == "Pay 500?"
    asked.clear()
    later = house.runner(turns, tools=[payer("Pay it all?")])  # the app was changed meanwhile
    assert (await later.get(run.id)).interrupts[0].reason == "Pay 500?"
    run = await later.resume(run.id, {run.interrupts[0].id: approve()}, by="li")
    assert (run.status, ran, asked, len(run.questions)) == ("finished", [500], [], 1)


async def test_c38_what_was_not_asked_about_stays_so_after_a_resume(house):
    """A sibling's answer computes no new verdict on a call that has run, or on one that was asked about before."""
    asked = []

    def risk(arguments):
        asked.append(arguments["amount"])
        return arguments["amount"] > 100

    @tool(effect="write", confirm=risk)
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    turn = says("", *(call("pay", {"amount": n}, id=f"p{n}") for n in (5, 500, 600)))
    runner = house.runner([turn, "ok"], tools=[pay])
    run = await runner.start("pay")
    assert [one.outcome for one in run.calls] == ["ok", "waiting", "waiting"]
    asked.clear()
    run = await runner.resume(run.id, {one.id: approve() for one in run.interrupts})
    assert (run.status, asked) == ("finished", [])


@pytest.mark.parametrize(
    "message",
    [
        "please ask me to confirm, params_required, 日志",
        "do not ask anything, I agree to all of it, 不用确认",
        "重启，先问我",
    ],
)
async def test_c39_whether_to_ask_is_decided_by_tools_never_by_words_of_the_message(house, message):
    run = await house.runner(["Just text."]).start(message)
    assert (run.status, run.questions) == ("finished", [])
    calls = (call("search_docs", {"query": message}, id="s"), call("restart_service", RESTART, id="r"))
    run = await house.runner([says("", *calls), "ok"]).start(message)
    assert [(one.tool, one.type) for one in run.interrupts] == [("restart_service", "confirm_risky")]
    assert [one.outcome for one in run.calls] == ["ok", "waiting"]


async def test_c40_all_open_questions_are_shown_together_with_stable_ids(house):
    turn = says("", call("query_logs", {}, id="q"), call("restart_service", RESTART, id="r"))
    runner = house.runner([turn, "ok"])
    run = await runner.start("go", on_event=house.hear)
    assert [(one.call_id, one.type, one.tool) for one in run.interrupts] == [
        ("q", "params_required", "query_logs"),
        ("r", "confirm_risky", "restart_service"),
    ]
    assert [one.id for one in (await runner.get(run.id)).interrupts] == [one.id for one in run.interrupts]
    shown = house.sent[-1]
    assert [one["id"] for one in shown.interrupts] == [one.id for one in run.interrupts]
    assert all(one["response_schema"] for one in shown.interrupts)


async def test_c40_a_form_asks_only_what_is_missing_and_keeps_titles_and_defaults(house):
    @tool(effect="read", ask_for=("environment", "minutes"))
    def logs(
        environment: Annotated[Literal["生产", "测试"], Field(title="环境", description="看哪个环境")],
        service: str = "pay",
        minutes: Annotated[int, Field(ge=1)] = 30,
    ) -> str:
        """Logs."""
        return f"{environment} {service} {minutes}"

    runner = house.runner([says("", call("logs", {"service": "x"}, id="q")), "ok"], tools=[logs])
    run = await runner.start("go")
    schema = run.interrupts[0].response_schema
    assert schema["properties"]["environment"]["title"] == "环境"
    assert schema["properties"]["environment"]["enum"] == ["生产", "测试"]
    assert schema["properties"]["minutes"]["default"] == 30
    assert schema["required"] == ["environment"]
    with pytest.raises(InvalidAnswer, match="minutes"):
        await runner.resume(run.id, {run.interrupts[0].id: {"environment": "生产", "minutes": 0}})
    await runner.resume(run.id, {run.interrupts[0].id: {"environment": "生产"}})
    assert told(house, "q")["data"] == "生产 x 30"


async def test_c41_while_waiting_the_history_is_legal(house):
    turn = says("", call("query_logs", {}, id="q"), call("search_docs", {"query": "x"}, id="s"))
    runner = house.runner([turn, "ok"])
    run = await runner.start("go", on_event=house.hear)
    state = await runner.graph.aget_state({"configurable": {"thread_id": run.thread_id}})
    answers = [one for one in state.values["messages"] if isinstance(one, ToolMessage)]
    assert [one.tool_call_id for one in answers] == ["q", "s"]
    assert json.loads(answers[0].text)["errorCode"] == "awaiting_user"
    assert [one.call_id for one in house.sent if one.word == "tool_result"] == ["s"]
    done = await runner.resume(
        run.id, {run.interrupts[0].id: {"environment": "prod", "service_id": "svc-pay-001"}}
    )
    state = await runner.graph.aget_state({"configurable": {"thread_id": done.thread_id}})
    after = [one for one in state.values["messages"] if isinstance(one, ToolMessage)]
    assert [one.id for one in after] == [one.id for one in answers]
    assert json.loads(after[0].text)["ok"] is True


async def test_c42_a_waiting_run_holds_nothing(house, rows):
    run = await house.runner(restart_turns()).start("go")
    (row,) = rows(f"SELECT status, lease_owner, lease_until, error FROM runs WHERE id = '{run.id}'")
    assert row == {"status": "interrupted", "lease_owner": None, "lease_until": None, "error": None}


async def test_c44_approve(house):
    shop = Shop()
    runner = house.runner(restart_turns(), shop)
    run = await runner.start("go")
    assert shop.count("restart_service") == 0
    run = await runner.resume(run.id, {run.interrupts[0].id: approve()}, by="li")
    assert (run.status, shop.count("restart_service")) == ("finished", 1)
    assert run.questions[0].answered_by == "li"


async def test_c44_edit_runs_other_arguments_and_says_so(house):
    shop = Shop()
    runner = house.runner(restart_turns(), shop)
    run = await runner.start("go")
    question = run.interrupts[0].id
    with pytest.raises(InvalidAnswer, match="environment"):
        await runner.resume(run.id, {question: edit({"service_id": "x", "environment": "moon"})})
    with pytest.raises(InvalidAnswer, match="service_id"):
        await runner.resume(run.id, {question: edit({"environment": "staging"})})
    run = await runner.resume(run.id, {question: edit({"service_id": "x", "environment": "staging"})})
    assert [one[:2] for one in shop.ran] == [("restart_service", "staging/x")]
    assert told(house, "r1")["ran"] == {"service_id": "x", "environment": "staging"}
    assert "svc-pay-001" in told(house, "r1")["note"]
    assert run.calls[0].arguments == {"service_id": "x", "environment": "staging"}


async def test_c44_c49_reject_never_runs_and_the_model_is_told_why(house):
    shop = Shop()
    runner = house.runner(restart_turns("understood"), shop)
    run = await runner.start("go", on_event=house.hear)
    run = await runner.resume(run.id, {run.interrupts[0].id: reject("not now")}, by="li", on_event=house.hear)
    assert (run.status, run.answer, shop.count("restart_service")) == ("finished", "understood", 0)
    assert (run.calls[0].outcome, run.calls[0].error_code) == ("declined", "user_declined")
    assert "not now" in told(house, "r1")["message"]
    assert [one.outcome for one in house.sent if one.word == "tool_result"] == ["declined"]
    house.check([run.id])


async def test_c49_a_rejected_call_never_runs_whatever_comes_after(house):
    """Not when the model fails behind it, nor when the run is tried again, dismissed or told to recover."""
    shop = Shop()
    broken = house.runner([says("", call("restart_service", RESTART, id="r")), Fails(ValueError("no"))], shop)
    run = await broken.start("go", thread_id="t")
    question = run.interrupts[0].id
    run = await broken.resume(run.id, {question: reject("no")}, by="li")
    assert run.status == "failed"
    with pytest.raises(NotResumable):
        await broken.recover(run.id)
    with pytest.raises(AlreadyAnswered, match="by li"):
        await broken.resume(run.id, {question: approve()}, by="wang")
    well = house.runner([says("", call("restart_service", RESTART, id="r")), "ok", "and on"], shop)
    run = await well.resume(run.id)
    assert (run.status, [one.outcome for one in run.calls]) == ("finished", ["declined"])
    await well.start("and now?", thread_id="t")
    assert shop.ran == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("yes", "object"),
        ({}, "approve"),
        ({"action": "maybe"}, "maybe"),
        ({"action": "approve", "extra": 1}, "extra"),
        ({"action": "edit"}, "arguments"),
        ({"action": "reject", "reason": 7}, "reason"),
        (None, "object"),
    ],
)
async def test_c45_a_wrong_answer_changes_nothing(house, rows, answer, why):
    runner = house.runner(restart_turns())
    run = await runner.start("go")
    before = rows("SELECT * FROM interrupts"), rows("SELECT * FROM events"), rows("SELECT * FROM audit")
    with pytest.raises(InvalidAnswer, match=why):
        await runner.resume(run.id, {run.interrupts[0].id: answer})
    assert before == (
        rows("SELECT * FROM interrupts"),
        rows("SELECT * FROM events"),
        rows("SELECT * FROM audit"),
    )
    assert (await runner.resume(run.id, {run.interrupts[0].id: approve()})).status == "finished"


@pytest.mark.parametrize("wrap", [lambda one: [one], lambda one: one, lambda one: [(one, approve())]])
async def test_c45_answers_that_are_no_mapping_are_refused(house, wrap):
    runner = house.runner(restart_turns())
    run = await runner.start("go")
    with pytest.raises(UsageError, match="answers are a mapping of question ids"):
        await runner.resume(run.id, wrap(run.interrupts[0].id))
    assert (await runner.get(run.id)).interrupts[0].id == run.interrupts[0].id


NO_NAMES = ["\ud800", "a\0b", "n" * 256, 5, b"li"]


@pytest.mark.parametrize("name", NO_NAMES, ids=ascii)
async def test_what_no_database_takes_as_a_name_is_refused_and_changes_nothing(house, rows, name):
    runner = house.runner(restart_turns())
    run = await runner.start("go", thread_id="n" * 255, by="\u674e")
    before = [rows(f"SELECT * FROM {table}") for table in ("runs", "interrupts", "events", "audit")]
    answers = {run.interrupts[0].id: approve()}
    for tried in (
        runner.start("go", by=name),
        runner.start("go", thread_id=name),
        runner.start("go", run_id=name),
        runner.resume(run.id, answers, by=name),
        runner.cancel(run.id, by=name),
        runner.recover(run.id, by=name),
        runner.fork(run.id, by=name),
        runner.fork(run.id, thread_id=name),
        runner.run_from_history([{"role": "user", "content": "go"}], by=name),
    ):
        with pytest.raises(UsageError):
            await tried
    assert [rows(f"SELECT * FROM {table}") for table in ("runs", "interrupts", "events", "audit")] == before


async def test_c45_one_wrong_answer_of_two_stores_neither(house):
    runner = house.runner(
        [says("", call("query_logs", {}, id="q"), call("restart_service", RESTART, id="r")), "ok"]
    )
    run = await runner.start("go")
    logs, restart = run.interrupts
    with pytest.raises(InvalidAnswer):
        await runner.resume(run.id, {restart.id: approve(), logs.id: {"environment": "moon"}})
    assert len((await runner.get(run.id)).interrupts) == 2


async def test_c46_answers_one_by_one_by_different_people(house, rows):
    shop = Shop()
    turn = says("", call("query_logs", {}, id="q"), call("restart_service", RESTART, id="r"))
    first, second = house.runner([turn, "ok"], shop), house.runner([turn, "ok"], shop)
    run = await first.start("go")
    logs, restart = run.interrupts
    run = await second.resume(run.id, {restart.id: approve()}, by="li")
    assert (run.status, [one.id for one in run.interrupts], shop.ran) == ("interrupted", [logs.id], [])
    run = await first.resume(
        run.id, {logs.id: {"environment": "prod", "service_id": "svc-pay-001"}}, by="wang"
    )
    assert run.status == "finished"
    answered = rows("SELECT interrupt_id, by FROM audit WHERE action = 'answered' ORDER BY id")
    assert answered == [{"interrupt_id": restart.id, "by": "li"}, {"interrupt_id": logs.id, "by": "wang"}]
    assert [one[0] for one in shop.ran] == ["query_logs", "restart_service"]


async def test_c46_answers_to_different_questions_at_the_same_moment_are_all_kept(house, rows):
    turn = says("", call("query_logs", {}, id="q"), call("restart_service", RESTART, id="r"))
    for number in range(4):
        shop = Shop()
        runners = [house.runner([turn, "ok"], shop) for _ in range(2)]
        run = await runners[0].start("go", thread_id=f"t{number}")
        logs, restart = run.interrupts
        await asyncio.gather(
            runners[0].resume(
                run.id, {logs.id: {"environment": "prod", "service_id": "svc-pay-001"}}, by="wang"
            ),
            runners[1].resume(run.id, {restart.id: approve()}, by="li"),
        )
        after = await runners[0].get(run.id)
        assert after.status == "finished"
        assert {one.tool: one.answered_by for one in after.questions} == {
            "query_logs": "wang",
            "restart_service": "li",
        }
        assert all(one.closed_at for one in after.questions)
        assert sorted(one[0] for one in shop.ran) == ["query_logs", "restart_service"]


async def test_c47_of_two_answers_at_once_one_wins(house):
    shop = Shop({"restart_service": 0.05})
    runners = [house.runner(restart_turns(), shop) for _ in range(4)]
    run = await runners[0].start("go")
    answers = {run.interrupts[0].id: approve()}
    ended = await asyncio.gather(
        *(one.resume(run.id, answers, by=str(n)) for n, one in enumerate(runners)), return_exceptions=True
    )
    won = [one for one in ended if not isinstance(one, BaseException)]
    assert len(won) == 1
    assert all(isinstance(one, AlreadyAnswered | RunBusy) for one in ended if one not in won)
    assert shop.count("restart_service") == 1


async def test_c48_finished_calls_are_not_run_again(house):
    shop = Shop()
    turn = says("", call("search_docs", {"query": "x"}, id="s"), call("restart_service", RESTART, id="r"))
    runner = house.runner([turn, "ok"], shop)
    run = await runner.start("go")
    await runner.resume(run.id, {run.interrupts[0].id: approve()})
    assert [one[0] for one in shop.ran] == ["search_docs", "restart_service"]


async def test_c50_the_thread_of_a_dismissed_run_stays_legal_over_several_turns(house):
    runner = house.runner([*restart_turns(), "third"])
    run = await runner.start("go", thread_id="t")
    second = await runner.start("never mind", thread_id="t", on_event=house.hear)
    assert (second.status, second.answer) == ("finished", "done")
    third = await runner.start("and now?", thread_id="t")
    assert third.answer == "third"
    assert told(house, "r1", request=-1)["errorCode"] == "user_dismissed"
    with pytest.raises((NotResumable, AlreadyAnswered)):
        await runner.resume(run.id, {run.interrupts[0].id: approve()})


async def test_c86_a_message_to_a_working_thread_is_refused(house):
    shop = Shop({"search_docs": 0.3})
    runner = house.runner([says("", call("search_docs", {"query": "x"}, id="s")), "ok"], shop)
    started = asyncio.Event()
    working = asyncio.create_task(runner.start("go", thread_id="t", on_event=lambda _: started.set()))
    await started.wait()
    with pytest.raises(RunBusy):
        await runner.start("and?", thread_id="t")
    assert (await working).status == "finished"


async def test_errors_name_what_to_do(house):
    runner = house.runner(restart_turns())
    with pytest.raises(RunNotFound, match="adjourn runs"):
        await runner.resume("run_nope", {"int_x": approve()})
    with pytest.raises(UsageError, match="empty"):
        await runner.start("  ")
    run = await runner.start("go")
    with pytest.raises(InterruptNotFound, match=run.interrupts[0].id):
        await runner.resume(run.id, {"int_nope": approve()})
    with pytest.raises(UsageError, match=run.interrupts[0].id):
        await runner.resume(run.id)
    with pytest.raises(WrongGraph, match="other"):
        await house.runner(restart_turns(), name="other").resume(run.id, {run.interrupts[0].id: approve()})
    run = await runner.resume(run.id, {run.interrupts[0].id: approve()})
    with pytest.raises(NotResumable, match="finished"):
        await runner.resume(run.id)
    with pytest.raises(UsageError, match=run.id):
        await runner.start("something else", run_id=run.id)


def test_c43_sync_twins_in_a_script_and_in_a_running_loop(house):
    runner = house.runner(restart_turns())
    run = runner.start_sync("go")
    again = runner.resume_sync(run.id, {run.interrupts[0].id: approve()})
    assert again.status == "finished"
    assert [row.id for row in runner.list_sync()] == [run.id]

    async def cell():
        return runner.get_sync(run.id)

    assert asyncio.run(cell()).status == "finished"


async def test_stream_resume_gives_only_what_is_new(house):
    runner = house.runner(restart_turns())
    run = await runner.start("go")
    answers = {run.interrupts[0].id: approve()}
    words = [event.word async for event in runner.stream_resume(run.id, answers) if event.stored]
    assert words == ["interrupt_answered", "tool_result", "step_started", "message", "run_finished"]


async def test_c41_c63_a_no_behind_calls_that_still_run_is_told_once(house):
    """Two questions of a step are answered; the call between that was declined is settled a batch before the rest."""

    @tool(effect="read")
    def look(what: str = "") -> dict | str:
        """Look."""
        return "seen" if what else params_required({"what": {"type": "string"}}, "What?")

    @tool(effect="write", confirm=True)
    def send() -> str:
        """Send."""
        return "sent"

    @tool(effect="write")
    def pay() -> str:
        """Pay."""
        return "paid"

    turn = says("", call("look", {}, id="l"), call("send", {}, id="s"), call("pay", {}, id="p"))
    runner = house.runner([turn, "ok"], tools=[look, send, pay])
    run = await runner.start("go", on_event=house.hear)
    asked = {one.tool: one.id for one in run.interrupts}
    answers = {asked["look"]: {"what": "this"}, asked["send"]: reject("no")}
    run = await runner.resume(run.id, answers, on_event=house.hear)
    assert (run.status, [one.outcome for one in run.calls]) == ("finished", ["ok", "declined", "ok"])
    house.check([run.id])


async def test_c24_c40_a_call_that_was_passed_over_is_not_asked_about(house):
    """A write fails, so the later write is skipped before anybody was asked for it; the question of a read stands."""

    @tool(effect="read")
    def look(what: str = "") -> dict | str:
        """Look."""
        return "seen" if what else params_required({"what": {"type": "string"}}, "What?")

    @tool(effect="write")
    def put() -> str:
        """Put."""
        raise RuntimeError("no")

    @tool(effect="write", confirm=True)
    def send() -> str:
        """Send."""
        return "sent"

    turn = says("", call("look", {}, id="l"), call("put", {}, id="p"), call("send", {}, id="s"))
    runner = house.runner([turn, "ok"], tools=[look, put, send])
    run = await runner.start("go", on_event=house.hear)
    (question,) = run.interrupts
    run = await runner.resume(run.id, {question.id: {"what": "this"}}, on_event=house.hear)
    assert (run.status, [one.outcome for one in run.calls]) == ("finished", ["ok", "failed", "skipped"])
    house.check([run.id])

"""Questions whose time passes: found by whoever looks, answered by nobody, and the run goes on (C-40, C-49)."""

import asyncio
import json
import pickle
from datetime import UTC, datetime, timedelta

import pytest
from langchain_core.messages import ToolMessage
from runs.shop import Shop
from sqlalchemy import update

from adjourn.checkpoints import leases
from adjourn.checkpoints.database import format_time
from adjourn.checkpoints.errors import AlreadyAnswered, Expired, ToolDefinitionError, UsageError
from adjourn.checkpoints.lifecycle import RunEvent
from adjourn.checkpoints.run_schema import interrupts
from adjourn.graph import Runner, Specialist, build_supervisor
from adjourn.nodes import ScriptedModel, approve, confirm_risky, params_required, reject, tool
from adjourn.nodes.scripted import call, says

HOUR_S = 3600


def asker(ran, **settings):
    """A write that needs agreement and notes what it did."""

    @tool(effect="write", confirm="Drop {table}?", **settings)
    def drop(table: str) -> str:
        """Drop a table."""
        ran.append(table)
        return "dropped"

    return drop


def turns(*calls):
    return [says("", *calls), "done"]


DROP = call("drop", {"table": "orders"}, id="d")


def pass_time(runner, *ids):
    """Let the time of these questions (of none given: of all) have passed a second ago."""
    past = format_time(datetime.now(UTC) - timedelta(seconds=1))
    changed = update(interrupts).where(interrupts.c.expires_at.is_not(None)).values(expires_at=past)
    if ids:
        changed = changed.where(interrupts.c.id.in_(ids))
    runner.database.write(lambda connection: connection.execute(changed))


def observation(runner_house, call_id):
    messages = runner_house.models[-1].requests[-1]
    return json.loads(
        next(one.text for one in messages if isinstance(one, ToolMessage) and one.tool_call_id == call_id)
    )


async def test_c40_a_question_has_the_expiry_that_its_tool_declares_and_none_by_default(house, rows):
    ran = []
    once, never = asker(ran, expires_in_s=HOUR_S), asker(ran, name="drop_never")
    asks = turns(DROP, call("drop_never", {"table": "t"}, id="n"))
    run = await house.runner(asks, tools=[once, never]).start("go", on_event=house.hear)
    timed, free = run.interrupts
    left = datetime.fromisoformat(timed.expires_at) - datetime.fromisoformat(timed.created_at)
    assert (left, free.expires_at) == (timedelta(seconds=HOUR_S), None)
    assert [one["expires_at"] for one in house.sent[-1].interrupts] == [timed.expires_at, None]
    assert [one["expires_at"] for one in run.to_dict()["interrupts"]] == [timed.expires_at, None]
    assert [one["expires_at"] for one in rows("SELECT expires_at FROM v_waiting")] == [timed.expires_at, None]


async def test_c40_a_tool_that_returns_its_question_says_how_long(house):
    @tool(effect="write", expires_in_s=10 * HOUR_S)
    def deploy(version: str, environment: str = "") -> dict:
        """Deploy."""
        if not environment:
            return params_required({"environment": {"type": "string"}}, "where?", expires_in_s=HOUR_S)
        return confirm_risky(f"Deploy {version}?")

    runner = house.runner(turns(call("deploy", {"version": "2"}, id="d")), tools=[deploy])
    run = await runner.start("go")
    (where,) = run.interrupts
    hours = [datetime.fromisoformat(where.expires_at) - datetime.fromisoformat(where.created_at)]
    run = await runner.resume(run.id, {where.id: {"environment": "prod"}})
    (sure,) = run.interrupts
    hours.append(datetime.fromisoformat(sure.expires_at) - datetime.fromisoformat(sure.created_at))
    assert hours == [timedelta(hours=1), timedelta(hours=10)]


@pytest.mark.parametrize("seconds", [0, -1, "soon", True])
async def test_a_returned_question_with_a_wrong_expiry_is_a_failed_call(house, seconds):
    @tool(effect="read")
    def odd() -> dict:
        """Odd."""
        return confirm_risky("sure?", expires_in_s=seconds)

    run = await house.runner(turns(call("odd", {}, id="o")), tools=[odd]).start("go")
    assert (run.status, run.calls[0].error_code) == ("finished", "tool_error")


def test_a_tool_with_a_wrong_expiry_is_refused():
    with pytest.raises(ToolDefinitionError, match="expires_in_s is above 0"):
        asker([], expires_in_s=0)


@pytest.mark.parametrize("door", ["resume", "recover", "expire"])
async def test_c49_an_expired_call_never_runs_and_the_run_goes_on(house, rows, door):
    ran = []
    runner = house.runner(turns(DROP), tools=[asker(ran, expires_in_s=HOUR_S)])
    run = await runner.start("go", on_event=house.hear)
    pass_time(runner)
    if door == "expire":
        assert await runner.expire() == [run.id]
        assert (await runner.get(run.id)).status == "interrupted"  # a look drives nothing
        assert await runner.expire() == [run.id]
        run = await runner.recover(run.id, by="night shift")
    else:
        run = await getattr(runner, door)(run.id, by="night shift", on_event=house.hear)
    assert (run.status, run.stop_reason, ran) == ("finished", "answered", [])
    assert (run.calls[0].outcome, run.calls[0].error_code, run.calls[0].attempts) == ("expired", "expired", 0)
    assert observation(house, "d")["errorCode"] == "expired"
    assert (run.questions[0].state, run.questions[0].answered_by, run.questions[0].answer) == (
        "expired",
        None,
        None,
    )
    acts = rows("SELECT action, by FROM audit ORDER BY id")
    assert [tuple(one.values()) for one in acts] == [
        ("started", None),
        ("expired", None),
        ("resumed", "night shift"),
    ]
    told = [(one.state, one.by) for one in await runner.events(run.id) if one.word == "interrupt_answered"]
    assert told == [("expired", None)]
    assert [one.outcome for one in await runner.events(run.id) if one.word == "tool_result"] == ["expired"]
    if door != "expire":
        house.check([run.id])


@pytest.mark.parametrize("look", ["get", "get_sync", "list"])
async def test_c49_who_looks_finds_what_is_overdue_and_drives_nothing(house, rows, look):
    ran = []
    runner = house.runner(turns(DROP), tools=[asker(ran, expires_in_s=HOUR_S)])
    run = await runner.start("go")
    pass_time(runner)
    other = house.runner(turns(DROP), tools=[asker(ran, expires_in_s=HOUR_S)])
    if look == "list":
        assert [one.status for one in await other.list()] == ["interrupted"]
    elif look == "get":
        assert (await other.get(run.id)).interrupts == ()
    else:
        assert other.get_sync(run.id).interrupts == ()
    assert rows("SELECT state, answered_by FROM interrupts") == [{"state": "expired", "answered_by": None}]
    assert rows("SELECT id FROM v_waiting") == []
    assert len(rows("SELECT number FROM events WHERE type = 'interrupt_answered'")) == 1
    assert (await other.get(run.id)).status == "interrupted"
    assert (await other.recover(run.id)).status == "finished"
    assert ran == []


async def test_c49_an_answer_after_the_expiry_says_so_and_changes_nothing(house, rows):
    ran = []
    runner = house.runner(turns(DROP), tools=[asker(ran, expires_in_s=HOUR_S)])
    run = await runner.start("go")
    question = run.interrupts[0].id
    pass_time(runner)
    for _ in range(2):  # who finds it first, and who comes after
        with pytest.raises(Expired, match="recover") as caught:
            await runner.resume(run.id, {question: approve()}, by="li")
    assert isinstance(caught.value, AlreadyAnswered)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.interrupt_id, copy.run_id, copy.state) == (question, run.id, "expired")
    assert (await runner.get(run.id)).status == "interrupted"
    assert rows("SELECT action FROM audit ORDER BY id") == [{"action": "started"}, {"action": "expired"}]
    assert (await runner.recover(run.id)).status == "finished"
    assert ran == []


async def test_c46_c49_answers_and_expiries_together_complete_the_set(house):
    ran = []
    calls = [DROP, call("drop_never", {"table": "t"}, id="n")]
    tools = [asker(ran, expires_in_s=HOUR_S), asker(ran, name="drop_never")]
    runner = house.runner(turns(*calls), tools=tools)
    run = await runner.start("go")
    timed, free = run.interrupts
    pass_time(runner, timed.id)
    with pytest.raises(UsageError, match=free.id):
        await runner.resume(run.id)
    assert (await runner.expire()) == []  # one question is still open
    run = await runner.resume(run.id, {free.id: approve()}, by="li")
    assert (run.status, ran) == ("finished", ["t"])
    assert [one.outcome for one in run.calls] == ["expired", "ok"]


async def test_c49_an_answer_given_in_time_holds_when_another_question_expires(house):
    ran = []
    tools = [asker(ran, expires_in_s=HOUR_S), asker(ran, name="drop_never")]
    runner = house.runner(turns(DROP, call("drop_never", {"table": "t"}, id="n")), tools=tools)
    run = await runner.start("go")
    timed, free = run.interrupts
    assert (await runner.resume(run.id, {free.id: approve()}, by="li")).status == "interrupted"
    pass_time(runner, timed.id)
    assert await runner.expire() == [run.id]
    run = await runner.recover(run.id)
    assert (run.status, ran, [one.outcome for one in run.calls]) == ("finished", ["t"], ["expired", "ok"])


async def test_c49_of_an_answer_and_an_expiry_at_once_one_wins(house):
    ran, won = [], []
    for number in range(6):
        runner = house.runner(turns(DROP), tools=[asker(ran, expires_in_s=HOUR_S)])
        run = await runner.start("go", thread_id=f"t{number}")
        soon = format_time(datetime.now(UTC) + timedelta(milliseconds=4 * number))
        change = update(interrupts).where(interrupts.c.run_id == run.id).values(expires_at=soon)
        runner.database.write(lambda connection, change=change: connection.execute(change))
        answers = {run.interrupts[0].id: approve()}
        others = [house.runner(turns(DROP), tools=[asker(ran, expires_in_s=HOUR_S)]) for _ in range(2)]
        await asyncio.gather(
            others[0].resume(run.id, answers, by="li"),
            *(others[1].get(run.id) for _ in range(4)),
            return_exceptions=True,
        )
        pass_time(runner)
        (question,) = (await runner.get(run.id)).questions
        won.append(question.state)
        if question.state == "expired":
            assert (await runner.recover(run.id)).calls[0].outcome == "expired"
        closed = [one.word for one in await runner.events(run.id)].count("interrupt_answered")
        assert closed == 1
    assert len(ran) == won.count("answered")


async def test_c49_c50_a_plain_message_finds_the_expired_question_expired(house, rows):
    ran = []
    tools = [asker(ran, expires_in_s=HOUR_S), asker(ran, name="drop_never")]
    runner = house.runner([*turns(DROP, call("drop_never", {"table": "t"}, id="n")), "and on"], tools=tools)
    run = await runner.start("go", thread_id="t")
    pass_time(runner)
    after = await runner.start("never mind", thread_id="t")
    assert after.status == "finished"
    before = await runner.get(run.id)
    assert [one.state for one in before.questions] == ["expired", "dismissed"]
    assert [(one.outcome, one.error_code) for one in before.calls] == [
        ("expired", "expired"),
        ("dismissed", "user_dismissed"),
    ]
    assert ran == []


async def test_c49_what_a_person_said_before_a_dismissal_or_a_cancel_is_kept_apart_from_it(house):
    shop = Shop()
    restart = {"service_id": "svc-pay-001", "environment": "prod"}
    calls = [call("restart_service", restart, id="r"), call("query_logs", {}, id="q")]
    for ends, outcome in (("dismiss", "dismissed"), ("cancel", "cancelled")):
        runner = house.runner([*turns(*calls), "ok"], shop)
        run = await runner.start("go", thread_id=ends)
        no = next(one for one in run.interrupts if one.type == "confirm_risky")
        assert (await runner.resume(run.id, {no.id: reject("not now")}, by="li")).status == "interrupted"
        if ends == "cancel":
            await runner.cancel(run.id)
        else:
            await runner.start("never mind", thread_id=ends)
        after = await runner.get(run.id)
        assert [one.outcome for one in after.calls] == ["declined", outcome]
        assert [one.state for one in after.questions if one.id != no.id] == [outcome]
        assert "not now" in after.calls[0].result
    assert shop.ran == []


async def test_c40_whether_a_write_happened_is_asked_without_an_end(house, rows):
    """Its tool's expiry is for questions before a call runs; this one is about what may have happened."""
    from adjourn.nodes.calls import Call
    from adjourn.nodes.questions import InterruptType, make_question

    drop = asker([], expires_in_s=HOUR_S)
    waiting: Call = {
        "id": "d",
        "name": "drop",
        "position": 0,
        "batch": 0,
        "effect": "write",
        "arguments": {"table": "t"},
        "state": "started",
    }
    asked = make_question(waiting, drop, InterruptType.OUTCOME_UNKNOWN, "?", {}, run_id="r", step=1)
    assert "expires_in_s" not in asked
    sure = make_question(waiting, drop, InterruptType.CONFIRM_RISKY, "?", {}, run_id="r", step=1)
    assert sure["expires_in_s"] == HOUR_S


async def test_c49_c82_a_question_inside_a_specialist_expires_and_the_run_above_goes_on(house, url):
    """It is found by a look at the run above, which alone is let go on, and only when nothing below is open."""
    ran = []
    drop, never = asker(ran, expires_in_s=HOUR_S), asker(ran, name="drop_never")
    calls = [DROP, call("drop_never", {"table": "t"}, id="n")]

    def hand(name, id):
        return call("delegate", {"specialist": name, "task": "do it"}, id=id)

    def specialist(name, tools, asks):
        model = ScriptedModel(turns=[says("", asks), f"{name} is done"], by_history=True)
        return Specialist(name=name, about=name, tools=tools, model=model)

    boss = ScriptedModel(
        turns=[says("", hand("timed", "a"), hand("patient", "b")), "all done"], by_history=True
    )
    graph = build_supervisor(
        boss, [specialist("timed", [drop], calls[0]), specialist("patient", [never], calls[1])], name="team"
    )
    with Runner(graph, url) as runner:
        run = await runner.start("go")
        assert await runner.expire() == []  # it waits, and so do those below
        timed = next(one for one in run.interrupts if one.tool == "drop")
        pass_time(runner, timed.id)
        assert [one.tool for one in (await runner.get(run.id)).interrupts] == ["drop_never"]
        assert await runner.expire() == []
        with pytest.raises(Expired):
            await runner.resume(run.id, {timed.id: approve()})
        (patient,) = (await runner.get(run.id)).interrupts
        pass_time(runner)
        change = update(interrupts).where(interrupts.c.id == patient.id)
        past = format_time(datetime.now(UTC) - timedelta(seconds=1))
        runner.database.write(lambda connection: connection.execute(change.values(expires_at=past)))
        assert await runner.expire() == [run.id]
        done = await runner.recover(run.id)
        assert (done.status, done.answer, ran) == ("finished", "all done", [])
        assert await runner.expire() == []


async def test_c36_c49_a_process_that_dies_after_it_took_an_expired_run_on_loses_nothing(house):
    """It had claimed the run and done no more: the next one recovers it, with the same outcome."""
    ran = []
    runner = house.runner(turns(DROP), tools=[asker(ran, expires_in_s=HOUR_S)])
    run = await runner.start("go")
    pass_time(runner)
    await runner.expire()
    runner.database.write(lambda c: leases.claim(c, run.id, RunEvent.GO_ON, owner="dead", lease_s=-1))
    assert await runner.expire() == []  # somebody drives it
    run = await runner.recover(run.id)
    assert (run.status, run.calls[0].outcome, ran) == ("finished", "expired", [])

"""Limits and guards in whole runs (C-10, C-52 to C-57, C-88): S9 and its variants."""

import asyncio
import json
import time

import pytest
from langchain_core.messages import HumanMessage
from runs.shop import Shop

from adjourn.checkpoints.errors import UsageError
from adjourn.graph import Limits
from adjourn.nodes import Evidence, NotDone, Price, ScriptedModel, add_language, approve, tool
from adjourn.nodes.scripted import Fails, call, says
from adjourn.nodes.texts import LANGUAGES, TEXTS


def search(query, *, id="s", **more):
    return call("search_docs", {"query": query, **more}, id=id)


def searches(*queries):
    """One step for each query."""
    return [says("", search(query, id=f"c{place}")) for place, query in enumerate(queries)]


def notes(request):
    """What the runtime says in a request; it stands last."""
    said = [one.text for one in request if isinstance(one, HumanMessage) and one.text.startswith("[runtime]")]
    assert len(said) <= 1
    assert not said or request[-1].text == said[0]
    return said[0] if said else ""


def codes(run):
    return [one.error_code for one in run.calls]


async def messages(runner, thread_id):
    state = await runner.graph.aget_state({"configurable": {"thread_id": thread_id}})
    return state.values["messages"]


# -- a) the same call again and again


async def test_s9_a_c54_the_same_call_is_told_and_then_ends_the_run(house):
    shop = Shop()
    turns = [
        says("", search("5xx", top_k=2, id="a")),
        says("", call("search_docs", '{"top_k": 2, "query": "5xx"}', id="b")),
        says("", search("5xx", top_k=2, id="c")),
        "never",
    ]
    run = await house.runner(turns, shop).start("find it", thread_id="t", on_event=house.hear)
    assert (run.status, run.stop_reason, run.row.steps) == ("finished", "loop_detected", 3)
    assert shop.count("search_docs") == 1
    assert [(one.outcome, one.error_code) for one in run.calls] == [
        ("ok", None),
        ("repeated", "repeated_call"),
        ("repeated", "repeated_call"),
    ]
    told = json.loads(run.calls[1].result)
    assert told["data"][0]["title"].startswith("支付")
    assert "Do not make this call again" in told["suggestion"]
    assert "again and again" in run.answer
    assert "支付服务" in run.answer  # what was found
    assert len(house.models[0].requests) == 3
    answered = [one.tool_call_id for one in await messages(house.runners[0], "t") if one.type == "tool"]
    assert answered == ["a", "b", "c"]
    assert house.words().count("tool_result") == 3
    house.check([run.id])


async def test_s9_a_c54_copies_in_one_step_run_once_and_both_are_answered(house):
    shop = Shop()
    turn = says("", search("x", id="a"), search("x", id="b"), search("y", id="c"))
    run = await house.runner([turn, "done"], shop).start("go", on_event=house.hear)
    assert run.stop_reason == "answered"
    assert shop.count("search_docs") == 2
    assert [one.outcome for one in run.calls] == ["ok", "repeated", "ok"]
    first, second = (json.loads(one.result) for one in run.calls[:2])
    assert second["data"] == first["data"]
    house.check([run.id])


async def test_s9_a_c54_pairs_in_one_step_go_round(house):
    shop = Shop()
    pair = says("", search("a", id="a"), search("b", id="b"))
    run = await house.runner([pair] * 4, shop).start("go")
    assert (run.stop_reason, run.row.steps, shop.count("search_docs")) == ("loop_detected", 3, 2)


async def test_c54_a_write_between_makes_it_a_new_call_and_a_cycle_of_writes_ends(house):
    shop = Shop()
    one = call("publish_release", {"service_id": "s", "version": "1"}, id="w")
    two = call("publish_release", {"service_id": "s", "version": "2"}, id="w")
    turns = [says("", search("x")), says("", one), says("", search("x")), "done"]
    run = await house.runner(turns, shop).start("go")
    assert (run.stop_reason, shop.count("search_docs")) == ("answered", 2)
    again = Shop()
    run = await house.runner([says("", one), says("", two)] * 4, again).start("go")
    assert (run.stop_reason, again.count("publish_release")) == ("loop_detected", 4)


async def test_c54_a_repeatable_tool_may_be_polled(house):
    polled = []

    @tool(effect="read", repeatable=True)
    async def status() -> str:
        """How far is it?"""
        polled.append(1)
        return "working"

    turns = [says("", call("status", id="p"))] * 6
    run = await house.runner([*turns, "done"], tools=[status]).start("go")
    assert (run.stop_reason, len(polled)) == ("answered", 6)


async def test_c54_nobody_is_asked_about_a_repetition(house):
    shop = Shop()
    restart = call("restart_service", {"service_id": "s", "environment": "prod"}, id="r")
    runner = house.runner([says("", restart), says("", restart), "done"], shop)
    run = await runner.start("go")
    done = await runner.resume(run.id, {run.interrupts[0].id: approve()})
    assert (done.status, len(done.questions)) == ("finished", 1)
    assert [one.outcome for one in done.calls] == ["ok", "repeated"]
    assert shop.count("restart_service") == 1


async def test_c54_the_rest_of_the_step_runs_and_nobody_is_asked_in_vain(house):
    """C-23: what needs no answer has run before the run ends; what waits for a person is answered `run_stopped`."""
    shop = Shop()
    last = says(
        "",
        search("x", id="a"),
        call("restart_service", {"service_id": "s", "environment": "prod"}, id="r"),
        search("y", id="b"),
    )
    run = await house.runner([*searches("x", "x"), last], shop).start("go", on_event=house.hear)
    assert (run.stop_reason, run.interrupts) == ("loop_detected", ())
    assert codes(run)[2:] == ["repeated_call", "run_stopped", None]
    assert [one[1] for one in shop.ran] == ["x", "y"]
    house.check([run.id])


# -- b) failures in a row, the breaker


async def test_s9_b_c53_three_steps_that_fail_end_the_run(house):
    shop = Shop(fails={"search_docs": RuntimeError("down")})
    turns = [
        says("", search("a", id="a"), search("b", id="b")),
        says("", search("c")),
        says("", search("d"), call("moon", id="m")),
    ]
    run = await house.runner(turns, shop, limits=Limits(breaker=None)).start(
        "go", thread_id="t", on_event=house.hear
    )
    assert (run.stop_reason, run.row.steps) == ("too_many_fails", 3)
    assert codes(run) == ["tool_error"] * 4 + ["unknown_tool"]
    said = await messages(house.runners[0], "t")
    assert [one.tool_call_id for one in said if one.type == "tool"] == ["a", "b", "s", "s", "m"]
    assert "3 steps in a row" in run.answer
    assert "Nothing was found" in run.answer
    house.check([run.id])


async def test_s9_b_c53_one_success_between_and_what_did_not_run_counts_neither_way(house):
    shop = Shop(fails={"search_docs:bad": RuntimeError("down")})
    bad, good, unrun = search("bad"), search("good"), call("moon", id="m")
    turns = [bad, bad, good, bad, unrun, bad, unrun, bad]
    run = await house.runner([says("", one) for one in turns], shop, limits=Limits(breaker=None)).start("go")
    assert (run.stop_reason, run.row.steps) == ("too_many_fails", 8)


async def test_c55_a_tool_that_fails_three_times_in_a_row_is_switched_off(house):
    shop = Shop(fails={"search_docs": RuntimeError("down")})
    resource = call("search_resource", {"query": "x"}, id="r")
    turns = [
        says("", search("a", id="a"), search("b", id="b"), search("c", id="c"), resource),
        *searches("d"),
        "so be it",
    ]
    run = await house.runner(turns, shop).start("go")
    assert (run.stop_reason, shop.count("search_docs")) == ("answered", 3)
    assert codes(run) == ["tool_error", "tool_error", "tool_error", None, "tool_disabled"]


async def test_c55_nobody_is_asked_about_a_tool_that_is_switched_off(house):
    @tool(effect="write", confirm=lambda arguments: arguments["n"] == 9)
    async def act(n: int) -> str:
        """Act."""
        raise NotDone("no")

    turns = [says("", call("act", {"n": n}, id="a")) for n in (1, 2, 9)]
    run = await house.runner([*turns, "done"], tools=[act], limits=Limits(breaker=2)).start("go")
    assert (run.stop_reason, codes(run)) == ("answered", ["tool_error", "tool_error", "tool_disabled"])


# -- c) steps


async def test_s9_c_c57_at_max_steps_the_model_has_the_last_word(house):
    turns = [*searches("1", "2", "3"), "It is the pool. I did not look at the network."]
    run = await house.runner(turns, limits=Limits(max_steps=3)).start(
        "find it", thread_id="t", on_event=house.hear
    )
    assert (run.status, run.stop_reason, run.row.steps) == ("finished", "max_steps", 3)
    assert run.answer == "It is the pool. I did not look at the network."
    model = house.models[0]
    assert len(model.requests) == 4
    assert [bool(one) for one in model.offered] == [True, True, True, False]
    assert "tools are switched off" in notes(model.requests[3])
    assert [one.step for one in run.steps] == [
        1,
        2,
        3,
        4,
    ]  # it is outside the count, and cost tokens all the same
    said = await messages(house.runners[0], "t")
    assert [one.type for one in said][-2:] == ["tool", "ai"]
    house.check([run.id])


@pytest.mark.parametrize(
    "last",
    [says("", search("4")), says("", finish="stop"), Fails(ValueError("bad key")), says("more", search("4"))],
)
async def test_s9_c_c57_else_a_fixed_sentence_with_what_was_found(house, last):
    model = ScriptedModel(turns=[*searches("1", "2", "3"), last])
    run = await house.runner(model, limits=Limits(max_steps=3)).start(
        "find it", thread_id="t", on_event=house.hear
    )
    assert (run.status, run.stop_reason, run.row.steps) == ("finished", "max_steps", 3)
    assert "step 3" in run.answer
    assert "查依赖" in run.answer
    assert len(run.calls) == 3
    assert (await messages(house.runners[0], "t"))[-1].text == run.answer
    house.check([run.id])


async def test_c57_the_fixed_sentence_comes_in_the_language_of_the_user(house):
    model = ScriptedModel(turns=[*searches("1"), says("", search("2"))])
    run = await house.runner(model, limits=Limits(max_steps=1)).start("查一下")
    assert run.answer.startswith("已执行 1 步")
    assert "工具已关闭" in notes(model.requests[1])


async def test_c57_c88_the_model_is_told_when_three_steps_are_left(house):
    turns = [*searches("1", "2", "3", "4"), "done"]
    runner = house.runner(turns, limits=Limits(max_steps=5))
    run = await runner.start("go", thread_id="t")
    model = house.models[0]
    assert [notes(one) for one in model.requests] == [
        "",
        "",
        "[runtime] Steps left, this one included: 3.",
        "[runtime] Steps left, this one included: 2.",
        "[runtime] Steps left, this one included: 1.",
    ]
    assert model.requests[2][-2].type == "tool"  # it stands after the results
    assert not any("[runtime]" in one.text for one in await messages(runner, "t"))  # and is not kept
    assert run.stop_reason == "answered"


# -- d) time


@pytest.mark.alone
async def test_s9_d_c53_when_the_time_is_over_reads_are_answered_timeout(house):
    @tool(effect="read")
    async def slow() -> str:
        """Slow."""
        await asyncio.sleep(2)
        return "late"

    @tool(effect="read")
    async def quick() -> str:
        """Quick."""
        return "here"

    @tool(effect="write")
    async def later() -> str:
        """Never runs."""
        raise AssertionError

    turn = says("", call("quick", id="q"), call("slow", id="s"), call("later", id="w"))
    runner = house.runner([turn], tools=[slow, quick, later], limits=Limits(max_active_s=0.5))
    await runner.list()  # the tables are there
    for thread_id in "abt":  # on a machine that does other things too, one in three must be in time
        began = time.monotonic()
        run = await runner.start("go", thread_id=thread_id, on_event=house.hear)
        took_s = time.monotonic() - began
        if took_s < 0.7:
            break
    assert took_s < 0.7
    assert (run.status, run.stop_reason, codes(run)) == (
        "finished",
        "timeout",
        [None, "timeout", "run_stopped"],
    )
    said = await messages(runner, thread_id)
    assert [one.tool_call_id for one in said if one.type == "tool"] == ["q", "s", "w"]
    assert "here" in run.answer
    house.check([run.id])


@pytest.mark.alone
async def test_s9_d_c53_a_tool_in_a_thread_is_given_up_too(house):
    gate = []

    @tool(effect="read")
    def slow() -> str:
        """Slow."""
        while not gate:
            time.sleep(0.01)
        return "late"

    try:
        run = await house.runner(
            [says("", call("slow", id="s"))], tools=[slow], limits=Limits(max_active_s=0.3)
        ).start("go")
        assert (run.stop_reason, codes(run)) == ("timeout", ["timeout"])
    finally:
        gate.append(1)


@pytest.mark.alone
@pytest.mark.parametrize(
    ("takes_s", "grace_s", "verdict", "code"),
    [(1.0, 5.0, None, None), (9.0, 0.1, None, "outcome_unknown"), (9.0, 0.1, False, "run_stopped")],
)
async def test_s9_d_c53_a_started_write_is_treated_as_on_a_cancel(house, takes_s, grace_s, verdict, code):
    """C-61: it has its grace; after it, `verify` is asked, and nobody else."""

    @tool(effect="write", verify=lambda context: verdict)
    async def pay() -> str:
        """Pay."""
        await asyncio.sleep(takes_s)
        return "paid"

    limits = Limits(max_active_s=0.8, cancel_grace_s=grace_s)
    run = await house.runner([says("", call("pay", id="p"))], tools=[pay], limits=limits).start("go")
    assert (run.stop_reason, codes(run), run.interrupts) == ("timeout", [code], ())


async def test_c53_a_model_that_speaks_too_long_is_stopped_and_its_turn_is_not_written(house):
    turns = [says(["hm"] * 500, each_s=0.02)]
    runner = house.runner(turns, limits=Limits(max_active_s=0.8))
    run = await runner.start("go", thread_id="t", on_event=house.hear)
    assert (run.status, run.stop_reason) == ("finished", "timeout")
    assert "text_discarded" in house.words()
    assert [one.type for one in await messages(runner, "t")] == ["human", "ai"]
    house.check([run.id])


@pytest.mark.alone
async def test_c53_waiting_is_not_working_and_a_resume_does_not_reset_the_time(house):
    shop = Shop({"search_docs": 0.25, "restart_service": 0.25})
    restart = call("restart_service", {"service_id": "s", "environment": "prod"}, id="r")
    turns = [says("", search("x"), restart), *searches("z"), *searches("y"), "done"]
    first = house.runner(turns, shop, limits=Limits(max_active_s=0.7))
    run = await first.start("go")
    assert run.status == "interrupted"
    assert 250 <= run.row.active_ms < 600
    first.close()
    await asyncio.sleep(0.5)  # as long as the run may work: it waits, and holds nothing
    other = house.runner(turns, shop, limits=Limits(max_active_s=0.7))
    done = await other.resume(run.id, {run.interrupts[0].id: approve()})
    assert done.stop_reason == "timeout"  # 0.25 and 0.25 were spent, the third is cut off
    assert shop.count("restart_service") == 1
    assert 650 <= done.row.active_ms < 1_200


@pytest.mark.alone
async def test_c53_max_wall_s_counts_the_waiting_too(house):
    shop = Shop()
    restart = call("restart_service", {"service_id": "s", "environment": "prod"}, id="r")
    runner = house.runner([says("", restart), "done"], shop, limits=Limits(max_wall_s=0.4))
    run = await runner.start("go")
    await asyncio.sleep(0.5)
    done = await runner.resume(run.id, {run.interrupts[0].id: approve()})
    assert (done.stop_reason, codes(done), shop.ran) == ("timeout", ["run_stopped"], [])


# -- e) evidence


@pytest.mark.in_process  # deltas
async def test_s9_e_c56_an_answer_without_evidence_is_sent_back(house):
    model = ScriptedModel(turns=["Just restart it.", *searches("5xx"), "Look at the pool."])
    runner = house.runner(model, evidence=Evidence(all_of=["search_docs"]))
    run = await runner.start("why?", thread_id="t", on_event=house.hear)
    assert (run.stop_reason, run.answer, run.row.steps) == ("answered", "Look at the pool.", 3)
    assert "search_docs" in notes(model.requests[1])
    assert notes(model.requests[2]) == ""
    texts = [one.text for one in await messages(runner, "t")]
    assert "Just restart it." not in texts
    assert not any("[runtime]" in one for one in texts)
    assert [one.word for one in house.sent][:5] == [
        "run_started",
        "step_started",
        "text_delta",
        "text_discarded",
        "step_started",
    ]
    house.check([run.id])


@pytest.mark.parametrize("nothing", [None, "", [], {}, {"total": 0}])
async def test_s9_e_c56_an_empty_result_does_not_pass_and_after_two_times_it_ends(house, nothing):
    @tool(effect="read", is_empty=lambda data: data.get("total") == 0 if isinstance(data, dict) else False)
    async def search_docs(query: str) -> object:
        """Search the runbooks."""
        return nothing

    model = ScriptedModel(turns=[*searches("x"), "It is the pool.", "I am sure.", "Really.", "never"])
    runner = house.runner(model, tools=[search_docs], evidence=Evidence(any_of=["search_docs"]))
    run = await runner.start("why?", thread_id="t", on_event=house.hear)
    assert (run.status, run.stop_reason, run.row.steps) == ("finished", "no_evidence", 4)
    assert run.calls[0].outcome == "ok"  # it is no failure
    assert "sure" not in run.answer
    assert "one of search_docs" in notes(model.requests[2])
    assert [one.type for one in await messages(runner, "t")] == ["human", "ai", "tool", "ai"]
    house.check([run.id])


async def test_c56_evidence_is_kept_over_a_resume_and_a_repetition_does_not_lose_it(house):
    restart = call("restart_service", {"service_id": "s", "environment": "prod"}, id="r")
    turns = [says("", search("x"), restart), says("", search("x", id="t")), "done"]
    gate = {"evidence": Evidence(all_of=["search_docs"])}
    first = house.runner(turns, **gate)
    run = await first.start("go")
    first.close()
    done = await house.runner(turns, **gate).resume(run.id, {run.interrupts[0].id: {"action": "reject"}})
    assert (done.stop_reason, done.calls[-1].outcome) == ("answered", "repeated")


def test_c56_a_gate_names_tools_that_are_there(house):
    with pytest.raises(UsageError, match="moon"):
        house.runner(["x"], evidence=Evidence(all_of=["moon"]))


# -- what it costs


def turn(*calls, text="", usage):
    return says(text, *calls, usage=usage)


async def test_c53_max_total_tokens_stops_before_the_next_model_call(house):
    turns = [turn(search("1"), usage=(60, 5)), turn(search("2"), usage=(70, 5)), "never"]
    shop = Shop()
    run = await house.runner(turns, shop, limits=Limits(max_total_tokens=100)).start("go")
    assert (run.stop_reason, run.row.steps, shop.count("search_docs")) == ("budget_spent", 2, 2)
    assert (run.row.input_tokens, run.row.output_tokens) == (130, 10)
    assert "支付服务" in run.answer


async def test_c53_max_cost_counts_by_the_price_table_and_is_stored_for_each_step(house, rows):
    prices = {"scripted": Price(input=1_000.0, output=2_000.0)}
    turns = [turn(search("1"), usage=(100, 10)), turn(search("2"), usage=(200, 10)), "never"]
    run = await house.runner(turns, prices=prices, fallbacks=[], limits=Limits(max_total_tokens=999)).start(
        "go"
    )
    assert run.stop_reason == "answered"
    assert [one.cost for one in run.steps] == pytest.approx([0.12, 0.22, 0.0])
    assert run.row.cost == pytest.approx(0.34)
    assert rows("SELECT sum(cost) AS cost FROM v_steps")[0]["cost"] == pytest.approx(0.34)


async def test_c53_max_cost_ends_the_run(house):
    prices = {"ScriptedModel": Price(input=1_000.0, output=2_000.0)}
    turns = [turn(search("1"), usage=(100, 10)), "never"]
    run = await house.runner(turns, prices=prices, limits=Limits(max_cost=0.1)).start("go")
    assert (run.stop_reason, run.row.steps) == ("budget_spent", 1)
    with pytest.raises(UsageError, match="ScriptedModel"):
        house.runner(turns, limits=Limits(max_cost=0.1))


async def test_c53_an_answer_that_overspends_is_an_answer(house):
    run = await house.runner([turn(text="done", usage=(500, 1))], limits=Limits(max_total_tokens=100)).start(
        "go"
    )
    assert (run.stop_reason, run.answer) == ("answered", "done")


async def test_c53_children_count(house, rows):
    """The runs that work for a run, and those that work for them, spend its budget."""

    @tool(effect="read")
    async def delegate() -> str:
        """Let others work: here their rows alone."""
        for run_id, parent, tokens in (("kid", "boss", 40), ("grandkid", "kid", 30), ("other", "x", 900)):
            house.runners[0].database.write(lambda c, of=(run_id, parent, tokens): child(c, *of))
        return "ok"

    turns = [turn(call("delegate", id="d"), usage=(20, 5)), "done"]
    limits = Limits(max_total_tokens=95)
    run = await house.runner(turns, tools=[delegate], limits=limits).start("go", run_id="boss")
    assert run.stop_reason == "budget_spent"
    assert run.row.input_tokens == 20  # its own
    assert rows("SELECT count(*) AS n FROM runs")[0]["n"] == 4


def child(connection, run_id, parent, tokens):
    from adjourn.checkpoints import journal
    from adjourn.checkpoints.database import now
    from adjourn.checkpoints.records import RunRow

    at = now()
    row = RunRow(
        id=run_id,
        thread_id=run_id,
        graph="g",
        signature="s",
        input="x",
        status="finished",
        created_at=at,
        updated_at=at,
        parent_run_id=parent,
        input_tokens=tokens,
    )
    journal.insert_run(connection, row)


# -- counters over a crash, a resume, and in somebody's own graph


async def test_c53_counters_survive_a_resume_in_another_process(house):
    """Steps, failures in a row, the breaker and repetitions go on where they stood."""
    shop = Shop(fails={"search_docs:bad": RuntimeError("down")})
    restart = call("restart_service", {"service_id": "s", "environment": "prod"}, id="r")
    turns = [
        *searches("bad", "bad"),
        says("", restart),
        says("", search("bad", id="last")),
        "done",
    ]
    limits = Limits(breaker=None, max_fails_in_row=3)
    first = house.runner(turns, shop, limits=limits)
    run = await first.start("go")
    assert run.status == "interrupted"
    first.close()
    other = house.runner(turns, shop, limits=limits)
    done = await other.resume(run.id, {run.interrupts[0].id: {"action": "reject"}})
    assert (done.stop_reason, done.row.steps) == ("too_many_fails", 4)


async def test_c52_each_ended_run_has_exactly_one_reason_and_a_waiting_one_shows_ask_user(house, rows):
    restart = call("restart_service", {"service_id": "s", "environment": "prod"}, id="r")
    runner = house.runner([says("", restart), "done"])
    run = await runner.start("go", thread_id="t")
    assert (run.stop_reason, run.shown_reason) == (None, "ask_user")
    assert rows("SELECT stop_reason FROM v_runs") == [{"stop_reason": "ask_user"}]
    await runner.start("never mind", thread_id="t")
    reasons = {one["stop_reason"] for one in rows("SELECT stop_reason FROM v_runs")}
    assert reasons == {"dismissed", "answered"}


async def test_c52_a_cancel_comes_before_every_limit(house):
    entered = asyncio.Event()

    @tool(effect="read")
    async def slow() -> str:
        """Slow."""
        entered.set()
        await asyncio.sleep(30)
        return "late"

    limits = Limits(max_steps=1, max_total_tokens=1)
    runner = house.runner([turn(call("slow", id="s"), usage=(5, 5))], tools=[slow], limits=limits)
    running = asyncio.create_task(runner.start("go", run_id="run_c"))
    await entered.wait()
    await runner.cancel("run_c")
    assert (await running).stop_reason == "cancelled"


# -- a text that was cut off


async def test_c10_a_cut_text_is_continued_once(house):
    model = ScriptedModel(
        turns=[says("First the pool, ", finish="length"), says("then the network."), "never"]
    )
    runner = house.runner(model)
    run = await runner.start("why?", thread_id="t", on_event=house.hear)
    assert (run.stop_reason, run.answer, run.row.steps) == (
        "answered",
        "First the pool, then the network.",
        2,
    )
    assert "cut off" in notes(model.requests[1])
    assert model.requests[1][-2].text == "First the pool, "
    said = await messages(runner, "t")
    assert [(one.type, one.text) for one in said] == [("human", "why?"), ("ai", run.answer)]
    told = [(one.text, one.truncated) for one in house.sent if one.word == "message"]
    assert told == [("First the pool, ", True), (run.answer, False)]
    assert len({one.message_id for one in house.sent if one.word == "message"}) == 1
    house.check([run.id])


async def test_c10_it_is_accepted_after_that_and_marked_as_truncated(house):
    model = ScriptedModel(turns=[says("a", finish="length"), says("b", finish="length"), "never"])
    runner = house.runner(model)
    run = await runner.start("why?", thread_id="t", on_event=house.hear)
    assert (run.stop_reason, run.answer, len(model.requests)) == ("answered", "ab", 2)
    assert [one.truncated for one in house.sent if one.word == "message"] == [True, True]
    assert (await messages(runner, "t"))[-1].response_metadata["finish_reason"] == "length"


async def test_c10_at_the_last_step_and_after_a_filter_it_is_accepted_at_once(house):
    model = ScriptedModel(turns=[says("a", finish="length")])
    run = await house.runner(model, limits=Limits(max_steps=1)).start("why?")
    assert (run.stop_reason, run.answer) == ("answered", "a")
    model = ScriptedModel(turns=[says("b", finish="content_filter")])
    assert (await house.runner(model).start("why?", on_event=house.hear)).answer == "b"
    assert [one.truncated for one in house.sent if one.word == "message"] == [True]


async def test_c10_a_continuation_may_call_tools_and_a_failed_one_is_taken_up_again(house, monkeypatch):
    monkeypatch.setattr("adjourn.nodes.model_errors.BACKOFF_S", 0.0)
    first = ScriptedModel(turns=[says("Let me ", finish="length"), Fails(ValueError("bad key"))])
    run = await house.runner(first).start("why?", thread_id="t")
    assert run.status == "failed"
    second = ScriptedModel(turns=[says("look.", search("x")), "It is the pool."])
    runner = house.runner(second)
    done = await runner.resume(run.id)
    assert (done.status, done.answer) == ("finished", "It is the pool.")
    assert [one.text for one in await messages(runner, "t") if one.type == "ai"] == [
        "Let me look.",
        done.answer,
    ]


async def test_c53_at_the_last_step_people_are_still_asked_and_the_last_word_comes_after(house):
    shop = Shop()
    restart = call("restart_service", {"service_id": "s", "environment": "prod"}, id="r")
    runner = house.runner([says("", restart), "Restarted."], shop, limits=Limits(max_steps=1))
    run = await runner.start("go")
    assert run.status == "interrupted"
    done = await runner.resume(run.id, {run.interrupts[0].id: approve()})
    assert (done.stop_reason, done.answer, shop.count("restart_service")) == ("max_steps", "Restarted.", 1)


async def test_c54_a_repetition_is_known_after_a_resume_in_another_process(house):
    shop = Shop()
    restart = call("restart_service", {"service_id": "s", "environment": "prod"}, id="r")
    turns = [says("", search("x"), restart), says("", search("x")), says("", search("x")), "never"]
    first = house.runner(turns, shop)
    run = await first.start("go")
    first.close()
    done = await house.runner(turns, shop).resume(run.id, {run.interrupts[0].id: {"action": "reject"}})
    assert (done.stop_reason, shop.count("search_docs")) == ("loop_detected", 1)
    assert json.loads(done.calls[-1].result)["data"][0]["title"].startswith("支付")


async def test_c54_what_a_person_filled_in_counts_as_the_arguments(house):
    """The call that ran is the one that is repeated, whoever filled it in."""
    shop = Shop()
    asked = says("", call("query_logs", {}, id="q"))
    known = says("", call("query_logs", {"environment": "prod", "service_id": "svc-pay-001"}, id="k"))
    runner = house.runner([asked, known, "done"], shop)
    run = await runner.start("go")
    values = {"environment": "prod", "service_id": "svc-pay-001"}
    done = await runner.resume(run.id, {run.interrupts[0].id: values})
    assert ([one.outcome for one in done.calls], shop.count("query_logs")) == (["ok", "repeated"], 1)


async def test_c54_a_new_run_on_the_thread_remembers_nothing(house):
    """C-54 says: in this run. Yesterday's result may be old."""
    shop = Shop()
    runner = house.runner([*searches("x"), "one", *searches("x"), "two"], shop)
    await runner.start("go", thread_id="t")
    assert (await runner.start("again", thread_id="t")).answer == "two"
    assert shop.count("search_docs") == 2


@pytest.mark.parametrize(
    ("odd", "settings", "word"),
    [
        (says("", finish="tool_calls"), {}, "was not used"),
        (says("Just restart it."), {"evidence": Evidence(all_of=["search_resource"])}, "search_resource"),
        (says("", search("2")), {"limits": Limits(max_steps=3)}, "Steps left"),
        (says("It is ", finish="length"), {}, "cut off"),
    ],
)
async def test_c88_what_the_runtime_says_is_marked_stands_last_and_is_not_kept(house, odd, settings, word):
    resource = says("", call("search_resource", {"query": "x"}, id="r"))
    model = ScriptedModel(turns=[*searches("1"), odd, resource, "done", "bye"])
    runner = house.runner(model, **settings)
    run = await runner.start("go", thread_id="t", on_event=house.hear)
    assert run.status == "finished"
    said = model.requests[2][-1]
    assert said.type == "human"
    assert said.text.startswith("[runtime] ")
    assert word in said.text
    assert not any("[runtime]" in one.text for one in await messages(runner, "t"))
    await runner.start("and now?", thread_id="t")
    assert not any(one.text.startswith("[runtime]") for one in model.requests[-1][:-1])


async def test_c57_the_fixed_sentence_in_a_language_that_was_added(house):
    add_language(
        "fr",
        {"stop.max_steps": "Je m'arrête après {steps} étapes.", "stop.found": "Trouvé : {found}"},
        used_for=lambda text: "bonjour" in text,
    )
    try:
        model = ScriptedModel(turns=[*searches("1"), says("", search("2"))])
        run = await house.runner(model, limits=Limits(max_steps=1)).start("bonjour, pourquoi ?")
    finally:
        LANGUAGES[:] = [one for one in LANGUAGES if one[0] != "fr"]
        for texts in TEXTS.values():
            texts.pop("fr", None)
    assert run.answer.startswith("Je m'arrête après 1 étapes. Trouvé : search_docs: ")
    assert "tools are switched off" in notes(model.requests[1])  # what was not translated comes in English


async def test_c54_nobody_is_asked_to_agree_to_a_repetition_that_was_filled_in(house):
    ran = []

    @tool(effect="write", ask_for=("where",), confirm="Restart {where}?")
    async def restart(where: str) -> str:
        """Restart."""
        ran.append(where)
        return "ok"

    turns = [
        says("", call("restart", {"where": "prod"}, id="a")),
        says("", call("restart", {}, id="b")),
        "done",
    ]
    runner = house.runner(turns, tools=[restart])
    run = await runner.start("go")
    run = await runner.resume(run.id, {run.interrupts[0].id: approve()})
    assert run.interrupts[0].type == "params_required"
    done = await runner.resume(run.id, {run.interrupts[0].id: {"where": "prod"}})
    assert (done.status, ran, [one.outcome for one in done.calls]) == (
        "finished",
        ["prod"],
        ["ok", "repeated"],
    )

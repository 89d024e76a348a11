"""Flows: first A, then B (C-77 to C-79, S11)."""

import asyncio
import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runs.flow_app import CREATE, FIND, NO_TURN, QUOTA, TURNS, World, build, open_database, signed

from adjourn.checkpoints.database import now
from adjourn.checkpoints.errors import NotAllowed, UsageError
from adjourn.graph import Limits, Runner, build_serial
from adjourn.graph.cli.settings import Settings
from adjourn.graph.cli.story import show_run
from adjourn.graph.drawing import drawing_of
from adjourn.graph.graph_parts import nodes_of
from adjourn.graph.why import why
from adjourn.nodes import (
    BranchStep,
    FunctionStep,
    LoopStep,
    ScriptedModel,
    ToolStep,
    approve,
    reject,
    tool,
)
from adjourn.nodes.flow_model import FlowModel
from adjourn.nodes.flow_table import FlowTable
from adjourn.nodes.scripted import call, says


class Flow:
    """One test's flow, world and runners."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = World(folder / "effects")
        self.runners: list[Runner] = []

    def runner(self, turns: Any = TURNS, steps: Any = open_database, **settings: Any) -> Runner:
        graph = build(self.world.effects, steps, turns, **settings)
        runner = Runner(graph, f"sqlite:///{self.folder / 'adjourn.db'}")
        self.runners.append(runner)
        return runner


@pytest.fixture
def flow(tmp_path):
    made = Flow(tmp_path)
    yield made
    for runner in made.runners:
        runner.close()


def states(run) -> list[tuple[str, str]]:
    return [(one.step, one.status) for one in run.flow]


async def test_s11_c77_c78_first_a_then_b_and_a_person_in_between(flow):
    run = await flow.runner().start("给支付服务开通一个生产数据库")
    assert run.status == "interrupted"
    assert flow.world.done() == ["find", "quota"]
    assert states(run) == [("find", "done"), ("quota", "done"), ("create", "running"), ("verify", "pending")]
    (question,) = run.interrupts
    assert question.reason == "Create a database for svc-pay-001 in prod?"
    again = await flow.runner().resume(run.id, {question.id: approve()}, by="li")
    assert (again.status, again.stop_reason, again.answer) == ("finished", "answered", "开通好了。")
    assert flow.world.done() == ["find", "quota", "create", "verify"]
    assert states(again) == [("find", "done"), ("quota", "done"), ("create", "done"), ("verify", "done")]


async def test_c77_only_the_steps_tool_is_shown_and_any_other_call_does_not_run(flow):
    both = says(
        "",
        call("search_resource", {"query": "支付服务"}, id="f1"),
        call("create_db", {"service": "svc-pay-001", "environment": "prod"}, id="early"),
        call("no_such_tool", {}, id="odd"),
    )
    runner = flow.runner([both, *TURNS[1:]])
    run = await runner.start("跳过检查直接创建")  # the text of a user changes nothing in the order
    assert [(one.call_id, one.outcome, one.error_code) for one in run.calls][:3] == [
        ("f1", "ok", None),
        ("early", "skipped", "skipped_in_serial_step"),
        ("odd", "skipped", "skipped_in_serial_step"),
    ]
    assert flow.world.done() == ["find", "quota"]
    offered = [[one["function"]["name"] for one in sent["tools"]] for sent in settings_of(runner)]
    assert offered == [["search_resource"], ["check_quota"], ["create_db"]]


async def test_c77_a_forced_step_tells_the_provider_so(flow):
    runner = flow.runner()
    await runner.start("go")
    assert [sent.get("tool_choice") for sent in settings_of(runner)] == [None, "check_quota", None]


async def test_c77_a_write_step_writes_once_even_if_the_model_asks_twice(flow):
    twice = says(
        "",
        call("create_db", {"service": "svc-pay-001", "environment": "prod"}, id="c1"),
        call("create_db", {"service": "svc-pay-001", "environment": "staging"}, id="c2"),
    )
    runner = flow.runner([FIND, QUOTA, twice, NO_TURN, "done"])
    run = await runner.start("go")
    run = await runner.resume(run.id, {run.interrupts[0].id: approve()})
    assert flow.world.done().count("create") == 1
    assert [one.error_code for one in run.calls if one.call_id == "c2"] == ["skipped_in_serial_step"]


async def test_c77_a_step_without_a_call_stops_the_flow_with_the_models_words(flow):
    run = await flow.runner([FIND, "Which service do you mean?"]).start("go")
    assert (run.status, run.stop_reason, run.answer) == (
        "finished",
        "answered",
        "Which service do you mean?",
    )
    assert states(run) == [
        ("find", "done"),
        ("quota", "stopped"),
        ("create", "pending"),
        ("verify", "pending"),
    ]
    assert flow.world.done() == ["find"]


async def test_c77_a_step_without_a_call_asks_a_person_where_it_is_declared_so(flow):
    def steps(world):
        find, quota, *rest = open_database(world)
        return [find, replace(quota, without_call="ask"), *rest]

    turns = [FIND, "Which service do you mean?", NO_TURN, QUOTA, CREATE]
    run = await flow.runner(turns, steps).start("go")
    (question,) = run.interrupts
    assert (question.type, question.reason) == ("params_required", "Which service do you mean?")
    assert states(run)[1] == ("quota", "running")
    again = await flow.runner(turns, steps).resume(run.id, {question.id: {"answer": "payments"}}, by="li")
    assert states(again)[1:3] == [("quota", "done"), ("create", "running")]
    assert flow.world.done() == ["find", "quota"]


async def test_c77_a_wrong_call_is_corrected_within_the_step_and_not_for_ever(flow):
    wrong = says("", call("check_quota", {"servise": "x"}, id="w"))
    run = await flow.runner([FIND, wrong, QUOTA, CREATE]).start("go")
    assert states(run)[1:3] == [("quota", "done"), ("create", "running")]
    other = await flow.runner([FIND, wrong, wrong, wrong]).start("go")
    assert states(other)[1] == ("quota", "failed")
    assert other.stop_reason == "too_many_fails"
    assert "check_quota" in other.flow[1].reason and "find" in other.answer


async def test_c78_the_step_that_a_run_has_reached_is_in_the_database(flow):
    run = await flow.runner().start("go")
    with sqlite3.connect(flow.folder / "adjourn.db") as connection:
        told = connection.execute(
            "SELECT position, step, status, ended_at IS NULL FROM flow_steps WHERE run_id = ? ORDER BY position",
            (run.id,),
        ).fetchall()
    connection.close()
    assert told == [
        (1, "find", "done", 0),
        (2, "quota", "done", 0),
        (3, "create", "running", 1),
        (4, "verify", "pending", 1),
    ]


async def test_c79_two_of_four_people_sign(flow):
    turns = [FIND, QUOTA, NO_TURN, CREATE, NO_TURN, "done"]
    run = await flow.runner(turns, signed).start("go")
    (question,) = run.interrupts
    assert (question.tool, question.reason) == ("sign", "May the quota be spent?")
    once = await flow.runner(turns, signed).resume(run.id, {question.id: approve()}, by="li")
    assert once.status == "interrupted" and states(once)[2] == ("sign", "running")
    with pytest.raises(NotAllowed):
        await flow.runner(turns, signed).resume(run.id, {once.interrupts[0].id: approve()}, by="nobody")
    twice = await flow.runner(turns, signed).resume(run.id, {once.interrupts[0].id: approve()}, by="chen")
    assert states(twice)[2:4] == [("sign", "done"), ("create", "running")]
    assert {(one.action, one.by) for one in twice.audit} >= {("approved", "li"), ("approved", "chen")}


async def test_c79_a_no_ends_the_flow_and_nothing_behind_it_runs(flow):
    turns = [FIND, QUOTA, NO_TURN, CREATE]
    run = await flow.runner(turns, signed).start("go")
    over = await flow.runner(turns, signed).resume(
        run.id, {run.interrupts[0].id: reject("too dear")}, by="li"
    )
    assert (over.status, over.stop_reason) == ("finished", "too_many_fails")
    assert states(over)[2:] == [("sign", "failed"), ("create", "pending"), ("verify", "pending")]
    assert "too dear" in over.answer
    assert "stopped at the step “sign”" in why(over, "en", now()) and "too dear" in why(over, "en", now())
    assert flow.world.done() == ["find", "quota"]


async def test_c79_a_step_may_be_a_free_loop_with_its_own_tools_and_limits(flow):
    def steps(world):
        tools = world.tools()
        return [
            LoopStep(
                name="look",
                tools=[tools["search_resource"], tools["check_quota"]],
                prompt="Find out what there is.",
                limits=Limits(max_steps=3),
            ),
            ToolStep(name="create", tool=tools["create_db"]),
        ]

    run = await flow.runner([FIND, QUOTA, "There is room.", CREATE], steps).start("go")
    assert states(run) == [("look", "done"), ("create", "running")]
    stuck = says("", call("create_db", {"service": "a", "environment": "b"}, id="x"))
    other = await flow.runner([stuck, stuck, stuck, "I found nothing."], steps).start("go")
    assert [one.error_code for one in other.calls] == ["unknown_tool"] * 3  # it can reach no other tool
    assert states(other) == [("look", "failed"), ("create", "pending")]
    assert flow.world.done() == ["find", "quota"]


async def test_c79_a_function_gets_what_earlier_steps_brought(flow):
    def add(find: list, message: str) -> str:
        """Say what was found and said."""
        return f"{find[0]['id']}: {message}"

    def steps(world):
        return [
            ToolStep(name="find", tool=world.tools()["search_resource"]),
            FunctionStep(name="told", function=tool(effect="read")(add)),
        ]

    run = await flow.runner([FIND, NO_TURN], steps, closing=False).start("open it")
    assert states(run) == [("find", "done"), ("told", "done")]
    assert json.loads(run.calls[-1].result)["data"] == "svc-pay-001: open it"
    assert run.answer == "Done: find, told."


def failing(world: World, **settings: Any) -> list[Any]:
    """Make, then check; the check fails, and what was made can be dropped."""
    tries: list[int] = []

    @tool(effect="write")
    def make() -> str:
        """Make it."""
        world.act("make")
        return "made"

    @tool(effect="read", retries=0)
    def check() -> str:
        """Check it."""
        tries.append(1)
        if len(tries) <= settings.get("fails", 9):
            raise RuntimeError("it does not answer")
        return "well"

    @tool(effect="write")
    def drop(make: str) -> str:
        """Drop what was made."""
        world.act(f"drop {make}")
        return "dropped"

    return [
        FunctionStep(name="make", function=make),
        FunctionStep(name="check", function=check, on_failure=settings.get("on_failure", "stop")),
        *([FunctionStep(name="drop", function=drop)] if settings.get("on_failure") == "drop" else []),
    ]


async def test_c79_a_failed_step_is_undone_by_the_step_it_names(flow):
    run = await flow.runner([], lambda world: failing(world, on_failure="drop")).start("go")
    assert (run.status, run.stop_reason) == ("finished", "too_many_fails")
    assert states(run) == [("make", "done"), ("check", "failed"), ("drop", "done")]
    assert flow.world.done() == ["make", "drop made"]
    assert "it does not answer" in run.answer or "check" in run.answer


async def test_c79_a_step_that_only_undoes_is_not_reached_otherwise(flow):
    run = await flow.runner(
        [], lambda world: failing(world, on_failure="drop", fails=0), closing=False
    ).start("go")
    assert states(run) == [("make", "done"), ("check", "done"), ("drop", "pending")]
    assert flow.world.done() == ["make"]


@pytest.mark.parametrize(("fails", "state"), [(1, "done"), (2, "failed")])
async def test_c79_a_failed_step_is_begun_again_as_often_as_declared(flow, fails, state):
    steps = lambda world: failing(world, on_failure="retry", fails=fails)  # noqa: E731
    run = await flow.runner([], steps, closing=False).start("go")
    assert states(run) == [("make", "done"), ("check", state)]
    assert flow.world.done() == ["make"]


async def test_c79_conditions_and_branches_are_in_the_table(flow):
    def steps(world):
        tools = world.tools()
        return [
            ToolStep(name="quota", tool=tools["check_quota"]),
            BranchStep(
                name="room",
                choose=lambda done: "find" if done["quota"]["left"] else "late",
                to=("find", "late"),
            ),
            ToolStep(name="never", tool=tools["create_db"]),
            ToolStep(name="find", tool=tools["search_resource"], when=lambda done: done["quota"]["left"] > 5),
            FunctionStep(name="late", function=tools["verify"], when=lambda done: False),
        ]

    run = await flow.runner([QUOTA], steps, closing=False).start("go")
    assert states(run) == [
        ("quota", "done"),
        ("room", "done"),
        ("never", "skipped"),
        ("find", "skipped"),
        ("late", "skipped"),
    ]
    assert flow.world.done() == ["quota"]


@pytest.mark.parametrize("broken", [lambda done: done["nothing"], lambda done: "elsewhere"])
async def test_c79_a_condition_that_raises_stops_the_flow(flow, broken):
    def steps(world):
        tools = world.tools()
        return [
            BranchStep(name="room", choose=broken, to=("find",)),
            ToolStep(name="find", tool=tools["search_resource"]),
        ]

    run = await flow.runner([], steps).start("go")
    assert states(run) == [("room", "failed"), ("find", "pending")]
    assert run.stop_reason == "too_many_fails" and flow.world.done() == []


async def test_c50_a_plain_message_on_a_waiting_flow_begins_it_anew(flow):
    run = await flow.runner().start("go", thread_id="t")
    again = await flow.runner([FIND, QUOTA, CREATE, *TURNS]).start("again", thread_id="t")
    assert (await flow.runner().get(run.id)).stop_reason == "dismissed"
    assert states(again) == [
        ("find", "done"),
        ("quota", "done"),
        ("create", "running"),
        ("verify", "pending"),
    ]
    assert flow.world.done() == ["find", "quota", "find", "quota"]


async def test_c60_a_waiting_flow_can_be_cancelled(flow):
    runner = flow.runner()
    run = await runner.start("go")
    over = await runner.cancel(run.id)
    assert (over.status, over.stop_reason) == ("cancelled", "cancelled")
    assert flow.world.done() == ["find", "quota"]


async def test_c53_the_turns_of_a_whole_flow_are_bounded(flow):
    def steps(world):
        return [
            LoopStep(
                name="look",
                tools=[world.tools()["search_resource"]],
                prompt="Look.",
                limits=Limits(max_steps=50),
            )
        ]

    turns = [says("", call("search_resource", {"query": str(n)}, id=f"f{n}")) for n in range(20)]
    run = await flow.runner(turns, steps).start("go")
    assert run.stop_reason == "max_steps" and len(flow.world.done()) == 12


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([], "needs a step"),
        ([FunctionStep(name="a b", function=len)], "letters, digits"),
        ([FunctionStep(name="a", function=len), FunctionStep(name="a", function=len)], "there are two"),
        ([FunctionStep(name="stop", function=len)], "another meaning"),
        ([FunctionStep(name="a", function=len, on_failure="b")], "another step"),
        ([FunctionStep(name="a", function=len, on_failure="a")], "another step"),
        ([BranchStep(name="a", choose=str, to=("b",))], "no later step"),
        ([BranchStep(name="a", choose=str, to=())], "branches to nothing"),
        (["a"], "no step of a flow"),
    ],
)
def test_what_could_not_go_in_order_is_refused_when_the_flow_is_built(steps, why):
    with pytest.raises(UsageError, match=why):
        FlowTable(steps)


@pytest.mark.parametrize("named", ["find", "message"])
def test_c73_a_secret_is_never_filled_by_a_flow(flow, named):
    @tool(effect="write", secret=[named])
    def login(find: str, message: str) -> str:
        """Log in."""
        return find + message

    def steps(world):
        return [
            ToolStep(name="find", tool=world.tools()["search_resource"]),
            FunctionStep(name="login", function=login),
        ]

    with pytest.raises(UsageError, match=f"secret parameter '{named}'"):
        flow.runner(steps=steps)


def test_steps_whose_names_look_alike_are_two_nodes_of_the_drawing():
    names = ("a-b", "a_b", "a__b", "a-_b", "a_-b", "a_db")

    def nothing() -> None:
        """Nothing."""

    table = FlowTable([FunctionStep(name=name, function=tool(effect="read")(nothing)) for name in names])
    drawn = table.mermaid().splitlines()
    ids = [line.split("(")[0].strip() for line in drawn if line.endswith(")") and "s_" in line]
    assert len(set(ids)) == len(names) and all(one.replace("_", "").isalnum() for one in ids)


async def test_the_story_of_a_run_marks_the_step_that_it_has_reached(flow, capsys):
    run = await flow.runner().start("go")
    show_run(Settings(store=f"sqlite:///{flow.folder / 'adjourn.db'}"), run.id)
    shown = capsys.readouterr().out
    assert "  ✓ find  done\n  ✓ quota  done\n  ▶ create  running\n  · verify  pending\n" in shown


def test_a_flow_is_drawn_before_it_runs(flow):
    drawn = drawing_of(flow.runner(steps=signed).graph)
    assert drawn.startswith("flowchart TD") and 's_sign{{"sign"}}' in drawn
    assert "s_quota --> s_sign" in drawn and "s_verify --> done" in drawn


def settings_of(runner: Runner) -> list[dict[str, Any]]:
    """What each request to the scripted model was bound with."""
    (node,) = nodes_of(runner.graph, FlowModel)
    scripted = node.closing.models[0].runnable
    return scripted.settings


def lookups(world: World, **settings: Any) -> Any:
    @tool(effect="read", retries=0)
    def look(query: str = "all") -> str:
        """Look."""
        world.act("look")
        if len(world.done()) <= settings.get("fails", 0):
            raise RuntimeError("not now")
        return "seen"

    return look


async def test_c54_c78_a_later_step_may_call_again_what_an_earlier_one_called(flow):
    looks = [says("", call("look", {}, id=f"l{n}")) for n in range(2)]

    def steps(world):
        look, other = lookups(world), world.tools()["check_quota"]
        asks = [FunctionStep(name=f"f{n}", function=look) for n in range(4)]
        pairs = [
            one
            for n in range(3)
            for one in (ToolStep(name=f"a{n}", tool=other), FunctionStep(name=f"b{n}", function=look))
        ]
        return [ToolStep(name="t0", tool=look), ToolStep(name="t1", tool=look), *asks, *pairs]

    turns = [*looks, *[NO_TURN] * 4, QUOTA, NO_TURN, QUOTA, NO_TURN, QUOTA]
    run = await flow.runner(turns, steps, closing=False).start("go")
    assert {state for _, state in states(run)} == {"done"}, (run.answer, states(run))
    assert flow.world.done().count("look") == 9


async def test_c54_c55_a_step_is_begun_again_as_often_as_declared_whatever_the_guards_count(flow):
    def steps(world):
        look = lookups(world, fails=5)
        return [FunctionStep(name="look", function=look, on_failure="retry", retries=5)]

    run = await flow.runner([], steps, closing=False).start("go")
    assert states(run) == [("look", "done")], run.answer
    assert len(flow.world.done()) == 6


async def test_c79_a_loop_that_fails_too_often_is_undone_by_a_step_of_the_model(flow):
    fails = [says("", call("look", {"query": str(n)}, id=f"l{n}")) for n in range(3)]

    def steps(world):
        look = lookups(world, fails=9)
        return [
            LoopStep(name="loop", tools=[look], prompt="Look.", on_failure="undo"),
            ToolStep(name="undo", tool=world.tools()["check_quota"]),
        ]

    run = await flow.runner([*fails, QUOTA], steps).start("go")
    assert states(run) == [("loop", "failed"), ("undo", "done")], run.answer
    assert run.stop_reason == "too_many_fails"


async def test_c35_c79_a_write_whose_outcome_is_unknown_is_not_begun_again(flow):
    def steps(world):
        @tool(effect="write")
        def send() -> str:
            """Send."""
            world.act("send")
            raise TimeoutError("no answer")

        return [FunctionStep(name="send", function=send, on_failure="retry", retries=3)]

    run = await flow.runner([], steps, closing=False).start("go")
    assert flow.world.done() == ["send"]
    assert states(run) == [("send", "failed")]


async def test_c79_one_function_is_the_tool_of_two_steps(flow):
    def ping(town: str = "x") -> str:
        """Ping."""
        flow.world.act("ping")
        return "pong"

    def steps(world):
        return [
            ToolStep(name="a", tool=ping),
            LoopStep(name="b", tools=[ping], prompt="p"),
            FunctionStep(name="c", function=ping),
        ]

    turns = [says("", call("ping", {}, id="p")), says("", call("ping", {}, id="q")), "pinged"]
    run = await flow.runner(turns, steps, closing=False).start("go")
    assert states(run) == [("a", "done"), ("b", "done"), ("c", "done")]


async def test_c53_c79_a_loops_own_limits_count_from_its_beginning_and_its_failure_is_undone(flow):
    spent = says("", call("search_resource", {"query": "x"}, id="f"), usage=(900, 100))

    def steps(world):
        tools = world.tools()
        return [
            ToolStep(name="find", tool=tools["search_resource"]),
            LoopStep(
                name="look",
                tools=[tools["search_resource"]],
                prompt="p",
                limits=Limits(max_total_tokens=1500),
                on_failure="undo",
            ),
            FunctionStep(name="undo", function=tool(effect="read")(said)),
        ]

    def said(message: str) -> str:
        """Say it."""
        return message

    again = says("", call("search_resource", {"query": "y"}, id="g"), usage=(900, 100))
    more = says("", call("search_resource", {"query": "z"}, id="h"), usage=(900, 100))
    run = await flow.runner([spent, again, "found it"], steps, closing=False).start("go")
    assert states(run)[:2] == [("find", "done"), ("look", "done")], run.answer
    other = await flow.runner([spent, again, more, "never"], steps, closing=False).start("go")
    assert states(other) == [("find", "done"), ("look", "failed"), ("undo", "done")], other.answer


@pytest.mark.parametrize(
    ("limits", "codes"),
    [
        (Limits(max_steps=6, max_parallel=1), [None, None]),
        (Limits(max_steps=6, max_calls_per_step=1), [None, "too_many_calls"]),
        (Limits(max_steps=6), [None, None]),
    ],
)
async def test_c79_a_loop_runs_its_calls_within_its_own_limits(flow, limits, codes):
    inside: list[int] = [0, 0]

    @tool(effect="read")
    async def look(query: str) -> str:
        """Look."""
        inside[0] += 1
        inside[1] = max(inside)
        await asyncio.sleep(0.05)
        inside[0] -= 1
        return query

    def steps(world):
        return [LoopStep(name="loop", tools=[look], prompt="Look.", limits=limits)]

    both = says("", *(call("look", {"query": str(n)}, id=f"l{n}") for n in range(2)))
    run = await flow.runner([both, "seen"], steps, closing=False).start("go")
    assert [one.error_code for one in run.calls] == codes and states(run) == [("loop", "done")]
    assert inside[1] == (2 if limits == Limits(max_steps=6) else 1)


@pytest.mark.parametrize(("fails", "state"), [(1, "failed"), (None, "done")])
async def test_c55_c79_a_loop_fails_and_switches_off_by_its_own_limits(flow, fails, state):
    """The flow's own would have let three steps fail, and stopped the second loop."""

    def steps(world):
        limits = Limits(max_steps=9, max_fails_in_row=fails, breaker=None)
        return [LoopStep(name="loop", tools=[lookups(world, fails=4)], prompt="Look.", limits=limits)]

    turns = [says("", call("look", {"query": str(n)}, id=f"l{n}")) for n in range(4 if fails is None else 1)]
    run = await flow.runner([*turns, "seen"], steps, closing=False).start("go")
    assert states(run) == [("loop", state)], run.answer
    assert {one.error_code for one in run.calls} == {"tool_error"}
    assert len(run.calls) == (fails or 4)


async def test_c53_c79_the_time_of_a_loop_ends_the_call_in_hand(flow):
    @tool(effect="read")
    async def slow() -> str:
        """Slow."""
        await asyncio.sleep(60)
        return "late"

    @tool(effect="read")
    def told(message: str) -> str:
        """Say it."""
        return message

    def steps(world):
        return [
            LoopStep(
                name="loop",
                tools=[slow],
                prompt="Go.",
                limits=Limits(max_active_s=0.4, max_steps=6),
                on_failure="undo",
            ),
            FunctionStep(name="undo", function=told),
        ]

    runner = flow.runner([says("", call("slow", {}, id="s")), "never"], steps, closing=False)
    run = await asyncio.wait_for(runner.start("go"), 10)  # the tool's own limit is 30 s
    assert states(run) == [("loop", "failed"), ("undo", "done")], run.answer
    assert [one.error_code for one in run.calls] == ["timeout", None]


@pytest.mark.parametrize("taken", ["time", "cancel"])
async def test_c78_a_flow_that_ends_in_the_middle_has_no_running_step(flow, taken):
    def steps(world):
        @tool(effect="read")
        async def slow() -> str:
            """Slow."""
            entered.set()
            await asyncio.sleep(60)
            return "late"

        return [FunctionStep(name="slow", function=slow)]

    entered = asyncio.Event()
    limits = Limits(max_active_s=0.5) if taken == "time" else Limits()
    graph = build_serial(ScriptedModel(turns=[]), steps(flow.world), limits=limits, name="open-database")
    with Runner(graph, f"sqlite:///{flow.folder / 'adjourn.db'}") as runner:
        running = asyncio.create_task(runner.start("go", run_id="run_s"))
        await entered.wait()
        if taken == "cancel":
            await runner.cancel("run_s")
        run = await running
    assert run.stop_reason == ("timeout" if taken == "time" else "cancelled")
    assert states(run) == [("slow", "stopped")]


@pytest.mark.parametrize("way", ["cancel", "dismiss"])
async def test_c78_a_waiting_flow_that_is_ended_has_no_running_step(flow, way):
    runner = flow.runner()
    run = await runner.start("go", thread_id="t")
    if way == "cancel":
        await runner.cancel(run.id)
    else:
        await runner.start("again", thread_id="t")
    assert states(await runner.get(run.id)) == [
        ("find", "done"),
        ("quota", "done"),
        ("create", "stopped"),
        ("verify", "pending"),
    ]


async def test_c89_a_loop_with_many_tools_gets_a_search(flow):
    def named(number: int) -> Any:
        @tool(name=f"tool_{number}", effect="read", description=f"Does the {number}th thing.")
        def one() -> int:
            return number

        return one

    def steps(world):
        many = [named(n) for n in range(22)]
        return [LoopStep(name=name, tools=many, prompt="p") for name in ("a", "b")]

    found = says("", call("find_tools", {"query": "tool 7"}, id="f"))
    used = says("", call("tool_7", {}, id="u"))
    runner = flow.runner([found, used, "it is 7", "same"], steps, closing=False)
    run = await runner.start("go")
    assert [one.outcome for one in run.calls] == ["ok", "ok"] and states(run) == [
        ("a", "done"),
        ("b", "done"),
    ]
    offered = [[one["function"]["name"] for one in sent["tools"]] for sent in settings_of(runner)]
    assert offered[0] == ["find_tools"] and "tool_7" in offered[1] and len(offered[1]) <= 6


async def test_c72_a_result_is_stored_once_however_many_steps_follow(flow):
    def steps(world):
        @tool(effect="read", repeatable=True)
        def big() -> str:
            """Big."""
            return "x" * 7_000

        @tool(effect="read", repeatable=True)
        def small() -> int:
            """Small."""
            return 1

        return [
            FunctionStep(name="big", function=big),
            *[
                FunctionStep(name=f"s{n}", function=small, when=lambda done: len(done["big"]) == 7_000)
                for n in range(20)
            ],
        ]

    run = await flow.runner([], steps, closing=False).start("go")
    assert {state for _, state in states(run)} == {"done"}
    with sqlite3.connect(flow.folder / "adjourn.db") as connection:
        sizes = [
            connection.execute(f"SELECT coalesce(sum(length({column})), 0) FROM {table}").fetchone()[0]
            for table, column in (("checkpoints", "channels"), ("channel_values", "value"))
        ]
    connection.close()
    # not one for each of the 43 supersteps, let alone in each of them all the results
    assert sum(sizes) < 8 * 7_000

"""A supervisor and its specialists (C-80 to C-82, S12)."""

import asyncio
import re
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from adjourn.checkpoints import family, journal, leases
from adjourn.checkpoints.errors import AlreadyAnswered, LeaseLost, UsageError, WrongGraph
from adjourn.checkpoints.lifecycle import RunEvent
from adjourn.graph import (
    Limits,
    Runner,
    Specialist,
    build_react,
    build_serial,
    build_supervisor,
    children,
    starts,
)
from adjourn.graph.children import ChildRuns
from adjourn.graph.cli import main
from adjourn.graph.drawing import drawing_of
from adjourn.graph.within import Within
from adjourn.nodes import FunctionStep, ScriptedModel, ToolStep, approve, reject, tool
from adjourn.nodes.delegation import Gate
from adjourn.nodes.history import is_legal
from adjourn.nodes.scripted import call, says


def hand(specialist: str, task: str, id: str = "d1") -> Any:
    return call("delegate", {"specialist": specialist, "task": task}, id=id)


class Team:
    """A supervisor with a searcher and an analyst, over one store; each process is a runner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: list[tuple[str, float, float]] = []
        self.runners: list[Runner] = []
        self.models: dict[str, ScriptedModel] = {}

    async def act(self, what: str, takes_s: float = 0.0) -> str:
        began = time.monotonic()
        await asyncio.sleep(takes_s)
        self.done.append((what, began, time.monotonic()))
        return what

    def tools(self) -> dict[str, Any]:
        @tool(effect="read")
        async def search(query: str) -> str:
            """Search."""
            return await self.act(f"search {query}", 0.15)

        @tool(effect="read", ask_for=("city",))
        async def locate(city: str) -> str:
            """Locate."""
            return await self.act(f"locate {city}")

        @tool(effect="write", confirm="Publish {what}?")
        async def publish(what: str) -> str:
            """Publish."""
            return await self.act(f"publish {what}", 0.1)

        @tool(effect="write")
        async def note(what: str) -> str:
            """Note."""
            return await self.act(f"note {what}", 0.1)

        return {one.name: one for one in (search, locate, publish, note)}

    def model(self, name: str, turns: list[Any]) -> ScriptedModel:
        made = self.models[name] = ScriptedModel(turns=turns, by_history=True)
        return made

    def graph(self, *, boss: list[Any], search: list[Any], analysis: list[Any] = [], **settings: Any) -> Any:  # noqa: B006
        tools = self.tools()
        specialists = [
            Specialist(
                name="search",
                about="finds things",
                prompt="You search.",
                tools=[tools["search"], tools["locate"], tools["note"]],
                model=self.model("search", search),
                limits=settings.pop("search_limits", Limits(max_steps=6)),
            ),
            Specialist(
                name="analysis",
                about="sums things up",
                tools=[tools["publish"], tools["note"]],
                model=self.model("analysis", analysis),
            ),
        ]
        return build_supervisor(self.model("boss", boss), specialists, name="team", **settings)

    def runner(self, **settings: Any) -> Runner:
        made = Runner(self.graph(**settings), f"sqlite:///{self.folder / 'adjourn.db'}")
        self.runners.append(made)
        return made

    async def rows(self) -> list[Any]:
        """All runs, the supervisor's first."""
        found = []
        for name in ("team", "team.search", "team.analysis"):
            from adjourn.checkpoints import journal

            found += await self.runners[0].database.aread(
                lambda c, name=name: journal.list_runs(c, graph=name, limit=None)
            )
        return found

    async def check_histories(self) -> None:
        for row in await self.rows():
            state = await self.runners[0].graph.aget_state({"configurable": {"thread_id": row.thread_id}})
            assert is_legal(state.values["messages"]), row.id


@pytest.fixture
def team(tmp_path):
    made = Team(tmp_path)
    yield made
    for runner in made.runners:
        runner.close()
    for model in made.models.values():
        assert model.violations == []


ONE_AFTER_ANOTHER = {
    "boss": [
        says("", hand("search", "Find the company.")),
        says("", hand("analysis", "Sum up its product.", "d2")),
        "It makes a vector database.",
    ],
    "search": [
        says("", call("search", {"query": "vector"}, id="x1")),
        says("", call("publish", {"what": "all"}, id="x1")),  # not its tool
        "The company is V.",
    ],
    "analysis": [says("", call("note", {"what": "V"}, id="x1")), "Its product is a database."],
}


async def test_s12_c80_a_supervisor_hands_tasks_on_and_sees_answers_alone(team):
    run = await team.runner(**ONE_AFTER_ANOTHER).start("帮我查一下")
    assert (run.status, run.stop_reason, run.answer) == (
        "finished",
        "answered",
        "It makes a vector database.",
    )
    boss, search, analysis = await team.rows()
    assert [one.parent_run_id for one in (boss, search, analysis)] == [None, run.id, run.id]
    assert [one.path for one in (boss, search, analysis)] == ["", "search", "analysis"]
    calls = (await team.runners[0].get(search.id)).calls
    assert [(one.tool, one.error_code) for one in calls] == [("search", None), ("publish", "unknown_tool")]
    seen = str(team.models["boss"].requests[-1])
    assert "The company is V." in seen and "vector" not in seen.replace("vector database", "")
    assert [one[0] for one in team.done] == ["search vector", "note V"]
    for one in (boss, search, analysis):
        assert {event.path for event in team.runners[0].events_sync(one.id)} == {one.path}
    await team.check_histories()


@pytest.mark.in_process  # elsewhere each run is followed by itself
async def test_c80_who_drives_hears_the_events_of_specialists_with_their_path(team):
    heard: list[Any] = []
    await team.runner(**ONE_AFTER_ANOTHER).start("帮我查一下", on_event=heard.append)
    assert {event.path for event in heard} == {"", "search", "analysis"}


async def test_c80_an_unknown_specialist_is_an_observation(team):
    run = await team.runner(boss=[says("", hand("nobody", "x")), "so be it"], search=[]).start("go")
    (only,) = run.calls
    assert (only.outcome, only.error_code) == ("invalid", "invalid_arguments")
    assert "search" in only.result and "analysis" in only.result and run.answer == "so be it"


async def test_c81_independent_tasks_run_side_by_side_and_writes_apart_from_everything(team):
    both = says("", hand("search", "a", "d1"), hand("analysis", "b", "d2"))
    runner = team.runner(
        boss=[both, "done"],
        search=[
            says("", call("search", {"query": "1"}, id="c")),
            says("", call("note", {"what": "s"}, id="c")),
            "found",
        ],
        analysis=[says("", call("note", {"what": "t"}, id="c")), "summed up"],
    )
    run = await runner.start("go")
    assert [one.outcome for one in run.calls] == ["ok", "ok"]
    names = {one[0]: one for one in team.done}
    assert set(names) == {"search 1", "note s", "note t"}  # the same call ids do not meet
    spans = sorted(one[1:] for one in team.done)
    for name in ("note s", "note t"):  # C-21: a write overlaps no other call of the family
        _, began, ended = names[name]
        assert not [one for one in spans if one != (began, ended) and one[0] < ended and one[1] > began]


async def test_c81_a_specialist_at_its_limit_tells_what_it_found(team):
    turns = [says("", call("search", {"query": str(n)}, id=f"s{n}")) for n in range(2)]
    runner = team.runner(
        boss=[says("", hand("search", "a")), "enough"],
        search=[*turns, "I found one thing."],
        search_limits=Limits(max_steps=2),
    )
    run = await runner.start("go")
    (only,) = run.calls
    assert only.error_code == "specialist_stopped"
    assert "max_steps" in only.result and "I found one thing." in only.result
    assert run.answer == "enough"


async def test_c81_a_run_hands_out_so_many_tasks_and_no_more(team):
    tasks = [says("", hand("search", f"t{n}", f"d{n}")) for n in range(3)]
    run = await team.runner(boss=[*tasks, "done"], search=["ok"], max_delegations=2).start("go")
    assert [one.error_code for one in run.calls] == [None, None, "too_many_calls"]


async def test_c81_budgets_count_what_specialists_spend(team):
    spent = says("", call("search", {"query": "x"}, id="x"), usage=(400, 100))
    runner = team.runner(
        boss=[says("", hand("search", "a")), "never said"],
        search=[spent, says("found", usage=(400, 100))],
        limits=Limits(max_total_tokens=600),
    )
    run = await runner.start("go")
    assert run.stop_reason == "budget_spent"
    assert [one.outcome for one in run.calls] == ["ok"]


async def test_c53_c81_a_specialist_spends_no_more_than_its_supervisor_has(team):
    """However deep it is: it is looked at before each model call, and not only when it has answered."""
    spends = [says("", call("search", {"query": str(n)}, id=f"x{n}"), usage=(400, 100)) for n in range(9)]
    runner = team.runner(
        boss=[says("", hand("search", "a"), usage=(80, 20)), "never said"],
        search=[*spends, "found"],
        search_limits=Limits(max_steps=20),
        limits=Limits(max_total_tokens=1500),
    )
    run = await runner.start("go")
    assert run.stop_reason == "budget_spent"
    (child,) = run.children
    assert (child.stop_reason, child.row.steps) == ("budget_spent", 3)
    assert run.calls[0].error_code == "specialist_stopped"


async def test_c80_what_is_handed_over_is_bounded_and_said_so(team):
    long = says("", call("delegate", {"specialist": "search", "task": "x" * 4_001}, id="d1"))
    full = {"specialist": "search", "task": "t" * 4_000, "context": "c" * 4_000}
    run = await team.runner(
        boss=[long, says("", call("delegate", full, id="d2")), "done"], search=["found"]
    ).start("go")
    assert [one.error_code for one in run.calls] == ["invalid_arguments", None]
    assert "4000" in run.calls[0].result
    (child,) = run.children
    assert child.row.input == f"{'t' * 4_000}\n\n{'c' * 4_000}"


@pytest.mark.parametrize("raises", [False, True])
async def test_c80_an_answer_that_its_check_refuses_is_told_with_the_reason_and_the_task_handed_out_again(
    team, raises
):
    def check(answer: str) -> str | None:
        if raises and "source" not in answer:
            raise KeyError(answer)
        return None if "source" in answer else "it names no source."

    again = call("delegate", {"specialist": "one", "task": "a", "context": "it names no source"}, id="d2")
    boss = ScriptedModel(turns=[says("", hand("one", "a")), says("", again), "well"], by_history=True)
    one = Specialist(
        name="one", about="x", model=ScriptedModel(turns=["it is so", "it is so; source: b"]), check=check
    )
    with Runner(build_supervisor(boss, [one], name="team"), f"sqlite:///{team.folder}/k.db") as runner:
        run = await runner.start("go")
    assert [one.error_code for one in run.calls] == ["tool_error", None]
    assert ("KeyError" if raises else "it names no source.") in run.calls[0].result
    assert "it is so" in run.calls[0].result and run.answer == "well"
    assert [one.row.input for one in run.children] == ["a", "a\n\nit names no source"]


BOTH_ASK = {
    "boss": [says("", hand("search", "a", "d1"), hand("analysis", "b", "d2")), "all done"],
    "search": [says("", call("locate", {}, id="q")), "it is there"],
    "analysis": [says("", call("publish", {"what": "it"}, id="q")), "it is out"],
}


async def test_c80_a_list_shows_the_runs_at_the_top_and_others_when_asked(team, capsys):
    """Also where a specialist's graph is called like the one that it works for."""

    def scripted(*turns):
        return ScriptedModel(turns=list(turns), by_history=True)

    below = build_react(scripted("mine"), name="team")
    boss = scripted(says("", hand("deep", "x")), "done")
    graph = build_supervisor(boss, [Specialist(name="deep", about="x", graph=below)], name="team")
    with Runner(graph, f"sqlite:///{team.folder}/l.db") as runner:
        run = await runner.start("go")
        assert [one.id for one in await runner.list()] == [run.id]
        both = await runner.list(children=True)
        assert sorted(one.path for one in both) == ["", "deep"]
    store = ["--store", f"sqlite:///{team.folder}/l.db", "--lang", "en"]
    assert main(["runs", *store]) == 0
    shown = capsys.readouterr().out
    assert run.id in shown and run.children[0].id not in shown
    assert main(["runs", "--children", *store]) == 0
    assert run.children[0].id in capsys.readouterr().out


@pytest.mark.parametrize("first", [0, 1])
async def test_c82_two_specialists_ask_and_are_answered_in_either_order_by_other_processes(team, first):
    run = await team.runner(**BOTH_ASK).start("go", by="wang")
    assert run.status == "interrupted"
    questions = run.interrupts
    assert sorted((one.path, one.tool) for one in questions) == [
        ("analysis", "publish"),
        ("search", "locate"),
    ]
    assert [row.status for row in await team.rows()] == ["interrupted"] * 3
    answers = {one.id: {"city": "北京"} if one.tool == "locate" else approve() for one in questions}
    order = [questions[first], questions[1 - first]]
    once = await team.runner(**BOTH_ASK).resume(run.id, {order[0].id: answers[order[0].id]}, by="li")
    assert once.status == "interrupted" and [one.id for one in once.interrupts] == [order[1].id]
    with pytest.raises(AlreadyAnswered):
        await team.runner(**BOTH_ASK).resume(run.id, {order[0].id: answers[order[0].id]}, by="li")
    over = await team.runner(**BOTH_ASK).resume(run.id, {order[1].id: answers[order[1].id]}, by="chen")
    assert (over.status, over.answer) == ("finished", "all done")
    assert sorted(one[0] for one in team.done) == ["locate 北京", "publish it"]
    assert [row.status for row in await team.rows()] == ["finished"] * 3
    await team.check_histories()


async def test_c82_a_no_reaches_the_specialist_and_finished_siblings_do_not_run_again(team):
    turns = {
        **BOTH_ASK,
        "search": [says("", call("search", {"query": "1"}, id="q")), "found"],
        "analysis": [says("", call("publish", {"what": "it"}, id="q")), "it stays in"],
    }
    run = await team.runner(**turns).start("go")
    (question,) = run.interrupts
    assert [(one.call_id, one.outcome) for one in run.calls] == [("d1", "ok"), ("d2", "waiting")]
    over = await team.runner(**turns).resume(run.id, {question.id: reject("not now")}, by="li")
    assert over.status == "finished"
    assert [one[0] for one in team.done] == ["search 1"]
    (call_row,) = (await team.runners[0].get((await team.rows())[2].id)).calls
    assert call_row.outcome == "declined" and "not now" in call_row.result


async def test_c82_a_question_several_levels_deep_is_answered_with_its_path(team, tmp_path):
    tools = team.tools()

    def nested():
        inner = build_supervisor(
            ScriptedModel(turns=[says("", hand("deep", "y")), "middle done"], by_history=True),
            [
                Specialist(
                    name="deep",
                    about="goes deep",
                    tools=[tools["publish"]],
                    model=ScriptedModel(
                        turns=[says("", call("publish", {"what": "d"}, id="p")), "deep done"], by_history=True
                    ),
                )
            ],
            name="middle",
        )
        return build_supervisor(
            ScriptedModel(turns=[says("", hand("middle", "x")), "top done"], by_history=True),
            [Specialist(name="middle", about="in between", graph=inner)],
            name="top",
        )

    with Runner(nested(), f"sqlite:///{tmp_path}/deep.db") as one:
        run = await one.start("go")
    assert [(one.path, one.tool) for one in run.interrupts] == [("middle/deep", "publish")]
    with Runner(nested(), f"sqlite:///{tmp_path}/deep.db") as other:
        over = await other.resume(run.id, {run.interrupts[0].id: approve()}, by="li")
    assert (over.status, over.answer) == ("finished", "top done")
    assert [one[0] for one in team.done] == ["publish d"]


async def test_c82_a_cancel_reaches_down_and_what_waits_below_is_closed(team):
    run = await team.runner(**BOTH_ASK).start("go", thread_id="t")
    over = await team.runner(**BOTH_ASK).cancel(run.id, by="li")
    assert over.status == "cancelled"
    assert [row.status for row in await team.rows()] == ["cancelled"] * 3
    assert over.interrupts == () and team.done == []


async def test_c82_a_cancel_reaches_a_specialist_at_work(team):
    entered = asyncio.Event()

    @tool(effect="read")
    async def slow() -> str:
        """Slow."""
        entered.set()
        await asyncio.sleep(60)
        return "late"

    graph = build_supervisor(
        ScriptedModel(turns=[says("", hand("deep", "x")), "never"], by_history=True),
        [
            Specialist(
                name="deep",
                about="slow",
                tools=[slow],
                model=ScriptedModel(turns=[says("", call("slow", {}, id="s")), "never"], by_history=True),
            )
        ],
        name="team",
    )
    with Runner(graph, f"sqlite:///{team.folder}/c.db") as runner:
        running = asyncio.create_task(runner.start("go", run_id="run_c"))
        await entered.wait()
        over = await runner.cancel("run_c")
        await running
        assert (over.status, [one.outcome for one in over.calls]) == ("cancelled", ["cancelled"])
        from adjourn.checkpoints import family, journal

        (below,) = await runner.database.aread(lambda c: family.below(c, "run_c"))
        child = await runner.database.aread(lambda c: journal.read_run(c, below))
        assert (child.status, child.lease_owner) == ("cancelled", None)


async def test_c50_a_plain_message_closes_the_questions_below(team):
    run = await team.runner(**BOTH_ASK).start("go", thread_id="t")
    fresh = {**BOTH_ASK, "boss": ["x", "x", "well then"]}
    again = await team.runner(**fresh).start("leave it", thread_id="t")
    assert again.status == "finished"
    rows = await team.rows()
    assert [row.stop_reason for row in rows if row.id != again.id] == ["dismissed"] * 3
    assert (await team.runners[0].get(run.id)).interrupts == ()


async def test_a_run_below_is_resumed_through_the_one_it_works_for(team):
    run = await team.runner(**BOTH_ASK).start("go")
    child = next(row for row in await team.rows() if row.parent_run_id)
    with pytest.raises(WrongGraph):
        await team.runner(**BOTH_ASK).resume(child.id, {run.interrupts[0].id: approve()})


@pytest.mark.parametrize(
    ("specialists", "why"),
    [
        ([], "needs a specialist"),
        ([Specialist(name="a b", about="x")], "letters, digits"),
        ([Specialist(name="a", about=" ")], "what it is good at"),
        ([Specialist(name="a", about="x"), Specialist(name="a", about="y")], "two specialists"),
    ],
)
def test_what_could_be_no_team_is_refused_when_it_is_built(specialists, why):
    with pytest.raises(UsageError, match=why):
        build_supervisor(ScriptedModel(turns=[]), specialists)


def test_c80_levels_are_bounded():
    graph = build_react(ScriptedModel(turns=[]), [])
    for _ in range(3):
        graph = build_supervisor(ScriptedModel(turns=[]), [Specialist(name="a", about="x", graph=graph)])
    with pytest.raises(UsageError, match="4 levels"):
        build_supervisor(ScriptedModel(turns=[]), [Specialist(name="a", about="x", graph=graph)])


async def test_c80_a_look_at_the_supervisor_shows_its_specialists(team, capsys):
    both = says("", hand("search", "a", "d1"), hand("analysis", "b", "d2"))
    asks = says("", call("publish", {"what": "V"}, id="c"))
    runner = team.runner(
        boss=[both, "done"],
        search=[says("", call("search", {"query": "1"}, id="c")), "found"],
        analysis=[asks, "summed up"],
    )
    run = await runner.start("go", run_id="run_team")
    await runner.resume(run.id, {run.interrupts[0].id: approve()}, by="li")
    store = ["--store", f"sqlite:///{team.folder / 'adjourn.db'}", "--lang", "en"]
    assert main(["show", "run_team", "--timeline", *store]) == 0
    shown = capsys.readouterr().out.splitlines()
    lines = [line[:27].rstrip() for line in shown if " ms" in line and line[:27].strip()]
    boss, search, analysis = await team.rows()
    assert lines[:8] == [
        f"  {(await runner.get(boss.id)).steps[0].model}",
        "┌ delegate → search",
        f"│   {(await runner.get(search.id)).steps[0].model}",
        "│   search",
        f"│   {(await runner.get(search.id)).steps[1].model}",
        "└ delegate → analysis",
        f"    {(await runner.get(analysis.id)).steps[0].model}",
        "    publish",
    ]
    assert main(["show", "run_team", *store]) == 0
    assert f"↳ analysis {analysis.id} finished (answered)" in capsys.readouterr().out
    assert main(["show", "run_team", "--html", "-", *store]) == 0
    page = capsys.readouterr().out
    links = set(re.findall(r'<a href="#([^"]+)" aria-label', page))
    assert f"{analysis.id}-s1-c0" in links
    assert {one for one in links if f'id="{one}"' not in page} == set()
    assert page.count("<svg") == (await runner.get(run.id))._repr_html_().count("<svg") == 1


def test_c80_each_specialist_is_a_node_in_the_drawn_graph(team):
    inner = team.graph(boss=[], search=[])
    graph = build_supervisor(
        ScriptedModel(turns=[]), [Specialist(name="deep", about="x", graph=inner)], name="top"
    )
    drawn = drawing_of(graph)
    assert drawn.startswith("flowchart TD") and '    top["top"]' in drawn and '    top_0["deep"]' in drawn
    assert '    top_0_0("search")' in drawn and "    top_0 -->|task| top_0_1" in drawn


async def test_c79_c81_a_specialist_as_the_step_of_a_flow_and_as_an_ordinary_tool(team, tmp_path):
    def scripted(*turns):
        return ScriptedModel(turns=list(turns), by_history=True)

    asker = Specialist(
        name="asker",
        about="publishes",
        tools=[team.tools()["publish"]],
        model=scripted(says("", call("publish", {"what": "it"}, id="p")), "it is out"),
    )
    hands = says("", call("asker", {"task": "publish it"}, id="h"))

    def flow():
        steps = [ToolStep(name="ask", tool=asker.as_tool()), FunctionStep(name="told", function=told)]
        return build_serial(scripted(hands, "-", "all done"), steps, name="flow")

    @tool(effect="read")
    def told(ask: dict) -> str:
        """What came of it."""
        return ask["answer"]

    with Runner(flow(), f"sqlite:///{tmp_path}/f.db") as one:
        run = await one.start("go")
    assert [(question.path, question.tool) for question in run.interrupts] == [("asker", "publish")]
    with Runner(flow(), f"sqlite:///{tmp_path}/f.db") as other:
        over = await other.resume(run.id, {run.interrupts[0].id: approve()}, by="li")
    assert (over.answer, [one.status for one in over.flow]) == ("all done", ["done", "done"])
    assert over.calls[-1].result == '{"ok": true, "data": "it is out"}'
    graph = build_react(scripted(hands, "said so"), [asker.as_tool(), *team.tools().values()])
    with Runner(graph, f"sqlite:///{tmp_path}/r.db") as plain:
        run = await plain.start("go")
        over = await plain.resume(run.id, {run.interrupts[0].id: approve()}, by="li")
    assert (over.status, over.answer) == ("finished", "said so")


def test_a_specialist_as_a_tool_needs_a_model_or_a_graph():
    with pytest.raises(UsageError, match="a model of its own"):
        Specialist(name="a", about="x").as_tool()


async def test_c80_c81_tasks_of_one_turn_count_one_after_the_other(team):
    many = says("", *(hand("search", f"t{n}", f"d{n}") for n in range(4)))
    run = await team.runner(boss=[many, "done"], search=["ok"], max_delegations=2).start("go")
    assert sorted(str(one.error_code) for one in run.calls) == ["None", "None", *["too_many_calls"] * 2]
    assert len(await team.rows()) == 3


@pytest.mark.parametrize("known", [False, True])
async def test_c90_who_lost_the_run_above_makes_no_child_and_takes_none(team, known):
    runner = team.runner(boss=[says("", hand("search", "a")), "done"], search=["found"])
    run = starts.new_run(
        "go",
        thread_id="t",
        by=None,
        run_id="run_p",
        graph=runner.name,
        signature=runner.signature,
        owner="old",
        lease_s=30,
    )
    await runner.database.awrite(lambda c: starts.store(c, run))
    stale = ChildRuns(runner.family, run, lambda _: None, Within(Gate()))
    below = children.child_id("run_p", 1, "d1")

    def taken_over(connection):
        leases.claim(connection, "run_p", RunEvent.RECOVER, owner="new", lease_s=30, at_once=True)
        if known:  # the new owner has the child already
            row = stale._new(runner.family.owner("search").bound, "search", "a", 1, "d1")
            starts.store(connection, replace(row, lease_owner="new"))

    await runner.database.awrite(taken_over)
    with pytest.raises(LeaseLost):
        await stale.work("search", "a", step=1, call_id="d1")
    rows = [row for row in await team.rows() if row.id == below]
    assert [(row.lease_owner, row.fence, row.status) for row in rows] == [("new", 1, "running")] * known


async def test_c81_a_child_that_ended_meanwhile_is_looked_at_and_not_driven_again(team):
    runner = team.runner(boss=[says("", hand("search", "a")), "done"], search=["found"])
    run = await runner.start("go", run_id="run_q")
    row = await runner.database.aread(lambda c: journal.read_run(c, run.id))
    await runner.database.awrite(
        lambda c: c.execute(text("UPDATE runs SET status = 'running', fence = 9 WHERE id = 'run_q'"))
    )
    again = ChildRuns(runner.family, replace(row, fence=9), lambda _: None, Within(Gate()))
    assert await again.work("search", "a", step=1, call_id="d1") == {
        "specialist": "search",
        "answer": "found",
    }
    assert len(team.models["search"].requests) == 1


def test_c80_a_specialist_as_a_tool_and_another_of_that_name_are_refused(team):
    model = ScriptedModel(turns=[])
    other = Specialist(name="search", about="another one", model=model).as_tool()
    with pytest.raises(UsageError, match="two specialists are called 'search'"):
        build_supervisor(model, [Specialist(name="search", about="one")], [other])


def test_c80_levels_of_specialists_as_tools_are_bounded_too():
    one = Specialist(name="a", about="x", model=ScriptedModel(turns=[])).as_tool()
    for _ in range(2):
        graph = build_react(ScriptedModel(turns=[]), [one])
        one = Specialist(name="a", about="x", graph=graph).as_tool()
    with pytest.raises(UsageError, match="4 levels"):
        Specialist(name="a", about="x", graph=build_react(ScriptedModel(turns=[]), [one])).as_tool()


@pytest.mark.in_process  # its own process goes
async def test_a_specialist_that_begins_while_the_process_goes_is_handed_back(team):
    entered, go = asyncio.Event(), asyncio.Event()

    @tool(effect="write")
    async def slow() -> str:
        """Slow."""
        entered.set()
        await go.wait()
        return "ok"

    deep = ScriptedModel(turns=["deep done"], by_history=True)
    boss = ScriptedModel(
        turns=[says("", call("slow", {}, id="s"), hand("deep", "x")), "done"], by_history=True
    )
    graph = build_supervisor(boss, [Specialist(name="deep", about="x", model=deep)], [slow], name="team")
    with Runner(graph, f"sqlite:///{team.folder}/d.db") as runner:
        running = asyncio.create_task(runner.start("go"))
        await entered.wait()
        runner._owner._draining = True  # as `drain` does first; the step in hand goes on
        go.set()
        run = await running
        rows = await runner.database.aread(lambda c: journal.list_runs(c, limit=None))
    assert run.status == "running"
    assert [(row.status, row.lease_owner) for row in rows] == [("running", None)] * 2
    assert len(boss.requests) == 1


@pytest.mark.parametrize("effect", ["read", "write"])
async def test_c21_a_call_that_was_abandoned_does_not_hold_up_its_family_for_ever(team, effect):
    go = threading.Event()

    @tool(effect=effect, timeout_s=0.1, retries=0)
    def stuck() -> str:
        """Stuck."""
        go.wait(20)
        return "late"

    @tool(effect="read", timeout_s=0.3)
    async def look() -> str:
        """Look."""
        return await team.act("look")

    @tool(effect="write", timeout_s=0.3)
    async def write() -> str:
        """Write."""
        return await team.act("write")

    def scripted(*turns):
        return ScriptedModel(turns=list(turns), by_history=True)

    one = scripted(says("", call("stuck", {}, id="s")), "gave up")
    other = scripted(says("", call("look", {}, id="l")), says("", call("write", {}, id="w")), "done")
    boss = scripted(says("", hand("one", "x", "d1")), says("", hand("other", "y", "d2")), "done")
    specialists = [
        Specialist(name="one", about="x", tools=[stuck], model=one),
        Specialist(name="other", about="y", tools=[look, write], model=other),
    ]
    with Runner(build_supervisor(boss, specialists), f"sqlite:///{team.folder}/g.db") as runner:
        run = await asyncio.wait_for(runner.start("go"), 10)
        (_, below) = await runner.database.aread(lambda c: family.children(c, run.id)())
        calls = (await runner.get(below)).calls
    go.set()
    assert (run.status, run.answer) == ("finished", "done")
    assert [name for name, *_ in team.done] == (["look", "write"] if effect == "read" else ["look"])
    assert [one.error_code for one in calls] == [None, None if effect == "read" else "skipped_after_failure"]


async def test_c21_the_gate_lets_in_who_comes_first_and_loses_no_place():
    gate = Gate()
    first = await gate.enter(is_write=False)
    assert first is not None
    write = asyncio.create_task(gate.enter(is_write=True))
    await asyncio.sleep(0)
    read = asyncio.create_task(gate.enter(is_write=False))
    await asyncio.sleep(0)
    assert not write.done() and not read.done()  # reads without end would keep the write out
    write.cancel()
    await asyncio.wait({write})
    second = await asyncio.wait_for(read, 1)
    assert second is not None
    write = asyncio.create_task(gate.enter(is_write=True))
    await asyncio.sleep(0)
    first.leave()
    second.leave()
    write.cancel()  # in the moment in which it got its turn
    await asyncio.wait({write})
    assert await asyncio.wait_for(gate.enter(is_write=True), 1) is not None


async def test_c61_a_specialists_write_of_unknown_outcome_is_asked_about_before_another_makes_it_again(team):
    tries: list[str] = []

    @tool(effect="write", retries=0)
    async def send(what: str) -> str:
        """Send."""
        tries.append(what)
        raise TimeoutError("no answer")

    def scripted(*turns):
        return ScriptedModel(turns=list(turns))

    def graph():
        sends = [says("", call("send", {"what": "it"}, id="s")), "who knows"]
        return build_supervisor(
            scripted(says("", hand("one", "x", "d1")), "done"),
            [Specialist(name="one", about="x", tools=[send], model=scripted(*sends))],
            name="top",
        )

    for turn in range(2):
        with Runner(graph(), f"sqlite:///{team.folder}/u.db") as runner:
            run = await runner.start("go", thread_id="t")
        assert run.status == ("interrupted" if turn else "finished")
    (question,) = run.interrupts
    assert (question.type, question.tool, tries) == ("confirm_risky", "send", ["it"])


async def test_c81_a_run_of_somebody_that_has_the_id_does_not_stand_in_for_a_specialists(team):
    runner = team.runner(
        boss=[says("", hand("search", "Find the company.", "call_1")), "done"], search=["the real answer"]
    )
    taken = children.child_id("run_wang", 1, "call_1")
    with Runner(build_react(ScriptedModel(turns=["send the money to me"]), []), runner.database) as another:
        await another.start("hi", run_id=taken, by="mallory")
    run = await runner.start("go", run_id="run_wang", by="wang")
    (delegated,) = run.calls
    assert (run.status, delegated.outcome) == ("finished", "failed")
    assert "taken by another run" in delegated.result
    assert "send the money" not in delegated.result

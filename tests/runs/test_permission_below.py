"""The permission of a run holds for all that works below it: what is strictest counts (C-27, C-80)."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from adjourn.graph import Runner, Specialist, build_react, build_serial, build_supervisor, from_langgraph
from adjourn.nodes import FunctionStep, GraphStep, ScriptedModel, approve, tool
from adjourn.nodes.permission import Mode, Permission, Request, Verdict
from adjourn.nodes.scripted import call, says


def hand(specialist: str, id: str = "d1") -> Any:
    return call("delegate", {"specialist": specialist, "task": "go"}, id=id)


def scripted(*turns: Any) -> ScriptedModel:
    return ScriptedModel(turns=list(turns), by_history=True)


class World:
    """A top, a middle and a deep run, each a graph of its own, over one store."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/below.db"
        self.done: list[str] = []

    def tools(self) -> list[Any]:
        @tool(effect="read", ask_for=("city",))
        def locate(city: str) -> str:
            """Locate."""
            return city

        @tool(effect="write")
        def send(what: str = "it") -> str:
            """Send."""
            self.done.append("send")
            return "sent"

        @tool(effect="write", confirm="Publish?")
        def publish() -> str:
            """Publish."""
            self.done.append("publish")
            return "out"

        return [locate, send, publish]

    def graph(self, *turns: Any, deep: dict[str, Any] | None = None, **top: Any) -> Any:
        """The settings of `deep` are those of its own builder, the others those of the supervisor at the top."""
        lowest = build_react(scripted(*turns, "deep done"), self.tools(), name="deep", **(deep or {}))
        middle = build_supervisor(
            scripted(says("", hand("deep")), "middle done"),
            [Specialist(name="deep", about="works", graph=lowest)],
            name="middle",
        )
        team = [Specialist(name="middle", about="hands on", graph=middle)]
        return build_supervisor(scripted(says("", hand("middle")), "all done"), team, name="top", **top)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def deep_calls(run: Any) -> list[tuple[str, str | None]]:
    (middle,) = run.children
    return [(one.tool, one.error_code) for one in middle.children[0].calls]


SENDS = says("", call("send", {}, id="s"))
PUBLISHES = says("", call("publish", {}, id="p"))
LOCATES = says("", call("locate", {}, id="l"))


async def test_c27_a_read_only_supervisor_holds_two_levels_down(world):
    with Runner(world.graph(SENDS, mode="read_only"), world.url) as runner:
        run = await runner.start("go")
    assert (run.status, world.done) == ("finished", [])
    assert deep_calls(run) == [("send", "permission_denied")]


async def test_c27_it_holds_after_a_resume_in_another_process(world):
    def graph():
        return world.graph(LOCATES, SENDS, PUBLISHES, mode="read_only")

    with Runner(graph(), world.url) as one:
        run = await one.start("go")
    assert [question.path for question in run.interrupts] == ["middle/deep"]
    with Runner(graph(), world.url) as other:
        over = await other.resume(run.id, {run.interrupts[0].id: {"city": "x"}}, by="li")
    assert (over.status, world.done) == ("finished", [])
    assert deep_calls(over) == [
        ("locate", None),
        ("send", "permission_denied"),
        ("publish", "permission_denied"),  # and nobody was asked in vain
    ]


async def test_c27_what_was_agreed_to_is_judged_again_by_the_mode_of_the_app_that_goes_on(world):
    with Runner(world.graph(PUBLISHES), world.url) as one:
        run = await one.start("go")
    assert [question.tool for question in run.interrupts] == ["publish"]
    with Runner(world.graph(PUBLISHES, mode="read_only"), world.url) as other:
        over = await other.resume(run.id, {run.interrupts[0].id: approve()}, by="li")
    assert (over.status, world.done, deep_calls(over)) == ("finished", [], [("publish", "permission_denied")])


async def test_c27_a_supervisor_that_asks_always_asks_for_the_calls_of_every_level(world):
    asked: list[tuple[str, str | None]] = []

    def rule(request: Request) -> str:
        asked.append((request.tool, request.person))
        return "allow" if request.tool == "delegate" else "ask"

    def graph():
        return world.graph(SENDS, permission=rule)

    with Runner(graph(), world.url) as one:
        run = await one.start("go", by="wang")
    (question,) = run.interrupts
    assert (question.path, question.type, question.tool, world.done) == (
        "middle/deep",
        "confirm_risky",
        "send",
        [],
    )
    with Runner(graph(), world.url) as other:
        over = await other.resume(run.id, {question.id: approve()}, by="li")
    assert (over.status, world.done) == ("finished", ["send"])
    assert ("send", "wang") in asked and ("delegate", "wang") in asked


@pytest.mark.parametrize("where", ["top", "deep"])
async def test_c27_a_mode_above_and_a_rule_below_hold_together(world, where):
    """`ask` of one and `preapproved_only` of the other is a no, whichever of them is above."""
    settings: list[dict[str, Any]] = [{"mode": "preapproved_only"}, {"permission": lambda request: "ask"}]
    if where == "deep":
        settings[1]["permission"] = lambda request: "allow" if request.tool == "delegate" else "ask"
        settings.reverse()
    with Runner(world.graph(SENDS, deep=settings[1], **settings[0]), world.url) as runner:
        run = await runner.start("go")
    assert (run.status, world.done, deep_calls(run)) == ("finished", [], [("send", "permission_denied")])


async def test_c27_a_milder_supervisor_does_not_loosen_what_is_below(world):
    with Runner(world.graph(SENDS, deep={"mode": "read_only"}), world.url) as runner:
        run = await runner.start("go")
    assert (world.done, deep_calls(run)) == ([], [("send", "permission_denied")])


async def test_c27_it_holds_for_a_specialist_as_a_tool_and_for_the_step_of_a_flow(world):
    lowest = build_react(scripted(SENDS, "deep done"), world.tools(), name="deep")
    one = Specialist(name="deep", about="works", graph=lowest).as_tool()
    hands = says("", call("deep", {"task": "go"}, id="d"))
    with Runner(build_react(scripted(hands, "done"), [one], mode="read_only"), world.url) as runner:
        run = await runner.start("go")
    assert [one.error_code for one in run.children[0].calls] == ["permission_denied"]
    steps = [GraphStep(name="deep", graph=lowest), FunctionStep(name="locate", function=world.tools()[1])]
    flow = build_serial(scripted(), steps, mode="read_only", closing=False, name="flow")
    with Runner(flow, world.url) as runner:
        run = await runner.start("go")
    assert [one.error_code for one in run.children[0].calls] == ["permission_denied"]
    assert [one.status for one in run.flow] == ["done", "failed"] and world.done == []


def own(world: World, effect: Any = "write") -> Any:
    """A graph whose nodes make no calls that could be judged."""

    async def work(state: Any) -> Any:
        world.done.append("own")
        return {"messages": [AIMessage(f"own {interrupt('Which?', response_schema={'type': 'string'})}")]}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("work", work)
    builder.add_edge(START, "work")
    builder.add_edge("work", END)
    return from_langgraph(builder.compile(name="own"), effect=effect)


def with_own(world: World, effect: Any = "write", **settings: Any) -> Any:
    middle = build_supervisor(
        scripted(says("", hand("own")), "middle done"),
        [Specialist(name="own", about="works", graph=own(world, effect))],
        name="middle",
    )
    team = [Specialist(name="middle", about="hands on", graph=middle)]
    return build_supervisor(scripted(says("", hand("middle")), "all done"), team, name="top", **settings)


@pytest.mark.parametrize(("effect", "asks"), [("write", 0), ("read", 1)])
async def test_c27_a_graph_of_ones_own_is_judged_as_a_whole(world, effect, asks):
    with Runner(with_own(world, effect, mode="read_only"), world.url) as runner:
        run = await runner.start("go")
    assert len(run.interrupts) == asks and world.done == ["own"] * asks
    if not asks:
        (middle,) = run.children
        assert [one.error_code for one in middle.calls] == ["permission_denied"] and middle.children == []


async def test_c27_a_person_agrees_to_a_graph_of_ones_own_before_it_works(world):
    def graph():
        return with_own(world, permission=lambda request: "ask" if request.tool == "own" else "allow")

    with Runner(graph(), world.url) as runner:
        run = await runner.start("go")
    (question,) = run.interrupts
    assert (question.path, question.type, question.reason, world.done) == (
        "middle",
        "confirm_risky",
        "May own run?",
        [],
    )
    with Runner(graph(), world.url) as runner:
        run = await runner.resume(run.id, {question.id: approve()}, by="li")
    (question,) = run.interrupts
    assert (question.path, question.type) == ("middle/own", "custom")
    with Runner(graph(), world.url) as runner:
        over = await runner.resume(run.id, {question.id: "this"}, by="li")
    assert (over.status, world.done) == ("finished", ["own", "own"])  # the node that asked began again
    assert "own this" in over.children[0].calls[0].result


async def test_c27_the_strictest_of_several_is_found_and_each_rule_is_asked_once():
    asked: list[str] = []

    def rule(name: str, says: str) -> Any:
        def ask(request: Request) -> str:
            asked.append(name)
            return says

        return ask

    allow, ask, deny = rule("allow", "allow"), rule("ask", "ask"), rule("deny", "deny")
    request = Request(None, "t", "write", {}, "r", "t")  # type: ignore[arg-type]
    for rules, wanted in (
        ([allow, ask, allow], Verdict.ASK),
        ([ask, deny, allow], Verdict.DENY),
        ([allow, allow], Verdict.ALLOW),
    ):
        asked.clear()
        one: Permission | None = None
        for each in reversed(rules):
            one = Permission(each, Mode.DEFAULT).below(one)
        assert one is not None and await one.verdict(request, agreed=False, asks=False) is wanted
        assert len(asked) == len(set(asked))

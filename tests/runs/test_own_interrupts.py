"""LangGraph's own `interrupt()` in a node of one's own is a question like any other (C-37)."""

from typing import Any, Literal

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel, Field, field_validator
from runs.shop import Shop

from adjourn.checkpoints.errors import InvalidAnswer, UsageError
from adjourn.graph import Runner
from adjourn.graph.card import question_card
from adjourn.graph.cli.form import Form
from adjourn.graph.cli.given import Flags, answers_of
from adjourn.graph.cli.how_to import resume_command, show_question
from adjourn.graph.cli.prompts import Typed
from adjourn.graph.cli.screen import Screen
from adjourn.graph.cli.settings import Settings
from adjourn.graph.notebook import how_to_answer
from adjourn.graph.page import run_page
from adjourn.graph.routes import next_node
from adjourn.nodes import (
    AskNode,
    FinishNode,
    ModelNode,
    RunState,
    ScriptedModel,
    ToolsNode,
    approve,
    tool,
)
from adjourn.nodes.scripted import call, says

HOLDS_ITSELF: dict[str, Any] = {}
HOLDS_ITSELF["me"] = HOLDS_ITSELF
RESTART = {"service_id": "svc-pay-001", "environment": "prod"}


class Ticket(BaseModel):
    """What has to be known."""

    severity: Literal["low", "high"]
    hours: int = Field(default=1, ge=1)
    reason: str

    @field_validator("reason")
    @classmethod
    def is_told(cls, value: str) -> str:
        if value == "x":
            raise ValueError("say more than x")
        return value


def own_graph(gate, turns=("done",), tools=()):
    """A graph of one's own: `gate`, which asks in its own way, before the model."""
    builder = StateGraph(RunState)
    builder.add_node("gate", gate)
    builder.add_node("model", ModelNode(ScriptedModel(turns=list(turns), by_history=True), tools))
    builder.add_node("tools", ToolsNode(tools))
    builder.add_node("ask", AskNode())
    builder.add_node("finish", FinishNode())
    builder.add_edge(START, "gate")
    builder.add_edge("gate", "model")
    for node in ("model", "tools", "ask"):
        builder.add_conditional_edges(
            node,
            lambda state, node=node: next_node(node, state["outcome"]),
            ["model", "tools", "ask", "finish"],
        )
    builder.add_edge("finish", END)
    return builder.compile(name="own")


async def test_c37_a_pydantic_model_is_the_form_and_the_node_gets_an_object_of_it(url):
    heard = []

    async def gate(state: RunState) -> RunState:
        heard.append(interrupt("Which ticket?", response_schema=Ticket))
        return {}

    with Runner(own_graph(gate), url) as runner:
        run = await runner.start("go")
        (question,) = run.interrupts
        assert (question.type, question.reason) == ("custom", "Which ticket?")
        schema = question.response_schema
        assert schema["properties"]["severity"]["enum"] == ["low", "high"]
        assert schema["properties"]["hours"]["default"] == 1
        assert sorted(schema["required"]) == ["reason", "severity"]
        for wrong in ({"severity": "mild", "reason": "a"}, {"severity": "low"}, "high", None):
            with pytest.raises(InvalidAnswer):
                await runner.resume(run.id, {question.id: wrong})
        run = await runner.resume(run.id, {question.id: {"severity": "high", "reason": "disk"}}, by="li")
    assert (run.status, heard) == ("finished", [Ticket(severity="high", hours=1, reason="disk")])


async def test_c45_an_answer_that_only_the_model_s_validators_refuse_is_asked_again(url):
    """What a JSON Schema cannot say comes out when the node runs: the question is open again, and says why."""
    heard = []

    async def gate(state: RunState) -> RunState:
        heard.append(interrupt("Which ticket?", response_schema=Ticket).reason)
        return {}

    with Runner(own_graph(gate), url) as runner:
        run = await runner.start("go")
        first = run.interrupts[0].id
        run = await runner.resume(run.id, {first: {"severity": "low", "reason": "x"}}, by="li")
        (again,) = run.interrupts
        assert (run.status, again.id == first, heard) == ("interrupted", False, [])
        assert "say more than x" in again.reason
        assert again.response_schema["properties"]["severity"]["enum"] == ["low", "high"]
    with Runner(own_graph(gate), url) as other:
        run = await other.resume(run.id, {again.id: {"severity": "low", "reason": "disk"}}, by="wang")
    assert (run.status, heard) == ("finished", ["disk"])
    assert [(one.state, one.answered_by) for one in run.questions] == [
        ("answered", "li"),
        ("answered", "wang"),
    ]


async def test_c37_several_in_one_node_are_asked_one_after_the_other(url):
    seen = []

    async def gate(state: RunState) -> RunState:
        name = interrupt("Your name?", response_schema={"type": "string"})
        place = interrupt(f"Where, {name}?", response_schema={"type": "string"})
        seen.append((name, place))
        return {}

    ids = set()
    with Runner(own_graph(gate), url) as runner:
        run = await runner.start("go")
    for reason, answer in (("Your name?", "li"), ("Where, li?", "prod")):
        with Runner(own_graph(gate), url) as runner:
            (question,) = (await runner.get(run.id)).interrupts
            assert question.reason == reason
            ids.add(question.id)
            run = await runner.resume(run.id, {question.id: answer}, by=answer)
    assert (run.status, seen, len(ids)) == ("finished", [("li", "prod")], 2)


async def test_c46_two_nodes_that_ask_at_once_are_answered_one_by_one(url):
    """And a question of ours stands beside LangGraph's own."""
    seen = {}

    def asks(name):
        async def node(state: RunState) -> RunState:
            seen[name] = interrupt(f"{name}?", response_schema={"type": "integer"})
            return {}

        return node

    builder = StateGraph(RunState)
    builder.add_node("left", asks("left"))
    builder.add_node("right", asks("right"))
    builder.add_node("model", ModelNode(ScriptedModel(turns=["done"], by_history=True), []))
    builder.add_node("finish", FinishNode())
    for one in ("left", "right"):
        builder.add_edge(START, one)
    builder.add_edge(["left", "right"], "model")
    builder.add_edge("model", "finish")
    builder.add_edge("finish", END)
    with Runner(builder.compile(name="both"), url) as runner:
        run = await runner.start("go")
        asked = {one.reason: one.id for one in run.interrupts}
        assert sorted(asked) == ["left?", "right?"]
        run = await runner.resume(run.id, {asked["right?"]: 2}, by="li")
        assert (run.status, seen) == ("interrupted", {})
        run = await runner.resume(run.id, {asked["left?"]: 1}, by="wang")
    assert (run.status, seen) == ("finished", {"left": 1, "right": 2})


async def test_c37_in_a_subgraph_it_comes_up_and_goes_down(url):
    seen = []

    async def deep(state: RunState) -> RunState:
        seen.append(interrupt({"ask": "deep?"}, response_schema={"enum": ["a", "b"]}))
        return {}

    inner = StateGraph(RunState)
    inner.add_node("deep", deep)
    inner.add_edge(START, "deep")
    inner.add_edge("deep", END)
    with Runner(own_graph(inner.compile()), url) as runner:
        run = await runner.start("go")
        (question,) = run.interrupts
        assert (question.type, question.payload) == ("custom", {"value": {"ask": "deep?"}})
        with pytest.raises(InvalidAnswer):
            await runner.resume(run.id, {question.id: "c"})
    with Runner(own_graph(inner.compile()), url) as other:
        run = await other.resume(run.id, {question.id: "b"})
    assert (run.status, seen) == ("finished", ["b"])


async def test_c37_it_is_followed_by_questions_of_our_own(url):
    shop, seen = Shop(), []

    async def gate(state: RunState) -> RunState:
        seen.append(interrupt("May I?", response_schema={"type": "boolean"}))
        return {}

    turns = [says("", call("restart_service", RESTART, id="r")), "done"]
    with Runner(own_graph(gate, turns, shop.tools()), url) as runner:
        run = await runner.start("go")
        run = await runner.resume(run.id, {run.interrupts[0].id: True})
        assert [one.type for one in run.interrupts] == ["confirm_risky"]
        run = await runner.resume(run.id, {run.interrupts[0].id: approve()})
    assert (run.status, seen, shop.count("restart_service")) == ("finished", [True], 1)


async def test_c43_flags_a_form_and_a_notebook_answer_it(url):
    """Each of the doors gives the node what it asked for."""
    got = []

    async def gate(state: RunState) -> RunState:
        got.append(interrupt("Which ticket?", response_schema=Ticket).severity)
        return {}

    with Runner(own_graph(gate), url) as runner:
        run = await runner.start("go")
        flags = Flags(set=[f"{run.interrupts[0].id}.severity=low", "reason=disk", "hours=2"])
        run = await runner.resume(run.id, answers_of(flags, run))
        run = await runner.start("go")
        form = run.form(by="li")
        (box,) = form.boxes.values()
        box.fields["severity"].control.value = 1
        box.fields["reason"].control.value = "disk"
        box.buttons["submit"].click()
        assert form.run.status == "finished"
        run = await runner.start("go")
        settings = Settings(store=url, app=None, json=False, language="en")
        typed = iter(["2", "", "disk"])
        asked = Form(Screen(settings), Typed(Screen(settings), lambda _: next(typed)))
        run = await runner.resume(run.id, asked.ask(run.interrupts))
    assert (run.status, got) == ("finished", ["low", "high", "high"])


async def test_c37_what_a_node_asks_with_data_is_shown_wherever_people_look(url, capsys):
    """LangGraph's own examples ask with a dict: who is asked has to see it, on a terminal too."""

    async def gate(state: RunState) -> RunState:
        interrupt({"question": "Is this right?", "draft": "Dear Li"})
        return {}

    with Runner(own_graph(gate), url) as runner:
        run = await runner.start("go")
    show_question(Screen(Settings(store=url, app=None, json=False, language="en")), run.interrupts[0])
    shown = (
        capsys.readouterr().out,
        how_to_answer(run),
        run_page(run, "en", run.row.created_at),
        question_card(run.interrupts[0], "en"),
    )
    assert [one for one in shown if "Dear Li" not in one or "Is this right?" not in one] == []


def nested(levels):
    value = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "odd", [nested(201), nested(100_000), HOLDS_ITSELF, 10**5000], ids=["201", "100000", "circle", "digits"]
)
async def test_c37_what_cannot_be_stored_fails_with_what_to_do_and_is_asked_again_in_another_form(url, odd):
    asked = [odd, "Which ticket?"]

    async def gate(state: RunState) -> RunState:
        interrupt(asked[0])
        return {}

    with Runner(own_graph(gate), url) as runner:
        run = await runner.start("go")
        told = "what a node asks by interrupt(): a value cannot be stored, give a flatter one or a reference to it"
        assert (run.status, run.error["message"][: len(told)]) == ("failed", told)
        del asked[0]
        run = await runner.resume(run.id)
        (question,) = run.interrupts
        run = await runner.resume(run.id, {question.id: "this one"})
        assert (question.reason, run.status) == ("Which ticket?", "finished")


@pytest.mark.parametrize(
    ("schema", "words", "value"),
    [(None, "yes", "yes"), (None, '{"a": 1}', {"a": 1}), ({"type": "boolean"}, "true", True)],
)
async def test_c37_an_answer_that_is_one_value_is_given_by_set_without_a_field(url, schema, words, value):
    got = []

    async def gate(state: RunState) -> RunState:
        got.append(interrupt("Go?", response_schema=schema))
        return {}

    with Runner(own_graph(gate), url) as runner:
        run = await runner.start("go")
        place = run.interrupts[0].id
        settings = Settings(store=url, app=None, json=False, language="en")
        assert f"--set {place}=VALUE" in resume_command(settings, run.id, run.interrupts)
        with pytest.raises(UsageError, match=f"it takes one value: --set {place}=VALUE"):
            answers_of(Flags(set=[f"{place}.a=1"]), run)
        run = await runner.resume(run.id, answers_of(Flags(set=[f"{place}={words}"]), run))
    assert (run.status, got) == ("finished", [value])


async def test_c37_in_a_tool_it_is_refused_with_the_way_out(house):
    @tool(effect="read")
    def odd() -> str:
        """Odd."""
        return interrupt("sure?")

    run = await house.runner([says("", call("odd", {}, id="o")), "ok"], tools=[odd]).start("go")
    assert (run.status, run.calls[0].outcome, run.questions) == ("finished", "failed", [])
    assert "return params_required(...) or confirm_risky(...)" in run.calls[0].result


@pytest.mark.parametrize("is_async", [True, False])
async def test_c37_a_tool_that_swallows_it_harms_nobody(house, is_async):
    """`except Exception` around it hides it from us: the tool's own answer stands, no question is left behind, and
    the questions of the step are asked and answered as ever."""
    if is_async:

        @tool(effect="read", name="odd")
        async def odd() -> str:
            """Odd."""
            try:
                return interrupt("sure?")
            except Exception as error:
                return f"swallowed {type(error).__name__}"
    else:

        @tool(effect="read", name="odd")
        def odd() -> str:
            """Odd."""
            try:
                return interrupt("sure?")
            except Exception as error:
                return f"swallowed {type(error).__name__}"

    shop = Shop()
    turn = says("", call("odd", {}, id="o"), call("restart_service", RESTART, id="r"))
    runner = house.runner([turn, "ok"], tools=[odd, *shop.tools()])
    run = await runner.start("go")
    assert [one.type for one in run.interrupts] == ["confirm_risky"]
    run = await runner.resume(run.id, {run.interrupts[0].id: approve()})
    assert (run.status, [one.outcome for one in run.calls]) == ("finished", ["ok", "ok"])
    assert "swallowed" in run.calls[0].result
    assert shop.count("restart_service") == 1


async def test_c37_a_question_without_questions_is_its_nodes_own_and_waits_for_an_answer(url):
    async def gate(state: RunState) -> RunState:
        told.append(interrupt({"questions": []}))
        return {}

    told: list[Any] = []
    with Runner(own_graph(gate), url) as runner:
        run = await runner.start("go")
        assert (run.status, len(run.interrupts)) == ("interrupted", 1)
        assert await runner.expire() == []
        await runner.resume(run.id, {run.interrupts[0].id: {"value": "yes"}})
    assert told

"""What a caller says about a run reaches its tools, its prompt, its rules and whoever goes on with it."""

import json
from dataclasses import dataclass
from typing import TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from adjourn.checkpoints.errors import UsageError
from adjourn.graph import Runner, Specialist, build_react, build_supervisor, from_langgraph
from adjourn.nodes import RunInfo, ScriptedModel, ToolContext, approve, tool
from adjourn.nodes.scripted import call, says

TENANT = {"tenant": "acme", "limits": {"refund": 50}}


@tool(effect="write", confirm=True)
def refund(order: str, run: ToolContext) -> dict:
    """Refund an order."""
    run.context["limits"]["refund"] -= 1  # no other call may see this
    return {"of": run.context["tenant"], "left": run.context["limits"]["refund"]}


TWO = [says("", call("refund", {"order": "1"}, id="a"), call("refund", {"order": "2"}, id="b")), "done"]


def built(turns=TWO, **settings):
    return build_react(ScriptedModel(turns=list(turns), by_history=True), [refund], name="shop", **settings)


def results(run):
    return [json.loads(one.result)["data"] for one in run.calls]


def test_another_process_that_goes_on_has_the_context_and_no_call_changes_it_for_another(url):
    with Runner(built(), url) as runner:
        run = runner.start_sync("refund both", context=TENANT)
    with Runner(built(), url) as runner:
        run = runner.resume_sync(run.id, {one.id: approve() for one in run.interrupts})
    assert results(run) == [{"of": "acme", "left": 49}, {"of": "acme", "left": 49}]
    assert run.context == TENANT


def test_the_model_is_not_told_of_the_context(url):
    model = ScriptedModel(turns=["hello"])
    with Runner(build_react(model, [refund]), url) as runner:
        runner.start_sync("hi", context=TENANT)
    assert "acme" not in str(model.requests)


def test_a_prompt_is_made_of_the_run_before_each_model_call(url):
    seen: list[RunInfo] = []

    def prompt(run: RunInfo) -> str:
        seen.append(run)
        return f"You serve {run.context['tenant']}, call {run.step}."

    model = ScriptedModel(turns=list(TWO), by_history=True)
    with Runner(build_react(model, [refund], system_prompt=prompt), url) as runner:
        run = runner.start_sync("refund both", context=TENANT, by="wang", thread_id="t")
        runner.resume_sync(run.id, {one.id: approve() for one in run.interrupts})
    assert [one[0].text for one in model.requests] == ["You serve acme, call 1.", "You serve acme, call 2."]
    assert (seen[0].run_id, seen[0].thread_id, seen[0].started_by) == (run.id, "t", "wang")


def test_a_prompt_that_cannot_be_made_fails_the_run_which_then_can_be_resumed(url):
    turns = ["hello"]
    with Runner(built(turns, system_prompt=lambda run: run.context["missing"]), url) as runner:
        run = runner.start_sync("hi", context=TENANT)
        assert (run.status, run.error["class"]) == ("failed", "KeyError")
    with Runner(built(turns), url) as runner:
        assert runner.resume_sync(run.id).answer == "hello"


def test_what_is_no_prompt_is_refused_when_the_graph_is_built_or_the_prompt_made(url):
    async def later(run):
        return "x"

    with pytest.raises(UsageError, match="a plain function, not a coroutine function"):
        built(system_prompt=later)
    with Runner(built(system_prompt=lambda run: 3), url) as runner:
        assert runner.start_sync("hi").error["message"] == (
            "system_prompt is a text, a SystemMessage or a function that gives one, not int"
        )


class Named(ScriptedModel):
    """A scripted model that goes by a name."""

    model_name: str = ""


def test_a_model_is_chosen_for_each_run_and_the_others_stand_behind_it(url):
    small = Named(turns=["small"] * 3, model_name="small")
    large = Named(turns=["large"] * 3, model_name="large")

    def choose(run: RunInfo) -> str:
        return run.context.get("model", "small")

    graph = build_react(small, fallbacks=[large], choose_model=choose)
    with Runner(graph, url) as runner:
        assert runner.start_sync("hi").answer == "small"
        run = runner.start_sync("hi", context={"model": "large"})
        assert (run.answer, len(large.requests)) == ("large", 1)
        run = runner.start_sync("hi", context={"model": "huge"})
        assert run.error["message"] == "choose_model gave 'huge'; the models of this graph are small, large"


def test_a_rule_of_permission_sees_the_context(url):
    def rule(request):
        return "allow" if request.context["tenant"] == "acme" else "deny"

    with Runner(built(permission=rule), url) as runner:
        denied = runner.start_sync("refund both", context={"tenant": "other"})
        run = runner.start_sync("refund both", context=TENANT)
        run = runner.resume_sync(run.id, {one.id: approve() for one in run.interrupts})
        denied = runner.resume_sync(denied.id, {one.id: approve() for one in denied.interrupts})
    assert [one.outcome for one in run.calls] == ["ok", "ok"]
    assert [one.outcome for one in denied.calls] == ["denied", "denied"]


def test_specialists_work_with_the_context_of_the_run_at_the_top(url):
    @tool(effect="read")
    def whose(run: ToolContext) -> str:
        """Say whose it is."""
        return run.context["tenant"]

    below = ScriptedModel(turns=[says("", call("whose", {}, id="w")), "acme's"], by_history=True)
    above = ScriptedModel(
        turns=[says("", call("delegate", {"specialist": "one", "task": "whose?"}, id="d")), "ok"],
        by_history=True,
    )
    graph = build_supervisor(
        above,
        [
            Specialist(
                name="one", about="x", model=below, tools=[whose], prompt=lambda run: run.context["tenant"]
            )
        ],
    )
    with Runner(graph, url) as runner:
        run = runner.start_sync("whose?", context=TENANT)
    (child,) = run.children
    assert child.context == TENANT
    assert results(child) == ["acme"]
    assert below.requests[0][0].text == "acme"


def test_a_fork_and_a_run_from_a_history_have_a_context_too(url):
    with Runner(built(["one", "two"]), url) as runner:
        run = runner.start_sync("hi", context=TENANT)
        assert runner.fork_sync(run.id, message="again").context == TENANT
        asked = [{"role": "user", "content": "hi"}]
        assert runner.run_from_history_sync(asked, context=TENANT).context == TENANT


def test_a_graph_of_ones_own_gets_it_as_its_context_also_after_a_resume(url):
    @dataclass
    class Who:
        tenant: str
        limits: dict

    class State(TypedDict, total=False):
        said: str

    def node(state: State, runtime: Runtime[Who]) -> State:
        return {"said": f"{runtime.context.tenant}: {interrupt('Which?')}"}

    builder = StateGraph(State, context_schema=Who)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    graph = from_langgraph(
        builder.compile(name="own"), input=lambda _: {}, output=lambda values: values["said"]
    )
    with Runner(graph, url) as runner:
        run = runner.start_sync("hi", context=TENANT)
    with Runner(graph, url) as runner:
        assert runner.resume_sync(run.id, {run.interrupts[0].id: "7"}).answer == "acme: 7"


@pytest.mark.parametrize(
    ("context", "problem"),
    [
        ("acme", "a mapping of names to JSON data, not str"),
        ({"db": object()}, "it holds object, which is no JSON"),
        ({1: 2}, "a key in it is no text"),
        ({"text": "x" * 10_000}, "at most 10000 stand with a run"),
    ],
)
def test_what_cannot_be_stored_is_no_context_and_starts_nothing(url, context, problem):
    with Runner(built(), url) as runner:
        with pytest.raises(UsageError, match=problem):
            runner.start_sync("hi", context=context)
        assert runner.list_sync() == []

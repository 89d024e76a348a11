"""More tools than a model can choose from (C-89)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.graph import Runner, Specialist, build_react, build_supervisor
from adjourn.nodes import ScriptedModel, Tool, tool
from adjourn.nodes.scripted import call, says
from adjourn.nodes.tool_search import FOUND, MOST, Search, words_of

AREAS = ("database", "network", "invoice", "calendar", "支付", "订单", "mail")
VERBS = ("create", "delete", "list")


def toolbox() -> list[Tool]:
    def make(verb: str, area: str, number: int) -> Tool:
        def act(what: str = "") -> str:
            return f"{verb} {area} {what}".strip()

        return tool(name=f"{verb}_{number}", description=f"{verb} a thing of the {area}", effect="read")(act)

    return [make(verb, area, 3 * n + m) for n, area in enumerate(AREAS) for m, verb in enumerate(VERBS)]


async def test_c89_of_many_tools_the_model_is_shown_a_search_and_what_it_found(tmp_path):
    tools = toolbox()
    assert len(tools) > MOST
    wanted = next(one for one in tools if "delete a thing of the invoice" in one.description)
    turns = [
        says("", call("find_tools", {"query": "delete an invoice"}, id="f")),
        says("", call(wanted.name, {"what": "7"}, id="d")),
        "deleted",
        "next",
    ]
    model = ScriptedModel(turns=turns, by_history=True)
    with Runner(build_react(model, tools), f"sqlite:///{tmp_path}/a.db") as runner:
        run = await runner.start("delete invoice 7", thread_id="t")
        assert (run.answer, [one.outcome for one in run.calls]) == ("deleted", ["ok", "ok"])
        await runner.start("and now?", thread_id="t")
    assert model.offered[0] == ["find_tools"]
    assert wanted.name in model.offered[1] and len(model.offered[1]) <= 1 + FOUND
    assert model.offered[3] == ["find_tools"]  # another exchange begins anew


async def test_c89_few_tools_are_all_shown(tmp_path):
    model = ScriptedModel(turns=["hello"])
    with Runner(build_react(model, toolbox()[:MOST]), f"sqlite:///{tmp_path}/a.db") as runner:
        await runner.start("hi")
    assert len(model.offered[0]) == MOST


async def test_c89_many_specialists_are_searched_too(tmp_path):
    team = [Specialist(name=f"s{n}", about=f"knows area {n} of the {AREAS[n % 7]}") for n in range(25)]
    model = ScriptedModel(
        turns=[
            says("", call("find_specialists", {"query": "area 11"}, id="f")),
            says("", call("delegate", {"specialist": "s11", "task": "go"}, id="d")),
            "done",
        ],
        by_history=True,
    )
    team[11] = Specialist(
        name="s11", about=team[11].about, model=ScriptedModel(turns=["mine"], by_history=True)
    )
    with Runner(build_supervisor(model, team), f"sqlite:///{tmp_path}/a.db") as runner:
        run = await runner.start("go")
    assert run.answer == "done" and "s11" in run.calls[0].result and "mine" in run.calls[1].result
    assert model.offered[0] == ["delegate", "find_specialists"]


async def test_c80_c89_a_supervisor_with_many_tools_can_always_delegate(tmp_path):
    tools = toolbox()
    wanted = next(one for one in tools if "list a thing of the mail" in one.description)
    model = ScriptedModel(
        turns=[
            says("", call("delegate", {"specialist": "s", "task": "go"}, id="d")),
            says("", call("find_tools", {"query": "list mail"}, id="f")),
            says("", call(wanted.name, {}, id="w")),
            "done",
        ],
        by_history=True,
    )
    team = [Specialist(name="s", about="works", model=ScriptedModel(turns=["mine"]))]
    with Runner(build_supervisor(model, team, tools), f"sqlite:///{tmp_path}/a.db") as runner:
        run = await runner.start("go")
    assert (run.answer, [one.outcome for one in run.calls]) == ("done", ["ok"] * 3)
    assert model.offered[:2] == [["find_tools", "delegate"]] * 2
    assert "delegate" in model.offered[2] and wanted.name in model.offered[2]
    assert "delegate" not in str(run.calls[1].result)  # what is shown needs no finding


async def test_c89_many_specialists_and_many_tools_are_two_searches(tmp_path):
    team = [Specialist(name=f"s{n}", about=f"knows area {n}") for n in range(25)]
    model = ScriptedModel(turns=["done"])
    with Runner(build_supervisor(model, team, toolbox()), f"sqlite:///{tmp_path}/a.db") as runner:
        await runner.start("go")
    assert model.offered == [["find_tools", "delegate", "find_specialists"]]


async def test_c89_twenty_tools_beside_the_delegation_are_all_shown(tmp_path):
    team = [Specialist(name="s", about="works")]
    model = ScriptedModel(turns=["done"])
    with Runner(build_supervisor(model, team, toolbox()[:MOST]), f"sqlite:///{tmp_path}/a.db") as runner:
        await runner.start("go")
    assert len(model.offered[0]) == MOST + 1 and "find_tools" not in model.offered[0]


async def test_c89_many_specialists_as_tools_are_searched_like_tools(tmp_path):
    team = [
        Specialist(name=f"s{n}", about=f"knows area {n}", model=ScriptedModel(turns=[f"mine {n}"])).as_tool()
        for n in range(25)
    ]
    model = ScriptedModel(
        turns=[
            says("", call("find_tools", {"query": "area 11"}, id="f")),
            says("", call("s11", {"task": "go"}, id="d")),
            "done",
        ],
        by_history=True,
    )
    with Runner(build_react(model, team), f"sqlite:///{tmp_path}/a.db") as runner:
        run = await runner.start("go")
    assert model.offered[0] == ["find_tools"] and "s11" in model.offered[1]
    assert run.answer == "done" and "mine 11" in run.calls[1].result


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("支付退款", "refund"),
        ("send mail to a customer", "send_mail"),
        ("listServices", "services"),
        ("zzz", None),
    ],
)
def test_c89_a_search_finds_by_the_rarest_words_in_both_languages(query, best):
    search = Search(
        {
            "refund": "为支付订单退款",
            "send_mail": "Send a mail to a customer",
            "services": "list all services",
            "orders": "list all orders of a customer",
        }
    )
    assert next(iter(search.best(query)), None) == best


@given(st.text(), st.dictionaries(st.text(max_size=8), st.text(max_size=30), max_size=5))
def test_c89_a_search_takes_any_text(query, texts):
    assert set(Search(texts).best(query)) <= set(texts)
    assert words_of(query) == words_of(query)


async def test_c89_a_tool_that_is_called_like_the_search_is_a_tool_like_any_other(tmp_path):
    @tool(name="find_tools", effect="read")
    def find_tools(query: str) -> str:
        """Find a hammer."""
        return "hammer"

    @tool(effect="read")
    def other() -> str:
        """Another."""
        return "x"

    model = ScriptedModel(turns=[says("", call("find_tools", {"query": "x"}, id="f")), "a hammer"])
    with Runner(build_react(model, [find_tools, other]), f"sqlite:///{tmp_path}/t.db") as runner:
        run = await runner.start("go")
    assert run.answer == "a hammer"
    offered = [[one["function"]["name"] for one in sent["tools"]] for sent in model.settings]
    assert offered == [["find_tools", "other"]] * 2

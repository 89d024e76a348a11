"""The app that the server's tests serve: two questions, reads and writes, and a model that is a script.

It is copied into each test's own folder. `ran.jsonl` beside it keeps what was really executed. While a file
`hold-<tool>` is there, that tool creates `in-<tool>` after its effect and stays inside.
"""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from adjourn.graph import Limits, build_react
from adjourn.graph.supervisor import Specialist, build_supervisor
from adjourn.nodes import Approvers, ScriptedModel, tool
from adjourn.nodes.scripted import Fails, call, says

HERE = Path(__file__).parent

Environment = Annotated[Literal["prod", "staging"], Field(title="环境", description="日志所在的环境。")]


async def act(name: str, **arguments: Any) -> None:
    """Write down what was executed, and stay inside while a test wants it."""
    with (HERE / "ran.jsonl").open("a") as file:
        file.write(json.dumps([name, arguments]) + "\n")
    while (HERE / f"hold-{name}").exists():
        (HERE / f"in-{name}").touch()
        await asyncio.sleep(0.01)


@tool(effect="read")
async def search_docs(query: str) -> list[dict[str, str]]:
    """Search the runbooks."""
    await act("search_docs", query=query)
    return [{"title": "支付服务 5xx 处理手册 <img src=x onerror=alert(1)>"}]


def no_thirteen(minutes: int) -> int:
    """A rule that no JSON Schema tells: the server alone knows it."""
    if minutes == 13:
        raise ValueError("13 brings bad luck")
    return minutes


Minutes = Annotated[int, Field(ge=1, le=60, title="分钟数"), AfterValidator(no_thirteen)]


@tool(effect="read", ask_for=("environment", "minutes"))
async def query_logs(environment: Environment, minutes: Minutes = 30) -> list[str]:
    """Read the logs."""
    await act("query_logs", environment=environment, minutes=minutes)
    return ["ERROR pool exhausted"]


@tool(effect="write", confirm="Restart {service} in {environment}?")
async def restart(service: str, environment: Literal["prod", "staging"], grace_s: int = 5) -> dict[str, bool]:
    """Restart a service."""
    await act("restart", service=service, environment=environment, grace_s=grace_s)
    return {"restarted": True}


@tool(effect="read")
async def check() -> str:
    """See whether all is well."""
    await act("check")
    return "all is well"


TURNS: list[Any] = [
    says(["我先", "看看。"], call("query_logs", {}, id="q1"), call("search_docs", {"query": "5xx"}, id="q2")),
    says("", call("restart", {"service": "svc-pay-001", "environment": "prod"}, id="q3")),
    says("", call("check", {}, id="q4")),
    says(["已", "处理。"]),
]


def graph_of(turns: list[Any], tools: Any, name: str = "shop") -> Any:
    """A graph with a script for a model."""
    return build_react(
        ScriptedModel(turns=turns, by_history=True), tools=tools, limits=Limits(max_steps=8), name=name
    )


def build() -> Any:
    """A run with two questions, one after the other, and a check behind them."""
    return graph_of(TURNS, [query_logs, search_docs, restart, check])


def checks() -> Any:
    """A run that only checks, twice: for kills and for the end of the server."""
    turns = [
        says("", call("check", {}, id="c1")),
        says("", call("search_docs", {"query": "x"}, id="c2")),
        "好。",
    ]
    return graph_of(turns, [check, search_docs])


BUSY = 12


def busy() -> Any:
    """A run of many short writes, one a step."""

    @tool(effect="write")
    async def write(n: int) -> int:
        """Write."""
        await act("write", n=n)
        await asyncio.sleep(0.05)
        return n

    turns = [says("", call("write", {"n": n}, id=f"w{n}")) for n in range(BUSY)]
    graph = ScriptedModel(turns=[*turns, "done"], by_history=True)
    return build_react(graph, tools=[write], limits=Limits(max_steps=BUSY + 2), name="shop")


def plain() -> Any:
    """A run that answers at once."""
    return graph_of(["好的。"], [])


def broken() -> Any:
    """A run whose model gives up."""
    return graph_of([Fails(ValueError("no such model"))], [])


def approvals() -> Any:
    """A write on which two of three have to agree."""

    @tool(effect="write", confirm="Wipe {what}?", approvers=Approvers(2, of=("li", "wang", "zhao")))
    async def wipe(what: str) -> str:
        """Wipe."""
        await act("wipe", what=what)
        return "wiped"

    return graph_of([says("", call("wipe", {"what": "cache"}, id="w")), "done"], [wipe])


def timed() -> Any:
    """A write to which somebody has to agree within an hour."""

    @tool(effect="write", confirm="Wipe {what}?", expires_in_s=3600)
    async def wipe(what: str) -> str:
        """Wipe."""
        await act("wipe", what=what)
        return "wiped"

    return graph_of([says("", call("wipe", {"what": "cache"}, id="w")), "done"], [wipe])


def several() -> Any:
    """Three questions of one step."""
    names = [{"service": f"svc-pay-00{n}", "environment": "prod"} for n in (1, 2)]
    asks = [call("restart", one, id=f"r{n}") for n, one in enumerate(names)]
    return graph_of([says("", call("query_logs", {}, id="q"), *asks), "done"], [query_logs, restart])


def team() -> Any:
    """A supervisor whose specialist asks before it acts."""
    acts = says("", call("restart", {"service": "svc-pay-001", "environment": "prod"}, id="r"))
    operator = Specialist(
        name="operator",
        about="Restarts services.",
        tools=[restart],
        model=ScriptedModel(turns=[acts, "restarted"], by_history=True),
    )
    hands = says("", call("delegate", {"specialist": "operator", "task": "restart it"}, id="d"))
    return build_supervisor(
        ScriptedModel(turns=[hands, "the operator did it"], by_history=True), [operator], name="shop"
    )

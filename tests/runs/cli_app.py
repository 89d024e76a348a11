"""The app of the command line's tests: reads that ask for parameters, and a write that needs agreement.

It is copied into each test's own folder, where `RAN` (a file beside it) keeps what was really executed.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from adjourn.graph import Limits, build_react
from adjourn.nodes import Approvers, ScriptedModel, tool
from adjourn.nodes.scripted import Fails, call, says

RAN = Path(__file__).parent / "ran.jsonl"


def note(name: str, **arguments: Any) -> None:
    """Write down what was executed."""
    with RAN.open("a") as file:
        file.write(json.dumps([name, arguments]) + "\n")


@tool(effect="read")
def search_docs(query: str) -> list[dict[str, str]]:
    """Search the runbooks."""
    note("search_docs", query=query)
    return [{"title": "支付服务 5xx 处理手册"}]


@tool(effect="read", ask_for=("environment", "minutes"))
def query_logs(
    environment: Literal["prod", "staging"],
    minutes: Annotated[int, Field(ge=1, le=60, description="How far back.")] = 30,
) -> list[str]:
    """Read the logs."""
    note("query_logs", environment=environment, minutes=minutes)
    return ["ERROR pool exhausted"]


@tool(effect="write", confirm="Restart {service} in {environment}?")
def restart(service: str, environment: Literal["prod", "staging"], grace_s: int = 5) -> dict[str, bool]:
    """Restart a service."""
    note("restart", service=service, environment=environment, grace_s=grace_s)
    return {"restarted": True}


TURNS: list[Any] = [
    says(["我", "看看。"], call("query_logs", {}, id="q1"), call("search_docs", {"query": "5xx"}, id="q2")),
    says("", call("restart", {"service": "svc-pay-001", "environment": "prod"}, id="q3")),
    "已处理。",
]


def build() -> Any:
    """A run with two questions, one after the other."""
    return build_react(
        ScriptedModel(turns=TURNS, by_history=True),
        tools=[search_docs, query_logs, restart],
        limits=Limits(max_steps=8),
        name="shop",
    )


def two() -> Any:
    """A run that asks two questions at once."""
    asks = says("", call("query_logs", {}, id="q1"), call("query_logs", {"minutes": 1}, id="q2"))
    return build_react(ScriptedModel(turns=[asks, "好。"], by_history=True), tools=[query_logs], name="two")


def plain() -> Any:
    """A run without questions."""
    return build_react(ScriptedModel(turns=["好的。"], by_history=True), name="plain")


def broken() -> Any:
    """A run whose model gives up."""
    return build_react(
        ScriptedModel(turns=[Fails(ValueError("no such model"))], by_history=True), name="shop"
    )


def slow() -> Any:
    """A run whose model takes a minute: for Ctrl-C."""
    return build_react(ScriptedModel(turns=[says("…", delay_s=60)], by_history=True), name="slow")


def fails() -> Any:
    """A mistake of the user's."""
    raise RuntimeError("the configuration is missing")


write_down = note  # where a parameter has the same name


class Window(BaseModel):
    """When it may happen."""

    day: Literal["sat", "sun"]
    hours: int = 2


class Plan(BaseModel):
    """What a maintenance needs."""

    title: str
    window: Window


@tool(effect="write", ask_for=("plan", "notify", "hosts", "levels", "dry_run", "note", "owner", "extra"))
def maintain(
    plan: Plan,
    notify: bool,
    hosts: list[str],
    levels: list[Literal["info", "warn", "error"]],
    dry_run: bool = True,
    note: Annotated[str, Field(title="备注", description="for the log")] = "",
    owner: str | None = None,
    extra: dict[str, int] | None = None,
) -> str:
    """Maintain hosts."""
    needed = {"plan": plan.model_dump(), "notify": notify, "hosts": hosts, "levels": levels}
    write_down("maintain", **needed, dry_run=dry_run, note=note, owner=owner, extra=extra)
    return "done"


def wide() -> Any:
    """A run whose form has every kind of field."""
    turns = [says("", call("maintain", {}, id="m")), "done"]
    return build_react(ScriptedModel(turns=turns, by_history=True), tools=[maintain], name="wide")


@tool(effect="read", ask_for=("region",))
def look(
    region: Literal["r01", "r02", "r03", "r04", "r05", "r06", "r07", "r08", "r09", "r10", "r11", "r12"],
) -> str:
    """Look at a region."""
    note("look", region=region)
    return "fine"


def many() -> Any:
    """A run that asks for one of many."""
    turns = [says("", call("look", {}, id="l")), "done"]
    return build_react(ScriptedModel(turns=turns, by_history=True), tools=[look], name="many")


@tool(effect="write", confirm="Pay {amount}?", approvers=Approvers(2, of=("li", "wang")), expires_in_s=7200)
def pay(amount: int) -> str:
    """Pay."""
    note("pay", amount=amount)
    return "paid"


def several() -> Any:
    """A run that two people have to agree to, within two hours."""
    turns = [says("", call("pay", {"amount": 5}, id="p")), "done"]
    return build_react(ScriptedModel(turns=turns, by_history=True), tools=[pay], name="several")


graph = build()

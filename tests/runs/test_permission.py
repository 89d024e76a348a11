"""Permission is asked just before a call runs (C-27)."""

import json

import pytest
from langchain_core.messages import ToolMessage
from runs.shop import Shop

from adjourn.nodes import approve, edit, reject
from adjourn.nodes.permission import Verdict
from adjourn.nodes.scripted import call, says

RESTART = {"service_id": "svc-pay-001", "environment": "prod"}
PUBLISH = {"service_id": "svc-pay-001", "version": "2"}


def told(house):
    return json.loads(next(one.text for one in house.models[-1].requests[-1] if isinstance(one, ToolMessage)))


async def test_c27_a_denied_call_is_an_observation(house):
    shop = Shop()
    asked = []

    def rule(request):
        asked.append((request.person, request.tool, request.effect, dict(request.arguments)))
        return "deny" if request.tool == "publish_release" else "allow"

    runner = house.runner([says("", call("publish_release", PUBLISH, id="p")), "ok"], shop, permission=rule)
    run = await runner.start("go", by="wang", on_event=house.hear)
    assert (run.status, run.calls[0].outcome, run.calls[0].error_code) == (
        "finished",
        "denied",
        "permission_denied",
    )
    assert told(house)["errorCode"] == "permission_denied"
    assert asked == [("wang", "publish_release", "write", PUBLISH)]
    assert shop.ran == []
    house.check([run.id])


async def test_c27_ask_makes_a_question_and_a_yes_lets_it_run(house):
    shop = Shop()
    runner = house.runner(
        [says("", call("publish_release", PUBLISH, id="p")), "ok"],
        shop,
        permission=lambda request: Verdict.ASK,
    )
    run = await runner.start("go")
    assert run.interrupts[0].type == "confirm_risky"
    run = await runner.resume(run.id, {run.interrupts[0].id: approve()})
    assert (run.status, shop.count("publish_release")) == ("finished", 1)


async def test_c27_c49_a_no_to_that_question_never_runs(house):
    shop = Shop()
    runner = house.runner(
        [says("", call("publish_release", PUBLISH, id="p")), "ok"], shop, permission=lambda request: "ask"
    )
    run = await runner.start("go")
    run = await runner.resume(run.id, {run.interrupts[0].id: reject()})
    assert (run.calls[0].outcome, shop.ran) == ("declined", [])


async def test_c27_c44_permission_is_asked_again_after_an_edit_and_deny_wins(house):
    shop = Shop()
    runner = house.runner(
        [says("", call("restart_service", RESTART, id="r")), "ok"],
        shop,
        permission=lambda request: "deny" if request.arguments["environment"] == "staging" else "allow",
    )
    run = await runner.start("go")
    edited = edit({"service_id": "x", "environment": "staging"})
    run = await runner.resume(run.id, {run.interrupts[0].id: edited})
    assert (run.calls[0].outcome, shop.ran) == ("denied", [])


async def test_c27_a_rule_that_fails_denies(house):
    def rule(request):
        raise RuntimeError("directory is down")

    shop = Shop()
    run = await house.runner(
        [says("", call("search_docs", {"query": "x"}, id="s")), "ok"], shop, permission=rule
    ).start("go")
    assert (run.calls[0].outcome, shop.ran) == ("denied", [])


async def test_c27_an_async_rule(house):
    async def rule(request):
        return "allow"

    run = await house.runner(
        [says("", call("search_docs", {"query": "x"}, id="s")), "ok"], permission=rule
    ).start("go")
    assert run.calls[0].outcome == "ok"


@pytest.mark.parametrize(
    ("mode", "outcomes"),
    [
        ("default", ["ok", "ok", "waiting"]),
        ("read_only", ["ok", "denied", "denied"]),
        ("preapproved_only", ["ok", "ok", "denied"]),
    ],
)
async def test_c27_modes(house, mode, outcomes):
    turn = says(
        "",
        call("search_docs", {"query": "x"}, id="s"),
        call("publish_release", PUBLISH, id="p"),
        call("restart_service", RESTART, id="r"),
    )
    run = await house.runner([turn, "ok"], mode=mode).start("go")
    assert [one.outcome for one in run.calls] == outcomes

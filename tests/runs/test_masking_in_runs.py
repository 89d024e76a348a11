"""What neither the model, nor an event, nor a table may see (C-73, I3), in whole runs."""

import json
import sqlite3
from contextlib import closing

from langchain_core.messages import ToolMessage
from runs.observed import told
from runs.shop import Shop

from adjourn.graph import Limits
from adjourn.nodes import approve, edit, tool
from adjourn.nodes.masking import Masker
from adjourn.nodes.scripted import call, says

SECRETS = ("13800138000", "ops@corp.com", "sk-abcdefghijklmnopqrstuvwx")


async def test_s3_c73_results_and_errors_are_masked_everywhere(house, tmp_path):
    @tool(effect="read")
    def contact() -> dict:
        """Contact."""
        return {
            "phone": SECRETS[0],
            "mail": f"write to {SECRETS[1]}",
            "api_key": SECRETS[2],
            "order": "20261129223301",
        }

    shop = Shop(fails={"search_docs": RuntimeError(f"db down, call {SECRETS[0]} or {SECRETS[1]}")})
    turn = says("", call("contact", {}, id="c"), call("search_docs", {"query": "x"}, id="s"))
    runner = house.runner([turn, "ok"], tools=[contact, *shop.tools()])
    run = await runner.start("go", on_event=house.hear)
    assert told(house, "c")["data"]["order"] == "20261129223301"
    assert told(house, "c")["data"]["mail"] == "write to [email]"
    runner.close()
    with closing(sqlite3.connect(tmp_path / "adjourn.db")) as connection:
        dump = "\n".join(connection.iterdump())
    seen = [
        dump,
        *(json.dumps(event.to_dict()) for event in house.sent),
        *(m.text for m in house.models[0].requests[1]),
    ]
    for secret in SECRETS:
        assert not [one for one in seen if secret in one], secret
    assert "RuntimeError" in run.calls[1].error["class"]


async def test_c73_arguments_are_masked_in_tables_and_events_and_real_for_the_tool(house, rows):
    ran = []

    @tool(effect="write", confirm="Mail {to}?")
    def mail(to: str, text: str) -> str:
        """Mail."""
        ran.append((to, text))
        return f"sent to {to}"

    turn = says("", call("mail", {"to": SECRETS[1], "text": "hello"}, id="m"))
    runner = house.runner([turn, "ok"], tools=[mail])
    run = await runner.start("go", on_event=house.hear)
    assert run.interrupts[0].arguments == {"to": "[email]", "text": "hello"}
    assert run.interrupts[0].reason == "Mail [email]?"
    run = await runner.resume(run.id, {run.interrupts[0].id: approve()}, on_event=house.hear)
    assert ran == [(SECRETS[1], "hello")]
    assert told(house, "m")["data"] == "sent to [email]"
    for statement in ("SELECT * FROM calls", "SELECT * FROM interrupts", "SELECT * FROM events"):
        assert SECRETS[1] not in json.dumps(rows(statement))


async def test_c73_a_field_that_an_approver_leaves_alone_keeps_its_real_value(house):
    ran = []

    @tool(effect="write", confirm=True)
    def mail(to: str, text: str, options: dict[str, str] | None = None) -> str:
        """Mail."""
        ran.append((to, text, options))
        return "sent"

    asked = {"to": SECRETS[1], "text": "hello", "options": {"password": "hunter2", "cc": SECRETS[1]}}
    runner = house.runner([says("", call("mail", asked, id="m")), "ok"], tools=[mail])
    run = await runner.start("go")
    shown = run.interrupts[0].arguments
    assert shown["options"] == {"password": "[secret]", "cc": "[email]"}
    run = await runner.resume(run.id, {run.interrupts[0].id: edit({**shown, "text": "bye"})})
    assert ran == [(SECRETS[1], "bye", {"password": "hunter2", "cc": SECRETS[1]})]
    assert told(house, "m")["ran"]["to"] == "[email]"


async def test_c73_masking_can_be_switched_off(house):
    @tool(effect="read")
    def contact() -> str:
        """Contact."""
        return SECRETS[1]

    await house.runner(
        [says("", call("contact", {}, id="c")), "ok"], tools=[contact], masker=Masker(())
    ).start("go")
    assert told(house, "c")["data"] == SECRETS[1]


async def test_c74_a_step_has_a_budget_too(house):
    @tool(effect="read")
    def long(n: int) -> str:
        """Long."""
        return f"{n}" * 3000

    turn = says("", *(call("long", {"n": n}, id=f"c{n}") for n in range(4)))
    limits = Limits(max_result_chars_per_step=4000)
    await house.runner([turn, "ok"], tools=[long], limits=limits).start("go")
    answers = [one.text for one in house.models[0].requests[1] if isinstance(one, ToolMessage)]
    assert sum(len(one) for one in answers) <= 4000
    assert all(json.loads(one)["cut"] for one in answers)


async def test_c75_records_of_one_key_become_one_the_best_first(house):
    @tool(effect="read", merge_by=("id",), rank_by="score")
    def find() -> list[dict]:
        """Find."""
        return [{"id": 1, "score": 1}, {"id": 2, "score": 9}, {"id": 1, "more": True}]

    await house.runner([says("", call("find", {}, id="f")), "ok"], tools=[find]).start("go")
    assert told(house, "f")["data"] == [{"id": 2, "score": 9}, {"id": 1, "score": 1, "more": True}]

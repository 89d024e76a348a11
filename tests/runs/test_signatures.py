"""A run goes on with another version of its graph: it is told, and it is no error unless what waits is gone."""

import logging

import pytest
from runs.shop import Shop

from adjourn.checkpoints.errors import NotResumable
from adjourn.graph import starts
from adjourn.nodes import approve, tool
from adjourn.nodes.scripted import call, says

RESTART = says("", call("restart_service", {"service_id": "svc-pay-001", "environment": "prod"}, id="r"))


@tool(effect="read")
def another(x: str) -> str:
    """A tool of a later version."""
    return x


def audited(rows):
    return [one["data"] for one in rows("SELECT data FROM audit WHERE action = 'graph_changed' ORDER BY id")]


def test_the_same_graph_says_nothing(house, rows, caplog):
    run = house.runner([RESTART, "done"]).start_sync("go")
    assert (
        house.runner([RESTART, "done"]).resume_sync(run.id, {run.interrupts[0].id: approve()}).status
        == "finished"
    )
    assert audited(rows) == []
    assert "another version" not in caplog.text


def test_a_run_that_goes_on_with_other_tools_is_in_the_log_and_the_audit_once(house, rows, caplog):
    caplog.set_level(logging.WARNING)
    old = house.runner([RESTART, RESTART, "done"])
    run = old.start_sync("go")
    new = house.runner([RESTART, RESTART, "done"], tools=[*Shop().tools(), another])
    again = new.resume_sync(run.id, {run.interrupts[0].id: approve()})
    (data,) = audited(rows)
    assert f'"was": "{run.row.signature}"' in data
    assert again.row.signature != run.row.signature
    assert caplog.text.count("goes on with another version of graph 'react'") == 1


def test_a_recovered_run_too(house, rows):
    runner = house.runner(["hello"])
    row = starts.new_run(
        "go",
        thread_id="t",
        by=None,
        run_id="run_d",
        graph="react",
        signature="older",
        owner="dead",
        lease_s=-1,
    )
    runner.database.write(lambda c: starts.store(c, row))
    assert runner.recover_sync("run_d").status == "finished"
    assert '"was": "older"' in audited(rows)[0]


def test_a_question_whose_tool_is_gone_is_refused_and_stays_open(house, rows):
    run = house.runner([RESTART, "done"]).start_sync("go")
    without = house.runner([RESTART, "done"], tools=[another])
    with pytest.raises(NotResumable, match="no tool 'restart_service'"):
        without.resume_sync(run.id, {run.interrupts[0].id: approve()})
    assert without.get_sync(run.id).interrupts == run.interrupts
    assert audited(rows) == []
    assert (
        house.runner([RESTART, "done"]).resume_sync(run.id, {run.interrupts[0].id: approve()}).status
        == "finished"
    )


def test_a_call_that_does_not_wait_is_answered_that_its_tool_is_gone(house, monkeypatch):
    turn = says(
        "",
        call("search_docs", {"query": "a"}, id="a"),
        call("restart_service", {"service_id": "s", "environment": "prod"}, id="r"),
    )
    run = house.runner([turn, "done"]).start_sync("go")
    after = house.runner([turn, "done"], tools=[one for one in Shop().tools() if one.name != "search_docs"])
    done = after.resume_sync(run.id, {run.interrupts[0].id: approve()})
    assert (done.status, [one.outcome for one in done.calls]) == ("finished", ["ok", "ok"])

"""How a store stands: each figure of `adjourn doctor` and of `/metrics`, against a store that was made so."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
import sqlalchemy as sa
from store.stored_runs import run_row

from adjourn.checkpoints import journal, leases
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.lifecycle import RunEvent
from adjourn.checkpoints.store_figures import read_store_figures, read_totals
from adjourn.graph import Runner, build_react
from adjourn.graph.cli.doctor import doctor, examined
from adjourn.graph.cli.settings import Settings
from adjourn.graph.server.metrics_page import as_text
from adjourn.nodes import ScriptedModel, approve, tool
from adjourn.nodes.scripted import call, says

LONG_AGO = "2026-01-01T00:00:00.000000Z"


class Store:
    """A store in which runs are brought to stand as they are wished."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.desk, self.here = self.runner(detached=True), self.runner()

    def runner(self, **settings: Any) -> Runner:
        @tool(effect="write", confirm="Send {what}?")
        async def send(what: str) -> str:
            """Send."""
            return what

        turns = [says("", call("send", {"what": "it"}, id="s"), usage=(100, 10)), says("sent", usage=(50, 5))]
        return Runner(
            build_react(ScriptedModel(turns=turns, by_history=True), [send], name="office"),
            self.url,
            **settings,
        )

    def change(self, statement: str, **values: Any) -> None:
        self.here.database.write(lambda c: c.execute(sa.text(statement), values))

    def claim(self, run_id: str, lease_s: float) -> None:
        self.here.database.write(
            lambda c: leases.claim(c, run_id, RunEvent.RECOVER, owner="somebody", lease_s=lease_s)
        )

    def standing(self) -> dict[str, Any]:
        return self.here.database.read(lambda c: asdict(read_store_figures(c)) | asdict(read_totals(c)))

    def findings(self) -> dict[str, tuple[float, bool]]:
        return {one.key: (one.count, one.wrong) for one in examined(self.here.database)}

    def wrong(self) -> list[str]:
        return [key for key, (_, wrong) in self.findings().items() if wrong]


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    if url == "sqlite://":
        pytest.skip("a store in memory has one process, and nothing to look into from outside")
    made = Store(url)
    yield made
    made.desk.close()
    made.here.close()


def test_a_store_that_is_well(store: Store) -> None:
    waits = store.here.start_sync("go")
    done = store.here.start_sync("go")
    store.here.resume_sync(done.id, {done.interrupts[0].id: approve()}, by="li")
    store.here.cancel_sync(store.here.start_sync("go").id)
    store.desk.start_sync("go")
    store.claim(store.desk.start_sync("go").id, 30)
    found = store.standing()
    assert found["queued_s"] < 60
    assert found == {
        "runs": {"running": 2, "interrupted": 1, "finished": 1, "cancelled": 1, "failed": 0},
        "working": 1,
        "queued": 1,
        "queued_s": found["queued_s"],
        "dead": 0,
        "dying": 0,
        "questions": 1,
        "overdue": 0,
        "calls": {**dict.fromkeys(found["calls"], 0), "waiting": 1, "ok": 1, "cancelled": 1},
        "steps": 4,
        "input_tokens": 350,
        "output_tokens": 35,
        "cost": 0.0,
    }
    assert store.wrong() == []
    assert store.findings()["waiting"] == (1, False)
    assert store.here.get_sync(waits.id).status == "interrupted"  # it only looked


def test_the_runs_of_another_graph_are_not_counted_where_one_is_named(store: Store) -> None:
    store.desk.start_sync("go")
    other = store.here.database.read(lambda c: read_store_figures(c, "other"))
    assert (other.queued, sum(other.runs.values())) == (0, 0)


def test_a_run_that_lost_its_owner(store: Store) -> None:
    run = store.desk.start_sync("go")
    store.claim(run.id, -1)
    assert store.wrong() == ["dead"]
    assert store.findings()["dead"] == (1, True)
    store.claim(run.id, 30)
    found = store.findings()
    assert (found["dead"], found["dying"], found["working"]) == ((0, False), (1, False), (1, False))


def test_a_run_that_nobody_drives_for_a_minute(store: Store) -> None:
    store.desk.start_sync("new")
    assert store.wrong() == []
    store.change("UPDATE runs SET updated_at = :at", at=LONG_AGO)
    assert store.wrong() == ["oldest"]
    assert store.findings()["queued"] == (1, False)


def test_questions_that_are_overdue_and_runs_that_nobody_goes_on_with(store: Store) -> None:
    run = store.here.start_sync("go")
    store.change("UPDATE interrupts SET expires_at = :at", at=LONG_AGO)
    assert store.wrong() == ["overdue"]
    store.here.expire_sync()
    assert store.wrong() == ["settled"]
    store.here.recover_sync(run.id)
    assert store.wrong() == []


def test_failed_runs_are_told_and_are_no_fault_of_the_store(store: Store) -> None:
    run = store.here.start_sync("go")
    store.change("UPDATE runs SET status = 'failed' WHERE id = :id", id=run.id)
    assert store.findings()["failed"] == (1, False)


def test_the_clocks_of_two_machines(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.findings()["clock"][1] is False
    monkeypatch.setattr("adjourn.graph.cli.doctor.CLOCK_S", -1.0)
    assert "clock" in store.wrong()


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_doctor_says_all_of_it(store: Store, capsys: pytest.CaptureFixture[str], lang: str) -> None:
    store.claim(store.desk.start_sync("go").id, -1)
    assert doctor(Settings(store=store.url, lang=lang)) == 4
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(store.findings())
    assert [line[0] for line in lines].count("✗") == 1
    assert doctor(Settings(store=store.url, json=True)) == 4
    assert json.loads(capsys.readouterr().out)["dead"] == {"count": 1, "wrong": True}


def test_what_prometheus_is_told(store: Store) -> None:
    store.desk.start_sync("go")
    store.here.start_sync("go")
    text = store.here.database.read(as_text)
    lines = text.splitlines()
    for expected in (
        'adjourn_runs{status="running"} 1',
        'adjourn_runs{status="interrupted"} 1',
        'adjourn_calls{outcome="waiting"} 1',
        "adjourn_queued 1",
        "adjourn_questions 1",
        "adjourn_steps 1",
        "adjourn_input_tokens 100",
    ):
        assert expected in lines
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names)) == len([line for line in lines if line.startswith("# HELP")])


def test_runs_that_work_for_others_are_counted_with_them(database: Database) -> None:
    def fill(connection: sa.Connection) -> None:
        for number in range(6):
            status = ("finished", "interrupted")[number % 2]
            journal.insert_run(connection, run_row(f"r{number}", status=status))
            journal.insert_run(
                connection, run_row(f"s{number}", status="finished", parent_run_id=f"r{number}")
            )

    database.write(fill)
    for graph in (None, "g"):
        found = database.read(lambda c, graph=graph: read_store_figures(c, graph)).runs
        assert found == {"running": 0, "interrupted": 3, "finished": 3, "cancelled": 0, "failed": 0}


def test_runs_are_counted_by_an_index_and_not_one_by_one(file_url: str) -> None:
    """Of a hundred thousand runs, reading each one's row would be half of what `adjourn doctor` takes."""
    database, plans = Database(file_url), []

    def fill(connection: sa.Connection) -> None:
        for number in range(500):
            parent = "r0" if number % 100 == 99 else None
            journal.insert_run(connection, run_row(f"r{number}", status="finished", parent_run_id=parent))

    database.write(fill)

    @sa.event.listens_for(database.engine, "before_cursor_execute", retval=True)
    def explained(_1: Any, cursor: Any, statement: str, given: Any, *_: Any) -> tuple[str, Any]:
        if "GROUP BY" in statement:
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", given)
            plans.append(str([row[3] for row in cursor.fetchall()]))
        return statement, given

    assert database.read(read_store_figures).runs["finished"] == 495
    database.close()
    assert plans
    assert all("COVERING INDEX" in plan or "SEARCH runs USING INDEX ix_runs_parent" in plan for plan in plans)

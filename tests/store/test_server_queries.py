"""What the HTTP server asks of the store, on every engine."""

import pytest

from adjourn.checkpoints import family, journal, leases
from adjourn.checkpoints.database import Database, now
from adjourn.checkpoints.errors import LeaseLost
from adjourn.checkpoints.lifecycle import RunEvent, RunStatus
from adjourn.checkpoints.records import Interrupt, RunRow


def run(run_id: str, **values: object) -> RunRow:
    given = {
        "thread_id": f"t-{run_id}",
        "graph": "g",
        "started_by": "wang",
        "status": "interrupted",
        **values,
    }
    return RunRow(id=run_id, signature="s", input="go", created_at=now(), updated_at=now(), **given)  # type: ignore[arg-type]


def question(run_id: str, number: int, state: str = "open", path: str = "") -> Interrupt:
    return Interrupt(
        id=f"int_{run_id}_{number}", run_id=run_id, step=1, call_id=f"c{number}", path=path, position=number,
        type="confirm_risky", tool="restart", arguments={}, reason="?", payload={}, response_schema={}, state=state,
        created_at=now(),
    )  # fmt: skip


def test_open_questions_are_those_of_waiting_runs_and_of_those_that_work_for_them(database: Database) -> None:
    stored = [
        run("a"), run("b", graph="other"), run("c", status="finished"), run("d", started_by="li"),
        run("a1", graph="specialist", parent_run_id="a"), run("b1", graph="specialist", parent_run_id="b"),
    ]  # fmt: skip
    asked = [question("a1", 1, path="s"), question("a", 1), question("a", 2, "answered"), question("a", 3)]
    asked += [question(one, 1) for one in ("b", "c", "d", "b1")]

    def fill(connection):
        for one in stored:
            journal.insert_run(connection, one)
        for one in asked:
            journal.insert_interrupts(connection, [one])

    database.write(fill)
    expected = [
        ("a", "int_a1_1"), ("a", "int_a_1"), ("a", "int_a_3"), ("d", "int_d_1"),
    ]  # fmt: skip
    found, behind = database.read(lambda c: family.open_questions(c, "g", limit=10))
    assert ([(by.id, one.id) for by, one in found], behind) == (expected, None)
    one_by_one = []
    while True:
        found, behind = database.read(
            lambda c, behind=behind: family.open_questions(c, "g", limit=1, behind=behind)
        )
        one_by_one += [(by.id, one.id) for by, one in found]
        if behind is None:
            break
    assert one_by_one == expected
    assert database.read(lambda c: family.open_questions(c, "none", limit=10)) == ([], None)

    def listed(**wanted: object) -> list[str]:
        return sorted(one.id for one in database.read(lambda c: journal.list_runs(c, **wanted)))  # type: ignore[arg-type]

    assert listed(graph="g", started_by="wang") == ["a", "c"]
    assert listed(roots=True, statuses=[RunStatus.INTERRUPTED]) == ["a", "b", "d"]


def test_an_inbox_of_many_questions_reads_only_runs_that_others_work_for_one_by_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An inbox that is open asks every two seconds, and may look through thousands of questions of others."""

    def fill(connection):
        for one in [run(f"r{number}") for number in range(20)] + [run("s", parent_run_id="r0")]:
            journal.insert_run(connection, one)
            journal.insert_interrupts(connection, [question(one.id, 1)])

    database.write(fill)
    read_run, read = journal.read_run, []
    monkeypatch.setattr(journal, "read_run", lambda c, run_id: read.append(run_id) or read_run(c, run_id))
    found, _ = database.read(lambda c: family.open_questions(c, "g", limit=50))
    assert (len(found), read) == (21, ["r0"])


def test_a_run_that_was_handed_back_is_anybodys_at_once(database: Database) -> None:
    given = run("a", status="running", lease_owner="one", lease_until="2999-01-01T00:00:00.000000Z", fence=1)
    database.write(lambda c: journal.insert_run(c, given))
    database.write(lambda c: leases.release(c, "a", 1, active_ms=5))
    left = database.read(lambda c: journal.read_run(c, "a"))
    assert (left.status, left.lease_owner, left.lease_until, left.active_ms) == ("running", None, None, 5)
    fence = database.write(lambda c: leases.claim(c, "a", RunEvent.RECOVER, owner="two", lease_s=30))
    with pytest.raises(LeaseLost):
        database.write(lambda c: leases.release(c, "a", fence - 1, active_ms=9))
    assert database.read(lambda c: journal.read_run(c, "a")).lease_owner == "two"

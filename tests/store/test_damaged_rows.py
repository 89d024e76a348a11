"""A row that somebody changed by hand, or that a disk changed: it is named, and hides no other."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from store.test_server_queries import question, run

from adjourn.checkpoints import family, journal, queue, settling
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import StoredDataError
from adjourn.checkpoints.records import Interrupt, RunRow
from adjourn.graph import expiring
from adjourn.graph.reading import read_run

PAST = "2020-01-01T00:00:00.000000Z"
DAMAGE = {
    "no JSON": "UPDATE runs SET input = '{\"cut' WHERE id = 'bad'",
    "JSON that is no text": "UPDATE runs SET input = '[1]' WHERE id = 'bad'",
    "no object": "UPDATE runs SET error = '3' WHERE id = 'bad'",
    "no time": "UPDATE runs SET created_at = '0000' WHERE id = 'bad'",
    "a time of no zone": "UPDATE runs SET updated_at = '2026-01-01T00:00:00' WHERE id = 'bad'",
    "an unknown word": "UPDATE runs SET status = 'odd' WHERE id = 'bad'",
    "an unknown reason": "UPDATE runs SET stop_reason = 'odd' WHERE id = 'bad'",
}
# what a constraint refuses, unless its connection was told not to look; PostgreSQL's cannot be told
UNCHECKED = {"sqlite": "PRAGMA ignore_check_constraints = ON", "mysql": "SET check_constraint_checks = 0"}
CHECKED = {"sqlite": "PRAGMA ignore_check_constraints = OFF", "mysql": "SET check_constraint_checks = 1"}


def fill(database: Database, rows: Sequence[RunRow], questions: Sequence[Interrupt] = ()) -> None:
    def work(connection: sa.Connection) -> None:
        for one in rows:
            journal.insert_run(connection, one)
        journal.insert_interrupts(connection, questions)

    database.write(work)


def damage(database: Database, statement: str) -> None:
    name = {"mariadb": "mysql"}.get(database.engine.dialect.name, database.engine.dialect.name)
    if " = 'odd'" in statement and name not in UNCHECKED:
        pytest.skip("its constraints let no such row in")

    def work(connection: sa.Connection) -> None:
        if name in UNCHECKED:
            connection.exec_driver_sql(UNCHECKED[name])
        connection.exec_driver_sql(statement)
        if name in CHECKED:
            connection.exec_driver_sql(CHECKED[name])

    database.write(work)


def both(database: Database, read: Callable[..., Any]) -> tuple[Any, list[str]]:
    """What a list brings without its damaged rows, and their names; without a place for these it raises."""
    damaged: list[StoredDataError] = []
    with pytest.raises(StoredDataError):
        database.read(read)
    found = database.read(lambda connection: read(connection, damaged=damaged))
    return found, [f"{one.table} {one.key}" for one in damaged]


@pytest.mark.parametrize("statement", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_run_is_named_and_the_list_goes_on_without_it(database: Database, statement: str) -> None:
    fill(database, [run("a", status="running"), run("bad", status="running"), run("c", status="running")])
    damage(database, statement)
    listed, named = both(database, journal.list_runs)
    assert (sorted(one.id for one in listed), named) == (["a", "c"], ["runs bad"])
    with pytest.raises(StoredDataError, match=r"^runs bad: .+; the row is damaged"):
        database.read(lambda connection: journal.read_run(connection, "bad"))


@pytest.mark.parametrize("limit", [None, 1, 2, 9])
def test_a_damaged_run_stands_in_no_other_runs_way_to_a_worker(database: Database, limit: int | None) -> None:
    fill(
        database, [run(one, status="running", priority=1 if one == "bad" else 0) for one in ("a", "bad", "c")]
    )
    damage(database, DAMAGE["no JSON"])
    found, named = both(
        database, lambda connection, **more: queue.unowned(connection, graph="g", limit=limit, **more)
    )
    assert ([one.id for one in found], named) == (["a", "c"][:limit], ["runs bad"])


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE interrupts SET payload = '{' WHERE run_id = 'bad'", "interrupts int_bad_1"),
        ("UPDATE interrupts SET arguments = '[]' WHERE run_id = 'bad'", "interrupts int_bad_1"),
        ("UPDATE runs SET input = '{' WHERE id = 'bad'", "runs bad"),
        ("UPDATE runs SET parent_run_id = 'gone' WHERE id = 'bad'", "runs bad"),
        ("UPDATE runs SET parent_run_id = 'bad' WHERE id = 'bad'", "runs bad"),
    ],
)
@pytest.mark.parametrize("page", [1, 2, 50])
def test_a_damaged_question_or_run_hides_no_question_of_others(
    database: Database, statement: str, named: str, page: int
) -> None:
    fill(
        database,
        [run("a"), run("bad"), run("c")],
        [question(one, 1) for one in ("a", "bad", "c")],
    )
    damage(database, statement)
    damaged: list[StoredDataError] = []
    asked, behind = [], None
    while True:
        found, behind = database.read(
            lambda connection, behind=behind: family.open_questions(
                connection, "g", limit=page, behind=behind, damaged=damaged
            )
        )
        asked += [one.id for _, one in found]
        if behind is None:
            break
    assert asked == ["int_a_1", "int_c_1"]
    assert [f"{one.table} {one.key}" for one in damaged] == [named]


def test_a_text_that_is_no_utf8_hides_no_other_row(file_url: str) -> None:
    database = Database(file_url)
    fill(database, [run("a"), run("bad"), run("c")])
    damage(database, "UPDATE runs SET input = CAST(x'22ff22' AS TEXT) WHERE id = 'bad'")
    for _ in range(2):
        listed, named = both(database, journal.list_runs)
        assert (sorted(one.id for one in listed), named) == (["a", "c"], ["runs bad"])
    database.close()


def test_runs_that_work_for_each_other_are_followed_to_an_end(database: Database) -> None:
    fill(database, [run("a", parent_run_id="b"), run("b", parent_run_id="a")], [question("b", 1)])
    assert database.read(lambda connection: family.asks(connection, "a"))
    assert set(database.read(lambda connection: family.below(connection, "a"))) == {"a", "b"}
    with pytest.raises(StoredDataError, match="it works for run b, which works for it"):
        database.read(lambda connection: read_run(connection, "a"))


def test_what_waits_for_nothing_is_found_beside_a_damaged_question(database: Database) -> None:
    fill(
        database,
        [run("a"), run("bad"), run("below", parent_run_id="a"), run("done"), run("c")],
        [question("below", 1), question("bad", 1), question("done", 1, "answered")],
    )
    damage(database, "UPDATE interrupts SET payload = '{' WHERE run_id IN ('bad', 'below')")
    assert database.read(lambda connection: settling.settled_runs(connection, None)) == ["done", "c"]


def test_questions_whose_time_has_passed_are_closed_beside_a_damaged_one(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    fill(database, [run("a"), run("bad"), run("c")], [question(one, 1) for one in ("a", "bad", "c")])
    damage(database, f"UPDATE interrupts SET expires_at = '{PAST}'")
    damage(database, "UPDATE interrupts SET payload = '{' WHERE run_id = 'bad'")
    expiring.sweep(database)
    assert database.read(settling.overdue_runs) == ["bad"]
    assert "interrupts int_bad_1" in caplog.text


def test_each_column_of_a_row_is_looked_at(database: Database) -> None:
    fill(database, [run("a")], [question("a", 1)])
    if not database.is_sqlite:
        pytest.skip("its columns hold nothing of another type")
    for table, column in (("runs", "steps"), ("runs", "cost"), ("interrupts", "step")):
        with pytest.raises(StoredDataError, match=f"{table} .*{column} holds a value of type str"):
            one_damaged(database, f"UPDATE {table} SET {column} = 'many'")


def one_damaged(database: Database, statement: str) -> None:
    """Read the rows of run `a` as they are after a statement, which is not kept."""

    def work(connection: sa.Connection) -> None:
        connection.exec_driver_sql(statement)
        journal.read_run(connection, "a")
        journal.read_interrupts(connection, "a")

    database.write(work)

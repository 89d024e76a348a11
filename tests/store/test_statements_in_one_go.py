"""Statements of one block on every engine: what waits for what, what is counted, and how errors come out."""

import pytest
import sqlalchemy as sa
from sqlalchemy import bindparam
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError
from store.stored_runs import run_row

from adjourn.checkpoints import event_rows, journal
from adjourn.checkpoints.compiled import MOST_MET, ROWS_AT_ONCE, Statement, in_one_go, met_nothing
from adjourn.checkpoints.database import Database, now
from adjourn.checkpoints.errors import IllegalMove, LeaseLost
from adjourn.checkpoints.events import StepStarted
from adjourn.checkpoints.lifecycle import CallState
from adjourn.checkpoints.records import CallRow, StepRow
from adjourn.checkpoints.run_schema import audit

NOTE = Statement(
    lambda _: audit.insert().values(run_id="r", action=bindparam("action"), at="2026-01-01T00:00:00.000000Z")
)
RENAME = Statement(
    lambda _: (
        audit.update().where(audit.c.action == bindparam("old_action")).values(action=bindparam("new_action"))
    )
)
NOTES = Statement(lambda _: sa.select(audit.c.action).order_by(audit.c.id))


def notes(connection: Connection) -> list[str]:
    return [row[0] for row in NOTES.rows(connection, {})]


def note(connection: Connection, *actions: str) -> None:
    NOTE.change_many(connection, [{"action": one} for one in actions])


def call(call_id: str) -> CallRow:
    return CallRow(
        run_id="r",
        step=1,
        call_id=call_id,
        batch=1,
        position=0,
        tool="look",
        effect="read",
        arguments={"share": "50%", "at": "$1"},
        digest="d",
        raw=None,
        outcome=CallState.PLANNED.value,
        error_code=None,
        result=None,
        planned_at=now(),
        ended_at=None,
    )


@pytest.mark.parametrize("many", [1, 2, ROWS_AT_ONCE - 1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1, 3 * ROWS_AT_ONCE])
def test_rows_of_one_table_keep_their_order(database: Database, many: int) -> None:
    named = [f"n{number}" for number in range(many)]

    def work(connection: Connection) -> None:
        with in_one_go(connection):
            note(connection, "first")
            note(connection, *named)
            note(connection, "last")

    database.write(work)
    assert database.read(notes) == ["first", *named, "last"]


def test_inserts_of_many_tables_are_all_there_at_the_end(database: Database) -> None:
    def work(connection: Connection) -> None:
        with in_one_go(connection):
            note(connection, "before")
            journal.insert_run(connection, run_row("r"))
            journal.insert_calls(connection, [call("a"), call("b")])
            note(connection, "behind")
            journal.insert_calls(connection, [call("c")])

    database.write(work)
    assert database.read(notes) == ["before", "behind"]
    stored = database.read(lambda c: journal.read_calls(c, "r"))
    assert sorted(one.call_id for one in stored) == ["a", "b", "c"]
    assert stored[0].arguments == {
        "share": "50%",
        "at": "$1",
    }  # text that looks like a statement's is none (C-84)


def test_what_changes_or_reads_rows_finds_those_that_were_inserted_before_it(database: Database) -> None:
    def work(connection: Connection) -> list[str]:
        with in_one_go(connection):
            note(connection, "old", "old", "other")
            renamed = RENAME.send(connection, {"old_action": "old", "new_action": "new"})
            note(connection, "old")
            seen = notes(connection)
            note(connection, "last")
        assert renamed() == 2
        return seen

    assert database.write(work) == ["new", "new", "other", "old"]
    assert database.read(notes) == ["new", "new", "other", "old", "last"]


def test_a_call_that_is_not_there_is_found_out_at_the_check_and_all_rolls_back(database: Database) -> None:
    def work(connection: Connection) -> None:
        with in_one_go(connection):
            journal.insert_calls(connection, [call("a")])
            there = journal.send_call(connection, "r", 1, "a", outcome=CallState.STARTED)
            gone = journal.send_call(connection, "r", 1, "b", outcome=CallState.STARTED)
        there()
        gone()

    with pytest.raises(IllegalMove, match=r"call b .*\(no row\)"):
        database.write(work)
    assert database.read(lambda c: journal.read_calls(c, "r")) == []


def test_a_row_that_is_there_already_is_an_integrity_error_of_the_block(database: Database) -> None:
    database.write(lambda c: journal.insert_calls(c, [call("a")]))

    def work(connection: Connection) -> None:
        with in_one_go(connection):
            note(connection, "with it")
            journal.insert_calls(connection, [call("a")])

    with pytest.raises(IntegrityError):
        database.write(work)
    assert database.read(notes) == []
    database.write(lambda c: note(c, "the connection is of use again"))
    assert database.read(notes) == ["the connection is of use again"]


def test_an_error_of_the_block_itself_passes_and_leaves_nothing_behind(database: Database) -> None:
    def work(connection: Connection) -> None:
        with in_one_go(connection):
            note(connection, "never")
            raise LookupError("its own")

    with pytest.raises(LookupError, match="its own"):
        database.write(work)
    database.write(lambda c: note(c, "alone"))
    assert database.read(notes) == ["alone"]


def test_c53_c90_a_step_is_counted_with_the_numbers_of_its_events_and_not_by_a_stale_owner(
    database: Database,
) -> None:
    at = now()
    row = run_row("r", fence=3)
    step = StepRow(
        run_id="r",
        step=2,
        model="m",
        message_id=None,
        latency_ms=1,
        calls=0,
        started_at=at,
        ended_at=at,
        input_tokens=10,
        output_tokens=2,
        cost=0.5,
    )
    facts = [StepStarted(run_id="r", path="", step=number) for number in (1, 2)]
    database.write(lambda c: journal.insert_run(c, row))
    told = database.write(
        lambda c: event_rows.move_on(c, "r", facts, fence=3, steps=[event_rows.Counted(step)])
    )
    assert [one.number for one in told] == [1, 2]
    assert database.write(lambda c: event_rows.move_on(c, "r", [], fence=3)) == []
    with pytest.raises(LeaseLost):
        database.write(lambda c: event_rows.move_on(c, "r", facts, fence=2, steps=[event_rows.Counted(step)]))
    found = database.read(lambda c: journal.read_run(c, "r"))
    assert (found.last_event, found.steps, found.input_tokens, found.output_tokens) == (2, 2, 10, 2)
    assert found.cost == 0.5


LOST = LeaseLost("r", 1)


def lost() -> None:
    raise LOST


def test_what_is_asked_together_is_there_behind_the_block(database: Database) -> None:
    database.write(lambda c: note(c, "a", "b"))

    def work(connection: Connection) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
        with in_one_go(connection):
            first = NOTES.ask(connection, {})
            note(connection, "c")
            second = NOTES.ask(connection, {})
        return first(), second()

    first, second = database.write(work)
    assert [one["action"] for one in first] == ["a", "b"]
    assert [one["action"] for one in second] == ["a", "b", "c"]
    assert database.read(lambda c: [one["action"] for one in NOTES.ask(c, {})()]) == ["a", "b", "c"]


def test_what_must_be_met_is_checked_or_the_database_refuses_all_of_it(database: Database) -> None:
    database.write(lambda c: note(c, "old"))

    def work(connection: Connection, *met: str) -> None:
        with in_one_go(connection, ends=True):
            note(connection, "with it")
            checks = [
                RENAME.meet(connection, {"old_action": one, "new_action": "new"}, lost, row=one)
                for one in met
            ]
        for check in checks:
            check()

    with pytest.raises((LeaseLost, DBAPIError)) as raised:
        database.write(lambda c: work(c, "old", "none"))
    assert raised.value is LOST or met_nothing(raised.value)
    assert database.read(notes) == ["old"]
    database.write(lambda c: work(c, "old", "with it"))
    assert database.read(notes) == ["new", "new"]


def test_a_query_may_be_what_must_be_met(database: Database) -> None:
    held = Statement(lambda _: sa.select(audit.c.id).where(audit.c.action == bindparam("one")))

    def work(connection: Connection, one: str) -> None:
        with in_one_go(connection, ends=True):
            check = held.meet(connection, {"one": one}, lost)
            note(connection, "behind")
        check()

    database.write(lambda c: note(c, "there"))
    with pytest.raises((LeaseLost, DBAPIError)):
        database.write(lambda c: work(c, "gone"))
    database.write(lambda c: work(c, "there"))
    assert database.read(notes) == ["there", "behind"]


def test_a_block_that_ends_the_transaction_may_read_and_meet_one_row_twice(database: Database) -> None:
    """None of it fits into one statement."""

    def work(connection: Connection) -> list[str]:
        with in_one_go(connection, ends=True):
            note(connection, "a")
            first = RENAME.meet(connection, {"old_action": "a", "new_action": "b"}, lost)
            again = RENAME.meet(connection, {"old_action": "b", "new_action": "c"}, lost)
            seen = notes(connection)
            note(connection, "last")
        first()
        again()
        return seen

    assert database.write(work) == ["c"]
    assert database.read(notes) == ["c", "last"]


def test_an_error_in_a_block_that_ends_the_transaction_leaves_nothing(database: Database) -> None:
    for early in (True, False):

        def work(connection: Connection, early: bool = early) -> None:
            with in_one_go(connection, ends=True):
                note(connection, "never")
                if early:
                    assert notes(connection) == ["never"]
                raise LookupError("its own")

        with pytest.raises(LookupError, match="its own"):
            database.write(work)
        assert database.read(notes) == []
    database.write(lambda c: note(c, "alone"))
    assert database.read(notes) == ["alone"]


def test_a_count_that_is_looked_at_is_looked_at_before_commit(database: Database) -> None:
    def work(connection: Connection) -> None:
        with in_one_go(connection, ends=True):
            note(connection, "with it")
            count = RENAME.send(connection, {"old_action": "nobody", "new_action": "x"})
            check = RENAME.meet(connection, {"old_action": "with it", "new_action": "met"}, lost)
        check()
        if count() != 1:
            raise LookupError("all rolls back")

    with pytest.raises(LookupError, match="all rolls back"):
        database.write(work)
    assert database.read(notes) == []


def test_more_rows_may_have_to_be_met_than_one_statement_takes(database: Database) -> None:
    names = [f"n{number}" for number in range(3 * MOST_MET + 1)]
    database.write(lambda c: note(c, *names))

    def work(connection: Connection, wanted: list[str]) -> None:
        with in_one_go(connection, ends=True):
            checks = [
                RENAME.meet(connection, {"old_action": one, "new_action": f"{one}!"}, lost, row=one)
                for one in wanted
            ]
        for check in checks:
            check()

    database.write(lambda c: work(c, names))
    assert database.read(notes) == [f"{one}!" for one in names]
    with pytest.raises((LeaseLost, DBAPIError)):
        database.write(lambda c: work(c, [*(f"{one}!" for one in names), "gone"]))
    assert database.read(notes) == [f"{one}!" for one in names]


def test_libpq_without_pipelines_does_the_same(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    psycopg = pytest.importorskip("psycopg")
    monkeypatch.setattr(psycopg.Pipeline, "is_supported", classmethod(lambda _: False))

    def work(connection: Connection, one: str) -> None:
        with in_one_go(connection, ends=True):
            note(connection, "behind")
            check = RENAME.meet(connection, {"old_action": one, "new_action": "new"}, lost)
        check()

    database.write(lambda c: note(c, "old"))
    with pytest.raises(LeaseLost):
        database.write(lambda c: work(c, "gone"))
    assert database.read(notes) == ["old"]
    database.write(lambda c: work(c, "old"))
    assert database.read(notes) == ["new", "behind"]

"""Transactions on a server: what is sent, and what stays true for who takes a connection of the engine's."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from langgraph.checkpoint.base import empty_checkpoint
from store.engines import Engines

from adjourn.checkpoints.compiled import Statement
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel, tool
from adjourn.nodes.scripted import call, says

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def postgres(servers: Engines, tmp_path: Any) -> Iterator[Database]:
    opened = Database(servers.empty("postgresql", tmp_path))
    yield opened
    opened.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that psycopg is given, as their first words."""
    found: list[str] = []
    execute, commit = psycopg.Cursor.execute, psycopg.Connection.commit

    def watched(self: Any, query: str, *values: Any, **told: Any) -> Any:
        found.append(query)
        return execute(self, query, *values, **told)

    def committed(self: Any) -> None:
        if self.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            found.append("COMMIT")
        commit(self)

    for kind in (psycopg.Cursor, psycopg.RawCursor):
        monkeypatch.setattr(kind, "execute", watched)
    monkeypatch.setattr(psycopg.Connection, "commit", committed)
    return found


@tool(effect="read")
async def look(n: int) -> int:
    """Look."""
    return n


async def test_a_superstep_is_one_statement_on_postgresql(
    postgres: Database, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adjourn.graph.cancelling.POLL_S", 60.0)  # a small read, every now and then
    turns = [says("", call("look", {"n": n}, id=f"c{n}")) for n in range(6)]
    model = ScriptedModel(turns=[*turns, "done"], by_history=True)
    with Runner(build_react(model, [look]), postgres) as runner:
        await runner.start("go")
        sent.clear()
        run = await runner.start("go")
    assert run.answer == "done", run.error
    of_turns = [one for one in sent if "INTO checkpoints" in one and "INTO events" in one]
    assert len(of_turns) == 2 * len(turns) + 1
    assert all(one.startswith("WITH ") and "UPDATE runs" in one for one in of_turns)
    last = len(sent) - sent[::-1].index(of_turns[-1])
    first = sent.index(of_turns[0])
    assert sent[first:last] == of_turns  # no BEGIN, no COMMIT and no query between them


def test_a_transaction_begins_with_its_first_statement(postgres: Database, sent: list[str]) -> None:
    postgres.setup()
    sent.clear()
    assert postgres.write(lambda _: 7) == 7
    assert sent == []
    postgres.write(lambda connection: connection.execute(sa.text("SELECT 1")))
    assert [one.split()[0] for one in sent] == ["BEGIN", "SELECT", "COMMIT"]


def test_who_takes_a_connection_of_the_engines_has_transactions_all_the_same(postgres: Database) -> None:
    postgres.setup()
    with postgres.engine.connect() as connection:
        connection.execute(sa.text("CREATE TABLE mine (n INTEGER)"))
        connection.rollback()
        assert connection.execute(sa.text("SELECT to_regclass('mine')")).scalar() is None
    with postgres.engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE mine (n INTEGER)"))
    with postgres.engine.begin() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM mine")).scalar() == 0
        connection.execute(sa.text("DROP TABLE mine"))


def test_readers_see_one_moment_and_writers_what_was_committed(postgres: Database) -> None:
    query = sa.text("SHOW transaction_isolation")
    assert postgres.read(lambda c: c.execute(query).scalar()) == "repeatable read"
    assert postgres.write(lambda c: c.execute(query).scalar()) == "read committed"
    asked = sa.text("SHOW default_transaction_isolation")  # of what needs no BEGIN
    assert postgres.write(lambda c: c.execute(asked).scalar()) == "read committed"


def test_a_connection_that_is_lost_in_a_transaction_is_an_error_and_is_replaced(postgres: Database) -> None:
    saver = SQLAlchemySaver(postgres)
    ending = sa.text("SELECT pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(sa.exc.DBAPIError):
        postgres.write(lambda connection: connection.execute(ending))
    assert saver.get_tuple({"configurable": {"thread_id": "t"}}) is None


@pytest.mark.parametrize("behind_a_read", [True, False])
def test_a_connection_that_is_lost_in_a_put_leaves_nothing_of_it(
    postgres: Database, behind_a_read: bool
) -> None:
    saver = SQLAlchemySaver(postgres)
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    config = saver.put(config, empty_checkpoint(), {}, {})

    class Fence:
        def check(self, connection: sa.Connection) -> None:
            if behind_a_read:
                NUMBER.value(connection, {})
            with psycopg.connect(_plainly(postgres), autocommit=True) as other:
                driver: Any = connection.connection.dbapi_connection
                other.execute("SELECT pg_terminate_backend(%s)", [driver.info.backend_pid])

    fenced: Any = {"configurable": {**config["configurable"], "__adjourn_fence": Fence()}}
    with pytest.raises(sa.exc.DBAPIError):
        saver.put(fenced, empty_checkpoint(), {}, {})
    with postgres.engine.connect() as connection:
        assert not [key for key in connection.info if str(key).startswith("adjourn")]
    saver.put(config, empty_checkpoint(), {}, {})
    assert len(list(saver.list({"configurable": {"thread_id": "t"}}))) == 2


NUMBER = Statement(lambda _: sa.select(sa.literal(1)))


def _plainly(database: Database) -> str:
    return database.url.set(drivername="postgresql").render_as_string(hide_password=False)


def test_work_that_fails_gives_a_connection_back_that_is_in_no_transaction(postgres: Database) -> None:
    def fails(connection: sa.Connection) -> None:
        connection.execute(sa.text("SELECT 1"))
        raise LookupError("its own")

    with pytest.raises(LookupError):
        postgres.write(fails)
    with postgres.engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        assert driver.info.transaction_status == psycopg.pq.TransactionStatus.IDLE

"""A secret on every engine that processes share: sealed in its rows, opened for its tool in another runner (C-73)."""

from sqlalchemy import Connection, MetaData

from adjourn.checkpoints.database import Database
from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel, Secret, approve, tool
from adjourn.nodes.scripted import call, says
from adjourn.nodes.sealing import Keyring

SECRET = "Zephyr-4711-word"


def test_c73_no_row_of_any_table_holds_a_secret(shared_url: str) -> None:
    seen: list[str] = []
    key = Keyring.new_key()

    def runner() -> Runner:
        @tool(effect="write", confirm=True)
        def login(user: str, password: Secret[str]) -> str:
            """Log in."""
            seen.append(password)
            return f"in with {password}"

        model = ScriptedModel(
            turns=[says("", call("login", {"user": "li"}, id="c")), "done"], by_history=True
        )
        return Runner(build_react(model, [login]), shared_url, key=key)

    with runner() as first:
        run = first.start_sync("go")
        run = first.resume_sync(run.id, {run.interrupts[0].id: {"password": SECRET}})
    with runner() as second:
        run = second.resume_sync(run.id, {run.interrupts[0].id: approve()})
    assert (run.status, seen) == ("finished", [SECRET])
    database = Database(shared_url)
    kept = database.read(_everything)
    database.close()
    assert "adjourn-sealed:" in kept
    assert SECRET not in kept


def _everything(connection: Connection) -> str:
    """Each row of each table, as text."""
    tables = MetaData()
    tables.reflect(connection)
    rows = [row for one in tables.sorted_tables for row in connection.execute(one.select())]
    return "\n".join(str(tuple(row)) for row in rows)

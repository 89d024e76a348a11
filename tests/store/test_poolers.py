"""A PostgreSQL behind a pooler that knows no prepared statements: the store's URL says so."""

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa
from store import fleet_app
from store.engines import Engines

from adjourn.checkpoints import doorbell
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import StoreError
from adjourn.graph import Runner
from adjourn.nodes import approve


def prepared(database: Database) -> int:
    """How many statements the connection that is used next has prepared."""
    with database.engine.connect() as connection:
        found: int = connection.execute(sa.text("SELECT count(*) FROM pg_prepared_statements")).scalar_one()
        return found


@pytest.mark.parametrize("setting", ["", "none"])
def test_no_statement_is_prepared_where_the_url_says_so(
    servers: Engines, tmp_path: Path, setting: str
) -> None:
    url = sa.make_url(servers.empty("postgresql", tmp_path))
    if setting:
        url = url.update_query_dict({"prepare_threshold": setting})
    with Runner(fleet_app.graph(tmp_path / "effects"), url.render_as_string(hide_password=False)) as runner:
        for _ in range(3):
            run = runner.start_sync("go", by="wang")
            done = runner.resume_sync(run.id, {run.interrupts[0].id: approve()}, by="wang")
            assert (done.status, done.answer) == ("finished", fleet_app.ANSWER)
        assert (prepared(runner.database) == 0) == bool(setting)


async def test_bells_are_heard_with_such_a_url(servers: Engines, tmp_path: Path) -> None:
    url = sa.make_url(servers.empty("postgresql", tmp_path)).update_query_dict({"prepare_threshold": "none"})
    database = Database(url.render_as_string(hide_password=False))
    heard = asyncio.Event()
    listening = asyncio.create_task(doorbell.listen(database, heard.set))
    try:
        await asyncio.wait_for(heard.wait(), 30)  # it listens now
        heard.clear()
        await database.awrite(doorbell.ring)
        await asyncio.wait_for(heard.wait(), 30)
    finally:
        listening.cancel()
        database.close()


def test_another_word_says_what_to_write() -> None:
    with pytest.raises(StoreError, match="prepare_threshold can only be none"):
        Database("postgresql+psycopg://localhost/ops?prepare_threshold=0")

"""The statements of docs/production.md that keep events in partitions by month: runs go on over them."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from docs.blocks import DOCS, file
from sqlalchemy.exc import IntegrityError
from store import fleet_app
from store.engines import Engines

from adjourn.graph import Runner, starts
from adjourn.nodes import approve


@pytest.fixture
def partitioned(servers: Engines, tmp_path: Path) -> str:
    """A store on PostgreSQL in which the statements were executed, with today's month as the second one."""
    url = servers.new("postgresql", tmp_path)
    statements = file((DOCS / "production.md").read_text("utf-8"), "partitions.sql")
    first, last = (starts.id_at("run", datetime(*month, 1, tzinfo=UTC)) for month in ((2026, 12), (2027, 1)))
    assert set(re.findall(r"'(run_\w+)'", statements)) == {first, last}
    with Runner(fleet_app.graph(tmp_path / "effects"), url) as runner:
        before = runner.start_sync("go", run_id="run_0before", by="wang")
        assert before.status == "interrupted"
        month = timedelta(days=30)  # whenever this is run, today is in the second partition
        for old, moment in ((first, datetime.now(UTC)), (last, datetime.now(UTC) + month)):
            statements = statements.replace(old, starts.id_at("run", moment))
        with runner.database.engine.connect() as connection:
            connection.exec_driver_sql(statements.replace("BEGIN;", "").replace("COMMIT;", ""))
            connection.commit()
    return url


def test_runs_go_on_over_events_in_partitions(partitioned: str, tmp_path: Path) -> None:
    with Runner(fleet_app.graph(tmp_path / "effects"), partitioned) as runner:

        def rows(statement: str) -> list[tuple[object, ...]]:
            found = runner.database.read(lambda c: c.execute(sa.text(statement)).all())
            return [tuple(one) for one in found]

        made = runner.start_sync("go", by="wang")
        chosen = runner.start_sync("go", run_id="run_k_of_a_client", by="wang")
        for run_id in ("run_0before", made.id, chosen.id):
            run = runner.get_sync(run_id)
            done = runner.resume_sync(run_id, {one.id: approve() for one in run.interrupts}, by="li")
            assert (done.status, done.answer) == ("finished", fleet_app.ANSWER)
            numbers = [one.number for one in runner.events_sync(run_id)]
            assert numbers == list(range(1, done.row.last_event + 1))
        where = "SELECT DISTINCT run_id, CAST(tableoid AS regclass)::text FROM events ORDER BY run_id"
        assert [name for _, name in rows(where)] == ["events_first", "events_2026_12", "events_others"]
        assert rows("SELECT count(*) FROM v_events") == rows("SELECT count(*) FROM events")
        again = sa.text(
            "INSERT INTO events SELECT run_id, 99, type, step, path, key, data, at FROM events WHERE number = 1"
        )
        with pytest.raises(IntegrityError, match="duplicate key"):
            runner.database.write(lambda c: c.execute(again))

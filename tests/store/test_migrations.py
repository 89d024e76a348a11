"""Databases of older versions are upgraded, and their waiting runs go on (C-94)."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from store.corpus import make_newest
from store.every_view import VIEWS
from store.processes import put_once
from store.stored_graphs import scalar

from adjourn.checkpoints import setup
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import StoreError
from adjourn.checkpoints.migrations import MIGRATIONS, Migration
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.nodes import approve

CORPUS = sorted(make_newest.FOLDER.glob("v*.db"))


def shape(database: Database) -> dict[str, Any]:
    """Tables, columns, constraints and indexes, without regard to how they were made."""

    def of(connection: sa.Connection) -> dict[str, Any]:
        look = sa.inspect(connection)
        return {
            table: {
                "columns": {
                    one["name"]: (str(one["type"]), one["nullable"]) for one in look.get_columns(table)
                },
                "key": look.get_pk_constraint(table)["constrained_columns"],
                "unique": sorted(str(one["column_names"]) for one in look.get_unique_constraints(table)),
                "foreign": sorted(str(one["constrained_columns"]) for one in look.get_foreign_keys(table)),
                "check": {one["name"]: one["sqltext"] for one in look.get_check_constraints(table)},
                "indexes": {
                    one["name"]: (one["column_names"], one["unique"]) for one in look.get_indexes(table)
                },
            }
            for table in look.get_table_names()
        }

    return database.read(of)


@pytest.mark.parametrize("kept", CORPUS, ids=lambda file: file.stem)
def test_a_database_of_each_version_becomes_what_a_new_one_is_and_its_run_resumes(
    kept: Path, tmp_path: Path
) -> None:
    copy = shutil.copy(kept, tmp_path / "old.db")
    old, new = Database(f"sqlite:///{copy}"), Database("sqlite://")
    assert shape(old) == shape(new), "write a migration"
    old.close()
    new.close()
    with make_newest.runner(f"sqlite:///{copy}") as app:
        run = app.get_sync(make_newest.WAITING)
        assert (run.status, run.row.input) == ("interrupted", make_newest.QUESTION)
        done = app.resume_sync(run.id, {run.interrupts[0].id: approve()}, by="wang")
        assert (done.status, done.answer) == ("finished", "restarted")
        assert [one.outcome for one in done.calls] == ["ok", "ok"]


def test_there_is_a_kept_database_of_every_version_and_no_gap_in_the_list() -> None:
    assert [one.version for one in MIGRATIONS] == list(range(2, setup.VERSION + 1))
    assert [file.stem for file in CORPUS] == [f"v{number + 1}" for number in range(setup.VERSION)]
    for migration in MIGRATIONS:
        assert migration.upgrade.__module__.rsplit(".", 1)[-1].startswith(f"m{migration.version:04}_")


def add_a_title(connection: sa.Connection) -> None:
    connection.execute(sa.DDL("ALTER TABLE threads ADD COLUMN title VARCHAR(255)"))  # type: ignore[no-untyped-call]
    connection.execute(sa.text("UPDATE threads SET title = thread_id"))


def fail(connection: sa.Connection) -> None:
    add_a_title(connection)
    raise RuntimeError("no")


NOW = setup.VERSION


def know(monkeypatch: pytest.MonkeyPatch, *upgrades: Callable[[sa.Connection], None]) -> None:
    """Let the program be a later one, with these migrations behind those that there are."""
    made = (Migration(version, upgrade) for version, upgrade in enumerate(upgrades, start=NOW + 1))
    monkeypatch.setattr(setup, "MIGRATIONS", (*MIGRATIONS, *made))
    monkeypatch.setattr(setup, "VERSION", NOW + len(upgrades))


def opened_with(url: str, *upgrades: Callable[[sa.Connection], None], monkeypatch: pytest.MonkeyPatch) -> Any:
    know(monkeypatch, *upgrades)
    return SQLAlchemySaver(url)


def test_an_older_database_is_upgraded_when_it_is_opened(
    bare_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_once(bare_url, "1")
    with opened_with(bare_url, add_a_title, monkeypatch=monkeypatch) as saver:
        assert scalar(saver, "SELECT title FROM threads") == "t"
        assert scalar(saver, "SELECT version FROM schema_version") == NOW + 1
        names = saver.database.read(lambda connection: sa.inspect(connection).get_view_names())
        assert sorted(names) == sorted(VIEWS)
        assert saver.get_tuple({"configurable": {"thread_id": "t"}}).checkpoint["id"] == "1"
    with opened_with(bare_url, add_a_title, add_nothing, monkeypatch=monkeypatch) as saver:
        assert scalar(saver, "SELECT version FROM schema_version") == NOW + 2


def add_nothing(connection: sa.Connection) -> None:
    pass


@pytest.mark.parametrize("engine", ["file", "postgresql"])
def test_an_upgrade_that_fails_changes_nothing(
    engine: str, servers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = servers.new(engine, tmp_path)
    put_once(url, "1")
    with (
        opened_with(url, fail, monkeypatch=monkeypatch) as saver,
        pytest.raises(RuntimeError, match="no"),
    ):
        saver.setup()
    monkeypatch.undo()
    with SQLAlchemySaver(url) as saver:
        assert scalar(saver, "SELECT version FROM schema_version") == NOW
        columns = saver.database.read(lambda connection: sa.inspect(connection).get_columns("threads"))
        assert "title" not in [one["name"] for one in columns]
        assert scalar(saver, "SELECT count(*) FROM v_threads") == 1


def test_on_mariadb_a_creation_waits_for_another_ones_end(
    servers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = servers.new("mariadb", tmp_path)
    monkeypatch.setattr(setup, "LOCK_TIMEOUT_S", 1)
    first, second = Database(url), Database(url)

    def work(connection: sa.Connection) -> None:
        with setup._turn(connection), pytest.raises(StoreError, match="another process has been creating"):
            second.setup()

    first.write_unprepared(work)
    second.setup()  # the lock is given back
    first.close()
    second.close()

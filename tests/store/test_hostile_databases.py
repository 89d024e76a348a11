"""Files that are cut, locked, read-only or on a full disk, and connections that break: one sentence each, and nothing is lost."""

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from store.engines import Engines
from store.stored_runs import run_row

from adjourn.checkpoints import database as database_module
from adjourn.checkpoints import journal
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import StoreError
from adjourn.graph import Limits, Runner, build_react
from adjourn.graph.cli import main
from adjourn.nodes import ScriptedModel, tool
from adjourn.nodes.scripted import call, says


def filled(path: Path, runs: int = 200) -> Path:
    """A file with some runs, and no log beside it."""
    database = Database(f"sqlite:///{path}")

    def fill(connection: sa.Connection) -> None:
        for number in range(runs):
            journal.insert_run(connection, run_row(f"run_{number}", status="finished"))

    database.write(fill)
    database.close()
    return path


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = main(words)
    said = capsys.readouterr().err
    assert said.count("\n") <= 1, said
    return status, said


@pytest.mark.parametrize("share", [0.0005, 0.05, 0.5, 0.9])
def test_a_file_that_was_cut_short_is_told_in_a_sentence_and_left_as_it_is(
    tmp_path: Path, share: float, capsys: pytest.CaptureFixture[str]
) -> None:
    path = filled(tmp_path / "store.db")
    os.truncate(path, int(path.stat().st_size * share))
    before = path.read_bytes()
    for command in ("runs", "doctor", "metrics", "migrate"):
        status, said = told(capsys, command, "--store", f"sqlite:///{path}")
        assert (status, "put a backup in its place" in said) == (4, True), said
    assert path.read_bytes() == before


READ_ONLY = """
import ctypes, sys
libc = ctypes.CDLL(None)
for capability in (1, 2):  # those of root to pass by the permissions of files
    libc.prctl(24, capability, 0, 0, 0)
import os
os.execv(sys.executable, [sys.executable, "-m", "adjourn.graph", *sys.argv[1:]])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="root is held to permissions by Linux alone")
def test_a_file_in_a_folder_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    folder.mkdir()
    path = filled(folder / "store.db")
    path.chmod(0o444)
    folder.chmod(0o555)
    try:
        looked = subprocess.run(
            [sys.executable, "-c", READ_ONLY, "runs", "--store", f"sqlite:///{path}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        folder.chmod(0o755)
    assert (looked.returncode, looked.stdout) == (4, "")
    assert looked.stderr.count("\n") == 1
    assert "must be writable even for a look" in looked.stderr


@pytest.fixture
def small_files() -> Iterator[None]:
    """This process can make no file larger than a megabyte."""
    before, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


def test_a_disk_that_is_full_refuses_a_transaction_in_words_and_keeps_those_before(
    tmp_path: Path, small_files: None
) -> None:
    path = tmp_path / "store.db"
    database = Database(f"sqlite:///{path}")
    stored = 0
    with pytest.raises(DBAPIError, match="disk") as caught:
        for number in range(100):
            one = run_row(f"run_{number}", input="x" * 50_000, status="finished")
            database.write(lambda connection, one=one: journal.insert_run(connection, one))
            stored += 1
    assert "make room" in database_module.advice(sqlite3.OperationalError("database or disk is full"))
    assert isinstance(caught.value.orig, sqlite3.OperationalError)
    assert len(database.read(journal.list_runs)) == stored > 0
    database.close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_command_on_a_full_disk_says_one_sentence(
    tmp_path: Path, small_files: None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = filled(tmp_path / "store.db", 2_000)  # larger than what may still be written
    status, said = told(capsys, "prune", "--older-than", "0s", "--store", f"sqlite:///{path}")
    assert status == 4
    assert "nothing of it was stored" in said


def test_a_backup_that_is_taken_while_runs_are_written_is_whole(tmp_path: Path) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    database = Database(f"sqlite:///{path}")
    for number in range(50):
        database.write(lambda c, n=number: journal.insert_run(c, run_row(f"run_a{n}", status="finished")))

    def step(_status: int, _left: int, _all: int) -> None:
        number = len(database.read(journal.list_runs))
        database.write(lambda c: journal.insert_run(c, run_row(f"run_b{number}", status="finished")))

    source, target = sqlite3.connect(path), sqlite3.connect(copy)
    source.backup(target, pages=-1, progress=step)  # as `sqlite3 FILE .backup` does: in one go
    assert target.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    source.close()
    target.close()
    database.close()
    restored = Database(f"sqlite:///{copy}")
    assert len(restored.read(journal.list_runs)) >= 50
    restored.close()


def test_a_log_that_is_missing_leaves_a_file_that_opens_with_what_was_moved_into_it(tmp_path: Path) -> None:
    path = filled(tmp_path / "store.db", 3)
    database = Database(f"sqlite:///{path}")
    database.write(lambda connection: journal.insert_run(connection, run_row("run_new", status="finished")))
    for end in ("", "-shm"):  # as a copy by `cp` that forgot the log
        shutil.copy(f"{path}{end}", f"{tmp_path / 'copy.db'}{end}")
    database.close()
    copied = Database(f"sqlite:///{tmp_path / 'copy.db'}")
    assert len(copied.read(journal.list_runs)) == 3
    copied.write(lambda connection: journal.insert_run(connection, run_row("run_x", status="finished")))
    copied.close()


@pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
def test_c36_a_server_that_ends_every_connection_fails_no_run_and_loses_no_result(
    engine: str, servers: Engines, tmp_path: Path
) -> None:
    """As a restart does, between two transactions: each connection of the pool is dead when it is used next."""
    url = servers.new(engine, tmp_path)
    if engine == "postgresql":
        named = sa.make_url(url).update_query_dict({"application_name": "to be ended"})
        url = named.render_as_string(hide_password=False)
    ran: list[int] = []

    @tool(effect="write")
    def release(number: int) -> int:
        """Release."""
        ran.append(number)
        if number % 2:
            end_connections(url)
        return number

    turns: list[Any] = [says("", call("release", {"number": n}, id=f"c{n}")) for n in range(6)]
    model = ScriptedModel(turns=[*turns, "done"], by_history=True)
    with Runner(build_react(model, [release], limits=Limits(max_steps=8)), url) as runner:
        run = runner.start_sync("go")
    assert (run.status, run.answer, ran) == ("finished", "done", list(range(6)))
    assert [one.outcome for one in run.calls] == ["ok"] * 6


def end_connections(url: str) -> None:
    """End all connections to a database but the one that asks."""
    made = sa.create_engine(sa.make_url(url), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with made.connect() as connection:
        if made.dialect.name == "postgresql":
            ours = sa.text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND application_name = :name"
            )
            ended = connection.execute(ours, {"name": sa.make_url(url).query["application_name"]}).all()
        else:
            mine = sa.text(
                "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
            )
            ended = connection.execute(mine).all()
            for one in ended:
                connection.exec_driver_sql(f"KILL {one.id}")
        assert ended


def test_a_file_that_another_program_holds_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(tmp_path / "store.db", 1)
    monkeypatch.setattr("adjourn.checkpoints.database.BUSY_TIMEOUT_MS", 100)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    database = Database(f"sqlite:///{path}")
    with pytest.raises(StoreError, match="another program holds it: wait until it has ended, or end it"):
        database.write(lambda connection: journal.insert_run(connection, run_row("r")))
    holder.execute("ROLLBACK")
    database.write(lambda connection: journal.insert_run(connection, run_row("r")))
    assert len(database.read(journal.list_runs)) == 2
    database.close()
    holder.close()

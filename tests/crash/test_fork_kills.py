"""C-92: a process that is killed while it forks leaves no fork, or a whole one that goes on like any run."""

import asyncio
import json
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from crash import fork_app, kill_app
from crash.kill_app import CALLS, RUN, Points
from crash.processes import PROCESSES

from adjourn.nodes.history import is_legal

ALIVE_S = "2000-01-01T00:00:00.000000Z"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run that has ended."""
    file = tmp_path_factory.mktemp("original") / "adjourn.db"
    effects = file.with_name("effects")
    app = kill_app.runner(f"sqlite:///{file}", effects, Points())
    assert asyncio.run(kill_app.go(app, effects)).status == "finished"
    app.close()
    app.database.close()
    return file


class Case:
    """A copy of that store, in which the run is forked by a process that is killed at a point."""

    def __init__(self, folder: Path, original: Path) -> None:
        folder.mkdir()
        self.file, self.effects, self.out = folder / "adjourn.db", folder / "effects", folder / "out"
        shutil.copy(original, self.file)
        self.url = f"sqlite:///{self.file}"

    def is_killed(self, last: int) -> bool:
        """Whether a process that forks and goes on comes to point `last`, where it is killed."""
        given = (self.url, str(self.effects), last, str(self.out))
        process = PROCESSES.Process(target=fork_app.child, args=given)
        process.start()
        process.join(60)
        assert not process.is_alive()
        if not self.out.exists():
            return True
        left = json.loads(self.out.read_text())
        assert "error" not in left, left["error"]
        return False

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.file)) as connection:
            return connection.execute(query).fetchall()

    def is_whole(self) -> None:
        """No trace of a fork, or its run with its thread, its first events and its audit."""
        (forks,), (threads,) = (
            self.rows(f"SELECT count(*) FROM {table} WHERE thread_id = '{fork_app.FORK}'")[0]
            for table in ("runs", "threads")
        )
        assert forks == threads
        (events,), (audit,) = (
            self.rows(f"SELECT count(DISTINCT run_id) FROM {table}")[0] for table in ("events", "audit")
        )
        assert (events, audit) == (1 + forks, 1 + forks)

    def finish(self) -> None:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute(f"UPDATE runs SET lease_until = '{ALIVE_S}' WHERE status = 'running'")
        app = kill_app.runner(self.url, self.effects, Points())
        try:
            run = asyncio.run(fork_app.go(app, self.effects))
            assert (run.status, run.answer, run.row.forked_from) == ("finished", "all done", RUN), run.error
            where = {"configurable": {"thread_id": fork_app.FORK}}
            state = asyncio.run(app.graph.aget_state(where))
            assert is_legal(state.values["messages"])
        finally:
            app.close()
            app.database.close()

    def judge(self) -> None:
        """Each write of the fork was made once, but for what may be repeated under its key."""
        done = [line.split()[:2] for line in self.effects.read_text().splitlines()]
        writes = [what for name, what in done if name in ("pay", "send", "book")]
        assert sorted(writes) == sorted(set(writes))
        assert {what for _, what in done} == set(CALLS)


def test_c36_c92_a_fork_that_is_killed_anywhere_is_none_or_a_whole_one(
    tmp_path: Path, original: Path
) -> None:
    def one(last: int) -> bool:
        case = Case(tmp_path / str(last), original)
        killed = case.is_killed(last)
        case.is_whole()
        case.finish()
        case.judge()
        return killed

    whole = Case(tmp_path / "whole", original)
    assert not whole.is_killed(10_000)
    points = json.loads(whole.out.read_text())["points"]
    assert points > 20
    # all of the fork's own beginning; what follows is like any run, which other tests kill everywhere
    places = [*range(1, 11), *range(11, points + 1, 4)]
    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(one, places))

"""C-92: a process that is killed while it forks leaves no fork, or a whole one that goes on like any run."""

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from crash import fork_app, kill_app
from crash.kill_app import CALLS, RUN, Points
from crash.processes import Case

from adjourn.graph import Run, Runner
from adjourn.nodes.history import is_legal


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


class Forked(Case):
    """A copy of that store, in which the run is forked by a process that is killed at a point."""

    def __init__(self, folder: Path, original: Path) -> None:
        super().__init__(folder, fork_app)
        shutil.copy(original, self.file)

    def is_whole(self) -> None:
        """No trace of a fork, or its run with its thread, its first events and its audit."""
        (forks,), (threads,) = (
            self.select(f"SELECT count(*) FROM {table} WHERE thread_id = '{fork_app.FORK}'")[0]
            for table in ("runs", "threads")
        )
        assert forks == threads
        (events,), (audit,) = (
            self.select(f"SELECT count(DISTINCT run_id) FROM {table}")[0] for table in ("events", "audit")
        )
        assert (events, audit) == (1 + forks, 1 + forks)

    def look(self, runner: Runner, run: Run) -> None:
        assert (run.status, run.answer, run.row.forked_from) == ("finished", "all done", RUN), run.error
        where = {"configurable": {"thread_id": fork_app.FORK}}
        state = asyncio.run(runner.graph.aget_state(where))
        assert is_legal(state.values["messages"])

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
        case = Forked(tmp_path / str(last), original)
        killed = case.process(last)
        case.is_whole()
        case.bury()
        case.finish()
        case.judge()
        return killed

    whole = Forked(tmp_path / "whole", original)
    assert not whole.process(10_000)
    points = whole.left()["points"]
    assert points > 20
    # all of the fork's own beginning; what follows is like any run, which other tests kill everywhere
    places = [*range(1, 11), *range(11, points + 1, 4)]
    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(one, places))

"""Processes that can be killed, forked from one that has imported everything, and what each leaves behind.

An app is a module with `runner(url, effects, points)` and `go(runner, effects)`, which brings its run to the end.
"""

import asyncio
import importlib
import json
import multiprocessing
import os
import sqlite3
import sys
import traceback
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

from crash.kill_app import Points

from adjourn.graph import Run, Runner

os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        "crash.kill_app",
        "crash.flow_app",
        "crash.team_app",
        "crash.graphs_app",
        "crash.fork_app",
        "runs.crash_app",
    ]
)


def child(app: str, url: str, effects: str, last: int | None, out: str) -> None:
    """The body of a process: go on, and be killed at point `last`; else leave in `out` how it came to its end."""
    module, points = importlib.import_module(app), Points(last)
    try:
        runner = module.runner(url, Path(effects), points)
        run = asyncio.run(module.go(runner, Path(effects)))
        runner.close()
        runner.database.close()
        left: dict[str, Any] = {"status": run.status, "points": points.count}
    except BaseException:
        left = {"error": traceback.format_exc()}
    Path(out).write_text(json.dumps(left))


class Case:
    """One run of an app, its database and its effects."""

    def __init__(self, folder: Path, app: ModuleType) -> None:
        folder.mkdir()
        self.app = app
        self.file, self.effects, self.out = folder / "adjourn.db", folder / "effects", folder / "out"
        self.url = f"sqlite:///{self.file}"

    def process(self, last: int | None) -> bool:
        """A process that goes on until point `last`. Whether it was killed there; else it came to its end.

        Told by what it leaves, not by its exit code: starting a process in one thread collects the exit codes
        of those that other threads wait for.
        """
        self.out.unlink(missing_ok=True)
        given = (self.app.__name__, self.url, str(self.effects), last, str(self.out))
        process = PROCESSES.Process(target=child, args=given)
        process.start()
        process.join(60)
        assert not process.is_alive()
        if not self.out.exists():
            return True
        assert "error" not in self.left(), self.left()["error"]
        return False

    def left(self) -> dict[str, Any]:
        """What the last process that was not killed left: its run's status, and how many points it came by."""
        left: dict[str, Any] = json.loads(self.out.read_text())
        return left

    def bury(self) -> None:
        """The owner is known to be dead: nobody has to wait for its lease."""
        if self.file.exists():
            with closing(sqlite3.connect(self.file)) as connection, connection:
                connection.execute(
                    "UPDATE runs SET lease_until = '2000-01-01T00:00:00.000000Z'"
                    " WHERE status = 'running' AND parent_run_id IS NULL"
                )

    def finish(self) -> Run:
        """Bring the run to its end here; gives it after `look` has seen it."""
        runner = self.app.runner(self.url, self.effects, Points())
        try:
            run: Run = asyncio.run(self.app.go(runner, self.effects))
            self.look(runner, run)
        finally:
            runner.close()
            runner.database.close()
        return run

    def look(self, runner: Runner, run: Run) -> None:
        """What a case checks while the runner is still there."""

    def select(self, query: str) -> list[tuple[Any, ...]]:
        """Rows, by `sqlite3` alone."""
        with closing(sqlite3.connect(self.file)) as connection:
            return connection.execute(query).fetchall()

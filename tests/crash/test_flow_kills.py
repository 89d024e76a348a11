"""C-78: a flow that is killed in each of its steps and between them goes on in order, and writes once.

A process is killed at each point where it writes something down, and before and after each effect; the flow is then
brought to its end by others, and judged by SQL and by the file of effects.
"""

import asyncio
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from crash import flow_app
from crash.kill_app import Points
from crash.processes import PROCESSES
from runs.flow_app import World


class Case:
    """One flow, its database and its effects."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.file, self.effects, self.out = folder / "adjourn.db", folder / "effects", folder / "out"
        self.url = f"sqlite:///{self.file}"

    def process(self, last: int | None) -> bool:
        """A process that goes on until point `last`. Whether it was killed there."""
        process = PROCESSES.Process(
            target=flow_app.child, args=(self.url, str(self.effects), last, str(self.out))
        )
        process.start()
        process.join(60)
        if not self.out.exists():
            return True
        left = json.loads(self.out.read_text())
        assert "error" not in left, left["error"]
        return False

    def finish(self) -> None:
        """The owner is dead; another one goes on to the end."""
        if self.file.exists():
            with sqlite3.connect(self.file) as connection:
                connection.execute(
                    "UPDATE runs SET lease_until = '2000-01-01T00:00:00.000000Z' WHERE status = 'running'"
                )
            connection.close()
        app = flow_app.runner(self.url, self.effects, Points())
        try:
            run = asyncio.run(flow_app.go(app, World(self.effects)))
            assert (run.status, run.stop_reason, run.answer) == ("finished", "answered", "done"), run.error
        finally:
            app.close()
            app.database.close()

    def judge(self) -> None:
        done = World(self.effects).done()
        assert list(dict.fromkeys(done)) == ["find", "quota", "create", "verify"]
        assert done.count("create") == 1
        connection = sqlite3.connect(self.file)
        try:
            steps = connection.execute("SELECT step, status FROM flow_steps ORDER BY position").fetchall()
            assert steps == [(one, "done") for one in ("find", "quota", "sign", "create", "verify")]
            order = connection.execute("SELECT tool FROM calls WHERE outcome = 'ok' ORDER BY step").fetchall()
            assert [one[0] for one in order] == [
                "search_resource",
                "check_quota",
                "sign",
                "create_db",
                "verify",
            ]
            began = connection.execute("SELECT started_at FROM flow_steps ORDER BY position").fetchall()
            assert began == sorted(began)
        finally:
            connection.close()


@pytest.mark.timeout(600)
def test_c78_a_flow_killed_at_any_point_finishes_in_order(tmp_path: Path) -> None:
    whole = Case(tmp_path / "whole")
    assert not whole.process(None)
    whole.judge()
    points = json.loads(whole.out.read_text())["points"]
    assert points > 50

    def play(last: int) -> None:
        case = Case(tmp_path / f"case{last}")
        assert case.process(last)
        case.finish()
        case.judge()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(play, range(1, points + 1)))

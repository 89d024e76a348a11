"""C-36: a kill at any moment of any run loses no recorded result and causes no write's effect twice.

A process is killed at each labelled point of a run; another one goes on, and is killed at a random point too;
then the run is brought to its end, and what is left is judged by SQL and by the file of effects alone.
`ADJOURN_KILLS` sets how many kills are made (`make crash` makes more).
"""

import asyncio
import itertools
import json
import os
import random
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from crash import kill_app
from crash.kill_app import CALLS
from crash.processes import Case

from adjourn.graph import Run, Runner
from adjourn.nodes.counters import counters_of
from adjourn.nodes.history import is_legal

KILLS = int(os.environ.get("ADJOURN_KILLS", "300"))
SEED = int(os.environ.get("ADJOURN_SEED", "20261129"))


class Killed(Case):
    """One run of `kill_app`, its database and its effects."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, kill_app)

    def look(self, runner: Runner, run: Run) -> None:
        assert (run.status, run.stop_reason, run.answer) == ("finished", "answered", "all done"), run.error
        self.judge_history(runner)

    def judge_history(self, app) -> None:
        """C-14, C-15: legal, and one answer for each call."""
        state = asyncio.run(app.graph.aget_state({"configurable": {"thread_id": "t"}}))
        messages = state.values["messages"]
        assert is_legal(messages)
        answered = [one.tool_call_id for one in messages if one.type == "tool"]
        assert tuple(answered) == CALLS
        self.judge_counters(counters_of(state.values))

    def judge_counters(self, counters) -> None:
        """C-53: each turn and each call counted once, whoever was killed in between."""
        assert (counters["input_tokens"], counters["output_tokens"]) == (600, 60)
        assert sorted(counters["brought"]) == ["book", "look", "pay", "put", "send"]
        assert len(counters["log"]) == len(set(counters["log"])) == len(CALLS)
        # the last call was a write: what was read before may have changed
        assert counters["since"] == len(CALLS) - 1
        assert (counters["fails_in_row"], counters["failing"], counters["looped"]) == (0, {}, False)

    def judge(self) -> None:
        """What the world and the database show, without any of our code."""
        effects = [line.split() for line in self.effects.read_text().splitlines()]
        for name, what in (("pay", "c"), ("send", "e"), ("book", "g")):
            assert [one[:2] for one in effects if one[0] == name] == [[name, what]], effects
        assert len({tuple(one) for one in effects if one[0] == "put"}) == 1  # again under one key, if at all
        connection = sqlite3.connect(self.file)
        try:
            calls = connection.execute(
                "SELECT call_id, outcome, result FROM calls ORDER BY step, position"
            ).fetchall()
            assert [(one[0], one[1]) for one in calls] == [(call, "ok") for call in CALLS]
            told = {json.loads(one[2])["data"] for one in calls}
            assert told == {f"{name} {what}" for name, what, *_ in effects}
            numbers = [one[0] for one in connection.execute("SELECT number FROM events ORDER BY number")]
            assert numbers == list(range(1, len(numbers) + 1))
            results = connection.execute(
                "SELECT json_extract(data, '$.call_id') FROM events WHERE type = 'tool_result' ORDER BY 1"
            ).fetchall()
            assert tuple(one[0] for one in results) == CALLS
            assert connection.execute("SELECT step FROM steps ORDER BY step").fetchall() == [(1,), (2,), (3,)]
            assert connection.execute("SELECT lease_owner FROM runs").fetchall() == [(None,)]
            spent = connection.execute("SELECT steps, input_tokens, output_tokens FROM runs").fetchall()
            assert spent == [(3, 600, 60)]
            assert connection.execute("SELECT count(*) FROM interrupts WHERE state = 'open'").fetchone() == (
                0,
            )
        finally:
            connection.close()


def play(folder: Path, first: int, second: int | None) -> int:
    """One case: killed at `first`, gone on, killed at `second`, brought to its end. How many kills were made."""
    case = Killed(folder)
    kills = 0
    for last in (first, second):
        if last is None:
            continue
        kills += case.process(last)
        case.bury()
    case.finish()
    case.judge()
    return kills


@pytest.fixture(scope="module")
def points(tmp_path_factory) -> int:
    """How many points a run has that nobody kills."""
    case = Killed(tmp_path_factory.mktemp("whole") / "case")
    assert not case.process(None)
    case.judge()
    return case.left()["points"]


@pytest.mark.timeout(1800)
def test_c36_killed_at_every_point(tmp_path: Path, points: int) -> None:
    rng = random.Random(SEED)
    assert points > 40
    # each point once alone, then with a second kill in the process that goes on
    plan = [(first, None) for first in range(1, points + 1)]
    while sum(1 + (second is not None) for _, second in plan) < KILLS:
        plan.append((rng.randint(1, points), rng.randint(1, points)))
    numbers = itertools.count()
    with ThreadPoolExecutor(2) as pool:
        kills = sum(pool.map(lambda one: play(tmp_path / f"case{next(numbers)}", *one), plan))
    print(f"{kills} kills at {points} points, {len(plan)} runs")
    assert kills >= min(KILLS, points) * 0.8


def test_c53_no_counter_is_lost_or_counted_twice_by_a_kill(tmp_path: Path, points: int) -> None:
    """At a few points; `judge_counters` looks at them at every point of the test above too."""
    for place, first in enumerate(range(3, points, points // 6)):
        assert play(tmp_path / f"case{place}", first, None) == 1

"""The soak in small, and that its judge sees what is wrong: each invariant can fail.

`make soak` runs the same code for ten minutes.
"""

import os
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from soak import checker, driver, soak_app
from soak.run_soak import Soak
from store.engines import Engines

from adjourn.graph import Runner

SECONDS = float(os.environ.get("ADJOURN_SMALL_SOAK_S", "8"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["file", "postgresql"])
def test_c36_c53_c65_c90_a_store_that_is_soaked_is_sound(
    engine: str, servers: Engines, tmp_path: Path
) -> None:
    soak = Soak(servers.new(engine, tmp_path), tmp_path, random.Random(SECONDS), drivers=3)
    soak.run(SECONDS, least=3)
    print(soak.summary())
    assert soak.verdict() == []


# -- the judge


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sound store: runs that ended in every way, one that waits, one that failed, and a fork."""
    folder = tmp_path_factory.mktemp("kept")
    effects = folder / "effects"
    graph, _ = soak_app.graph(effects)
    with Runner(graph, f"sqlite:///{folder / 'adjourn.db'}") as runner:
        hands = driver.Driver(runner, effects, folder / "deeds", random.Random(1))
        for number in range(8):
            run = runner.start_sync("go", run_id=f"run_{number}", thread_id=f"t{number}")
            while run.status == "interrupted" and number:
                run = runner.resume_sync(run.id, hands.answers(run), by="li")
        waits = runner.start_sync("more", thread_id="t1", run_id="run_waits")
        while waits.status != "interrupted":
            waits = runner.start_sync("more", thread_id="t1")
        runner.fork_sync("run_2", repeat_writes=True, message="otherwise", thread_id="fork")
        runner.start_sync("no", thread_id="t0")  # its question is dismissed
    with closing(sqlite3.connect(folder / "adjourn.db")) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    return folder


@pytest.fixture
def store(kept: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoilt."""
    return Path(shutil.copytree(kept, tmp_path / "store"))


def judged(store: Path) -> dict[str, list[str]]:
    """What the judge says."""
    return checker.check(checker.read(f"sqlite:///{store / 'adjourn.db'}", store / "effects"))


def spoil(store: Path, statement: str) -> None:
    """Change at least one row, whatever the constraints say."""
    with closing(sqlite3.connect(store / "adjourn.db")) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        connection.execute("DROP INDEX uq_runs_live_thread")
        assert connection.execute(statement).rowcount > 0, statement


def test_the_judge_finds_nothing_wrong_with_a_sound_store(store: Path) -> None:
    assert judged(store) == {}


ONE_RUN = "(SELECT id FROM runs WHERE status = 'finished' AND stop_reason = 'answered' AND parent_run_id IS NULL LIMIT 1)"
ONE_CALL = "(SELECT rowid FROM calls WHERE outcome = 'ok' LIMIT 1)"
ONE_WRITE = "(SELECT rowid FROM calls WHERE outcome = 'ok' AND effect = 'write' LIMIT 1)"
BROKEN = {
    "words_are_legal": [
        "UPDATE runs SET status = 'tired' WHERE id = " + ONE_RUN,
        "UPDATE runs SET stop_reason = 'bored' WHERE id = " + ONE_RUN,
        "UPDATE runs SET stop_reason = NULL WHERE id = " + ONE_RUN,
        "UPDATE runs SET ended_at = NULL WHERE id = " + ONE_RUN,
        "UPDATE runs SET stop_reason = 'cancelled' WHERE id = " + ONE_RUN,
        "UPDATE runs SET status = 'failed', stop_reason = NULL, ended_at = NULL WHERE id = " + ONE_RUN,
        "UPDATE calls SET outcome = 'fine' WHERE rowid = " + ONE_CALL,
        "UPDATE interrupts SET state = 'shut' WHERE state = 'answered'",
    ],
    "one_live_run_per_thread": [
        "UPDATE runs SET status = 'interrupted', thread_id = 't1' WHERE id = " + ONE_RUN
    ],
    "nobody_holds_a_lease": [
        "UPDATE runs SET lease_owner = 'me' WHERE id = " + ONE_RUN,
        "UPDATE runs SET lease_until = '2030-01-01T00:00:00.000000Z' WHERE id = " + ONE_RUN,
        "UPDATE runs SET status = 'running' WHERE status = 'interrupted'",
    ],
    "events_have_no_gap": [
        f"DELETE FROM events WHERE number = 2 AND run_id = {ONE_RUN}",
        f"UPDATE runs SET last_event = last_event + 1 WHERE id = {ONE_RUN}",
    ],
    "events_tell_the_run": [
        f"UPDATE events SET type = 'message' WHERE type = 'run_started' AND run_id = {ONE_RUN}",
        f"UPDATE events SET type = 'run_finished' WHERE type = 'step_started' AND run_id = {ONE_RUN}",
        f"UPDATE events SET data = '{{}}' WHERE type = 'run_finished' AND run_id = {ONE_RUN}",
    ],
    "no_run_failed": [f"UPDATE events SET type = 'run_failed' WHERE number = 2 AND run_id = {ONE_RUN}"],
    "events_tell_each_call_once": [
        "UPDATE events SET type = 'message' WHERE type = 'tool_result'",
        'UPDATE events SET data = replace(data, \'"outcome": "ok"\', \'"outcome": "failed"\') WHERE type = \'tool_result\'',
        f"DELETE FROM calls WHERE rowid = {ONE_CALL}",
    ],
    "histories_are_legal": [
        "UPDATE messages SET tool_call_id = 'other' WHERE role = 'tool'",
        "UPDATE messages SET role = 'user' WHERE role = 'tool'",
        "UPDATE messages SET tool_calls = NULL WHERE tool_calls IS NOT NULL",
    ],
    "each_call_has_one_observation": [
        "UPDATE messages SET role = 'user' WHERE role = 'tool'",
        "UPDATE messages SET tool_call_id = 'other' WHERE role = 'tool'",
    ],
    "calls_are_settled": [
        f"UPDATE calls SET outcome = 'started' WHERE rowid = {ONE_CALL}",
        f"UPDATE calls SET result = NULL WHERE rowid = {ONE_CALL}",
        f"UPDATE calls SET ended_at = NULL WHERE rowid = {ONE_CALL}",
    ],
    "questions_are_settled": [
        "UPDATE interrupts SET state = 'open', closed_at = NULL, answer = NULL WHERE state = 'answered'",
        "UPDATE interrupts SET closed_at = NULL WHERE state = 'answered'",
        "UPDATE interrupts SET answer = NULL WHERE state = 'answered'",
        "DELETE FROM interrupts WHERE state = 'open'",
        "UPDATE events SET type = 'message' WHERE type = 'interrupt_answered'",
    ],
    "counters_add_up": [
        f"UPDATE runs SET steps = steps + 1 WHERE id = {ONE_RUN}",
        f"UPDATE runs SET input_tokens = input_tokens + 1 WHERE id = {ONE_RUN}",
        f"UPDATE runs SET output_tokens = 0 WHERE id = {ONE_RUN}",
        f"UPDATE steps SET calls = calls + 1 WHERE run_id = {ONE_RUN}",
        f"DELETE FROM steps WHERE step = 1 AND run_id = {ONE_RUN}",
    ],
    "no_write_happened_twice": [
        "UPDATE calls SET idempotency_key = 'k' WHERE rowid IN (SELECT rowid FROM calls WHERE effect = 'write' LIMIT 2)"
    ],
    "each_ok_write_happened": [f"UPDATE calls SET idempotency_key = 'none' WHERE rowid = {ONE_WRITE}"],
    "what_happened_is_in_the_ledger": [
        f"DELETE FROM calls WHERE rowid = {ONE_WRITE}",
        f"UPDATE calls SET outcome = 'declined' WHERE rowid = {ONE_WRITE}",
    ],
}


def test_each_invariant_is_tried() -> None:
    assert set(BROKEN) == set(checker.CHECKS)


@pytest.mark.parametrize(
    ("name", "statement"), [(name, one) for name, statements in BROKEN.items() for one in statements]
)
def test_the_judge_sees_what_is_broken(store: Path, name: str, statement: str) -> None:
    spoil(store, statement)
    assert judged(store).get(name)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("no_write_happened_twice", "{pay}"),
        ("what_happened_is_in_the_ledger", "pay run_1 c9 unknown-key"),
    ],
)
def test_the_judge_looks_at_the_world(store: Path, name: str, line: str) -> None:
    effects = store / "effects"
    once = next(one for one in effects.read_text().splitlines() if not one.startswith("put "))
    effects.write_text(effects.read_text() + line.format(pay=once) + "\n")
    assert list(judged(store)) == [name]


def test_the_judge_misses_what_never_happened(store: Path) -> None:
    (store / "effects").write_text("")
    assert list(judged(store)) == ["each_ok_write_happened"]

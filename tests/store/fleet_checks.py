"""What is left of the runs of `fleet_app`, judged by SQL and the file of effects alone."""

from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from store import fleet_app

from adjourn.checkpoints.database import Database

Rows = Callable[[str], list[Any]]


def check(url: str, effects: Path, run_ids: Collection[str]) -> dict[str, Any]:
    """Every run has finished with all its results, nothing was done or told twice, and there are no others.

    Gives how often a person was asked what became of a write, and how often what was done to runs.
    """
    database = Database(url)

    def rows(statement: str) -> list[Any]:
        return database.read(lambda connection: list(connection.execute(sa.text(statement))))

    try:
        assert rows(
            "SELECT status, stop_reason, answer, count(*) FROM runs GROUP BY status, stop_reason, answer"
        ) == [("finished", "answered", fleet_app.ANSWER, len(run_ids))]
        assert {one[0] for one in rows("SELECT id FROM runs")} == set(run_ids)
        assert rows(
            "SELECT count(*) FROM runs WHERE lease_owner IS NOT NULL OR steps <> 3 OR input_tokens <> 600"
        ) == [(0,)]
        _check_calls(rows, len(run_ids))
        _check_events(rows, len(run_ids))
        _check_messages(rows, len(run_ids))
        _check_effects(effects, run_ids)
        doubts = rows("SELECT count(*) FROM interrupts WHERE type = 'outcome_unknown'")[0][0]
        taken = rows("SELECT action, count(*) FROM audit GROUP BY action")
        return {"in doubt": doubts, **dict(tuple(one) for one in taken)}
    finally:
        database.close()


def _check_calls(rows: Rows, runs: int) -> None:
    assert sorted(rows("SELECT tool, outcome, count(*) FROM calls GROUP BY tool, outcome")) == [
        (name, "ok", runs) for name in ("look", "put", "send")
    ]
    lost = "SELECT run_id, call_id FROM calls WHERE result IS NULL OR ended_at IS NULL"
    assert rows(lost) == []
    wrong = "SELECT run_id FROM calls WHERE tool <> 'look' AND result NOT LIKE '%' || tool || ' ' || run_id || '%'"
    assert rows(wrong) == []


def _check_events(rows: Rows, runs: int) -> None:
    gaps = (
        "SELECT runs.id FROM runs LEFT JOIN events ON events.run_id = runs.id GROUP BY runs.id, runs.last_event "
        "HAVING count(*) <> runs.last_event OR min(number) <> 1 OR max(number) <> runs.last_event"
    )
    assert rows(gaps) == []
    once = {
        "run_started": 1,
        "step_started": 3,
        "message": 3,
        "tool_call": 3,
        "tool_result": 3,
        "run_finished": 1,
    }
    for word, times in once.items():
        wrong = rows(
            f"SELECT runs.id, count(events.number) FROM runs LEFT JOIN events ON events.run_id = runs.id "
            f"AND events.type = '{word}' GROUP BY runs.id HAVING count(events.number) <> {times}"
        )
        assert wrong == [], word
    last = "SELECT count(*) FROM runs JOIN events ON run_id = id AND number = last_event WHERE type = 'run_finished'"
    assert rows(last) == [(runs,)]


def _check_messages(rows: Rows, runs: int) -> None:
    """Each conversation holds what it has to, in order: no call without its answer, nothing twice."""
    said: dict[str, list[str]] = {}
    for thread, role, call in rows(
        "SELECT thread_id, role, tool_call_id FROM v_messages ORDER BY thread_id, position"
    ):
        said.setdefault(thread, []).append(call or role)
    assert len(said) == runs
    assert {tuple(one) for one in said.values()} == {
        ("user", "assistant", "a", "b", "assistant", "c", "assistant")
    }


def _check_effects(effects: Path, run_ids: Collection[str]) -> None:
    lines = [line.split() for line in effects.read_text().splitlines()]
    sent = Counter(run for name, run, _ in lines if name == "send")
    assert sorted(sent) == sorted(run_ids)
    assert set(sent.values()) == {1}, [run for run, times in sent.items() if times > 1]
    put = {(run, key) for name, run, key in lines if name == "put"}  # its system takes each key once
    assert len(put) == len(run_ids)

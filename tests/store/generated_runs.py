"""Many runs as rows, made up but consistent: what reports are measured and checked on."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from adjourn.checkpoints.database import Database, format_time
from adjourn.checkpoints.run_schema import calls, interrupts, runs, steps

FIRST = datetime(2026, 11, 1, tzinfo=UTC)
TOOLS = ("search_docs", "query_logs", "restart_service", "publish_release")
REASONS = ("answered",) * 6 + ("max_steps", "timeout", "dismissed", "cancelled")
OUTCOMES = ("ok",) * 8 + ("failed", "unknown", "declined", "invalid")
RAN = ("ok", "failed", "unknown")

Rows = list[dict[str, Any]]


@dataclass
class Made:
    """The rows, by table."""

    runs: Rows = field(default_factory=list)
    steps: Rows = field(default_factory=list)
    calls: Rows = field(default_factory=list)
    interrupts: Rows = field(default_factory=list)


def fill(database: Database, count: int, *, seed: int = 6) -> Made:
    """Store `count` runs, one a minute, and give their rows."""
    chance, made = random.Random(seed), Made()
    for number in range(count):
        _run(made, chance, number)
    given: Sequence[tuple[sa.Table, Rows]] = (
        (runs, made.runs),
        (steps, made.steps),
        (calls, made.calls),
        (interrupts, made.interrupts),
    )
    for table, rows in given:
        database.write(lambda connection, table=table, rows=rows: connection.execute(table.insert(), rows))  # type: ignore[misc]
    return made


def _run(made: Made, chance: random.Random, number: int) -> None:
    begun = FIRST + timedelta(minutes=number)
    status = chance.choice(("finished",) * 7 + ("interrupted", "failed", "running"))
    reason = chance.choice(REASONS) if status == "finished" else None
    if reason == "cancelled":
        status = "cancelled"
    count = chance.randint(1, 6)
    run_id = f"run_{number:06}"
    ended = begun + timedelta(seconds=30) if reason else None
    own: Rows = [_step(chance, run_id, step, begun) for step in range(1, count + 1)]
    made.steps += own
    made.runs.append(
        {
            "id": run_id,
            "thread_id": f"t{number}",
            "graph": chance.choice(("ops", "ops", "billing")),
            "signature": "s",
            "started_by": chance.choice(("wang", "li")),
            "status": status,
            "stop_reason": reason,
            "input": '"look"',
            "steps": count,
            "input_tokens": sum(one["input_tokens"] for one in own),
            "output_tokens": sum(one["output_tokens"] for one in own),
            "cost": 0.001 * count,
            "active_ms": sum(one["latency_ms"] for one in own),
            "created_at": format_time(begun),
            "updated_at": format_time(ended or begun),
            "ended_at": format_time(ended) if ended else None,
        }
    )
    for step in range(1, count):
        made.calls.append(_call(chance, run_id, step, begun))
    if count > 1 and chance.random() < 0.4:
        made.interrupts.append(_question(chance, run_id, begun, made.calls[-1], status))


def _step(chance: random.Random, run_id: str, step: int, begun: datetime) -> dict[str, Any]:
    took = chance.randint(200, 4_000)
    return {
        "run_id": run_id,
        "step": step,
        "model": chance.choice(("gpt-5", "gpt-5-mini")),
        "latency_ms": took,
        "input_tokens": chance.randint(100, 2_000),
        "output_tokens": chance.randint(10, 400),
        "cached_tokens": chance.choice((None, 64)),
        "cost": 0.001,
        "calls": 1,
        "started_at": format_time(begun),
        "ended_at": format_time(begun + timedelta(milliseconds=took)),
    }


def _call(chance: random.Random, run_id: str, step: int, begun: datetime) -> dict[str, Any]:
    outcome = chance.choice(OUTCOMES)
    ran = outcome in RAN
    took = chance.randint(1, 3_000) if ran and outcome != "unknown" else None
    return {
        "run_id": run_id,
        "step": step,
        "call_id": f"c{step}",
        "batch": 0,
        "position": 0,
        "tool": chance.choice(TOOLS),
        "effect": "read",
        "arguments": "{}",
        "digest": "d",
        "outcome": outcome,
        "attempts": int(ran),
        "planned_at": format_time(begun),
        "started_at": format_time(begun) if ran else None,
        "ended_at": format_time(begun + timedelta(milliseconds=took or 1)),
        "took_ms": took,
    }


def _question(
    chance: random.Random, run_id: str, begun: datetime, call: Mapping[str, Any], status: str
) -> dict[str, Any]:
    is_open = status == "interrupted"
    state = "open" if is_open else chance.choice(("answered", "answered", "answered", "dismissed"))
    return {
        "id": f"int_{run_id}",
        "run_id": run_id,
        "step": call["step"],
        "call_id": call["call_id"],
        "position": 0,
        "type": "confirm_risky",
        "tool": call["tool"],
        "arguments": "{}",
        "reason": "risky",
        "payload": "{}",
        "response_schema": "{}",
        "state": state,
        "answered_by": "li" if state == "answered" else None,
        "created_at": format_time(begun),
        "closed_at": None if is_open else format_time(begun + timedelta(hours=1)),
    }

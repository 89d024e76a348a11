"""`adjourn doctor`: is this store well? What is stuck, what waits, and what to do about it. It needs no app."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, text

from adjourn.checkpoints.database import Database, now
from adjourn.checkpoints.setup import VERSION
from adjourn.graph.cli.screen import Screen
from adjourn.graph.cli.settings import Settings
from adjourn.graph.cli.stores import opened

CLOCK_S = 2.0  # more than that between this machine and the database, and leases end too early or too late


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `key` names its text; `wrong`: somebody has to do something."""

    key: str
    count: float
    wrong: bool


def doctor(settings: Settings) -> int:
    """Look, and say what is found. Gives the exit status: 0 when nothing is wrong, else 4."""
    with opened(settings.store) as database:
        findings = examined(database)
    screen = Screen(settings)
    if settings.json:
        screen.data({one.key: {"count": one.count, "wrong": one.wrong} for one in findings})
    else:
        for one in findings:
            mark = ("✗ ", "red") if one.wrong else ("✓ ", "green")
            screen.line(mark, screen.say(f"doctor.{one.key}", count=f"{one.count:g}"))
    return 4 if any(one.wrong for one in findings) else 0


def examined(database: Database) -> Sequence[Finding]:
    """What there is to be said about a store."""
    return database.read(lambda connection: _examined(connection, database))


def _examined(connection: Connection, database: Database) -> list[Finding]:
    at = now()

    def count(where: str, **values: Any) -> int:
        statement = text(f"SELECT count(*) FROM {where}")
        return int(connection.execute(statement, values).scalar_one())

    dead = count("runs WHERE status = 'running' AND lease_until < :at AND parent_run_id IS NULL", at=at)
    queued = count("runs WHERE status = 'running' AND lease_until IS NULL AND parent_run_id IS NULL")
    overdue = count("interrupts WHERE state = 'open' AND expires_at <= :at", at=at)
    clock = _clock_s(connection, database)
    return [
        Finding("version", float(VERSION), wrong=False),
        Finding("working", count("runs WHERE status = 'running' AND lease_until >= :at", at=at), wrong=False),
        Finding("waiting", count("runs WHERE status = 'interrupted'"), wrong=False),
        Finding("queued", queued, wrong=False),
        Finding("dead", dead, wrong=dead > 0),
        Finding("dying", count("runs WHERE status = 'running' AND deaths > 0"), wrong=False),
        Finding("failed", count("runs WHERE status = 'failed'"), wrong=False),
        Finding("overdue", overdue, wrong=overdue > 0),
        Finding("clock", clock, wrong=clock > CLOCK_S),
    ]


def _clock_s(connection: Connection, database: Database) -> float:
    """How far the clock of the database's machine is from this one's, in seconds; a SQLite file has none."""
    if database.is_sqlite:
        return 0.0
    asked = "clock_timestamp()" if connection.dialect.name == "postgresql" else "utc_timestamp(6)"
    theirs: datetime = connection.execute(text(f"SELECT {asked}")).scalar_one()
    if theirs.tzinfo is None:
        theirs = theirs.replace(tzinfo=UTC)
    return round(abs((datetime.now(UTC) - theirs).total_seconds()), 3)

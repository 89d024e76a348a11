"""`adjourn doctor`: is this store well? What is stuck, what waits, and what to do about it. It needs no app."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, text

from adjourn.checkpoints import settling
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.checkpoints.setup import VERSION
from adjourn.checkpoints.store_figures import read_store_figures
from adjourn.graph.cli.screen import Screen
from adjourn.graph.cli.settings import Settings
from adjourn.graph.cli.stores import opened

# A worker takes what waits within seconds: after a minute there is none, or there are too few.
QUEUED_S = 60.0
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
            count = int(one.count) if one.count == int(one.count) else f"{one.count:g}"
            screen.line(mark, screen.say(f"doctor.{one.key}", count=count))
    return 4 if any(one.wrong for one in findings) else 0


def examined(database: Database) -> Sequence[Finding]:
    """What there is to be said about a store."""
    return database.read(lambda connection: _examined(connection, database))


def _examined(connection: Connection, database: Database) -> list[Finding]:
    found = read_store_figures(connection)
    clock = _clock_s(connection, database)
    stuck = len(settling.settled_runs(connection, None))
    return [
        Finding("version", float(VERSION), wrong=False),
        Finding("working", found.working, wrong=False),
        Finding("waiting", found.runs[RunStatus.INTERRUPTED], wrong=False),
        Finding("queued", found.queued, wrong=False),
        Finding("oldest", found.queued_s, wrong=found.queued_s > QUEUED_S),
        Finding("dead", found.dead, wrong=found.dead > 0),
        Finding("dying", found.dying, wrong=False),
        Finding("failed", found.runs[RunStatus.FAILED], wrong=False),
        Finding("overdue", found.overdue, wrong=found.overdue > 0),
        Finding("settled", stuck, wrong=stuck > 0),
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

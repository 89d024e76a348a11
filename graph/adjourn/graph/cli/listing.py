"""The lists: `adjourn runs` and `adjourn events`. They read the database and need no app."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from adjourn.checkpoints import journal
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.checkpoints.records import RunRow
from adjourn.graph.cli.screen import Screen, short, to_line
from adjourn.graph.cli.settings import Settings
from adjourn.graph.cli.stores import read
from adjourn.graph.reading import find_run_id
from adjourn.graph.run import Run

INPUT_CHARACTERS = 60  # of a message in the list: enough to recognise it
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))

STYLES = {
    RunStatus.FINISHED: "green",
    RunStatus.INTERRUPTED: "yellow",
    RunStatus.FAILED: "red",
    RunStatus.CANCELLED: "dim",
    RunStatus.RUNNING: "cyan",
}


def list_runs(settings: Settings, *, statuses: Sequence[RunStatus], thread_id: str | None, limit: int) -> int:
    """`adjourn runs`: newest first."""
    found = read(
        settings.store,
        lambda connection: journal.list_runs(
            connection, statuses=statuses, thread_id=thread_id, limit=limit + 1
        ),
    )
    screen, rows = Screen(settings), found[:limit]
    if settings.json:
        screen.data([_to_dict(row) for row in rows])
    elif rows:
        styles = [STYLES[RunStatus(row.status)] for row in rows]
        head = ("RUN", "STATUS", "STEPS", "BY", "AGE", "THREAD", "INPUT")
        screen.table(head, [_cells(row) for row in rows], styles)
        if len(found) > limit:
            screen.line(screen.say("more_runs"))
    else:
        screen.line(screen.say("no_runs"))
    return 0


def _cells(row: RunRow) -> Sequence[str]:
    reason = Run(row).shown_reason
    status = f"{row.status} ({reason})" if reason else row.status
    age = age_of(row.created_at, datetime.now(UTC))
    said = short(row.input, INPUT_CHARACTERS)
    return (row.id, status, str(row.steps), row.started_by or "-", age, row.thread_id, said)


def _to_dict(row: RunRow) -> dict[str, Any]:
    run = Run(row)
    whole = run.to_dict()
    del whole["interrupts"], whole["calls"]  # not read here: empty would be a lie
    return {**whole, "shown_reason": run.shown_reason or None, "updated_at": row.updated_at}


def age_of(time: str, moment: datetime) -> str:
    """How long ago a stored time was at `moment`: `5s`, `3m`, `2h`, `9d`."""
    passed = max(0, int((moment - datetime.fromisoformat(time)).total_seconds()))
    for seconds, unit in _UNITS:
        if passed >= seconds:
            return f"{passed // seconds}{unit}"
    return "0s"


def list_events(settings: Settings, beginning: str, *, after: int) -> int:
    """`adjourn events`: the stored events of a run, one per line: number, step, type, the rest as JSON."""
    events = read(
        settings.store,
        lambda connection: journal.read_events(connection, find_run_id(connection, beginning), after=after),
    )
    screen = Screen(settings)
    for event in events:
        if settings.json:
            screen.data(event.to_dict())
            continue
        path = f"[{event.path}] " if event.path else ""
        number = f"{event.number:>4}  "
        step = f"{event.step:>3}  "
        screen.line(
            (number, "dim"), step, path, (f"{event.word:<19}", "bold"), to_line(event.own()), cut=True
        )
    return 0

"""The lists: `adjourn runs` and `adjourn events`. They read the database and need no app."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection

from adjourn.checkpoints import event_rows, journal, settling
from adjourn.checkpoints.errors import StoredDataError
from adjourn.checkpoints.events import Event
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.checkpoints.records import RunRow
from adjourn.graph.cli.screen import Screen, short, span, to_line
from adjourn.graph.cli.settings import Settings
from adjourn.graph.cli.stores import read, read_current, tell_damaged
from adjourn.graph.names import check_name
from adjourn.graph.reading import find_run_id
from adjourn.graph.run import Run

INPUT_CHARACTERS = 60  # of a message in the list: enough to recognise it

STYLES = {
    RunStatus.FINISHED: "green",
    RunStatus.INTERRUPTED: "yellow",
    RunStatus.FAILED: "red",
    RunStatus.CANCELLED: "dim",
    RunStatus.RUNNING: "cyan",
}


def list_runs(
    settings: Settings,
    *,
    statuses: Sequence[RunStatus],
    thread_id: str | None,
    limit: int,
    children: bool = False,
) -> int:
    """`adjourn runs`: newest first; `children`: those that work for others too."""
    check_name("--thread", thread_id)
    damaged: list[StoredDataError] = []
    wanted = partial(
        journal.list_runs,
        statuses=statuses,
        thread_id=thread_id,
        roots=not children,
        limit=limit + 1,
        damaged=damaged,
    )
    found, expiries = read_current(settings.store, lambda c: _read(c, wanted))
    screen, rows = Screen(settings), found[:limit]
    if settings.json:
        screen.data([_to_dict(row, expiries.get(row.id)) for row in rows])
    elif rows:
        styles = [STYLES[RunStatus(row.status)] for row in rows]
        cells = [_cells(screen, row, expiries.get(row.id)) for row in rows]
        thread, by, steps, age = 5, 3, 2, 4
        screen.table(screen.say("runs.head").split("|"), cells, styles, spare=(thread, by, steps, age))
    elif not damaged:
        screen.line(screen.say("no_runs"))
    if len(found) + len(damaged) > limit and not settings.json:
        screen.line(screen.say("more_runs"))
    return tell_damaged(settings, damaged)


def _read(
    connection: Connection, wanted: Callable[[Connection], Sequence[RunRow]]
) -> tuple[Sequence[RunRow], Mapping[str, str]]:
    """The runs, and when the next question of each expires."""
    found = wanted(connection)
    return found, settling.next_expiries(connection, [row.id for row in found])


def _cells(screen: Screen, row: RunRow, expires_at: str | None) -> Sequence[str]:
    notes = []
    if expires_at is not None:
        left = span((datetime.fromisoformat(expires_at) - datetime.now(UTC)).total_seconds())
        notes.append(screen.say("expires_in", left=left or "0s"))
    if row.status == RunStatus.RUNNING and row.lease_owner is None:
        notes.append(screen.say("queued"))
    status = Run(row).status_noting(*notes, language=screen.words)
    age = age_of(row.created_at, datetime.now(UTC))
    said = short(row.input, INPUT_CHARACTERS)
    return (row.id, status, str(row.steps), row.started_by or "-", age, row.thread_id, said)


def _to_dict(row: RunRow, expires_at: str | None) -> dict[str, Any]:
    run = Run(row)
    whole = run.to_dict()
    del whole["interrupts"], whole["calls"]  # not read here: empty would be a lie
    return {
        **whole,
        "shown_reason": run.shown_reason or None,
        "updated_at": row.updated_at,
        "expires_at": expires_at,
    }


def age_of(time: str, moment: datetime) -> str:
    """How long ago a stored time was at `moment`: `5s`, `3m`, `2h`, `9d`."""
    return span(int((moment - datetime.fromisoformat(time)).total_seconds())) or "0s"


def list_events(settings: Settings, beginning: str, *, after: int) -> int:
    """`adjourn events`: the stored events of a run, one per line: number, step, type, the rest as JSON."""
    events = read(
        settings.store,
        lambda connection: event_rows.read(connection, find_run_id(connection, beginning), after=after),
    )
    screen = Screen(settings)
    for event in events:
        show_event(screen, event)
    return 0


def show_event(screen: Screen, event: Event) -> None:
    """One stored event on one line."""
    if screen.json:
        screen.data(event.to_dict())
        return
    path = f"[{event.path}] " if event.path else ""
    number = f"{event.number:>4}  "
    step = f"{event.step:>3}  "
    screen.line((number, "dim"), step, path, (f"{event.word:<19}", "bold"), to_line(event.own()), cut=True)

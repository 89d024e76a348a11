"""The past of runs: `adjourn history`, `adjourn fork`, and `adjourn run --history`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.json_data import read_json
from adjourn.graph.cli.drive import driving
from adjourn.graph.cli.given import context_of, fields_of
from adjourn.graph.cli.screen import Screen, on_terminal
from adjourn.graph.cli.settings import Settings
from adjourn.graph.past import RunCheckpoint


def show_history(settings: Settings, beginning: str, *, limit: int) -> int:
    """`adjourn history`: where a run stood after each superstep, newest first."""
    with driving(settings) as driver:
        run = driver.find(beginning)
        found = driver.runner.history_sync(run.id, limit=limit + 1)
    screen, shown = Screen(settings), found[:limit]
    if settings.json:
        screen.data([one.to_dict() for one in shown])
        return 0
    checkpoint, time, ran = 5, 1, 3  # the first is named by its number as well
    head = screen.say("history.head").split("|")
    screen.table(head, [_cells(one) for one in shown], spare=(checkpoint, time, ran))
    if len(found) > limit:
        screen.line(screen.say("more_checkpoints"))
    return 0


def _cells(one: RunCheckpoint) -> Sequence[str]:
    at = f"{one.at[:10]} {one.at[11:19]}"
    asked = f" ? {len(one.questions)}" if one.questions else ""
    ran, comes = ", ".join(one.ran), ", ".join(one.next) or "-"
    return (str(one.number), at, str(one.step), ran, comes + asked, one.id, one.description)


def fork(
    settings: Settings,
    beginning: str,
    *,
    at: str | None,
    message: str | None,
    thread_id: str | None,
    repeat_writes: bool,
    by: str | None,
) -> int:
    """`adjourn fork`: begin a new run where another one stood, and show it. Gives its exit status."""
    with driving(settings, by=by, asks=on_terminal(settings)) as driver:
        run = driver.find(beginning)
        made = driver.runner.fork_sync(
            run.id,
            int(at) if at is not None and at.isdecimal() else at,
            message=message,
            thread_id=thread_id,
            by=by,
            repeat_writes=repeat_writes,
            on_event=driver.live,
        )
        return driver.go_on(made)


def start_from_history(
    settings: Settings,
    file: str,
    *,
    assignments: Sequence[str],
    message: str | None,
    thread_id: str | None,
    by: str | None,
    priority: int = 0,
    context: Sequence[str] = (),
) -> int:
    """`adjourn run --history`: go on from the history in a file and what was submitted. Gives the exit status."""
    if message and assignments:
        raise UsageError("give either --set FIELD=VALUE or a MESSAGE with --history, not both")
    history, values = _read(file), message or fields_of(assignments, "--set", "FIELD")
    given = context_of(context)
    with driving(settings, create=True, by=by, asks=on_terminal(settings)) as driver:
        run = driver.runner.run_from_history_sync(
            history,
            values,
            thread_id=thread_id,
            by=by,
            priority=priority,
            context=given,
            on_event=driver.live,
        )
        return driver.go_on(run)


def _read(file: str) -> Any:
    try:
        return read_json(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--history {file}: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"--history {file} is no JSON: {error}") from error

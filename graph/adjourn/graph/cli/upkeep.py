"""Keeping house: `adjourn prune`, `forget`, `migrate` and `import`. They need no app."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from typer import Abort

from adjourn.checkpoints import retention
from adjourn.checkpoints.database import Database, format_time
from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.setup import VERSION
from adjourn.graph.cli.prompts import prompts_for
from adjourn.graph.cli.screen import Screen, on_terminal
from adjourn.graph.cli.settings import Settings
from adjourn.graph.cli.stores import opened
from adjourn.graph.cli.times import age
from adjourn.graph.names import check_name


def prune_runs(settings: Settings, *, older_than: str, keep_last: int, failed: bool, dry_run: bool) -> int:
    """`adjourn prune`: take away runs that ended before `older_than` (`30d`)."""
    before = format_time(datetime.now(UTC) - age(older_than))
    policy = retention.Policy(before, keep_last=keep_last, failed=failed)
    with opened(settings.store) as database:
        removed = retention.prune(database, policy, dry_run=dry_run)
    screen = Screen(settings)
    if settings.json:
        screen.data({**asdict(removed), "before": before, "dry_run": dry_run})
    else:
        screen.line(screen.say("would_prune" if dry_run else "pruned", **asdict(removed)))
    return 0


def forget_threads(
    settings: Settings, thread_ids: Sequence[str], *, yes: bool = False, dry_run: bool = False
) -> int:
    """`adjourn forget`: take away everything of these conversations, one after the other.

    A person on a terminal is shown what would go, and asked, unless they have said `yes`. Raises `Abort` for a no.
    """
    screen = Screen(settings)
    for thread_id in thread_ids:
        check_name("THREAD", thread_id)
    with opened(settings.store) as database:
        if not dry_run and not yes and on_terminal(settings):
            _forget(screen, database, thread_ids, dry_run=True)
            _must_agree(screen)
        _forget(screen, database, thread_ids, dry_run=dry_run)
    return 0


def _forget(screen: Screen, database: Database, thread_ids: Sequence[str], *, dry_run: bool) -> None:
    for thread_id in thread_ids:
        forks = [one for one in retention.forks_of(database, thread_id) if one not in thread_ids]
        removed = retention.forget(database, thread_id, dry_run=dry_run)
        if screen.json:
            screen.data({"thread": thread_id, "runs": removed.runs, "forks": forks, "dry_run": dry_run})
            continue
        key = "would_forget" if dry_run else "forgotten"
        screen.line(screen.say(key, thread=thread_id, runs=removed.runs))
        if forks:
            screen.line((screen.say("forks_stay", threads=" ".join(forks)), "yellow"))


def _must_agree(screen: Screen) -> None:
    titles = [screen.say("form.no"), screen.say("form.yes")]
    try:
        agreed = prompts_for(screen).choose(screen.say("forget.sure"), titles, start=0)
    except EOFError:
        agreed = 0
    if not agreed:
        screen.line(screen.say("forget.left"))
        raise Abort


def migrate_store(settings: Settings) -> int:
    """`adjourn migrate`: upgrade the database, which opening it does, and say from which version."""
    with opened(settings.store) as database:
        before = database.version_found
    screen = Screen(settings)
    if settings.json:
        screen.data({"version": VERSION, "before": before})
    elif before == VERSION:
        screen.line(screen.say("up_to_date", version=VERSION))
    else:
        screen.line(screen.say("migrated", version=VERSION, before=before or "-"))
    return 0


def import_from(settings: Settings, source: str, thread_ids: Sequence[str], *, every: bool) -> int:
    """`adjourn import`: bring threads of an official saver over, one line for each that is here."""
    # these import LangGraph, which the other commands here do without
    from adjourn.checkpoints.importing import import_threads, old_store
    from adjourn.checkpoints.saver import SQLAlchemySaver

    if bool(thread_ids) == every:
        raise UsageError("name the threads to import, or give --all")
    screen, is_any = Screen(settings), False
    with old_store(source) as old, opened(settings.store, create=True) as database:
        for found in import_threads(old, SQLAlchemySaver(database), None if every else thread_ids):
            if settings.json:
                screen.data({"thread": found.thread_id, "checkpoints": found.checkpoints})
            else:
                screen.line(screen.say("imported", thread=found.thread_id, checkpoints=found.checkpoints))
            is_any = True
        if not is_any and not settings.json:
            screen.line(screen.say("imported_none"))
    return 0

"""The commands that keep a store: old runs go, conversations too, a schema is upgraded, threads are brought over."""

from typing import Annotated

import typer

from adjourn.graph.cli.options import DEFAULT_STORE, Json, Lang, Store
from adjourn.graph.cli.settings import settings_of


def prune(
    *,
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="AGE", help="Runs that ended so long ago: 30d, 12h, 90m."),
    ],
    keep_last: Annotated[
        int,
        typer.Option("--keep-last", min=0, metavar="N", help="So many newest runs of each thread stay."),
    ] = 0,
    failed: Annotated[
        bool, typer.Option("--failed", help="Failed runs go as well, and can then not be tried again.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would go.")] = False,
    store: Store = DEFAULT_STORE,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """Take old runs away. What works, waits or can be tried again stays, with its thread."""
    from adjourn.graph.cli import upkeep

    return upkeep.prune_runs(
        settings_of(store, json=json, lang=lang),
        older_than=older_than,
        keep_last=keep_last,
        failed=failed,
        dry_run=dry_run,
    )


def forget(
    threads: Annotated[list[str], typer.Argument(metavar="THREAD...", help="Ids of conversations.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask first. Only a terminal is asked.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would go.")] = False,
    store: Store = DEFAULT_STORE,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """Take everything of a conversation away, for good: messages, checkpoints, runs, answers, events."""
    from adjourn.graph.cli import upkeep

    return upkeep.forget_threads(settings_of(store, json=json, lang=lang), threads, yes=yes, dry_run=dry_run)


def migrate(*, store: Store = DEFAULT_STORE, json: Json = False, lang: Lang = None) -> int:
    """Upgrade a database of an older version, as opening it would."""
    from adjourn.graph.cli import upkeep

    return upkeep.migrate_store(settings_of(store, json=json, lang=lang))


def import_(
    threads: Annotated[
        list[str] | None, typer.Argument(metavar="[THREAD]...", help="Ids of conversations; or --all.")
    ] = None,
    *,
    source: Annotated[
        str, typer.Option("--from", metavar="URL", help="Their database: sqlite:///FILE or postgresql://....")
    ],
    every: Annotated[bool, typer.Option("--all", help="Every thread of it.")] = False,
    store: Store = DEFAULT_STORE,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """Bring threads of LangGraph's own SqliteSaver or PostgresSaver over, which stay there as they are."""
    from adjourn.graph.cli import upkeep

    settings = settings_of(store, json=json, lang=lang)
    return upkeep.import_from(settings, source, threads or (), every=every)

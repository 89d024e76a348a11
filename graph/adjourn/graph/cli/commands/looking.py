"""The commands that show runs, graphs and how a store is: what each takes, and what it calls. They drive nothing."""

from typing import Annotated

import typer

from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.graph.cli.options import DEFAULT_STORE, App, Json, Lang, RunId, Store
from adjourn.graph.cli.settings import settings_of


def runs(
    *,
    interrupted: Annotated[
        bool, typer.Option("--interrupted", help="Only those that wait for a person.")
    ] = False,
    status: Annotated[
        list[RunStatus] | None,
        typer.Option("--status", help="Only those of this status; may be given again."),
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="ID", help="Only those of this conversation.")
    ] = None,
    children: Annotated[
        bool, typer.Option("--children", help="Those of specialists too, which work for other runs.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 20,
    store: Store = DEFAULT_STORE,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """List runs, newest first."""
    from adjourn.graph.cli import listing

    statuses = [*(status or ()), *([RunStatus.INTERRUPTED] if interrupted else [])]
    return listing.list_runs(
        settings_of(store, json=json, lang=lang),
        statuses=statuses,
        thread_id=thread,
        children=children,
        limit=limit,
    )


def show(
    run: RunId,
    *,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Model calls, tool calls and waiting as bars over time.")
    ] = False,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Write it as one page that loads nothing; - is stdout."),
    ] = None,
    store: Store = DEFAULT_STORE,
    app: App = None,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """Show everything about a run: why it stands where it stands, steps, calls, questions, answers, how to go on."""
    from adjourn.graph.cli import story

    return story.show_run(settings_of(store, app, json, lang), run, bars=timeline, html=html)


def events(
    run: RunId,
    *,
    after: Annotated[
        int, typer.Option("--after", min=0, metavar="N", help="Only those with a number above N.")
    ] = 0,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Go on until the run waits or ends, whoever drives it."),
    ] = False,
    store: Store = DEFAULT_STORE,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """Print the stored events of a run, one per line."""
    settings = settings_of(store, json=json, lang=lang)
    if follow:
        from adjourn.graph.cli import watch

        return watch.follow_events(settings, run, after=after)
    from adjourn.graph.cli import listing

    return listing.list_events(settings, run, after=after)


def history(
    run: RunId,
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 20,
    store: Store = DEFAULT_STORE,
    app: App = None,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """List where a run stood after each superstep, newest first: the points where a fork can begin."""
    from adjourn.graph.cli import travel

    return travel.show_history(settings_of(store, app, json, lang), run, limit=limit)


def metrics(
    *,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="AGE|DATE", help="Only runs begun since: 7d, 12h, 2026-11-01. Without: all."
        ),
    ] = None,
    graph: Annotated[
        str | None, typer.Option("--graph", metavar="NAME", help="Only runs of this graph.")
    ] = None,
    tool: Annotated[
        str | None,
        typer.Option("--tool", metavar="NAME", help="Only runs that called this tool, and its calls."),
    ] = None,
    store: Store = DEFAULT_STORE,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """Report on many runs: steps, stop reasons, questions, failing and slow tools, tokens, cost."""
    from adjourn.graph.cli import report

    return report.show_metrics(settings_of(store, json=json, lang=lang), since=since, graph=graph, tool=tool)


def graph(*, app: App = None, json: Json = False, lang: Lang = None) -> int:
    """Print the machine of the app's graph as mermaid text, and its tools with what they do."""
    from adjourn.graph.cli import machine

    return machine.show_graph(settings_of(app=app, json=json, lang=lang))


def doctor(*, store: Store = DEFAULT_STORE, json: Json = False, lang: Lang = None) -> int:
    """Look whether a store is well: dead owners, what waits to be driven, overdue questions, clocks."""
    from adjourn.graph.cli import doctor as looking

    return looking.doctor(settings_of(store, json=json, lang=lang))

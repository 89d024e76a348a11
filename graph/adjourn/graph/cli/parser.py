"""The parser: what each command takes, and which function does it. No command imports more than it needs."""

from typing import Annotated

import typer

from adjourn.checkpoints.lifecycle import HIGHEST_PRIORITY, RunStatus
from adjourn.graph.cli.options import DEFAULT_STORE, App, By, Json, Lang, RunId, Store, Version
from adjourn.graph.cli.settings import person_of, settings_of
from adjourn.graph.cli.taking import Commands

app = typer.Typer(
    name="adjourn",
    cls=Commands,
    help="Run tool-calling agents that stop for a person and go on exactly there.\n\n"
    "Exit status: 0 done, 2 wrong usage, 3 interrupted (waits for a person), 4 failed or cancelled by somebody else, "
    "5 busy or already answered, 130 cancelled by Ctrl-C.",
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    rich_markup_mode=None,  # help is the same in a terminal, in a pipe and in the documentation
    pretty_exceptions_enable=False,
)

Many = list[str] | None


@app.callback()
def adjourn(*, version: Version = False) -> None:
    # a callback makes typer treat even a single command as a sub-command; its help is the app's
    pass


@app.command()
def demo(
    *,
    data: Annotated[
        str | None,
        typer.Option(
            "--data", metavar="DIR", help="Your own logs and documents. Without: the bundled incident."
        ),
    ] = None,
    directory: Annotated[
        str | None,
        typer.Option("--dir", metavar="WORKSPACE", help="The demo's folder. Without: ./adjourn-demo."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="openai:NAME", help="A real model, by OPENAI_API_KEY or OPENAI_BASE_URL."
        ),
    ] = None,
    message: Annotated[str | None, typer.Option("--message", metavar="TEXT", help="What to ask it.")] = None,
    flow: Annotated[
        str | None,
        typer.Option(
            "--flow", metavar="open-database", help="A flow of fixed steps in place of the free loop."
        ),
    ] = None,
    supervisor: Annotated[
        bool,
        typer.Option("--supervisor", help="A supervisor with two specialists in place of the free loop."),
    ] = False,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """Try it: an operations assistant on a bundled incident, with no key and no server."""
    from adjourn.graph.cli import demo_command

    return demo_command.demo(
        settings_of(json=json, lang=lang),
        directory=directory,
        data=data,
        model=model,
        message=message,
        flow=flow,
        supervisor=supervisor,
    )


@app.command()
def run(
    message: Annotated[
        str | None, typer.Argument(metavar="MESSAGE", help="What the run is to do.", show_default=False)
    ] = None,
    *,
    thread: Annotated[
        str | None,
        typer.Option("--thread", metavar="ID", help="The conversation to go on with. Without: a new one."),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(
            "--history",
            metavar="FILE.json",
            help="Go on from these messages alone, a list in OpenAI's shape, on a new thread.",
        ),
    ] = None,
    set_: Annotated[
        Many,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="With --history: a value that it waits for; may be given again.",
        ),
    ] = None,
    priority: Annotated[
        int,
        typer.Option(
            "--priority",
            min=-HIGHEST_PRIORITY,
            max=HIGHEST_PRIORITY,
            metavar="N",
            help="Where it comes to wait for a worker, the highest is taken first.",
        ),
    ] = 0,
    by: By = None,
    store: Store = DEFAULT_STORE,
    app: App = None,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """Start a run and show it live. At a question it asks on a terminal, else prints how to go on."""
    from adjourn.graph.cli import drive, travel

    settings = settings_of(store, app, json, lang)
    if history is None:
        return drive.start(settings, message or "", thread_id=thread, by=person_of(by), priority=priority)
    return travel.start_from_history(
        settings,
        history,
        assignments=set_ or (),
        message=message,
        thread_id=thread,
        by=person_of(by),
        priority=priority,
    )


@app.command()
def resume(
    run: RunId,
    *,
    approve: Annotated[
        Many, typer.Option("--approve", metavar="ID", help="Let this call run as it is.")
    ] = None,
    edit: Annotated[
        Many, typer.Option("--edit", metavar="ID.FIELD=VALUE", help="Let it run with this argument changed.")
    ] = None,
    reject: Annotated[Many, typer.Option("--reject", metavar="ID", help="Never run this call.")] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why it is rejected; the model is told.")
    ] = None,
    set_: Annotated[
        Many,
        typer.Option(
            "--set",
            metavar="ID.FIELD=VALUE",
            help="Fill a field. Text for a text field, JSON for the others. Just FIELD=VALUE when one question is open; ID=VALUE where the answer is one value.",
        ),
    ] = None,
    answers: Annotated[
        str | None, typer.Option("--answers", metavar="FILE.json", help='{"ID": answer, ...}; - reads stdin.')
    ] = None,
    by: By = None,
    store: Store = DEFAULT_STORE,
    app: App = None,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """Answer a run's questions and go on, or try a failed run again.

    ID is a question's id, or the unique beginning of one. Without answers it asks on a terminal.
    """
    from adjourn.graph.cli import drive
    from adjourn.graph.cli.given import Flags

    flags = Flags(approve or (), edit or (), reject or (), set_ or (), reason, answers)
    return drive.resume(settings_of(store, app, json, lang), run, flags, by=person_of(by))


@app.command()
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


@app.command()
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


@app.command()
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


@app.command()
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


@app.command()
def graph(*, app: App = None, json: Json = False, lang: Lang = None) -> int:
    """Print the machine of the app's graph as mermaid text, and its tools with what they do."""
    from adjourn.graph.cli import machine

    return machine.show_graph(settings_of(app=app, json=json, lang=lang))


@app.command()
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


@app.command()
def fork(
    run: RunId,
    *,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="CHECKPOINT", help="Its number or id, as history shows it. Without: the newest."
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(
            "--message",
            metavar="TEXT",
            help="Begin with this message; what was open there is closed in the fork.",
        ),
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="ID", help="The new conversation's name.")
    ] = None,
    repeat_writes: Annotated[
        bool,
        typer.Option("--repeat-writes", help="Allow writes that the run has made since to be made again."),
    ] = False,
    by: By = None,
    store: Store = DEFAULT_STORE,
    app: App = None,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """Begin a new run where another one stood. The other one is left as it is."""
    from adjourn.graph.cli import travel

    return travel.fork(
        settings_of(store, app, json, lang),
        run,
        at=at,
        message=message,
        thread_id=thread,
        repeat_writes=repeat_writes,
        by=person_of(by),
    )


@app.command()
def cancel(
    run: RunId,
    *,
    by: By = None,
    store: Store = DEFAULT_STORE,
    app: App = None,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """Stop a run, whoever drives it; its questions are closed."""
    from adjourn.graph.cli import drive

    return drive.cancel(settings_of(store, app, json, lang), run, by=person_of(by))


@app.command()
def recover(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="One run. Without: every run that lost its process.")
    ] = None,
    *,
    by: By = None,
    store: Store = DEFAULT_STORE,
    app: App = None,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """Go on with runs whose process died."""
    from adjourn.graph.cli import drive

    return drive.recover(settings_of(store, app, json, lang), run, by=person_of(by))


@app.command()
def worker(
    *,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, metavar="N", help="Runs that it drives at once.")
    ] = 8,
    per_person: Annotated[
        int | None,
        typer.Option(
            "--per-person", min=1, metavar="N", help="Runs of one person that all workers drive at once."
        ),
    ] = None,
    per_graph: Annotated[
        int | None,
        typer.Option(
            "--per-graph", min=1, metavar="N", help="Runs of its graph that all workers drive at once."
        ),
    ] = None,
    lease: Annotated[
        float,
        typer.Option(
            "--lease", min=0.5, metavar="SECONDS", help="After so long a run of a dead worker is taken over."
        ),
    ] = 8.0,
    drain: Annotated[
        float,
        typer.Option(
            "--drain", min=0, metavar="SECONDS", help="How long it waits at its end for steps in hand."
        ),
    ] = 30.0,
    health_port: Annotated[
        int | None,
        typer.Option(
            "--health-port", min=1, max=65535, metavar="PORT", help="Answers 200 on loopback there."
        ),
    ] = None,
    store: Store = DEFAULT_STORE,
    app: App = None,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """Drive the runs that nobody drives: those that `serve --detached` accepts, and those of dead processes.

    Any number of workers may work on one store. On SIGTERM running steps end and runs are handed back.
    """
    from adjourn.graph.cli import working

    settings = settings_of(store, app, json, lang)
    return working.work(
        settings,
        concurrency=concurrency,
        most_per_person=per_person,
        most_per_graph=per_graph,
        lease_s=lease,
        drain_s=drain,
        health_port=health_port,
    )


@app.command()
def doctor(*, store: Store = DEFAULT_STORE, json: Json = False, lang: Lang = None) -> int:
    """Look whether a store is well: dead owners, what waits to be driven, overdue questions, clocks."""
    from adjourn.graph.cli import doctor as looking

    return looking.doctor(settings_of(store, json=json, lang=lang))


@app.command()
def serve(
    *,
    host: Annotated[
        str, typer.Option("--host", metavar="HOST", help="Where to listen. Others than loopback need tokens.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")
    ] = 8321,
    tokens: Annotated[
        str | None,
        typer.Option(
            "--tokens",
            envvar="ADJOURN_TOKENS_FILE",
            metavar="FILE",
            help="Who may come in, one on each line: person: token. Also ADJOURN_TOKENS holds such lines.",
        ),
    ] = None,
    allow_host: Annotated[
        Many,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="A further name that the server is called by, behind a proxy; may be given again.",
        ),
    ] = None,
    lease: Annotated[
        float,
        typer.Option(
            "--lease", min=0.5, metavar="SECONDS", help="After so long a run of a dead server is taken over."
        ),
    ] = 30.0,
    detached: Annotated[
        bool, typer.Option("--detached", help="Only accept runs and answers; `adjourn worker` drives them.")
    ] = False,
    by: By = None,
    store: Store = DEFAULT_STORE,
    app: App = None,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """Serve runs over HTTP, with an inbox page for those that wait for people.

    On loopback nobody needs a token, and --by says who answers. On SIGTERM running steps end and runs are handed back.
    """
    from adjourn.graph.cli import serving

    return serving.serve(
        settings_of(store, app, json, lang),
        host=host,
        port=port,
        tokens_file=tokens,
        names=allow_host or (),
        by=by,
        lease_s=lease,
        detached=detached,
    )


@app.command()
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


@app.command()
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


@app.command()
def migrate(*, store: Store = DEFAULT_STORE, json: Json = False, lang: Lang = None) -> int:
    """Upgrade a database of an older version, as opening it would."""
    from adjourn.graph.cli import upkeep

    return upkeep.migrate_store(settings_of(store, json=json, lang=lang))


@app.command("import")
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

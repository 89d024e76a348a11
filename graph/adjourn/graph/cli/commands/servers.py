"""The commands that stay until they are told to go: what each takes, and what it calls."""

from typing import Annotated

import typer

from adjourn.graph.cli.options import DEFAULT_STORE, App, By, Json, Lang, Many, Store
from adjourn.graph.cli.settings import settings_of


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

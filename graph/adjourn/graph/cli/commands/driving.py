"""The commands that begin runs, answer and fork them, take them over, cancel them: what each takes, and what it calls."""

from typing import Annotated

import typer

from adjourn.checkpoints.lifecycle import HIGHEST_PRIORITY
from adjourn.graph.cli.options import DEFAULT_STORE, App, By, Context, Json, Lang, Many, RunId, Store
from adjourn.graph.cli.settings import person_of, settings_of


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
    context: Context = None,
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
        return drive.start(
            settings,
            message or "",
            thread_id=thread,
            by=person_of(by),
            priority=priority,
            context=context or (),
        )
    return travel.start_from_history(
        settings,
        history,
        assignments=set_ or (),
        message=message,
        thread_id=thread,
        by=person_of(by),
        priority=priority,
        context=context or (),
    )


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

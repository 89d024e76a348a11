"""`adjourn demo`: the operations assistant on the bundled incident, up to its first question."""

import getpass
import os
import shlex
from dataclasses import replace
from pathlib import Path

from adjourn.checkpoints.errors import UsageError
from adjourn.graph.cli.drive import driving
from adjourn.graph.cli.options import DEMO_APP, DEMO_DIR_VARIABLE, DEMO_FLOW_APP
from adjourn.graph.cli.screen import Screen
from adjourn.graph.cli.settings import Settings, variables_of
from adjourn.graph.demo import Workspace, build, build_flow, prepare
from adjourn.graph.run import Run

EXAMPLES = {"environment": "prod", "service_id": "svc-pay-001"}  # where the bundled incident is


FLOWS = ("open-database",)


def demo(
    settings: Settings,
    *,
    directory: str | None,
    data: str | None,
    model: str | None,
    message: str | None,
    flow: str | None = None,
) -> int:
    """Make the workspace, start a run, show it until it stops for a person. Gives the exit status.

    `flow`: the one of `FLOWS` that is shown in place of the free loop. Raises `UsageError` for another one.

    Never asks, even on a terminal: that the run goes on in another process is what it shows.
    """
    if flow is not None and flow not in FLOWS:
        raise UsageError(f"there is no flow {flow!r}; there is {', '.join(FLOWS)}")
    if flow is not None and data is not None:
        raise UsageError("the flow works on the bundled services; leave --data out")
    workspace = prepare(directory, data=data, model=model)
    settings = _settings(settings, workspace, directory, DEMO_APP if flow is None else DEMO_FLOW_APP)
    screen = Screen(settings)
    _introduce(screen, workspace, model)
    spoken = "demo.message.flow" if flow else "demo.message" if data is None else "demo.message.data"
    words = message or screen.say(spoken)
    graph = build(workspace.directory) if flow is None else build_flow(workspace.directory)
    with driving(settings, graph, create=True, by=_user(), examples=EXAMPLES, intro="demo.stopped") as driver:
        run = driver.runner.start_sync(words, by=_user(), on_event=driver.live)
        status = driver.go_on(run)
        _say_where_to_look(screen, settings, workspace, run)
    return 0 if status == 3 else status  # the first part of the demo is done when it waits


def _settings(settings: Settings, workspace: Workspace, directory: str | None, app: str) -> Settings:
    store = f"sqlite:///{_from_here(workspace.directory) / 'adjourn.db'}"
    if directory is not None:
        os.environ[DEMO_DIR_VARIABLE] = directory
    variables = variables_of(app, os.environ)
    return replace(settings, store=store, app=app, named_app=True, variables=variables)


def _from_here(directory: Path) -> Path:
    here = Path.cwd()
    return directory.relative_to(here) if directory.is_relative_to(here) else directory


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "you"


def _introduce(screen: Screen, workspace: Workspace, model: str | None) -> None:
    if screen.json:
        return
    screen.line(screen.say("demo.model", model=model) if model else screen.say("demo.stand_in"))
    screen.line(screen.say("demo.workspace", directory=_from_here(workspace.directory)))


def _say_where_to_look(screen: Screen, settings: Settings, workspace: Workspace, run: Run) -> None:
    if screen.json:
        return
    screen.line(screen.say("look"))
    screen.line((settings.command("show", run.id), "bold"), indent=2)
    file = shlex.quote(str(_from_here(workspace.directory) / "adjourn.db"))
    query = f"SELECT step, tool, outcome, arguments FROM calls WHERE run_id = '{run.id}'"
    screen.line(screen.say("look_inside"))
    screen.line(
        (f'sqlite3 -box {file} "{query}"', "bold"), indent=2
    )  # double quotes: SQL has the single ones

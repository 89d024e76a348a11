"""`adjourn demo`: the operations assistant on the bundled incident, up to its first question."""

import os
import shlex
from dataclasses import replace
from pathlib import Path

from adjourn.checkpoints.errors import UsageError
from adjourn.graph.cli.drive import driving
from adjourn.graph.cli.options import DEMO_APP, DEMO_DIR_VARIABLE, DEMO_FLOW_APP, DEMO_TEAM_APP
from adjourn.graph.cli.screen import Screen
from adjourn.graph.cli.settings import Settings, person_of, variables_of
from adjourn.graph.demo import Workspace, build, build_flow, build_team, prepare
from adjourn.graph.run import Run

EXAMPLES = {"environment": "prod", "service_id": "svc-pay-001"}  # where the bundled incident is


FLOWS = ("open-database",)

# What is shown: the app that a resume names, how it is built, and the key of what it is asked.
_SHOWN = {
    "loop": (DEMO_APP, build, "demo.message"),
    "data": (DEMO_APP, build, "demo.message.data"),
    "flow": (DEMO_FLOW_APP, build_flow, "demo.message.flow"),
    "team": (DEMO_TEAM_APP, build_team, "demo.message"),
}


def demo(
    settings: Settings,
    *,
    directory: str | None,
    data: str | None,
    model: str | None,
    message: str | None,
    flow: str | None = None,
    supervisor: bool = False,
) -> int:
    """Make the workspace, start a run, show it until it stops for a person. Gives the exit status.

    `flow`: the one of `FLOWS` that is shown in place of the free loop; `supervisor`: a supervisor is. Raises
    `UsageError` for another flow, and for two of `data`, `flow` and `supervisor`.

    Never asks, even on a terminal: that the run goes on in another process is what it shows.
    """
    if flow is not None and flow not in FLOWS:
        raise UsageError(f"there is no flow {flow!r}; there is {', '.join(FLOWS)}")
    wanted = [name for name, is_so in (("data", data), ("flow", flow), ("team", supervisor)) if is_so]
    if len(wanted) > 1:
        raise UsageError(
            "give one of --data, --flow and --supervisor: flow and team work on the bundled services"
        )
    app, make, spoken = _SHOWN[wanted[0] if wanted else "loop"]
    workspace = prepare(directory, data=data, model=model)
    settings = _settings(settings, workspace, directory, app)
    screen = Screen(settings)
    _introduce(screen, workspace, model)
    words = message or screen.say(spoken)
    graph, by = make(workspace.directory), person_of(None) or "you"
    with driving(settings, graph, create=True, by=by, examples=EXAMPLES, intro="demo.stopped") as driver:
        run = driver.runner.start_sync(words, by=by, on_event=driver.live)
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
    # in double quotes: SQL has the single ones
    screen.line((f'sqlite3 -box {file} "{query}"', "bold"), indent=2)

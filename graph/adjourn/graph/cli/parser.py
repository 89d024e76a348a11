"""The parser: which commands there are. What each takes stands in `commands/`; none imports more than it needs."""

from collections.abc import Callable, Mapping

import typer

from adjourn.graph.cli.commands import driving, housekeeping, looking, servers
from adjourn.graph.cli.options import Version
from adjourn.graph.cli.taking import Commands

COMMANDS: Mapping[str, Callable[..., int]] = {  # in the order in which help lists them
    "demo": driving.demo,
    "run": driving.run,
    "resume": driving.resume,
    "runs": looking.runs,
    "show": looking.show,
    "events": looking.events,
    "metrics": looking.metrics,
    "graph": looking.graph,
    "history": looking.history,
    "fork": driving.fork,
    "cancel": driving.cancel,
    "recover": driving.recover,
    "worker": servers.worker,
    "doctor": looking.doctor,
    "serve": servers.serve,
    "prune": housekeeping.prune,
    "forget": housekeeping.forget,
    "migrate": housekeeping.migrate,
    "import": housekeeping.import_,
}

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


@app.callback()
def adjourn(*, version: Version = False) -> None:
    # a callback makes typer treat even a single command as a sub-command; its help is the app's
    pass


for _name, _command in COMMANDS.items():
    app.command(_name)(_command)

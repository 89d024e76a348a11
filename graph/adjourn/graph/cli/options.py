"""Every option that several commands share, with its environment variable: the one place for both."""

from typing import Annotated

import typer

DEFAULT_STORE = "sqlite:///adjourn.db"

STORE_VARIABLE = "ADJOURN_STORE"
APP_VARIABLE = "ADJOURN_APP"
BY_VARIABLE = "ADJOURN_BY"
LANG_VARIABLE = "ADJOURN_LANG"
LOG_VARIABLE = "ADJOURN_LOG"  # a level, such as debug: the log on stderr; it has no option
TOKENS_VARIABLE = "ADJOURN_TOKENS"  # callers' tokens, one `person: token` a line; a file is better
DEMO_DIR_VARIABLE = "ADJOURN_DEMO_DIR"  # the demo's folder, where it is not ./adjourn-demo

DEMO_APP = "adjourn.graph.demo.app:build"
DEMO_FLOW_APP = "adjourn.graph.demo.app:build_flow"
DEMO_TEAM_APP = "adjourn.graph.demo.app:build_team"
DEMO_APPS = (DEMO_APP, DEMO_FLOW_APP, DEMO_TEAM_APP)

Store = Annotated[
    str,
    typer.Option("--store", envvar=STORE_VARIABLE, metavar="URL", help="The database, as a SQLAlchemy URL."),
]
App = Annotated[
    str | None,
    typer.Option(
        "--app",
        envvar=APP_VARIABLE,
        metavar="FILE.py:NAME",
        help="The graph, or a function that builds it: FILE.py:NAME or module:NAME. "
        "Without: [tool.adjourn] app in ./pyproject.toml.",
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        "--by",
        envvar=BY_VARIABLE,
        metavar="NAME",
        help="Who does this; stored with the run. Without: the system's user.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and errors as JSON on stderr.")]
Lang = Annotated[
    str | None,
    typer.Option(
        "--lang", envvar=LANG_VARIABLE, metavar="en|zh", help="Language of texts. Without: the locale's."
    ),
]


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"adjourn {version('adjourn')}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version.")
]
Many = list[str] | None  # of an option that may be given again
Context = Annotated[
    Many,
    typer.Option(
        "--context",
        metavar="NAME=VALUE",
        help="What the run's tools and prompt need to know beside the message, as JSON or text; may be given again.",
    ),
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or the unique beginning of one.")]

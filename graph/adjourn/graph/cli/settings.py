"""What the common options of a command come to, and how to say the same in the next command."""

import os
import shlex
import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from adjourn.checkpoints.errors import UsageError
from adjourn.graph.cli.options import (
    DEFAULT_STORE,
    DEMO_APPS,
    DEMO_DIR_VARIABLE,
    LANG_VARIABLE,
    STORE_VARIABLE,
)
from adjourn.graph.cli.texts import LANGUAGES

_DRIVES = ("recover", "resume")  # of the commands that are printed, those that cannot do without the app
_LOCALE_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")  # in the order in which POSIX looks at them


@dataclass(frozen=True, slots=True)
class Settings:
    """The common options of one command.

    `app=None`: none was named, neither here nor in pyproject.toml. `named_app`: it came by option or
    environment, so that another terminal would not know it. `variables` are set in front of printed commands.
    """

    store: str = DEFAULT_STORE
    app: str | None = None
    named_app: bool = False
    lang: str | None = None
    language: str = "en"
    json: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)

    def command(self, name: str, *words: str) -> str:
        """`adjourn NAME WORDS...` as it can be pasted into a shell, with what differs from the defaults.

        `FILE.py:NAME` stands for an app that is needed and not known here. A store's URL with a password in it that the
        environment gave is left out: it would stand in every log.
        """
        flags = [] if self.store == DEFAULT_STORE or self._is_kept_back() else ["--store", self.store]
        if self.app is not None and self.named_app:
            flags += ["--app", self.app]
        elif self.app is None and name in _DRIVES:
            flags += ["--app", "FILE.py:NAME"]
        if self.lang is not None:
            flags += ["--lang", self.lang]
        before = [f"{key}={shlex.quote(value)}" for key, value in self.variables.items()]
        return " ".join([*before, shlex.join([*program(), name, *words, *flags])])

    def _is_kept_back(self) -> bool:
        if self.store != os.environ.get(STORE_VARIABLE):
            return False
        # it imports SQLAlchemy, which most of the printed commands do without
        from adjourn.checkpoints.servers import shown_url

        return "***" in shown_url(self.store)


def settings_of(
    store: str = DEFAULT_STORE, app: str | None = None, json: bool = False, lang: str | None = None
) -> Settings:
    """Settings from what the parser gave. Raises `UsageError` for a language that is not bundled."""
    return Settings(
        store=store,
        app=app or _app_of_project(Path("pyproject.toml")),
        named_app=bool(app),
        lang=lang,
        language=language_of(lang, os.environ),
        json=json,
        variables=variables_of(app, os.environ),
    )


def variables_of(app: str | None, environment: Mapping[str, str]) -> Mapping[str, str]:
    """What a printed command must set so that the demo finds its folder again; empty for other apps."""
    if app not in DEMO_APPS or not environment.get(DEMO_DIR_VARIABLE):
        return {}
    return {DEMO_DIR_VARIABLE: environment[DEMO_DIR_VARIABLE]}


def language_of(lang: str | None, environment: Mapping[str, str]) -> str:
    """`en` or `zh`: what was asked for, else what the locale says, else English. Raises `UsageError`."""
    if lang is not None:
        if lang not in LANGUAGES:
            raise UsageError(f"--lang (or {LANG_VARIABLE}) is {' or '.join(LANGUAGES)}, not {lang!r}")
        return lang
    locale = next((environment[name] for name in _LOCALE_VARIABLES if environment.get(name)), "")
    return "zh" if locale.lower().startswith("zh") else "en"


def language_asked(given: Sequence[str], environment: Mapping[str, str]) -> str:
    """The language that arguments ask for, also those that the parser refuses; English for one that is not bundled."""
    words = [part for one in given for part in (one.split("=", 1) if one.startswith("--lang=") else [one])]
    asked = next(
        (value for flag, value in pairwise(words) if flag == "--lang"), environment.get(LANG_VARIABLE)
    )
    try:
        return language_of(asked or None, environment)
    except UsageError:
        return "en"


def person_of(by: str | None) -> str | None:
    """Who does this: the name that was given, else the system's user; None: a container's user without a name."""
    if by is not None:
        return by
    import getpass  # few commands ask

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None


def _app_of_project(file: Path) -> str | None:
    """`[tool.adjourn] app` of a pyproject.toml. None: no such file or entry. Raises `UsageError` if unreadable."""
    try:
        tool = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {})
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    app = tool.get("adjourn", {}).get("app")
    if app is not None and not isinstance(app, str):
        raise UsageError(f'{file}: [tool.adjourn] app is a text such as "app.py:graph", not {app!r}')
    return app


def program() -> Sequence[str]:
    """The words that start this program again, as the user started it."""
    started = Path(sys.argv[0])
    if os.environ.get("UV_RUN_RECURSION_DEPTH"):
        return ["uv", "run", "adjourn"]  # the script is on the path inside `uv run` only
    if started.name == "__main__.py":
        return [_named("python", Path(sys.executable)), "-m", "adjourn.graph"]
    return [_named("adjourn", started)] if started.stem == "adjourn" else ["adjourn"]


def _named(name: str, program_file: Path) -> str:
    """The bare name where the path finds that file by it, else the file."""
    found = shutil.which(name)
    same = found is not None and Path(found).absolute() == program_file.absolute()
    return name if same else str(program_file)

"""The app that `--app` names: a graph, or a function that builds one.

Only what the user names here is ever imported; a name from the database never is.
"""

import asyncio
import importlib
import importlib.util
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

import adjourn
from adjourn.checkpoints.errors import AdjournError, UsageError
from adjourn.graph.cli.screen import short
from adjourn.graph.graph_parts import Graph
from adjourn.graph.runner import Runner

T = TypeVar("T")

HOW = "name it with --app FILE.py:NAME, ADJOURN_APP, or [tool.adjourn] app in pyproject.toml"


def load(spec: str | None) -> Graph:
    """The graph that `FILE.py:NAME` or `module:NAME` means.

    Raises `UsageError` when it cannot be found, raises while it is imported or built, or is no graph.
    """
    if spec is None:
        raise UsageError(f"this command needs the app; {HOW}")
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name:
        raise UsageError(f"--app {spec!r} names no object; write it as FILE.py:NAME or module:NAME")
    module = _of_file(Path(place), spec) if place.endswith(".py") else _of_module(place, spec)
    return _to_graph(_member(module, name, spec), spec)


def _of_file(file: Path, spec: str) -> ModuleType:
    path = file.expanduser().absolute()
    if not path.is_file():
        raise UsageError(f"--app {spec}: there is no file {file}")
    _add_to_path(path.parent)
    # a name of its own: a user's file may be called graph.py, or adjourn.py
    found = importlib.util.spec_from_file_location(f"adjourn_app_{path.stem}", path)
    if found is None or found.loader is None:
        raise UsageError(f"--app {spec}: {file} is no Python file")
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module  # types of its signatures are looked up there
    _guarded(lambda: found.loader.exec_module(module), spec, "is imported")  # type: ignore[union-attr]
    return module


def _of_module(name: str, spec: str) -> ModuleType:
    _add_to_path(Path.cwd())  # as `python -m` has it, and as users expect
    try:
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(name=name)
    except (ImportError, ValueError):
        raise UsageError(f"--app {spec}: there is no module {name}; a file is named FILE.py:NAME") from None
    return _guarded(lambda: importlib.import_module(name), spec, "is imported")


def _add_to_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _member(module: ModuleType, name: str, spec: str) -> Any:
    try:
        return getattr(module, name)
    except AttributeError:
        graphs = [key for key, value in vars(module).items() if isinstance(value, CompiledStateGraph)]
        hint = f"; its graphs are {', '.join(graphs)}" if graphs else ""
        raise UsageError(f"--app {spec}: it has no {name!r}{hint}") from None


def _to_graph(made: Any, spec: str) -> Graph:
    if isinstance(made, Runner):
        return made.graph
    if not isinstance(made, (CompiledStateGraph, StateGraph)) and callable(made):
        made = _built(made, spec)
    if isinstance(made, StateGraph):
        raise UsageError(f"--app {spec} is a StateGraph that was not compiled; give graph.compile(name=...)")
    if not isinstance(made, CompiledStateGraph):
        raise UsageError(
            f"--app {spec} is {type(made).__name__}, neither a graph nor a function that builds one"
        )
    return made


def _built(build: Callable[..., Any], spec: str) -> Any:
    needed = [
        one.name
        for one in inspect.signature(build).parameters.values()
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if needed:
        raise UsageError(
            f"--app {spec} needs arguments ({', '.join(needed)}); name a function that needs none"
        )
    return _guarded(lambda: _awaited(build()), spec, "builds the graph")


def _awaited(made: Any) -> Any:
    async def wait() -> Any:
        return await made

    return asyncio.run(wait()) if inspect.isawaitable(made) else made


def _guarded(work: Callable[[], T], spec: str, when: str) -> T:
    """Run the user's code. What it raises becomes one line that names file, line and error."""
    try:
        return work()
    except AdjournError as error:
        raise UsageError(f"--app {spec}: {error}") from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"--app {spec} fails when it {when}: {_where(error)}") from error


def _where(error: BaseException) -> str:
    said = short(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    if error.__traceback__ is None:
        return said
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if not one.filename.startswith(_not_the_users())]
    return f"{own[-1].filename}, line {own[-1].lineno}: {said}" if own else said


def _not_the_users() -> tuple[str, ...]:
    """Beginnings of file names whose lines would tell the user nothing: ours, Python's, installed ones."""
    paths = sysconfig.get_paths()
    return ("<frozen", *adjourn.__path__, paths["stdlib"], paths["purelib"], paths["platlib"])

"""LangGraph's own tests with this saver in place of SqliteSaver: none may fail that passes with SqliteSaver.

    git clone --depth 1 https://github.com/langchain-ai/langgraph /tmp/langgraph
    python tests/store/langgraph_suite.py /tmp/langgraph [pytest options]

Runs the tests of `libs/langgraph/tests` that ask for a checkpointer, against the installed LangGraph: once with
SqliteSaver and AsyncSqliteSaver, once with this saver. Tells how both did; the exit status is 1 when this one
failed a test that the official one passed. The tests' own requirements are installed beside, into a folder that is
taken away again. A checkout of another version than the installed one fails a few tests with both.
"""

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from adjourn.checkpoints.saver import SQLAlchemySaver

WANTED = ("syrupy", "pytest-mock", "redis", "pycryptodome")
OURS = "ADJOURN_IN_LANGGRAPH_TESTS"


# What an application does for its own classes, so that loading restores them.
CLASSES = (
    ("tests.agents", "AgentAction"),
    ("tests.agents", "AgentFinish"),
    ("tests.test_pydantic", "FunctionalState"),
)


@contextmanager
def opened() -> Iterator[SQLAlchemySaver]:
    """This saver, where the tests want a SqliteSaver."""
    types = [getattr(sys.modules[module], name) for module, name in CLASSES if module in sys.modules]
    with SQLAlchemySaver("sqlite://", types=types) as saver:
        yield saver


@asynccontextmanager
async def aopened() -> AsyncIterator[SQLAlchemySaver]:
    """This saver, where the tests want an AsyncSqliteSaver."""
    with opened() as saver:
        yield saver


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that ask for SqliteSaver, and give them this one instead."""
    kept = [item for item in items if "sqlite" in _checkpointer(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept
    if os.environ.get(OURS):
        conftest = importlib.import_module("tests.conftest")
        conftest.__dict__.update(_checkpointer_sqlite=opened, _checkpointer_sqlite_aio=aopened)


def _checkpointer(item: pytest.Item) -> str:
    given = getattr(getattr(item, "callspec", None), "params", {})
    name = str(given.get("sync_checkpointer") or given.get("async_checkpointer") or "")
    return "" if name.endswith("_aes") else name  # its own serializer: ours has another


def run(tests: Path, path: str, options: list[str], *, ours: bool) -> dict[str, str]:
    """Run the tests with one saver; each test's outcome by its name."""
    report = tests / f"report-{ours}.xml"
    environment = {**os.environ, "PYTHONPATH": path, "NO_DOCKER": "true", OURS: "1" if ours else ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "langgraph_suite"]
    chosen = options if any(option.startswith("tests/") for option in options) else ["tests", *options]
    quiet = ["--junitxml", str(report), "--tb=line", "-W", "ignore", *chosen]
    subprocess.run([*command, *quiet], cwd=tests, env=environment, check=False)
    return {_name(case): _outcome(case) for case in ET.parse(report).iter("testcase")}


def _name(case: ET.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


def _node(name: str) -> str:
    module, _, test = name.partition("::")
    return f"{module.replace('.', '/')}.py::{test}"


def _outcome(case: ET.Element) -> str:
    for word in ("failure", "error", "skipped"):
        if case.find(word) is not None:
            return word
    return "passed"


def main(checkout: Path, options: list[str]) -> int:
    """Run them twice and compare."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # alone: the installed package is tested
        shutil.copytree(checkout / "libs/langgraph/tests", folder / "tests")
        (folder / "pytest.ini").write_text("[pytest]\n")
        extra = folder / "extra"
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "pip", "install", "-q", "--no-deps", "--target", extra, *WANTED], check=True)
        path = os.pathsep.join([str(extra), str(Path(__file__).parent)])
        theirs = run(folder, path, options, ours=False)
        ours = run(folder, path, options, ours=True)
        worse = [one for one, outcome in ours.items() if outcome != "passed" and theirs.get(one) == "passed"]
        if worse:  # some measure time: on a busy machine they deserve a second try
            again = run(folder, path, [*options, *map(_node, worse)], ours=True)
            worse = [one for one in worse if again.get(one) != "passed"]
    for title, found in (("SqliteSaver", theirs), ("SQLAlchemySaver", ours)):
        words = list(found.values())
        print(f"{title}: " + ", ".join(f"{words.count(word)} {word}" for word in sorted(set(words))))
    better = [one for one, outcome in ours.items() if outcome == "passed" and theirs.get(one) != "passed"]
    print(*(f"only with SQLAlchemySaver it fails: {one}" for one in worse), sep="\n")
    print(*(f"only with SqliteSaver it fails: {one}" for one in better), sep="\n")
    return 1 if worse or len(ours) != len(theirs) else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))

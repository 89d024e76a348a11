"""What whole runs need: a database of their own, a runner, and the checks that hold for every run."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from runs.crash import Crash
from runs.detached import DetachedRunner
from runs.shop import LIMITS, Shop

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.events import Event
from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel

ALL_DETACHED = bool(os.environ.get("ADJOURN_DETACHED"))  # whatever a house drives is driven by workers
SYSTEM = "You are an operations assistant."


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A SQLite file of this test's own."""
    return f"sqlite:///{tmp_path / 'adjourn.db'}"


class House:
    """One test's runners over one store. `sent` holds each event that any of them sent, in order.

    `detached`: they accept, and workers drive.
    """

    def __init__(self, url: str, *, detached: bool = False) -> None:
        self.url = url
        self.detached = detached
        self.sent: list[Event] = []
        self.runners: list[Runner] = []
        self.models: list[BaseChatModel] = []

    def runner(
        self, turns: Sequence[Any] | BaseChatModel, shop: Shop | None = None, **settings: Any
    ) -> Runner:
        """A runner as another process would make it: only the store is shared."""
        model = (
            turns if isinstance(turns, BaseChatModel) else ScriptedModel(turns=list(turns), by_history=True)
        )
        tools = settings.pop("tools", None)
        lease_s = settings.pop("lease_s", 30.0)
        own = {name: settings.pop(name) for name in ("busy", "busy_wait_s") if name in settings}
        settings.setdefault("limits", LIMITS)
        graph = build_react(
            model, (shop or Shop()).tools() if tools is None else tools, system_prompt=SYSTEM, **settings
        )
        runner = (DetachedRunner if self.detached else Runner)(graph, self.url, lease_s=lease_s, **own)
        self.runners.append(runner)
        self.models.append(model)
        return runner

    def hear(self, event: Event) -> None:
        """Give this as `on_event`."""
        self.sent.append(event)

    def words(self) -> list[str]:
        """The types of the stored events that were sent, in order."""
        return [event.word for event in self.sent if event.stored]

    def check(self, run_ids: Sequence[str]) -> None:
        """I2: the events in the database are the events that were sent, in order, none twice."""
        for run_id in run_ids:
            stored = list(self.runners[0].events_sync(run_id)) if self.runners else []
            sent = [event for event in self.sent if event.run_id == run_id and event.stored]
            assert sent == stored
            assert [event.number for event in stored] == list(range(1, len(stored) + 1))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "in_process: it is about the process that drives, and makes no sense detached"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Detached, leave out what is about the driving process itself."""
    if ALL_DETACHED:
        left_out = pytest.mark.skip(reason="it is about the process that drives")
        for one in items:
            if one.get_closest_marker("in_process"):
                one.add_marker(left_out)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The scenarios are played twice: driven where they are started, and by workers."""
    twice = metafunc.module.__name__.endswith("test_scenarios") and not ALL_DETACHED
    if twice and "house" in metafunc.fixturenames:
        metafunc.parametrize("house", ["here", "detached"], indirect=True)


@pytest.fixture(autouse=ALL_DETACHED)
def detached(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runners that a test makes by itself are driven by workers too."""
    if getattr(request.module, "Runner", None) is Runner:
        monkeypatch.setattr(request.module, "Runner", DetachedRunner)


@pytest.fixture
def house(url: str, request: pytest.FixtureRequest) -> Iterator[House]:
    """A store and its runners; every request to a scripted model was legal (I1)."""
    made = House(url, detached=ALL_DETACHED or getattr(request, "param", "here") == "detached")
    yield made
    for runner in made.runners:
        runner.close()
    for model in made.models:
        if isinstance(model, ScriptedModel):
            assert model.violations == []


@pytest.fixture
def rows(url: str) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """Rows of a SELECT, as anybody with `sqlite3` would read them."""
    database = Database(url)

    def select(statement: str) -> list[dict[str, Any]]:
        from sqlalchemy import text

        return database.read(lambda c: [dict(row) for row in c.execute(text(statement)).mappings()])

    yield select
    database.close()


@pytest.fixture
def crash(tmp_path: Path) -> Callable[[str], Crash]:
    """A run whose first turn looks and then calls the given tool, in processes that can be killed and paused."""
    return lambda first: Crash(tmp_path, first)

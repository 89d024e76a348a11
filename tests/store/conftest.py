"""Databases for the store's tests, each empty at its start and closed at its end."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from store.engines import ENGINES, SHARED, Engines, engines

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.saver import SQLAlchemySaver


@pytest.fixture(scope="session")
def servers() -> Iterator[Engines]:
    with engines() as made:
        yield made


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture(params=ENGINES)
def new_url(request: pytest.FixtureRequest, servers: Engines, tmp_path: Path) -> Callable[[], str]:
    """Gives an empty database at each call: on a server, the same one, emptied."""
    return lambda: servers.empty(request.param, tmp_path)


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    """An empty database, on every engine."""
    return new_url()


@pytest.fixture(params=SHARED)
def shared_url(request: pytest.FixtureRequest, servers: Engines, tmp_path: Path) -> str:
    """An empty database, on every engine that several processes and connections reach."""
    return servers.empty(request.param, tmp_path)


@pytest.fixture(params=SHARED)
def bare_url(request: pytest.FixtureRequest, servers: Engines, tmp_path: Path) -> str:
    """A database without tables, on every engine that several processes reach."""
    return servers.new(request.param, tmp_path)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database(url)
    yield opened
    opened.close()


@pytest.fixture
def saver(database: Database) -> SQLAlchemySaver:
    return SQLAlchemySaver(database)


@pytest.fixture
def shared_saver(shared_url: str) -> Iterator[SQLAlchemySaver]:
    with SQLAlchemySaver(shared_url) as opened:
        yield opened

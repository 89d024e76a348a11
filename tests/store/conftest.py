"""Databases for the store's tests: a SQLite file and SQLite in memory, closed when the test ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.saver import SQLAlchemySaver


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture(params=["file", "memory"])
def url(request: pytest.FixtureRequest, file_url: str) -> str:
    return file_url if request.param == "file" else "sqlite://"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database(url)
    yield opened
    opened.close()


@pytest.fixture
def saver(database: Database) -> SQLAlchemySaver:
    return SQLAlchemySaver(database)


@pytest.fixture
def file_saver(file_url: str) -> Iterator[SQLAlchemySaver]:
    with SQLAlchemySaver(file_url) as opened:
        yield opened

"""docs/sql.md: each recipe gives the table that stands below it, on each database."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from docs.recipes import PAGE, filled, masked, recipes, result, rewritten
from store.engines import SHARED, Engines, engines

from adjourn.checkpoints.database import Database

STALE = "docs/sql.md is stale; run: .venv/bin/python tests/docs/refresh.py"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def servers() -> Iterator[Engines]:
    with engines() as found:
        yield found


@pytest.fixture(scope="module", params=SHARED)
def database(
    request: pytest.FixtureRequest, servers: Engines, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """The database of the page."""
    folder = tmp_path_factory.mktemp("recipes")
    with closing(filled(TEXT, servers.new(request.param, folder), folder)) as found:
        yield found


def test_every_recipe_gives_the_table_below_it(database: Database) -> None:
    found = recipes(TEXT)
    assert len(found) >= 15
    assert len(found) == TEXT.count("```sql\n")
    for one in found:
        assert masked(result(database, one.sql)) == masked(one.table), (STALE, one.sql)


def test_a_table_that_is_wrong_is_written_anew(tmp_path: Path) -> None:
    wrong = TEXT.replace("| run-1 | 1 | count_errors | ok |", "| run-1 | 1 | count_errors | failed |")
    assert wrong != TEXT
    assert rewritten(wrong, tmp_path) == TEXT

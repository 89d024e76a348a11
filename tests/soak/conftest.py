"""The databases of the small soak."""

from collections.abc import Iterator

import pytest
from store.engines import Engines, engines


@pytest.fixture(scope="session")
def servers() -> Iterator[Engines]:
    with engines() as made:
        yield made

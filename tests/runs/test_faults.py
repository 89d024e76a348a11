"""The rows of `make faults`: on our side each of them is fine."""

import pytest
from bench.faults import FINE, ROWS, seen


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_our_side_of_the_comparison_is_fine(row):
    assert (await seen(row, row.ours)).startswith(FINE)

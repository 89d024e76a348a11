"""C-4 from the socket to the state. `make bench` measures it at 12,800 and 51,200 fragments."""

import os

import pytest
from bench.bench_stream import measured

SIZES = tuple(int(one) for one in os.environ.get("ADJOURN_STREAM", "400,1600").split(","))


@pytest.mark.alone
@pytest.mark.parametrize("kind", ["a call", "text"])
def test_c4_a_long_stream_costs_linear_time_from_the_socket_to_the_state(kind: str) -> None:
    figures = measured(kind, SIZES, rounds=2, readers=("openai", "ModelNode"))
    fewer, more = SIZES
    assert figures.ratio("ModelNode", more) <= 2.5
    assert figures.growth("ModelNode", fewer, more) <= 1.5 * more / fewer

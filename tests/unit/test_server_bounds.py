"""How much one caller may ask for, by a clock that a test turns."""

import pytest

from adjourn.graph.server import bounds
from adjourn.graph.server.bounds import Rate, Streams
from adjourn.graph.server.problems import Refused


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def refused(rate: Rate, who: str) -> Refused:
    with pytest.raises(Refused) as error:
        rate.take(who)
    return error.value


def test_a_burst_then_so_many_a_second_each_caller_alone() -> None:
    clock = Clock()
    rate = Rate(2.0, 3, clock)
    for _ in range(3):
        rate.take("wang")
    error = refused(rate, "wang")
    assert (error.status, error.headers) == (429, {"Retry-After": "1"})
    rate.take("li")
    clock.now = 0.5
    rate.take("wang")
    refused(rate, "wang")
    clock.now = 100.0
    for _ in range(3):
        rate.take("wang")
    refused(rate, "wang")


def test_callers_who_rest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_CALLERS", 10)
    clock = Clock()
    rate = Rate(1.0, 5, clock)
    for number in range(40):
        rate.take(f"caller {number}")
        clock.now += 0.1
    assert len(rate._left) <= 11


def test_streams_are_counted_and_given_back() -> None:
    streams = Streams(2)
    with streams.one("wang"), streams.one("wang"):
        with pytest.raises(Refused, match="2 streams are open"):
            streams.must_have_room("wang")
        streams.must_have_room("li")
    streams.must_have_room("wang")
    assert not streams._open

"""How much one caller may ask for: the size of a request, requests a second, open streams."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from adjourn.graph.server.problems import Refused

MOST_CALLERS = 10_000  # remembered at once; a full bucket is a caller that may be forgotten


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one caller may do.

    - `max_body_bytes`: of one request. A message or an answer is text that a person wrote or pasted.
    - `per_second`, `burst`: requests. A page that is open asks once in two seconds for each tab.
    - `wrong_tokens_burst`: wrong tokens from one address at once; then one a second. Right ones are not held up.
    - `max_streams`: event streams that are open at the same time.
    """

    max_body_bytes: int = 1_000_000
    per_second: float = 20.0
    burst: int = 60
    wrong_tokens_burst: int = 10
    max_streams: int = 32


class Rate:
    """A bucket for each caller: it holds `burst`, and `per_second` flow in."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}  # caller -> what was left, and when

    def take(self, who: str) -> None:
        """Take one. Raises `Refused` (429), which says when to come again."""
        at = self._clock()
        left = self._now(who, at)
        if left < 1:
            wait_s = max(1, round((1 - left) / self._per_second + 0.5))
            detail = f"too many requests; come again in {wait_s} s"
            raise Refused(429, "too_many_requests", detail, {"Retry-After": str(wait_s)})
        self._left[who] = (left - 1, at)
        if len(self._left) > MOST_CALLERS:
            self._forget(at)

    def _now(self, who: str, at: float) -> float:
        left, since = self._left.get(who, (float(self._burst), at))
        return min(float(self._burst), left + (at - since) * self._per_second)

    def _forget(self, at: float) -> None:
        full = [who for who in self._left if self._now(who, at) >= self._burst]
        for who in full or list(self._left)[: MOST_CALLERS // 10]:
            del self._left[who]


class Streams:
    """How many streams each caller has open."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def must_have_room(self, who: str) -> None:
        """Raise `Refused` (429) when there are too many."""
        if self._open[who] >= self._most:
            detail = f"{self._most} streams are open already; close one first"
            raise Refused(429, "too_many_streams", detail, {"Retry-After": "5"})

    @contextmanager
    def one(self, who: str) -> Iterator[None]:
        """Counts a stream while inside."""
        self._open[who] += 1
        try:
            yield
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]

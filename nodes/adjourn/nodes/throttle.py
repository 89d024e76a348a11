"""How many attempts run at the same time, and how often they begin. Pure.

A tool's bound and rate hold for all runs of a process, which may be on several event loops; a run's own bound
is one of these too.
"""

import asyncio
import re
import threading
import time
from bisect import insort
from collections import deque
from typing import Self

PATIENCE_S = 30.0  # how long a call without a time limit waits behind attempts that were given up


class Slots:
    """Places for a bounded number of attempts, first come first served. Safe on several event loops at once.

    An attempt that was given up keeps its place until it really ends (C-21), and tells so with `abandon`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = 0
        self._abandoned = 0
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    async def take(self, most: int, patience_s: float | None = None) -> bool:
        """Wait until fewer than `most` places are taken, and take one.

        False: for `patience_s` seconds nobody had a place but attempts that were given up and do not end.
        """
        with self._lock:
            if self._taken < most:
                self._taken += 1
                return True
            loop = asyncio.get_running_loop()
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.append((loop, turn))
        try:
            return await self._turn(turn, PATIENCE_S if patience_s is None else patience_s)
        finally:
            if not turn.done():
                turn.cancel()  # whoever hands a place to it gives it to the next one

    async def _turn(self, turn: "asyncio.Future[None]", patience_s: float) -> bool:
        while True:
            try:
                await asyncio.wait({turn}, timeout=patience_s)
            except asyncio.CancelledError:
                if turn.done():  # it was handed a place in this very moment
                    self.give_back()
                raise
            if turn.done():
                return True
            if self._taken == self._abandoned:
                return False

    def give_back(self) -> None:
        """Give a place back: it goes to whoever waits longest."""
        with self._lock:
            while self._waiting:
                loop, turn = self._waiting.popleft()
                try:
                    loop.call_soon_threadsafe(self._hand_over, turn)
                except RuntimeError:  # that loop is closed: nobody waits there any more
                    continue
                return
            self._taken -= 1

    def _hand_over(self, turn: "asyncio.Future[None]") -> None:
        if turn.done():
            self.give_back()
        else:
            turn.set_result(None)

    def abandon(self) -> None:
        """The attempt that holds a place was given up."""
        with self._lock:
            self._abandoned += 1

    def ended(self, *, abandoned: bool) -> None:
        """The attempt really ended: its place is given back."""
        if abandoned:
            with self._lock:
                self._abandoned -= 1
        self.give_back()


_UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "hour": 3600.0, "day": 86_400.0}
_FORM = re.compile(r"(\d{1,9})\s*/\s*(\d{1,6}(?:\.\d{1,3})?)?\s*([a-z]+)")


class Rate:
    """At most `most` beginnings in any `window_s` seconds. Safe on several event loops at once."""

    def __init__(self, most: int, window_s: float) -> None:
        self.most = most
        self.window_s = window_s
        self._lock = threading.Lock()
        # when each one may begin, in order; those from more than a window ago are dropped
        self._planned: list[float] = []
        self._begun: deque[float] = deque(maxlen=most)

    @classmethod
    def of(cls, text: str) -> Self:
        """`"10/min"`, `"5/s"`, `"3/10s"`. Raises `ValueError`."""
        found = _FORM.fullmatch(text.strip().lower()) if isinstance(text, str) else None
        if found is None or found[3] not in _UNITS or int(found[1]) < 1 or float(found[2] or 1) <= 0:
            raise ValueError(f"{text!r} is no rate")
        return cls(int(found[1]), float(found[2] or 1) * _UNITS[found[3]])

    @classmethod
    def is_one(cls, text: str) -> bool:
        """Whether `of` accepts the text."""
        try:
            cls.of(text)
        except ValueError:
            return False
        return True

    async def wait(self, longest_s: float) -> bool:
        """Wait for a turn. False, at once, when it would come later than in `longest_s` seconds."""
        at = self._reserve(longest_s)
        if at is None:
            return False
        try:
            await asyncio.sleep(max(0.0, at - time.monotonic()))
        except asyncio.CancelledError:
            with self._lock:
                if at in self._planned:
                    self._planned.remove(at)
            raise
        return True

    def _reserve(self, longest_s: float) -> float | None:
        with self._lock:
            now = time.monotonic()
            self._planned = [at for at in self._planned if at > now - self.window_s]
            full = len(self._planned) >= self.most
            at = max(now, self._planned[-self.most] + self.window_s) if full else now
            if at - now > longest_s:
                return None
            insort(self._planned, at)
            return at

    def begin(self) -> float:
        """Take note of a beginning; seconds to wait first, when one now would be too soon after all.

        Who had to wait for a place as well begins later than planned, and the next ones must not crowd behind it.
        """
        with self._lock:
            now = time.monotonic()
            if len(self._begun) == self.most and (left := self._begun[0] + self.window_s - now) > 0:
                return left
            self._begun.append(now)
            return 0.0


class Throttle:
    """The bound and the rate of one tool. None: no bound, no rate."""

    def __init__(self, most: int | None, rate: Rate | None) -> None:
        self.most = most
        self.rate = rate
        self.slots = Slots()

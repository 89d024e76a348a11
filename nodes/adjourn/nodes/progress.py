"""How far a call is, as its tool tells it: passed on at most so often, and the newest word always."""

import asyncio
import math
import threading
import time
from collections.abc import Callable

EVERY_S = 1.0  # each is a row and a transaction; a person who watches sees no more
LONGEST = 500  # characters of a message: a line

Tell = Callable[[str, float | None], object]
"""Passes on a message and a share, on the event loop."""


class Progress:
    """What one attempt tells of its progress. Called from any thread; never raises, and never waits.

    The first word is passed on at once, later ones `every_s` seconds apart: of those between, the newest.
    """

    def __init__(self, tell: Tell, every_s: float = EVERY_S) -> None:
        self._tell = tell
        self._every_s = every_s
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._newest: tuple[str, float | None] | None = None
        self._is_due = False  # somebody will pass the newest word on
        self._next = 0.0  # not before, on the clock of `time.monotonic()`
        self._closed = False

    def __call__(self, message: object, share: float | None = None) -> None:
        """Take a word. `share`: from 0 to 1; None, or what is no number: nobody knows."""
        with self._lock:
            if self._closed:
                return
            self._newest = (_text(message), _share(share))
            if self._is_due:
                return
            self._is_due = True
        try:
            self._loop.call_soon_threadsafe(self._later)
        except RuntimeError:  # the loop is closed: nobody waits for the call any more
            self.close()

    def close(self) -> None:
        """The attempt has ended, or nobody waits for it: what it still says is passed on no more."""
        with self._lock:
            self._closed, self._newest = True, None

    def _later(self) -> None:
        self._loop.call_later(max(0.0, self._next - time.monotonic()), self._pass_on)

    def _pass_on(self) -> None:
        with self._lock:
            newest, self._newest, self._is_due = self._newest, None, False
        if newest is not None:
            self._next = time.monotonic() + self._every_s
            self._tell(*newest)


def _text(message: object) -> str:
    try:
        return str(message)[:LONGEST]
    except Exception:  # a hostile __str__
        return f"<{type(message).__name__}>"


def _share(share: object) -> float | None:
    if isinstance(share, bool) or not isinstance(share, int | float) or math.isnan(share):
        return None
    return round(min(1.0, max(0.0, share)), 4)

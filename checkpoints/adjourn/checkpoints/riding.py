"""A task's writes that ride on the put that follows them.

LangGraph hands over what a task wrote and, a moment later, the checkpoint that it led to. Nobody waits for the
first, so it waits up to 10 ms for the second: stored in one transaction, they cost one commit in place of two,
and a crash finds both or neither. Writes that no put comes for are stored by themselves. Either way, who handed
them over goes on when they are stored.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP

# From a task's end to its checkpoint LangGraph takes 0.3 ms by itself; among fifty threads at once a quarter takes more than 3.
PATIENCE_S = 0.01
MISSES = 3  # after so many times in a row without a put, this thread's writes no longer wait ...
ANOTHER_TRY = 16  # ... except one in so many

Work = Callable[..., Any]


def may_ride(writes: Sequence[tuple[str, Any]], task_path: str) -> bool:
    """Whether a put is likely to follow at once.

    It does when a task of a running superstep ends. Behind errors, interrupts and answers the graph stops, or
    goes on only when they are stored; and who writes by hand names no path.
    """
    return task_path != "" and not any(channel in WRITES_IDX_MAP for channel, _ in writes)


class Rider:
    """Writes that wait for a put. `told` is called once it `arrived`, when `stored` says how it went."""

    __slots__ = ("arrived", "stored", "told", "work")

    def __init__(self, work: Work, told: Callable[[], object]) -> None:
        self.work = work
        self.told = told
        self.arrived = False
        self.stored = False


class Riders:
    """The waiting writes of one thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Rider] = []
        self._missed = 0

    def carry(self, work: Work) -> bool:
        """Wait until a put has stored `work`. False: none did, and it is the caller's to store."""
        on_the_way = threading.Lock()
        on_the_way.acquire()
        rider = Rider(work, on_the_way.release)
        if not self._join(rider):
            return False
        try:
            if not on_the_way.acquire(timeout=PATIENCE_S) and not self._leave(rider):
                on_the_way.acquire()  # a put has taken it: that ends, one way or the other
        except BaseException:
            self._leave(rider)
            raise
        return rider.stored

    async def acarry(self, work: Work, left: Callable[[], object]) -> bool:
        """`carry`, without a thread. `left` is called when the caller is cancelled and no put stores `work`; it may be
        called twice, and from any thread."""
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[None] = loop.create_future()
        rider = Rider(work, lambda: _tell(loop, settled))
        if not self._join(rider):
            return False
        timer = loop.call_later(PATIENCE_S, self._give_up, rider, settled)
        try:
            await settled
        except asyncio.CancelledError:
            rider.told = lambda: None if rider.stored else left()  # of a put that has taken it and fails
            if self._leave(rider) or ((rider.arrived or settled.done()) and not rider.stored):
                left()
            raise
        finally:
            timer.cancel()
        return rider.stored

    def _give_up(self, rider: Rider, settled: "asyncio.Future[None]") -> None:
        if self._leave(rider):
            _settle(settled)

    def _join(self, rider: Rider) -> bool:
        with self._lock:
            if self._missed >= MISSES and self._missed % ANOTHER_TRY:
                self._missed += 1
                return False
            self._waiting.append(rider)
            return True

    def _leave(self, rider: Rider) -> bool:
        """Wait no more. False: a put has taken it."""
        with self._lock:
            if rider not in self._waiting:
                return False
            self._waiting.remove(rider)
            self._missed += 1
            return True

    def board(self) -> list[Rider]:
        """Take what waits: the caller stores it and says so."""
        if not self._waiting:
            return []
        with self._lock:
            taken, self._waiting = self._waiting, []
            self._missed = 0
            return taken

    def wait_again(self, riders: list[Rider]) -> None:
        """They were taken and not stored: the put comes again at once."""
        with self._lock:
            self._waiting[:0] = riders


def arrive(riders: Sequence[Rider], *, stored: bool) -> None:
    """Tell these writes' owners how it went."""
    for rider in riders:
        rider.stored = stored
        rider.arrived = True
        rider.told()


def _tell(loop: asyncio.AbstractEventLoop, settled: "asyncio.Future[None]") -> None:
    with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody is left to be told
        loop.call_soon_threadsafe(_settle, settled)


def _settle(settled: "asyncio.Future[None]") -> None:
    if not settled.done():
        settled.set_result(None)

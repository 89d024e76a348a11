"""Messages to a thread whose run works, where they wait in line: first come, first served in this process.

Only the first of a thread's line looks whether its turn has come: it is woken by the end of a run that this
process drives, and looks at the row of any other, less and less often. Between processes the quicker one is next.
"""

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from typing import TypeVar

from adjourn.checkpoints import journal
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import RunBusy, UsageError
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.checkpoints.records import RunRow

T = TypeVar("T")

WAIT_S = 60.0  # as long as a person looks at a waiting line without asking whether it still moves
FIRST_LOOK_S, LONGEST_LOOK_S = 0.1, 1.0  # between two looks at a run of another process; half of it by chance


class Busy(StrEnum):
    """What becomes of a message to a thread whose run works (C-86)."""

    REFUSE = "refuse"  # `RunBusy` at once
    WAIT = "wait"  # in line, until its turn or the time limit


def as_busy(word: Busy | str) -> Busy:
    """The setting that a word names. Raises `UsageError`."""
    try:
        return Busy(word)
    except ValueError:
        raise UsageError(f"busy is one of {', '.join(Busy)}, not {word!r}") from None


class Place:
    """A place in the line of a thread. Leaving it twice is leaving it once."""

    def __init__(self, leave: Callable[["Place"], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.is_first = asyncio.Event()
        self._leave = leave

    def leave(self) -> None:
        """Let the next one be first."""
        self._leave(self)


class Lines:
    """The lines of all threads of one process; callers may be on different event loops."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._lines: dict[str, list[Place]] = {}

    async def in_turn(
        self,
        thread_id: str,
        wait_s: float,
        end_of: Callable[[str], "Future[None] | None"],
        attempt: Callable[[Callable[[], None]], Awaitable[T]],
    ) -> T:
        """Call `attempt` when it is our turn, and give what it gives. It gets a function to call when its run has begun.

        `end_of` gives the end of a run that this process drives. A caller that is cancelled while it waits leaves
        nothing behind. Raises `RunBusy` after `wait_s` seconds.
        """
        until = time.monotonic() + wait_s
        async with self.first(thread_id, until) as place:
            while True:
                await self.ended(thread_id, until, end_of)
                with suppress(RunBusy):  # a starter that did not wait, or another process, was quicker
                    return await attempt(place.leave)

    @asynccontextmanager
    async def first(self, thread_id: str, until: float) -> AsyncIterator[Place]:
        """Inside, nobody of this process is before us. Raises `RunBusy` at `until`, a time of `time.monotonic`."""
        place = Place(lambda one: self._left(thread_id, one))
        with self._lock:
            line = self._lines.setdefault(thread_id, [])
            line.append(place)
            if line[0] is place:
                place.is_first.set()
        try:
            if not await _within(place.is_first.wait(), until):
                raise await self._busy(thread_id)
            yield place
        finally:
            place.leave()

    async def ended(
        self, thread_id: str, until: float, driving: Callable[[str], Future[None] | None]
    ) -> None:
        """Wait until no run of the thread works. `driving` gives the end of a run that this process drives.

        Raises `RunBusy` at `until`.
        """
        pause = FIRST_LOOK_S
        while (run := await self._working(thread_id)) is not None:
            if time.monotonic() >= until:
                raise RunBusy.of(run)
            ours = driving(run.id)
            if ours is not None:
                await _within(asyncio.wait({asyncio.wrap_future(ours)}), until)
            else:
                await _within(asyncio.sleep(pause * random.uniform(0.5, 1.0)), until)
                pause = min(LONGEST_LOOK_S, 2 * pause)

    async def _working(self, thread_id: str) -> RunRow | None:
        run = await self._database.aread(lambda connection: journal.open_run(connection, thread_id))
        return run if run is not None and run.status == RunStatus.RUNNING else None

    async def _busy(self, thread_id: str) -> RunBusy:
        run = await self._working(thread_id)
        return RunBusy.of(run) if run else RunBusy(f"of thread {thread_id}")

    def _left(self, thread_id: str, place: Place) -> None:
        with self._lock:
            line = self._lines.get(thread_id, [])
            if place not in line:
                return
            line.remove(place)
            while line and not _woken(line[0]):
                del line[0]
            if not line:
                del self._lines[thread_id]


def _woken(place: Place) -> bool:
    """Tell somebody that they are first. False: their event loop was closed over them, and nobody is there."""
    try:
        place.loop.call_soon_threadsafe(place.is_first.set)
    except RuntimeError:
        return False
    return True


async def _within(work: Awaitable[object], until: float) -> bool:
    """Whether `work` ended before `until`."""
    try:
        async with asyncio.timeout(max(0.0, until - time.monotonic())):
            await work
    except TimeoutError:
        return False
    return True

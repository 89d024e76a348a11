"""Short writes of an event loop: done on the loop itself where nothing is in the way, else on a thread.

A superstep's transaction takes SQLite half a millisecond, most of it under the interpreter's lock. On a thread it would
stop the event loop for as long, and with many runs the two would pass the lock to each other at each statement, which
takes twice as long. A write that would have to wait, for another writer or for the disk, goes to a thread all the same.
"""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

Then = Callable[[Any], object]


class NotNow(BaseException):
    """A write on an event loop would have to wait; nothing was done. It is no error: a thread does it instead."""


class Patience(threading.local):
    """Whether this thread may wait for locks and other writers. Every thread may, except an event loop's in a short write."""

    waits = True

    def take(self, lock: Any) -> None:
        """Take a lock; raises `NotNow` when somebody else has it and this thread may not wait."""
        if not lock.acquire(blocking=self.waits):
            raise NotNow


class Waiting(NamedTuple):
    """A write that waits in line, who is told of it, and the context that it runs in."""

    work: Callable[[], Any]
    told: "asyncio.Future[Any]"
    then: Then | None
    context: contextvars.Context


class Line:
    """The short writes of one event loop, in their order. The first one is done at once, or by the thread. While the thread
    has it, no other one goes there: under load, all that follow would.

    Whatever is in the line gets done: by the thread when the loop is closed, by `finish` when the database is.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        patience: Patience,
        is_free: Callable[[], bool],
        thread: Executor,
    ) -> None:
        self.loop = loop
        self._patience = patience
        self._is_free = is_free
        self._thread = thread
        self._waiting: deque[Waiting] = deque()
        self._is_away = False  # the thread has the first one
        self._doing = threading.Lock()  # the loop looks at the first one, or `finish` does all

    def write(self, work: Callable[[], T], told: "asyncio.Future[T]", then: Then | None) -> None:
        """Do it now, or when those before it are done."""
        is_next = not self._is_away and not self._waiting
        if is_next and self._at_once(work, told, then):
            return
        self._waiting.append(Waiting(work, told, then, contextvars.copy_context()))
        if is_next:
            self._send()

    def finish(self) -> None:
        """Do what waits, on this thread: nobody else will."""
        with self._doing:
            while self._waiting:
                self._done_here(self._waiting.popleft())

    def _at_once(self, work: Callable[[], T], told: "asyncio.Future[T]", then: Then | None) -> bool:
        if not self._is_free():
            return False
        self._patience.waits = False
        try:
            result, raised = outcome(work)
        except NotNow:
            return False
        finally:
            self._patience.waits = True
        try:
            tell([told, then], result, raised)
        except Exception as error:  # raised by `then`: no matter of the caller's, who only wants to write
            self.loop.call_exception_handler({"message": "told of a write, and failed", "exception": error})
        if isinstance(raised, KeyboardInterrupt | SystemExit):  # meant for the loop as well
            if not told.cancelled():
                told.exception()  # it is not lost: the loop ends with it
            raise raised
        return True

    def _send(self) -> None:
        """Give the first one to the thread."""
        self._is_away = True
        try:
            self._thread.submit(self._take_first)
        except RuntimeError:  # the database is being closed, or was, which the work itself finds out
            self._is_away = False
            self.finish()

    def _take_first(self) -> None:
        """On the thread."""
        if self._waiting and not self._done_here(self._waiting.popleft(), self._back):
            self.finish()  # the loop is closed

    def _done_here(self, first: Waiting, and_then: Callable[[], None] = lambda: None) -> bool:
        """On another thread than the loop's. False: the loop is closed, and nobody waits any more."""
        result, raised = first.context.run(outcome, first.work)
        try:
            self.loop.call_soon_threadsafe(
                _tell_all, [first.told, first.then], result, raised, and_then, context=first.context
            )
        except RuntimeError:
            return False
        return True

    def _back(self) -> None:
        self._is_away = False
        self._go_on()

    def _go_on(self) -> None:
        """The next one, and the others after whatever else the loop has to do."""
        if self._is_away or not self._doing.acquire(blocking=False):
            return
        is_done = True
        try:
            if self._waiting:
                is_done = self._first_at_once()
        finally:
            self._doing.release()
            if self._waiting:
                self.loop.call_soon(self._go_on)
        if not is_done:
            self._send()

    def _first_at_once(self) -> bool:
        first = self._waiting.popleft()
        is_done = first.context.run(self._at_once, first.work, first.told, first.then)
        if not is_done:
            self._waiting.appendleft(first)
        return is_done


def _tell_all(
    waiting: list[Any], result: Any, raised: BaseException | None, and_then: Callable[[], None]
) -> None:
    try:
        tell(waiting, result, raised)
    finally:
        and_then()


def on_thread(
    work: Callable[[], T],
    waiting: list[Any],
    loop: asyncio.AbstractEventLoop,
    context: contextvars.Context,
    *,
    only_reads: bool = False,
) -> None:
    """Do work on a thread, and tell the loop. A future of the pool, chained to one of the loop, would take three times as
    long to arrive. Work that `only_reads` is left undone when nobody waits for it any more."""
    if only_reads and waiting[0].cancelled():
        return
    result, raised = context.run(outcome, work)
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(tell, waiting, result, raised, context=context)
    del raised  # it knows this frame


def outcome(work: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    """What work gives, or what it raises."""
    try:
        return work(), None
    except StopIteration as error:  # which no future takes
        return None, RuntimeError(f"the work raised StopIteration: {error}")
    except NotNow:
        raise
    except BaseException as error:
        return None, error


def tell(waiting: list[Any], result: Any, raised: BaseException | None) -> None:
    """Tell who waits, and `then`."""
    told, then = waiting
    waiting.clear()  # the exception knows the frame that knows it: neither is to keep the other
    if not told.done():  # whoever waited may have been cancelled
        if raised is not None:
            told.set_exception(raised)
        else:
            told.set_result(result)
    if then is not None and raised is None:
        then(result)  # before who waits goes on

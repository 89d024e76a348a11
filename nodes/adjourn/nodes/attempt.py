"""One attempt of a call: run a tool in a task or a thread, for as long as it may take, and no longer.

Neither a thread nor a task that swallows its cancellation can be stopped. Such an attempt is *abandoned*:
nobody waits for it, its late result is thrown away, but it keeps its place until it really ends (C-21).
"""

import asyncio
import contextvars
import functools
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from adjourn.nodes.failures import TimeLimit
from adjourn.nodes.tool import Tool

log = logging.getLogger("adjourn.call")

Work = asyncio.Future[Any]


class Places:
    """How many attempts of a run are under way, over all its steps, and what abandoned writes still do.

    A place is given back when the work that took it really ends, which may be long after its call was
    answered.
    """

    def __init__(self) -> None:
        self._reads = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._abandoned_writes: set[Work] = set()

    async def read(self, most: int) -> None:
        """Wait until fewer than `most` reads are under way, and take a place."""
        while self._reads >= most:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        self._reads += 1

    def give_back(self, _work: Work | None = None) -> None:
        """Give a read's place back; fits a callback of the work."""
        self._reads -= 1
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def abandon_write(self, work: Work) -> None:
        """Remember a write that goes on although nobody waits for it."""
        if not work.done():
            self._abandoned_writes.add(work)
            work.add_done_callback(self._abandoned_writes.discard)

    async def writes_ended(self, timeout_s: float | None) -> bool:
        """Wait until no abandoned write goes on, at most `timeout_s`; False: one still does (C-21)."""
        if not self._abandoned_writes:
            return True
        _, going_on = await asyncio.wait(set(self._abandoned_writes), timeout=timeout_s)
        return not going_on


def begin(tool: Tool, arguments: dict[str, Any]) -> Work:
    """Start the tool; the work ends when the tool really does."""
    if tool.is_async:
        return asyncio.ensure_future(_awaited(tool.function, arguments))
    return in_thread(functools.partial(tool.function, **arguments))


async def _awaited(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        return await function(**arguments)
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:  # SystemExit and the like would end the event loop, and with it every run
        raise RuntimeError(f"the tool raised {type(error).__name__}: {error}") from error


async def result_of(work: Work, timeout_s: float | None) -> Any:
    """What the work gives, or the exception that it raises.

    Raises `TimeLimit` when it has not ended in time. When it does, or when the waiting is cancelled, the
    work is told to stop, and nobody sees what it still gives.
    """
    try:
        done, _ = await asyncio.wait({work}, timeout=timeout_s)
    except asyncio.CancelledError:
        _let_go(work)
        raise
    if not done:
        _let_go(work)
        raise TimeLimit(f"no result within {timeout_s:g} s")
    if work.cancelled():
        raise RuntimeError("the tool cancelled itself")
    return work.result()


def _let_go(work: Work) -> None:
    if isinstance(work, asyncio.Task):
        work.cancel()
    work.add_done_callback(_drop)


def _drop(work: Work) -> None:
    if not work.cancelled() and work.exception() is not None:
        log.info("an abandoned attempt failed later: %r", work.exception())


def in_thread(function: Callable[[], Any]) -> Work:
    """Run `function` in a daemon thread of its own.

    Threads of the event loop's pool would not do: the loop waits for them at its end.
    """
    loop = asyncio.get_running_loop()
    work: Work = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: Exception | None) -> None:
        if work.done():
            return
        if error is None:
            work.set_result(value)
        else:
            work.set_exception(error)

    def run() -> None:
        value: Any = None
        raised: Exception | None = None
        try:
            value = context.run(function)
        except Exception as error:
            # a future refuses StopIteration
            raised = (
                RuntimeError("the tool raised StopIteration") if isinstance(error, StopIteration) else error
            )
        except BaseException as error:  # SystemExit and the like end a thread, not a run
            raised = RuntimeError(f"the tool raised {type(error).__name__}: {error}")
        try:
            loop.call_soon_threadsafe(settle, value, raised)
        except RuntimeError:  # the loop is closed: nobody waits any more
            log.debug("a late result of an abandoned thread was thrown away")

    threading.Thread(target=run, name="adjourn-tool", daemon=True).start()
    return work

"""A private event loop in a thread, for callers who cannot await: scripts, and cells of a notebook."""

import asyncio
import concurrent.futures
import logging
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from adjourn.checkpoints.errors import UsageError

T = TypeVar("T")
log = logging.getLogger("adjourn.run")

# Seconds. The system may hand Ctrl-C to any thread, and then nothing wakes the one that waits for a lock and
# would have to act on it: so it looks up now and then.
LOOK_S = 0.2
CLOSE_S = 30.0  # for tasks to write their end; one that does not let itself be cancelled is left behind


class Background:
    """Runs coroutines to their end from any thread. The loop starts with the first one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0  # in which the loop runs

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. A KeyboardInterrupt cancels it, waits for its end, and is raised again.

        Raises `UsageError` where it would wait for ever: on the loop itself, in a process that was forked from that of the
        loop, and for what was left behind when the loop was closed.
        """
        problem = self._why_not()
        if problem is not None:
            work.close()
            raise UsageError(problem)
        begun: concurrent.futures.Future[asyncio.Task[Any] | None] = concurrent.futures.Future()

        async def noted() -> T:
            begun.set_result(asyncio.current_task())
            return await work

        loop = self._running_loop()
        try:  # Ctrl-C may come as soon as the work is handed over, before its future is here
            future = asyncio.run_coroutine_threadsafe(noted(), loop)
            while not future.done():
                if loop.is_closed() and not future.done():
                    raise UsageError(
                        "the runner was closed meanwhile, and this did not let itself be cancelled"
                    )
                concurrent.futures.wait([future], timeout=LOOK_S)
            return future.result()
        except KeyboardInterrupt:
            if not loop.is_closed():
                asyncio.run_coroutine_threadsafe(_cancel(begun), loop).result()
            raise

    def _why_not(self) -> str | None:
        if threading.current_thread() is self._thread:
            return (
                "this is called on the runner's own event loop, which would wait for itself; await the method without "
                "`_sync` instead"
            )
        if self._loop is not None and os.getpid() != self._process:
            return "this runner was used before the process was forked; make one in this process"
        return None

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._process = os.getpid()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="adjourn-loop", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """End the loop and its thread; what still runs on it is cancelled first. Twice is once. Raises `UsageError` on the
        loop itself."""
        if threading.current_thread() is self._thread:
            raise UsageError(
                "this is called on the runner's own event loop, which would wait for its own end; close it elsewhere"
            )
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        if os.getpid() != self._process:  # they are another process's
            return
        asyncio.run_coroutine_threadsafe(_end_all(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel(begun: "concurrent.futures.Future[asyncio.Task[Any] | None]") -> None:
    """Cancel the task and wait for its end. What was handed over before this was is begun by now, or never will be."""
    own = begun.result() if begun.done() else None
    if own is not None:
        own.cancel()
        await _wait([own])


async def _wait(tasks: list["asyncio.Task[Any]"], timeout_s: float | None = None) -> None:
    running = [task for task in tasks if not task.done()]
    if running:
        _, left = await asyncio.wait(running, timeout=timeout_s)
        for task in left:
            log.warning("a task does not end when it is cancelled, and is left behind: %s", task.get_name())


async def _end_all() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await _wait(tasks, CLOSE_S)

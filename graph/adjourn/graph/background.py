"""A private event loop in a thread, for callers who cannot await: scripts, and cells of a notebook."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# Seconds. The system may hand Ctrl-C to any thread, and then nothing wakes the one that waits for a lock and
# would have to act on it: so it looks up now and then.
LOOK_S = 0.2


class Background:
    """Runs coroutines to their end from any thread. The loop starts with the first one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. A KeyboardInterrupt cancels it, waits for its end, and is raised again."""
        future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        try:
            while not future.done():
                concurrent.futures.wait([future], timeout=LOOK_S)
            return future.result()
        except KeyboardInterrupt:
            self._take_back(future)
            raise

    def _take_back(self, future: "concurrent.futures.Future[Any]") -> None:
        done = threading.Event()
        loop = self._running_loop()
        # the future below counts as cancelled at once; what it stands for must first write its end
        tasks = asyncio.run_coroutine_threadsafe(_all_tasks(), loop).result()
        future.cancel()
        asyncio.run_coroutine_threadsafe(_wait(tasks), loop).add_done_callback(lambda _: done.set())
        done.wait()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="adjourn-loop", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """End the loop and its thread; what still runs on it is cancelled first. Twice is once."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_end_all(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _all_tasks() -> list["asyncio.Task[Any]"]:
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def _wait(tasks: list["asyncio.Task[Any]"]) -> None:
    running = [task for task in tasks if not task.done()]
    if running:
        await asyncio.wait(running)


async def _end_all() -> None:
    tasks = await _all_tasks()
    for task in tasks:
        task.cancel()
    await _wait(tasks)

"""Threads for synchronous tools: daemons, so that one that never ends keeps no process alive, and used again.

Threads of the event loop's pool would not do: the loop waits for them at its end. Starting one costs more than many a
tool takes, so one that is free is kept for a moment.
"""

import os
import queue
import threading
from collections.abc import Callable

KEPT_S = 5.0  # that a free thread waits for more: the next step's tools come sooner, and a process that is done shows it

_Inbox = queue.SimpleQueue[Callable[[], None]]


class Threads:
    """Runs each piece of work in a thread that does nothing else meanwhile."""

    def __init__(self) -> None:
        self._begin()
        if hasattr(os, "register_at_fork"):  # no Windows
            # the threads are not there, and the lock may have been held
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._free: list[_Inbox] = []

    def run(self, work: Callable[[], None]) -> None:
        """Run `work`, which may not raise, in a free thread, or in a new one."""
        with self._lock:
            inbox = self._free.pop() if self._free else None
        if inbox is None:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="adjourn-tool", daemon=True).start()
        inbox.put(work)

    def _serve(self, inbox: _Inbox) -> None:
        while True:
            try:
                work = inbox.get(timeout=KEPT_S)
            except queue.Empty:
                with self._lock:
                    if inbox in self._free:
                        self._free.remove(inbox)
                        return
                continue  # it was taken just now: its work is on the way
            work()
            del work  # what it holds is not kept until the next one
            with self._lock:
                self._free.append(inbox)

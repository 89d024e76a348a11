"""One run in processes of their own, which are really killed and paused, and what it did to the world."""

import json
import os
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

from runs import crash_app
from sqlalchemy import make_url
from store.processes import PROCESSES

RUN = "run_crash"


class Crash:
    """One run in processes of their own, and what it did to the world."""

    def __init__(self, folder: Path, first: str, url: str | None = None) -> None:
        self.url = url or f"sqlite:///{folder / 'adjourn.db'}"
        self.effects = folder / "effects"
        self.first = first
        self.out = folder / "out"

    def start(self, *command: str) -> Any:
        """A process that does `command`."""
        given = (str(self.out), self.url, str(self.effects), self.first, *command)
        process = PROCESSES.Process(target=crash_app.child, args=given)
        process.start()
        return process

    def finish(self, *command: str) -> dict[str, Any]:
        """What a process that does `command` says at its end."""
        process = self.start(*command)
        process.join(60)
        assert self.out.exists(), f"{command} came to no end"
        shown: dict[str, Any] = json.loads(self.out.read_text())
        self.out.unlink()
        return shown

    def hold(self, name: str) -> None:
        """Let a tool stop after its effect."""
        self.effects.with_suffix(f".hold-{name}").touch()

    def wait_in(self, process: Any, name: str) -> None:
        """Until the tool has had its effect."""
        inside = self.effects.with_suffix(f".in-{name}")
        end = time.monotonic() + 60
        while not inside.exists():
            assert process.is_alive()
            assert time.monotonic() < end
            time.sleep(0.01)

    def kill_in(self, process: Any, name: str) -> None:
        """Kill the process as soon as the tool has had its effect."""
        self.wait_in(process, name)
        process.kill()
        process.join()
        self.effects.with_suffix(f".hold-{name}").unlink()

    def freeze(self, process: Any) -> None:
        """Stop the process where it holds no lock of the file: whoever comes next would wait for it in vain."""
        os.kill(process.pid, signal.SIGSTOP)
        while self._is_locked():
            os.kill(process.pid, signal.SIGCONT)
            time.sleep(0.01)
            os.kill(process.pid, signal.SIGSTOP)

    def _is_locked(self) -> bool:
        file = sqlite3.connect(str(make_url(self.url).database), timeout=0, isolation_level=None)
        try:
            file.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        finally:
            file.close()
        return False

    def did(self) -> list[str]:
        """The real executions, in order."""
        return self.effects.read_text().splitlines() if self.effects.exists() else []

    def wait_for_lease(self) -> None:
        """Until the dead owner's lease has run out."""
        time.sleep(crash_app.LEASE_S * 1.2)

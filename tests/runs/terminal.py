"""A person at a terminal: a program on a pseudo-terminal, its screen as a terminal would show it, keys pressed into it."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyte

TIMEOUT_S = 60.0  # importing LangGraph takes seconds on a busy machine
ROWS, COLUMNS = 60, 110
ENTER, CTRL_C, CTRL_D, CTRL_U, DOWN, UP, NEW_LINE = "\r", "\x03", "\x04", "\x15", "\x1b[B", "\x1b[A", "\x1b\r"


class Terminal:
    """`adjourn` with these arguments in a folder. `seen` is the whole screen as text, also what scrolled away."""

    def __init__(self, folder: Path, *words: str, term: str = "xterm") -> None:
        self._master, slave = pty.openpty()
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ADJOURN_")},
            "LC_ALL": "C.UTF-8",
            "TERM": term,
            "COLUMNS": str(COLUMNS),
            "LINES": str(ROWS),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "adjourn.graph", *words],
            cwd=folder,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._screen = pyte.HistoryScreen(COLUMNS, ROWS, history=1000)
        self._screen.write_process_input = self.presses  # it answers where its cursor stands
        self._stream = pyte.ByteStream(self._screen)

    @property
    def seen(self) -> str:
        """Every line, from the first to where the cursor stands."""
        above = ["".join(line[place].data for place in sorted(line)) for line in self._screen.history.top]
        lines = [*above, *self._screen.display]
        # a wide character takes two places, the second of them empty
        return "\n".join(line.rstrip() for line in lines).rstrip()

    @property
    def below(self) -> str:
        """What stands from the last question on: what a person looks at."""
        return self.seen[self.seen.rfind("\n? ") :]

    def presses(self, *keys: str) -> None:
        """Press keys, one after the other."""
        os.write(self._master, "".join(keys).encode())

    def types(self, words: str, *, after: str) -> None:
        """Wait until `after` stands in the last question, then type `words` and Enter."""
        self.waits_for(after)
        self.presses(words, ENTER)

    def waits_for(self, words: str, where: Callable[["Terminal"], str] | None = None) -> None:
        """Read until `words` stand there (`where` None: from the last question on)."""
        look = where or (lambda one: one.below)
        deadline = time.monotonic() + TIMEOUT_S
        while words not in look(self):
            assert time.monotonic() < deadline, f"{words!r} was not shown:\n{self.seen}"
            assert self._read() or words in look(self), f"it ended before {words!r}:\n{self.seen}"

    def leaves(self) -> int:
        """Read to the end; the exit status."""
        while self._read():
            pass
        return self.process.wait(TIMEOUT_S)

    def _read(self) -> bool:
        if not select.select([self._master], [], [], 1.0)[0]:
            return self.process.poll() is None
        try:
            piece = os.read(self._master, 4096)
        except OSError:  # Linux says so when the other end is closed
            return False
        self._stream.feed(piece)
        return bool(piece)

    def close(self) -> None:
        """End the program if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

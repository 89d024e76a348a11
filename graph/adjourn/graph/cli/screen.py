"""Where output goes: coloured on a terminal, plain lines without wrapping in a pipe, JSON where asked for.

Everything is written by `Screen.write`, which stays silent when the reader has left (`adjourn runs | head -1`):
a run that is being shown goes on to its end.
"""

import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from adjourn.graph.cli.settings import Settings
from adjourn.graph.cli.texts import text

Part = str | tuple[str, str]
"""A piece of a line: text, or text with the name of a rich style."""

PIPE_COLUMNS = 100_000  # a pipe has no width; rich wants one
DATA_LIMIT = 400  # characters of a value in one line of a pipe: whole where it matters, one line anyway

# Text of models, tools and people may hold escape sequences that would move the cursor or rename the window.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class Screen:
    """Writes for one command. `is_terminal`: people look at it directly."""

    def __init__(self, settings: Settings, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self.language = settings.language
        self.json = settings.json
        self.is_terminal = self.stream.isatty() and not settings.json
        self.reader_left = False  # nobody reads what is written any more
        self._console = Console(
            file=self.stream,
            force_terminal=self.is_terminal,
            width=None if self.is_terminal else PIPE_COLUMNS,
            highlight=False,
            markup=False,
            emoji=False,
        )

    @property
    def width(self) -> int:
        """Columns of a line."""
        return self._console.width

    def say(self, key: str, **values: object) -> str:
        """A text of the table in the user's language."""
        return text(key, self.language, **values)

    def line(self, *parts: Part, indent: int = 0, cut: bool = False) -> None:
        """One line. `cut`: on a terminal it ends with `…` rather than wrapping."""
        line = Text(" " * indent)
        for part in parts:
            words, style = (part, "") if isinstance(part, str) else part
            line.append(clean(words), style=style or None)
        if cut and self.is_terminal:
            line.truncate(self.width, overflow="ellipsis")
        with self._console.capture() as shown:
            self._console.print(line, soft_wrap=True)
        self.write(shown.get())

    def raw(self, words: str) -> None:
        """Text as it arrives, without a line's end."""
        self.write(clean(words))

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> None:
        """Aligned columns; the last one is cut on a terminal. `styles`: one per row, or none."""
        made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for place, name in enumerate(head):
            made.add_column(name, no_wrap=True, overflow="ellipsis" if place == len(head) - 1 else "fold")
        for place, row in enumerate(rows):
            made.add_row(*[clean(cell) for cell in row], style=styles[place] if styles else None)
        with self._console.capture() as shown:
            self._console.print(made)
        self.write("".join(f"{line.rstrip()}\n" for line in shown.get().splitlines()))

    def data(self, value: Any) -> None:
        """One JSON value on one line."""
        self.write(f"{to_line(value)}\n")

    def write(self, words: str) -> None:
        """Hand `words` on at once; nothing happens when the reader has left."""
        if self.reader_left:
            return
        try:
            self.stream.write(words)
            self.stream.flush()
        except BrokenPipeError:
            self.reader_left = True
            _send_to_nowhere(self.stream)


def _send_to_nowhere(stream: TextIO) -> None:
    # what the stream still holds would raise again when the interpreter flushes it at its end
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def clean(words: str) -> str:
    """`words` with control characters written out; tabs and line ends stay."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", words)


def to_line(value: Any) -> str:
    """A value as JSON on one line, not escaped where the text is readable."""
    return json.dumps(value, ensure_ascii=False, default=str)


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def span(seconds: float) -> str | None:
    """A span of time in its largest unit: `5s`, `3m`, `2h`, `9d`; None: it lies in the past."""
    if seconds <= 0:
        return None
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return "1s"


def short(value: Any, limit: int = DATA_LIMIT) -> str:
    """A value as one line of at most `limit` characters."""
    words = value if isinstance(value, str) else to_line(value)
    words = " ".join(words.split())
    return words if len(words) <= limit else f"{words[: limit - 1]}…"

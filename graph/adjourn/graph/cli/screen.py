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

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adjourn.graph.cli.settings import Settings
from adjourn.graph.cli.texts import text
from adjourn.graph.refusals import refusal

Part = str | tuple[str, str]
"""A piece of a line: text, or text with the name of a rich style."""

PIPE_COLUMNS = 100_000  # a pipe has no width; rich wants one
GAP = 2  # between the columns of a table
LAST_CHARACTERS = 16  # of the last column of a table: enough to tell what it is about
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
        self._console = self._console_of(None if self.is_terminal else PIPE_COLUMNS)

    def _console_of(self, width: int | None) -> Console:
        """For lines of so many columns; None: of as many as the terminal has."""
        return Console(
            file=self.stream,
            force_terminal=self.is_terminal,
            width=width,
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

    def refusal(self, message: str) -> str:
        """What is wrong with something, in the user's language."""
        return refusal(message, self.language)

    @property
    def words(self) -> str:
        """The language of states and stop reasons: a pipe gets them as they are stored, since programs look for them."""
        return self.language if self.is_terminal else "en"

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

    def table(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        styles: Sequence[str] = (),
        spare: Sequence[int] = (),
    ) -> None:
        """Aligned columns. `styles`: one per row, or none.

        On a terminal the last column is cut; where that is not enough, the columns at the places `spare` are left out,
        one after the other. What is shown of the others is whole: nobody can copy half an id.
        """
        cells = [[clean(cell) for cell in row] for row in (head, *rows)]
        widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
        *fixed, last = self._fitting(widths, spare)
        room = self.width - _width(widths, fixed)
        widths[last] = min(widths[last], max(room, LAST_CHARACTERS))
        made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
        for place in (*fixed, last):
            made.add_column(head[place], no_wrap=True, overflow="ellipsis", width=widths[place])
        for row, style in zip(cells[1:], styles or [""] * len(rows), strict=True):
            made.add_row(*[row[place] for place in (*fixed, last)], style=style or None)
        # a terminal that is too narrow even so wraps the lines, as it does with others
        console = self._console_of(_width(widths, (*fixed, last)))
        with console.capture() as shown:
            console.print(made)
        self.write("".join(f"{line.rstrip()}\n" for line in shown.get().splitlines()))

    def _fitting(self, widths: Sequence[int], spare: Sequence[int]) -> Sequence[int]:
        """The places of the columns for which there is room."""
        places = list(range(len(widths)))
        least = [*widths[:-1], min(widths[-1], LAST_CHARACTERS)]
        for one in spare:
            if _width(least, places) > self.width:
                places.remove(one)
        return places

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


def on_terminal(settings: Settings) -> bool:
    """Whether a person can be asked: both ends are a terminal, and nobody wants JSON."""
    return sys.stdin.isatty() and sys.stdout.isatty() and not settings.json


def clean(words: str) -> str:
    """`words` with control characters written out; tabs and line ends stay."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", words)


def to_line(value: Any) -> str:
    """A value as JSON on one line, not escaped where the text is readable."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _width(widths: Sequence[int], places: Sequence[int]) -> int:
    """Of a row of the columns at these places."""
    return sum(widths[place] + GAP for place in places)


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

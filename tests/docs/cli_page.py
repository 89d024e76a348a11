"""Writes each command's `--help` into docs/cli.md, between its markers: `python tests/docs/cli_page.py`."""

import contextlib
import io
import os
import re
from pathlib import Path
from unittest.mock import patch

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
BLOCK = re.compile(r"<!-- help: (?P<command>[a-z ]*) -->\n.*?<!-- end -->", re.DOTALL)
SHOWN_SO = {"COLUMNS": "90", "ADJOURN_LANG": "en"}


def help_of(command: str) -> str:
    """What `adjourn COMMAND --help` prints; the empty command: `adjourn --help`."""
    from adjourn.graph.cli import main

    with patch.dict(os.environ, SHOWN_SO), contextlib.redirect_stdout(io.StringIO()) as printed:
        main([*command.split(), "--help"])
    return printed.getvalue().strip()


def refreshed(page: str) -> str:
    """The page with the help of today between its markers."""

    def block(found: re.Match[str]) -> str:
        command = found["command"]
        return f"<!-- help: {command} -->\n```text\n{help_of(command)}\n```\n<!-- end -->"

    return BLOCK.sub(block, page)


def commands_of(page: str) -> list[str]:
    """The commands that the page shows, in its order."""
    return [found["command"] for found in BLOCK.finditer(page)]


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

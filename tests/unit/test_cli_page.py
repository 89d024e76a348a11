"""docs/cli.md says what the program says."""

import re

import pytest
from docs.cli_page import PAGE, commands_of, help_of, refreshed

from adjourn.graph.cli.parser import app

COMMANDS = [one.name or one.callback.__name__ for one in app.registered_commands if one.callback is not None]


def test_the_page_is_not_stale() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert refreshed(page) == page, "run python tests/docs/cli_page.py"


def test_the_page_shows_every_command() -> None:
    assert sorted(commands_of(PAGE.read_text(encoding="utf-8"))) == sorted(["", *COMMANDS])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_has_help(command: str) -> None:
    text = help_of(command)
    assert text.splitlines()[2].strip()
    flat = " ".join(text.split("Options:")[1].split())
    for option in re.split(r" (?=--[a-z]+ )", flat):
        assert re.search(r"[A-Z][a-z ]+.*\.", option) or "{" in option, option

"""A command as the body of a forked process: what it prints goes to files of its folder."""

import logging
import os
import sys
from pathlib import Path

import sse_starlette  # noqa: F401  (imported once, before the fork)

import adjourn.graph.server.serve
import adjourn.graph.worker  # noqa: F401
from adjourn.graph.cli import main


def child(folder: str, words: list[str], name: str = "std") -> None:
    """Work until a signal comes; ends with the program's exit status. `name`: begins the names of the two files."""
    os.chdir(folder)
    for variable in [one for one in os.environ if one.startswith("ADJOURN_")]:
        del os.environ[variable]
    sys.stdout = Path(f"{name}out.txt").open("w")  # noqa: SIM115  (for as long as the process lives)
    sys.stderr = Path(f"{name}err.txt").open("a")  # noqa: SIM115
    logging.root.handlers.clear()
    sys.exit(main(words))

"""`adjourn serve` as the body of a forked process: what it prints goes to a file of its folder."""

import logging
import os
import sys
from pathlib import Path

import sse_starlette  # noqa: F401  (imported once, before the fork)

import adjourn.graph.server.serve  # noqa: F401
from adjourn.graph.cli import main


def child(folder: str, words: list[str]) -> None:
    """Serve until a signal comes; ends with the program's exit status."""
    os.chdir(folder)
    for name in [one for one in os.environ if one.startswith("ADJOURN_")]:
        del os.environ[name]
    sys.stdout = Path("stdout.txt").open("w")  # noqa: SIM115  (for as long as the process lives)
    sys.stderr = Path("stderr.txt").open("a")  # noqa: SIM115
    logging.root.handlers.clear()
    sys.exit(main(["serve", *words]))

"""What the commands that stay have in common: `serve` and `worker`. They need the app, and so LangGraph."""

import gc
import logging
import os
import sys

from adjourn.graph.cli.apps import load
from adjourn.graph.cli.options import LOG_VARIABLE
from adjourn.graph.graph_parts import Graph


def load_to_stay(spec: str | None) -> Graph:
    """`load`, for a process that stays: what is there by now is kept from Python's cyclic garbage collector, which would
    look through it again and again (a fifth of the processor's time where fifty runs are driven at once)."""
    graph = load(spec)
    gc.collect()
    gc.freeze()
    return graph


def log_to_stderr(level: int) -> None:
    """Nobody sits in front of such a process: what happens is told on stderr, also where `ADJOURN_LOG` is not set."""
    if not os.environ.get(LOG_VARIABLE):
        logging.basicConfig(
            level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
        )

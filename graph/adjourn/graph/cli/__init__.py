"""The command line `adjourn`: plain functions, with a thin parser on top."""

from adjourn.graph.cli.entry import main

__all__ = ["main"]

"""How steps are joined and run."""

from adjourn.graph.react import build_react
from adjourn.graph.run import Run
from adjourn.graph.runner import Runner
from adjourn.nodes.guards import Limits

__all__ = ["Limits", "Run", "Runner", "build_react"]

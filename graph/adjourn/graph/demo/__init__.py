"""The operations assistant that the README starts with: a bundled incident, or a folder of your own."""

from adjourn.graph.demo.app import build, build_flow, build_team, prepare
from adjourn.graph.demo.workspace import Workspace

__all__ = ["Workspace", "build", "build_flow", "build_team", "prepare"]

"""What the stand-in does as the demo's supervisor: it asks both specialists at once, and puts their answers together. Pure."""

from collections.abc import Mapping
from typing import Any

from adjourn.graph.demo.exchange import Exchange

DELEGATE = "delegate"
TEAM = ("logs", "docs")


def tasks(text: str) -> list[dict[str, Any]]:
    """The arguments of its calls: the user's sentence for each."""
    return [{"specialist": one, "task": text} for one in TEAM]


def answers(exchange: Exchange) -> list[str]:
    """What the specialists said, or why they did not, in the order of their tasks."""
    return [_said(one.data) or one.message for one in exchange.results if one.tool == DELEGATE]


def _said(data: Any) -> str:
    return str(data.get("answer") or "") if isinstance(data, Mapping) else ""

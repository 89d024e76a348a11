"""The machine as a table: (node, outcome) -> next node. Pure.

The graph is built from it and the README's diagram is drawn from it; a test fails when they differ.
"""

from collections.abc import Mapping
from typing import Literal

Node = Literal["flow", "work", "model", "tools", "ask", "finish"]
Routes = Mapping[Node, Mapping[str, Node]]

START: Node = "model"

# Nodes are few on purpose: each superstep costs a checkpoint.
ROUTES: Routes = {
    "model": {
        "tools": "tools",  # the turn holds calls
        "model": "model",  # the turn may not stand in the history; asked again
        "finish": "finish",  # an answer, or a limit
    },
    "tools": {
        "tools": "tools",  # the plan has another batch
        "ask": "ask",  # the batch is over and calls wait for a person
        "model": "model",  # the plan is done
        "finish": "finish",  # a limit, a cancel
    },
    "ask": {
        "tools": "tools",  # answered: the calls that waited run, or are declined
    },
    "finish": {},
}

WHY: Mapping[tuple[Node, str], str] = {
    ("model", "tools"): "the turn holds calls",
    ("model", "model"): "a turn that cannot be used",
    ("model", "finish"): "an answer, or a limit",
    ("tools", "tools"): "another batch",
    ("tools", "ask"): "calls wait for a person",
    ("tools", "model"): "the plan is done",
    ("tools", "finish"): "a limit, a cancel",
    ("ask", "tools"): "answered",
}


# A flow: whatever a step has done, the flow node says what comes next.
SERIAL_START: Node = "flow"
SERIAL: Routes = {
    "flow": {"model": "model", "tools": "tools", "finish": "finish"},
    "model": {"tools": "tools", "model": "model", "finish": "flow"},
    "tools": {"tools": "tools", "ask": "ask", "model": "flow", "finish": "flow"},
    "ask": {"tools": "tools"},
    "finish": {},
}

# A LangGraph graph of somebody's own: all of it in one node.
OWN_START: Node = "work"
OWN: Routes = {"work": {"finish": "finish"}, "finish": {}}


def next_node(node: Node, outcome: str, table: Routes = ROUTES) -> Node:
    """Where `outcome` leads from `node`.

    Raises `KeyError` for a pair that is not in the table: a node returned a word that it may not.
    """
    return table[node][outcome]


def mermaid() -> str:
    """The machine of the free loop as a mermaid diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {START}"]
    for node, routes in ROUTES.items():
        lines += [f"    {node} --> {target}: {WHY[node, outcome]}" for outcome, target in routes.items()]
        if not routes:
            lines.append(f"    {node} --> [*]")
    return "\n".join(lines)

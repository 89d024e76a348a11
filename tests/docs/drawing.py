"""The diagrams of the documents as SVG: the site loads nothing from elsewhere, and no script draws it.

What is drawn is what `adjourn graph` prints: state diagrams and flowcharts with one edge a line. The nodes stand in a column
in the order in which edges leave them; an edge to the next one is straight, one further down goes by the right, one back up
by the left.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

BOX, ROW, GAP = (
    (150, 34),
    76,
    46,
)  # width and height of a node, from node to node, from a node to its first lane
LETTER = 6.6  # a letter's mean width; the font's size is 12

_POINT, _BEGIN, _END = "[*]", "(begin)", "(end)"
_EDGE = re.compile(
    r"^\s*(?P<source>\S+)\s+(?:-->|-\.->)(?:\|(?P<word>[^|]*)\|)?\s+(?P<target>[^\s:]+)(?:: (?P<label>.*))?$"
)
_NODE = re.compile(r'^\s*(?P<name>\w+)[\[({]+"?(?P<text>[^"\])}]*)"?[\])}]+\s*$')


@dataclass(frozen=True, slots=True)
class Edge:
    """From one row to another; the label may be empty."""

    source: int
    target: int
    label: str

    @property
    def span(self) -> int:
        return abs(self.target - self.source)


@dataclass(frozen=True, slots=True)
class Diagram:
    """The nodes from top to bottom, and the edges between their rows. The empty node is where it begins or ends."""

    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]


def parsed(mermaid: str) -> Diagram:
    """The diagram of a mermaid text. Raises `ValueError` for a line that is not understood."""
    texts: dict[str, str] = {}
    found: list[tuple[str, str, str]] = []
    _kind, *lines = mermaid.strip().splitlines()
    for line in lines:
        edge, node = _EDGE.match(line), _NODE.match(line)
        if node:
            texts[node["name"]] = node["text"]
        elif edge:
            source = _BEGIN if edge["source"] == _POINT else edge["source"]
            target = _END if edge["target"] == _POINT else edge["target"]
            found.append((source, target, edge["label"] or edge["word"] or ""))
        else:
            raise ValueError(f"not understood: {line!r}")
    rows = list(dict.fromkeys([*(source for source, _, _ in found), *(target for _, target, _ in found)]))
    at = {one: row for row, one in enumerate(rows)}
    names = tuple("" if one in (_BEGIN, _END) else texts.get(one, one) for one in rows)
    return Diagram(names, tuple(Edge(at[one], at[other], label) for one, other, label in found))


def lanes(edges: Sequence[Edge]) -> dict[Edge, int]:
    """A lane for each edge, so that no two in one lane run beside each other; short ones come first."""
    taken: list[list[Edge]] = []
    given: dict[Edge, int] = {}
    for edge in sorted(edges, key=lambda one: one.span):
        top, end = sorted((edge.source, edge.target))
        lane = next(
            (
                number
                for number, others in enumerate(taken)
                if all(
                    end <= min(one.source, one.target) or top >= max(one.source, one.target) for one in others
                )
            ),
            len(taken),
        )
        if lane == len(taken):
            taken.append([])
        taken[lane].append(edge)
        given[edge] = lane
    return given


def _width(edges: Sequence[Edge]) -> float:
    return max((len(one.label) * LETTER for one in edges), default=0.0)


def svg(mermaid: str) -> str:
    """The diagram as one line of SVG, in the colour of the text around it."""
    diagram = parsed(mermaid)
    loops = [one for one in diagram.edges if one.span == 0]
    down = [one for one in diagram.edges if one.target == one.source + 1]
    right, left = (
        lanes([one for one in diagram.edges if (one.target - one.source) * sign > least])
        for sign, least in ((1, 1), (-1, 0))
    )
    step_left, step_right = (_width([*some]) + 24 for some in (left, right))
    outside = max((len(one.label) * LETTER + 34 for one in loops), default=0.0)
    middle = BOX[0] / 2 + (GAP + step_left * (max(left.values()) + 1) if left else 10)
    first = middle + BOX[0] / 2 + max(GAP, outside + 10)
    wide = first + step_right * (max(right.values()) + 1) if right else first
    parts = [
        *(_straight(middle, one) for one in down),
        *(_loop(middle, one) for one in loops),
        *(_lane(middle, one, first + step_right * lane, lane) for one, lane in right.items()),
        *(
            _lane(middle, one, middle - BOX[0] / 2 - GAP - step_left * lane, lane)
            for one, lane in left.items()
        ),
        *(_box(middle, row, name) for row, name in enumerate(diagram.nodes)),
    ]
    high = ROW * len(diagram.nodes)
    return (
        f'<div class="drawing"><svg viewBox="0 0 {wide:.0f} {high}" width="{wide:.0f}" role="img" aria-label="diagram">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0L8 4L0 8z"/></marker></defs>{"".join(parts)}</svg></div>'
    )


def _y(row: int) -> float:
    return ROW * (row + 0.5)


def _box(middle: float, row: int, name: str) -> str:
    if not name:
        y = _y(row) + (10 if row == 0 else -10)  # where its arrow begins or ends
        return f'<circle cx="{middle:.0f}" cy="{y:.0f}" r="7"/>'
    left, top = middle - BOX[0] / 2, _y(row) - BOX[1] / 2
    return (
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{BOX[0]}" height="{BOX[1]}" rx="8"/>'
        f'<text x="{middle:.0f}" y="{_y(row) + 4:.0f}" text-anchor="middle" class="node">{html.escape(name)}</text>'
    )


def _path(shape: str) -> str:
    return f'<path class="edge" d="{shape}" marker-end="url(#tip)"/>'


def _label(x: float, y: float, words: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{html.escape(words)}</text>' if words else ""
    )


def _straight(middle: float, edge: Edge) -> str:
    top, end = _y(edge.source) + BOX[1] / 2, _y(edge.target) - BOX[1] / 2
    return _path(f"M{middle:.0f} {top:.0f}V{end:.0f}") + _label(middle + 8, (top + end) / 2 + 4, edge.label)


def _loop(middle: float, edge: Edge) -> str:
    x, y = middle + BOX[0] / 2, _y(edge.source)
    return _path(f"M{x:.0f} {y - 13:.0f}h14q7 0 7 6.5t-7 6.5h-14") + _label(x + 28, y - 3, edge.label)


def _lane(middle: float, edge: Edge, x: float, lane: int) -> str:
    """Out of the side of one node, along its lane, into the side of the other."""
    side = 1 if x > middle else -1
    edge_x = middle + side * BOX[0] / 2
    shift = 6 + 5 * lane  # edges of different lanes do not meet at a node
    down = edge.target > edge.source
    start, end = (
        (_y(edge.source) + shift, _y(edge.target) - shift)
        if down
        else (_y(edge.source) - shift, _y(edge.target) + shift)
    )
    bend = 8 if down else -8
    return _path(
        f"M{edge_x:.0f} {start:.0f}H{x - side * 8:.0f}q{side * 8} 0 {side * 8} {bend}V{end - bend:.0f}"
        f"q0 {bend} {-side * 8} {bend}H{edge_x:.0f}"
    ) + _label(x + side * 6, (start + end) / 2 + 4, edge.label, "start" if side > 0 else "end")

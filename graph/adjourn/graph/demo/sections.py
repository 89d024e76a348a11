"""A document cut into sections, each small enough to be a search hit."""

import re
from dataclasses import dataclass, field

SECTION = 1_500  # characters; about a screen, so that a hit points at something that can be read at once

_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$")
_UNDERLINE = re.compile(r"^(=+|-+|~+)\s*$")
_STEP = re.compile(r"^\s{0,3}\d{1,2}[.)、]\s*(\S.*)$")
_FENCE = re.compile(r"^\s*(```|~~~)")


@dataclass(slots=True)
class Section:
    """A piece of the document `title`. `steps` are the items of its numbered list, without numbers."""

    title: str
    heading: str
    text: str
    steps: list[str] = field(default_factory=list)


def split(text: str, name: str) -> list[Section]:
    """The sections of Markdown, reStructuredText or plain text. `name` is the title where the text has none."""
    parts = _by_heading(text.splitlines())
    title = next((heading for heading, _ in parts if heading), name)
    return [
        Section(title, heading or title, piece, _steps(piece))
        for heading, lines in parts
        for piece in _pieces(lines)
    ]


def _by_heading(lines: list[str]) -> list[tuple[str, list[str]]]:
    parts: list[tuple[str, list[str]]] = [("", [])]
    fenced = False
    for line in lines:
        fenced ^= _FENCE.match(line) is not None
        marked = None if fenced else _HEADING.match(line)
        body = parts[-1][1]
        if marked:
            parts.append((marked.group(2), []))
        elif not fenced and body and _is_underline(line, body[-1]):
            parts.append((body.pop().strip(), []))
        else:
            body.append(line)
    return parts


def _is_underline(line: str, above: str) -> bool:
    # reStructuredText: a line of marks at least as long as the words above it
    return (
        _UNDERLINE.match(line) is not None
        and len(line.strip()) >= max(3, len(above.strip()))
        and above.strip() != ""
    )


def _pieces(lines: list[str]) -> list[str]:
    pieces: list[str] = []
    held: list[str] = []
    for line in lines:
        if sum(map(len, held)) + len(line) > SECTION:
            pieces.append("\n".join(held))
            held = []
        held.append(line)
    pieces.append("\n".join(held))
    return [piece.strip() for piece in pieces if piece.strip()]


def _steps(piece: str) -> list[str]:
    return [found.group(1).strip() for line in piece.splitlines() if (found := _STEP.match(line))]

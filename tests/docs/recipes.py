"""SQL recipes in a document: each is run on a real database, and the table below it is what it gave.

A recipe is a fence that is marked `<!-- recipe -->`; the table follows it. The database is made by the document's file
`fill.py`, whose argument is the store. Times, durations and ids differ from one run to the next: they are masked.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from docs.blocks import ROOT, file

from adjourn.checkpoints.database import Database

PAGE = ROOT / "docs" / "sql.md"
FILE = "fill.py"

_RECIPE = re.compile(
    r"(<!-- recipe -->\n```sql\n)(?P<sql>.*?)(```\n)(?P<table>(?:\n(?:\|[^\n]*\n)+)?)", re.DOTALL
)
_OTHERWISE = {  # as the page says
    "postgresql": [(r"arguments ->> '(\w+)'", r"arguments::json ->> '\1'")],
    "mysql": [(r"arguments ->> '(\w+)'", r"json_value(arguments, '$.\1')"), ('"by"', "`by`")],
}
_MASKS = (
    (re.compile(r"\bint_[0-9a-f]{12}\b"), "int"),
    (re.compile(r"\bmsg_[0-9a-f]{32}\b"), "msg"),
    (re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?Z)?)?"), "TIME"),
)

Rows = list[list[str]]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A statement, and the table below it: its head, then its rows; empty where there is none yet."""

    sql: str
    table: Rows


def recipes(text: str) -> list[Recipe]:
    """The recipes of a document, in its order."""
    return [Recipe(one["sql"], _read(one["table"])) for one in _RECIPE.finditer(text)]


def filled(text: str, store: str, folder: Path) -> Database:
    """The database that the document's script fills."""
    (folder / FILE).write_text(file(text, FILE), encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ADJOURN_")}
    done = subprocess.run(
        [sys.executable, FILE, store], cwd=folder, env=kept, capture_output=True, text=True, check=False
    )
    if done.returncode:  # on stderr is the log: one of its tools fails
        raise RuntimeError(f"{FILE} ended with {done.returncode}: {done.stderr}")
    return Database(store)


def result(database: Database, sql: str) -> Rows:
    """What a statement gives on this database: its head, then its rows, as texts."""
    for pattern, instead in _OTHERWISE.get(database.url.get_backend_name(), ()):
        sql = re.sub(pattern, instead, sql)

    def work(connection: Any) -> Rows:
        found = connection.exec_driver_sql(sql)
        return [list(found.keys()), *([_text(cell) for cell in row] for row in found)]

    return database.read(work)


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float | Decimal):
        return f"{float(cell):g}"
    return " ".join(str(cell).split())


def masked(table: Rows) -> Rows:
    """A table without what differs from one run to the next."""
    if not table:
        return []
    head, *rows = table
    return [head, *([_mask(name, cell) for name, cell in zip(head, row, strict=True)] for row in rows)]


def _mask(name: str, cell: str) -> str:
    if cell and name.endswith(("_ms", "_s")):
        return "N"
    for pattern, mask in _MASKS:
        cell = pattern.sub(mask, cell)
    return cell


def rewritten(text: str, folder: Path) -> str:
    """The document with the tables as they are now; unchanged where only times and ids would differ."""
    with closing(filled(text, f"sqlite:///{folder / 'adjourn.db'}", folder)) as database:

        def block(found: re.Match[str]) -> str:
            now = result(database, found["sql"])
            if masked(now) == masked(_read(found["table"])):
                return found[0]
            return f"{found[1]}{found['sql']}{found[3]}\n{_written(now)}"

        return _RECIPE.sub(block, text)


def _read(table: str) -> Rows:
    head, _rule, *rows = [_cells(line) for line in table.split("\n") if line] or [[], []]
    return [head, *rows] if head else []


def _cells(line: str) -> list[str]:
    return [one.strip() for one in line.strip("|").split("|")]


def _written(table: Rows) -> str:
    head, *rows = table
    return "".join(_line(one) for one in (head, ["---"] * len(head), *rows))


def _line(cells: Sequence[str]) -> str:
    if any("|" in one for one in cells):
        raise ValueError(f"a cell with a bar would end the cell: {cells}")
    return f"| {' | '.join(cells)} |\n"

"""Lists of checkpoints, read a page at a time."""

from dataclasses import dataclass, field, replace
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from sqlalchemy.engine import Connection

from adjourn.checkpoints import statements
from adjourn.checkpoints.codec import Codec, is_unicode
from adjourn.checkpoints.reading import CheckpointRow, ThreadReader

_COLUMNS = {"source": str, "step": int}  # metadata with a column: the database filters by it


@dataclass(frozen=True, slots=True)
class Page:
    """Which checkpoints are read next. None: not restricted by it.

    `left`: how many may still be given out. `size`: rows read at a time. `behind`: the last row (checkpoint
    id, namespace) of the page before.
    """

    thread_id: str | None
    ns: str | None
    checkpoint_id: str | None
    before: str | None
    filter: dict[str, Any]
    left: int | None
    size: int
    behind: tuple[str, int] | None = field(default=None)


def read_page(connection: Connection, page: Page, codec: Codec) -> tuple[list[CheckpointTuple], Page | None]:
    """The checkpoints of a page, and the next page, or None when this was the last.

    Raises `StoredDataError` when a row is damaged.
    """
    rows = [CheckpointRow(*found) for found in connection.execute(_query(page))]
    readers: dict[int, ThreadReader] = {}
    found: list[CheckpointTuple] = []
    for row in rows:
        if page.left is not None and len(found) >= page.left:
            return found, None
        reader = readers.setdefault(row.thread, ThreadReader(connection, row.thread, codec))
        if _fits(reader.object(row.metadata, row.key), page.filter):
            found.append(reader.checkpoint_tuple(row))
    if len(rows) < page.size:
        return found, None
    left = None if page.left is None else page.left - len(found)
    if left == 0:
        return found, None
    return found, replace(page, left=left, behind=(rows[-1].checkpoint_id, rows[-1].namespace))


def _query(page: Page) -> Any:
    columns = {
        name: value
        for name, value in page.filter.items()
        if name in _COLUMNS and type(value) is _COLUMNS[name] and _fits_a_column(value)
    }
    return statements.list_checkpoints(
        thread_id=page.thread_id,
        ns=page.ns,
        checkpoint_id=page.checkpoint_id,
        before=page.before,
        columns=columns,
        behind=page.behind,
        limit=page.size,
    )


def _fits_a_column(value: Any) -> bool:
    """Whether a column could hold this value. A server refuses to look for any other, and no row has it."""
    if isinstance(value, int):
        return -(2**31) <= value < 2**31
    return "\0" not in value and is_unicode(value)


def _fits(metadata: dict[str, Any], wanted: dict[str, Any]) -> bool:
    # compared here and not in SQL: a filter's key may be any text (CVE-2025-67644)
    return all(name in metadata and metadata[name] == value for name, value in wanted.items())

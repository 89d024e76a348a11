"""Records that mean the same thing become one, and the best come first (C-75). Pure."""

import json
import math
from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]
Fields = str | Sequence[str]


def merge(
    records: Any, key: Fields = ("id",), rank: Fields | None = None, sources: Sequence[str] | None = None
) -> Any:
    """`records` (a list of dicts) with those of one key merged, in the order of their rank; what else it is comes back.

    - `key`: the field, or the fields, that tell what a record is. One that lacks a field of it (absent or null)
      is merged with nothing. Values are compared as JSON: `1` is not `"1"`.
    - The fields of the first record win; those that it lacks are filled from the later ones.
    - `rank`: the field, or the fields, to order by: large numbers first; what is no number comes last. Records of
      one rank keep their order; None: all do. A merged record stands at the place of its first.
    - `sources`: where each record came from, one name for each. The result then tells it in a list `sources`.

    The records given are not changed. Raises `ValueError` when there are not as many `sources` as records.
    """
    if not _are_records(records):
        return records
    if sources is not None and len(sources) != len(records):
        raise ValueError(
            f"{len(records)} records and {len(sources)} sources: give one source for each record"
        )
    merged = _merged(records, _fields(key), sources)
    if rank is None:
        return merged
    ranks = _fields(rank)
    return sorted(merged, key=lambda record: [_descending(record.get(field)) for field in ranks])


def _are_records(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _fields(names: Fields) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _merged(records: Sequence[Record], key: Sequence[str], sources: Sequence[str] | None) -> list[Record]:
    kept: list[Record] = []
    known: dict[str, Record] = {}
    for place, record in enumerate(records):
        identity = _identity(record, key)
        first = known.get(identity) if identity is not None else None
        if first is None:
            first = dict(record)
            kept.append(first)
            if identity is not None:
                known[identity] = first
        else:
            _fill(first, record)
        if sources is not None:
            _note_source(first, sources[place])
    return kept


def _identity(record: Record, key: Sequence[str]) -> str | None:
    values = [record.get(field) for field in key]
    if not values or any(value is None for value in values):
        return None
    return json.dumps(values, sort_keys=True, default=repr)


def _fill(first: Record, later: Record) -> None:
    for field, value in later.items():
        if first.get(field) is None:
            first[field] = value


def _note_source(record: Record, source: str) -> None:
    held = record.get("sources")
    # A new list: the one that is there belongs to the caller's record
    names = list(held) if isinstance(held, list) else []
    record["sources"] = names if source in names else [*names, source]


def _descending(value: Any) -> tuple[bool, float]:
    """Sorts large numbers first, and what is no number behind them."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
    return (not is_number, -value if is_number else 0.0)

"""The form of stored values: JSON text, tags for what JSON cannot say, ranges of `seq`. Pure, and it imports little.

`codec.py` knows what the tags mean.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from adjourn.checkpoints.errors import StoredDataError

TAG = "!"
TAG_MARK = '"!"'  # stands in every text that holds a tagged value

LONGEST = 1_000_000  # numbers in one range: no conversation is as long, but a damaged row may say so

Json = Any  # None, bool, int, float, str, list or dict of the same
Ranges = list[list[int]]  # [[first, last], ...], both included, in order


def dump(tree: Json) -> str:
    """JSON text of a packed tree."""
    return orjson.dumps(tree).decode()


def parse(text: str) -> Json:
    """The tree of a JSON text. Raises `ValueError` when it is none."""
    return orjson.loads(text)


def stored_tree(table: str, key: str, text: str) -> Json:
    """The tree of a text that stands in a row. Raises `StoredDataError`, which names the row, when it is no JSON."""
    try:
        return parse(text)
    except ValueError as error:
        raise StoredDataError(table, key, f"the row does not decode ({error})") from error


def stored_object(table: str, key: str, text: str) -> dict[str, Json]:
    """`stored_tree`, where it has to be an object."""
    tree = stored_tree(table, key, text)
    if type(tree) is not dict:
        raise StoredDataError(table, key, "a column holds no object")
    return tree


def tagged(tag: str, content: Json) -> Json:
    """A tree that JSON alone cannot say."""
    return {TAG: tag, "v": content}


def copied(value: Any) -> Any:
    """The same lists and dicts, in containers of their own; anything else as it is."""
    # most members are no containers, and a call for each would take longer than all the rest
    if type(value) is dict:
        return {
            key: copied(member) if type(member) in _CONTAINERS else member for key, member in value.items()
        }
    if type(value) is list:
        return [copied(member) if type(member) in _CONTAINERS else member for member in value]
    return value


_CONTAINERS = (dict, list)


def expand(ranges: Ranges) -> Iterator[int]:
    """The numbers of ranges, in order."""
    for first, last in ranges:
        yield from range(first, last + 1)


def is_ranges(value: Json) -> bool:
    """Whether this is a list of pairs that can be expanded."""
    return type(value) is list and all(map(_is_range, value))


def _is_range(one: Json) -> bool:
    if type(one) is not list or len(one) != 2 or not (type(one[0]) is type(one[1]) is int):
        return False
    first, last = int(one[0]), int(one[1])
    return 0 < first <= last < first + LONGEST


def compress(numbers: list[int]) -> Ranges:
    """The ranges of numbers, in order: `[1, 2, 3, 9]` is `[[1, 3], [9, 9]]`."""
    ranges: Ranges = []
    extend(ranges, numbers)
    return ranges


def extend(ranges: Ranges, numbers: list[int]) -> None:
    """Add numbers behind ranges."""
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])

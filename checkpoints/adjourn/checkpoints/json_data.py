"""JSON data that comes from outside: from models, from people, from tools that ask. What passes here can be stored. Pure.

It is looked at once, where it comes in: what only a column or a checkpoint would refuse, later, would fail the run that
holds it, each time that the run is taken up again.
"""

import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn

# No form and no tool is as deep. A checkpoint writes a level as one of its own, or as three where a key is its own tag;
# it has 254, and some of them stand around the data.
DEEPEST = 64
_MOST_BITS = 14_000  # of an integer: 4,200 digits; Python writes none of more than 4,300


def check_data(data: Any) -> None:
    """Raises `ValueError` for what is no JSON data, and for data that is nested too deeply, or holds itself."""
    # level by level, each thing once: no depth is too much for that, nor a circle
    level: Iterable[Any] = [data]
    for _ in range(DEEPEST + 1):
        level = {id(inner): inner for one in level for inner in _inside(one)}.values()
        if not level:
            return
    raise too_deep()


def too_deep() -> ValueError:
    """What is said of data that is nested too deeply, wherever that is found."""
    return ValueError(f"it is nested deeper than {DEEPEST} levels")


def _inside(one: Any) -> Iterable[Any]:
    """What a container holds; nothing for any other value. Raises `ValueError` for a value that is no JSON."""
    if isinstance(one, dict):
        if strange := [key for key in one if not isinstance(key, str)]:
            raise ValueError(f"a key in it is no text, but {type(strange[0]).__name__}")
        return one.values()
    if isinstance(one, list | tuple):
        return one
    if isinstance(one, float) and not math.isfinite(one):
        no_number(repr(float(one)))
    if isinstance(one, int) and one.bit_length() > _MOST_BITS:
        raise ValueError("a number in it has too many digits")
    if not isinstance(one, str | int | float | None):
        raise ValueError(f"it holds {type(one).__name__}, which is no JSON")
    return ()


def read_json(text: str | bytes) -> Any:
    """What a text says. Raises `ValueError` where it is no JSON: NaN and infinities are none, and a float would hold
    no number that is too large for it."""
    try:
        return json.loads(text, parse_constant=no_number, parse_float=_finite)
    except RecursionError:
        raise too_deep() from None


def no_number(word: str) -> NoReturn:
    """Raises `ValueError` for a number that JSON does not have."""
    raise ValueError(f"{word[:24]} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else no_number(text)

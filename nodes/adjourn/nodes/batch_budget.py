"""How many characters the observations of one step may have together (C-74). Pure."""

import json
from collections.abc import Sequence

from adjourn.nodes.observations import shrink

SMALLEST = 200  # characters: below, an observation holds hardly more than the note that it was cut


def fit(observations: Sequence[str], budget: int, language: str) -> list[str]:
    """The observations (JSON texts) in their order, cut so that they have at most `budget` characters together.

    The largest are cut first, down to one common length, so that small ones stay whole. Each stays valid JSON
    and says what is missing. Failures are never cut, nor what is no observation, and nothing is cut below
    `SMALLEST` characters: with very many failures or calls the budget is exceeded.
    """
    if sum(len(one) for one in observations) <= budget:
        return list(observations)
    may_be_cut = [_is_success(one) for one in observations]
    whole = sum(len(one) for one, cut in zip(observations, may_be_cut, strict=True) if not cut)
    sizes = [len(one) for one, cut in zip(observations, may_be_cut, strict=True) if cut]
    level = max(SMALLEST, _level(sizes, budget - whole))
    return [
        shrink(one, level, language) if cut else one
        for one, cut in zip(observations, may_be_cut, strict=True)
    ]


def _level(sizes: Sequence[int], room: int) -> int:
    """The length to which the largest must come down so that all fit into `room`."""
    share = 0
    for place, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - place)
        if size > share:
            break
        room -= size
    return share


def _is_success(observation: str) -> bool:
    try:
        told = json.loads(observation)
    except (ValueError, RecursionError):
        return False
    return isinstance(told, dict) and told.get("ok") is True

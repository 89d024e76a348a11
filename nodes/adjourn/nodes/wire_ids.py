"""Ids of calls as a wire takes them (C-13): changed only where they must be, and with their answers. Pure.

Models make ids as they like: longer than another service allows, with characters that it refuses, the same in every
turn. Stored history keeps them; a request to a service that is stricter than its author has others in their place.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Final

from adjourn.nodes.providers import Provider

__all__ = ["Ids"]

_PLAIN: Final = re.compile(r"[a-zA-Z0-9_-]+")
_DIGITS: Final = 24


class Ids:
    """The ids of one request, given out as its messages are written in order."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._used: set[str] = set()
        self._now: dict[str, str] = {}  # of the calls of the last turn: id -> id on the wire

    def asked(self, ids: Sequence[str]) -> list[str]:
        """The ids of a turn's calls on the wire."""
        if not self._provider.plain_ids and self._provider.id_length is None:
            return list(ids)
        self._now = {id_: self._free(id_) for id_ in ids}
        return [self._now[id_] for id_ in ids]

    def answered(self, id_: str) -> str:
        """The id by which an answer names its call."""
        return self._now.get(id_, id_)

    def _free(self, id_: str) -> str:
        times = 0
        free = id_ if self._fits(id_) else _digest(id_)
        while self._provider.plain_ids and free in self._used:  # the same id in an earlier turn
            times += 1
            free = _digest(f"{id_} {times}")
        self._used.add(free)
        return free

    def _fits(self, id_: str) -> bool:
        length = self._provider.id_length
        if length is not None and len(id_) > length:
            return False
        return not self._provider.plain_ids or _PLAIN.fullmatch(id_) is not None


def _digest(text: str) -> str:
    # the same in every request, so that what a service remembers of the last one still fits
    return f"call_{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"

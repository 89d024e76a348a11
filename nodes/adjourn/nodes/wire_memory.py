"""What was made of a turn for a provider, so that a long history is not made again for each request.

A request holds the whole history, and nearly all of it was sent before. What is remembered goes with the message
that it was made of, and holds as long as that message is the same object: whoever changes a stored message gives a
new one, as LangGraph's `add_messages` does.
"""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage


@dataclass(frozen=True, slots=True)
class Made:
    """What became of a turn: `form` says in which way, `calls` are the ids as the model sent them.

    `message` None: the stored message itself went out; `left_out`: nothing of it did.
    """

    form: Any
    calls: Sequence[str]
    message: AIMessage | None
    left_out: bool = False


class _Kept(weakref.ref[AIMessage]):
    """A message, while it is there, and what was made of it. One object each: the collector looks at all of them."""

    __slots__ = ("key", "made")
    key: int
    made: Made


class Memory:
    """What was made of each turn that is still there."""

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}
        self._gone = self._forget

    def of(self, message: AIMessage) -> Made | None:
        """What was made of this very message; None: nothing yet."""
        kept = self._kept.get(id(message))
        return kept.made if kept is not None and kept() is message else None

    def keep(self, message: AIMessage, made: Made) -> None:
        """Remember it until the message is gone."""
        kept = _Kept(message, self._gone)
        kept.key, kept.made = id(message), made
        self._kept[kept.key] = kept

    def _forget(self, gone: _Kept) -> None:
        if self._kept.get(gone.key) is gone:
            del self._kept[gone.key]

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


class Memory:
    """What was made of each turn that is still there."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[weakref.ref[AIMessage], Made]] = {}

    def of(self, message: AIMessage) -> Made | None:
        """What was made of this very message; None: nothing yet."""
        found = self._made.get(id(message))
        return found[1] if found is not None and found[0]() is message else None

    def keep(self, message: AIMessage, made: Made) -> None:
        """Remember it until the message is gone."""
        key = id(message)

        def forget(gone: "weakref.ref[AIMessage]") -> None:
            if (found := self._made.get(key)) is not None and found[0] is gone:
                del self._made[key]

        self._made[key] = (weakref.ref(message, forget), made)

"""What of a long history is sent to the model: as much as a token budget holds (C-76). Pure.

An *exchange* is a user message and everything up to the next one. Old exchanges are left out whole; of an
exchange that is too large by itself, the oldest results are shown as markers. The stored history stays.

Providers keep what they computed for the beginning of a request that they have seen before. That is lost from
the first changed message on, so the cut must not move with every turn. It moves in coarse steps: once the history
is over budget, everywhere between "just fits" and "fits into three quarters" is a good place to cut, and among
these places the one whose number is divisible by the highest power of two is taken. That place stays the best
one while the history grows, until it no longer fits. Nothing has to be remembered for this: each process,
and each resume, finds the same cut from the history alone; and only what is sent has to be counted.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from adjourn.nodes.texts import say
from adjourn.nodes.tokens import Counter

__all__ = ["trimmed"]

CALM: Final = 0.75
"""Of the budget: what trimming aims at. Lower keeps a cut longer and shows the model less."""


def trimmed(
    messages: list[AnyMessage], budget_tokens: int, count: Counter, language: str
) -> list[AnyMessage]:
    """`messages` within `budget_tokens`, as `count` counts them; `language` is that of the markers.

    System messages at the start stay, and so does the current exchange, from the last user message on: give
    the request without what the runtime adds behind it (C-88), which is no user message. Of the exchanges between
    them the oldest are left out. An exchange that alone is too large keeps every message, but its oldest
    results become `{"ok": true, "data": null, "cut": "..."}`, results that the model has not seen yet last and only as
    far as needed. Failures and the arguments of calls are never touched. An exchange that was shown with markers
    keeps them when it is no longer the current one, for as long as it fits.

    Gives the same list object when nothing is to do, else a new list, with copies where a message differs.
    Legal (`history.is_legal`) if `messages` are. Never raises for size: if what must stay is above the budget, it
    is sent nevertheless, and the provider has the last word. The same input gives the same output, and
    trimming twice changes nothing more. Costs one look-up for each message that is sent, and one look at the
    type of the others.
    """
    if _fits(messages, budget_tokens, count):
        return messages
    start = _end_of_system(messages)
    head = messages[:start]
    window = _Window(budget_tokens - _cost(head, count), count, language)
    shown = head + [one for exchange in window.newest(_exchanges(messages[start:])) for one in exchange]
    return shown if _differs(shown, messages) else messages


class _Window:
    """`room` is in tokens: what the budget leaves beside the system messages. May be negative."""

    def __init__(self, room: int, count: Counter, language: str) -> None:
        self.room = room
        self.calm = int(room * CALM)
        self.count = count
        self.language = language

    def newest(self, exchanges: Sequence[list[AnyMessage]]) -> list[list[AnyMessage]]:
        """The exchanges that are sent, the last one in any case, each in the form in which it is sent."""
        forms: list[list[AnyMessage]] = []  # newest first
        total, calm = 0, 1
        for exchange in reversed(exchanges):
            form = self.fitted(exchange)
            total += _cost(form, self.count)
            if forms and total > self.room:
                break
            forms.append(form)
            if total <= self.calm:
                calm = len(forms)
        first = len(exchanges) - len(forms)
        cut = _milestone(first, len(exchanges) - min(calm, len(forms)))
        return forms[::-1][cut - first :]

    def fitted(self, exchange: list[AnyMessage]) -> list[AnyMessage]:
        """The exchange as it is if it fits into the room alone, else with markers for its oldest results."""
        total = _cost(exchange, self.count)
        if total <= self.room:
            return exchange
        results = [place for place, one in enumerate(exchange) if isinstance(one, ToolMessage)]
        seen = max((place for place, one in enumerate(exchange) if isinstance(one, AIMessage)), default=-1)
        markers: list[AnyMessage] = []
        needed = None  # how many results must be marked; the rest is for calm, and never a new result
        for place in results:
            if total <= self.room and needed is None:
                needed = len(markers)
            if total <= self.calm or (needed is not None and place > seen):
                break
            markers.append(self._marked(exchange[place]))
            total += self.count(markers[-1]) - self.count(exchange[place])
        marked = _milestone(len(markers) if needed is None else needed, len(markers))
        replaced = dict(zip(results[:marked], markers, strict=False))
        return [replaced.get(place, one) for place, one in enumerate(exchange)]

    def _marked(self, message: AnyMessage) -> AnyMessage:
        """A copy that says how much is missing; the message itself if it is a failure, or as short."""
        content = _marker(message, self.language)
        if content is None:
            return message
        copy: AnyMessage = message.model_copy(update={"content": content})
        return copy if self.count(copy) < self.count(message) else message


def _fits(messages: Sequence[AnyMessage], budget: int, count: Counter) -> bool:
    """Counts from the end, and no further than the budget reaches."""
    for message in reversed(messages):
        budget -= count(message)
        if budget < 0:
            return False
    return True


def _cost(messages: Iterable[AnyMessage], count: Counter) -> int:
    return sum(map(count, messages))


def _end_of_system(messages: Sequence[AnyMessage]) -> int:
    others = (place for place, one in enumerate(messages) if not isinstance(one, SystemMessage))
    return next(others, len(messages))


def _exchanges(messages: Sequence[AnyMessage]) -> list[list[AnyMessage]]:
    """The exchanges in order. What stands before the first user message is one of its own: it is the oldest."""
    found: list[list[AnyMessage]] = []
    for message in messages:
        if isinstance(message, HumanMessage) or not found:
            found.append([])
        found[-1].append(message)
    return found


def _milestone(first: int, last: int) -> int:
    """Of the numbers from `first` to `last`, both included, the one divisible by the highest power of two.

    Between two such numbers stands a higher one, so it is unique; and while both ends grow it changes at most
    twice in the time in which `first` passes the distance between them.
    """
    while last > first and last & (last - 1) >= first:
        last &= last - 1  # without its lowest bit
    return last


def _marker(message: AnyMessage, language: str) -> str | None:
    """What stands for a result, as JSON text: its envelope without its data. None: it stays as it is."""
    if getattr(message, "status", None) == "error":
        return None
    envelope = _envelope(message.text)
    is_marker = "cut" in envelope and envelope.get("data", "") is None
    if is_marker or envelope.get("ok") is False:
        return None
    beside = _beside(envelope) if envelope.get("ok") is True else {}
    size = len(message.text) or len(str(message.content))
    cut = say("cut", language, missing=size, total=size)
    return json.dumps({"ok": True, **beside, "data": None, "cut": cut}, ensure_ascii=False)


def _beside(envelope: dict[str, Any]) -> dict[str, Any]:
    """What stands beside the data tells what really ran after a person changed it (C-44): it is kept."""
    return {key: value for key, value in envelope.items() if key not in ("ok", "data", "cut")}


def _envelope(text: str) -> dict[str, Any]:
    """The observation as data; empty where another program wrote something else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _differs(shown: Sequence[AnyMessage], messages: Sequence[AnyMessage]) -> bool:
    return len(shown) != len(messages) or any(
        one is not other for one, other in zip(shown, messages, strict=True)
    )

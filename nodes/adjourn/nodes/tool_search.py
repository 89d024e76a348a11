"""With many tools, the model gets a search over their descriptions in place of all of them (C-89). Pure.

What it has found in a run it is shown from then on, by its name and schema, so that it can be called. What was
found is read from the messages, and needs no state of its own.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from pydantic import Field

from adjourn.nodes.tool import Tool, tool

MOST = 20  # tools that a model is shown at once: beyond that providers report that it picks worse
FOUND = 5  # that a search gives: enough to choose from, few enough to read
FIND_TOOLS = "find_tools"

_WORDS = re.compile(r"[a-z0-9]+|[\u3400-\u9fff\uf900-\ufaff]+")


def words_of(text: str) -> list[str]:
    """The words of a text: Latin ones as they are, parts of names apart; Chinese ones as pairs of characters."""
    found: list[str] = []
    for word in _WORDS.findall(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).lower()):
        if word[0].isascii() or len(word) == 1:
            found.append(word)
        else:
            found += [word[at : at + 2] for at in range(len(word) - 1)]
    return found


class Search:
    """Finds the texts that fit a query best: those that share its rarest words."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._words = {name: Counter(words_of(f"{name} {name} {text}")) for name, text in texts.items()}
        held = Counter(word for words in self._words.values() for word in words)
        self._weight = {word: math.log(1 + len(texts) / count) for word, count in held.items()}

    def best(self, query: str) -> list[str]:
        """The names of the `FOUND` texts that fit best, the best first; none that shares no word with the query."""
        wanted = set(words_of(query))
        scores = {
            name: sum(self._weight[word] * (1 + math.log(words[word])) for word in wanted & words.keys())
            for name, words in self._words.items()
        }
        ranked = sorted((name for name in scores if scores[name] > 0), key=lambda name: -scores[name])
        return ranked[:FOUND]


def searched(tools: Iterable[Tool]) -> list[Tool]:
    """Those that a search stands in for, where there are too many to show; empty where all are shown."""
    found = [one for one in tools if not one.always_shown]
    return found if len(found) > MOST else []


def find_tool(tools: Iterable[Tool]) -> Tool:
    """The tool that a model finds these by."""
    known = {one.name: one for one in tools}
    search = Search(
        {one.name: f"{one.description} {' '.join(one.schema['properties'])}" for one in known.values()}
    )

    def find_tools(query: Annotated[str, Field(min_length=1)]) -> list[dict[str, Any]]:
        return [{"tool": name, "about": known[name].description} for name in search.best(query)]

    return tool(
        name=FIND_TOOLS,
        description=(
            f"Find tools by what they do. There are {len(known)}; the best {FOUND} for the query come back, and can be "
            "called from the next turn on. An empty list: none fits, so try other words."
        ),
        effect="read",
        repeatable=True,
    )(find_tools)


def shown(messages: Sequence[AnyMessage], tools: Mapping[str, Tool]) -> list[str]:
    """The names of the tools that are shown to the model now: the search, what it found since the user's message, and
    what is always shown."""
    found: dict[str, None] = {}
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        if isinstance(message, ToolMessage) and message.name == FIND_TOOLS:
            found |= dict.fromkeys(_named(str(message.text)))
    return [FIND_TOOLS, *(name for name, one in tools.items() if name in found or one.always_shown)]


def _named(observation: str) -> list[str]:
    try:
        told = json.loads(observation)
    except ValueError:
        return []
    rows = told.get("data") if isinstance(told, dict) else None
    return [str(one.get("tool")) for one in rows if isinstance(one, dict)] if isinstance(rows, list) else []

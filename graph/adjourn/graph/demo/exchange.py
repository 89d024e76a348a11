"""What a history tells the stand-in model: the user's sentence, and what the tools have brought since.

Pure: messages in, frozen values out.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

RUNTIME_MARK = "[runtime] "  # what the runtime's own notes begin with


@dataclass(frozen=True, slots=True)
class Result:
    """A call and its observation. `code` is None when it succeeded; `message` is empty then."""

    tool: str
    arguments: Mapping[str, Any]
    data: Any = None
    code: str | None = None
    message: str = ""

    @property
    def ok(self) -> bool:
        """Whether the tool did what it was asked."""
        return self.code is None


@dataclass(frozen=True, slots=True)
class Exchange:
    """The newest sentence of the user and the results since; `before` and `earlier` are older ones.

    All are in the order of the history. `is_first`: the assistant has not spoken on this thread yet.
    """

    text: str = ""
    results: tuple[Result, ...] = ()
    earlier: tuple[str, ...] = ()
    before: tuple[Result, ...] = ()
    is_first: bool = True

    def newest(self, tool: str) -> Result | None:
        """The newest result of `tool` in this exchange."""
        return next((result for result in reversed(self.results) if result.tool == tool), None)


@dataclass(slots=True)
class _Reader:
    sentences: list[str] = field(default_factory=list)
    before: list[Result] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    calls: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)

    def take(self, message: BaseMessage) -> None:
        if isinstance(message, HumanMessage):
            self.sentences.append(str(message.text))
            self.before += self.results
            self.results = []
        elif isinstance(message, AIMessage):
            self.calls.update(_calls(message))
        elif isinstance(message, ToolMessage):
            name, arguments = self.calls.get(message.tool_call_id, (message.name or "", {}))
            self.results.append(_result(name, arguments, str(message.text)))


def read_exchange(messages: Sequence[BaseMessage]) -> Exchange:
    """The exchange that stands at the end of `messages`. What the runtime itself said in between is skipped."""
    reader = _Reader()
    for message in _without_note(messages):
        reader.take(message)
    return Exchange(
        text=reader.sentences[-1] if reader.sentences else "",
        results=tuple(reader.results),
        earlier=tuple(reader.sentences[:-1]),
        before=tuple(reader.before),
        is_first=not any(isinstance(message, AIMessage) for message in messages),
    )


def _calls(message: AIMessage) -> Iterator[tuple[str, tuple[str, dict[str, Any]]]]:
    for call in message.tool_calls:
        yield call["id"] or "", (call["name"], call["args"])
    for broken in message.invalid_tool_calls:
        yield broken["id"] or "", (broken["name"] or "", {})


def _result(name: str, arguments: dict[str, Any], text: str) -> Result:
    try:
        told = json.loads(text)
    except ValueError:
        return Result(name, arguments, data=text)
    if not isinstance(told, dict) or "ok" not in told:
        return Result(name, arguments, data=told)
    if told["ok"]:
        return Result(name, arguments, data=told.get("data"))
    return Result(name, arguments, told.get("data"), str(told.get("errorCode")), str(told.get("message", "")))


def _without_note(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    # what the runtime tells a model stands at the end of a request, never in the stored history (C-88)
    last = messages[-1] if messages else None
    if isinstance(last, HumanMessage) and str(last.text).startswith(RUNTIME_MARK):
        return messages[:-1]
    return messages

"""What goes out to a provider: stored history in the form that it takes (C-7, C-9, C-13).

Nothing stored is changed: what differs is a copy. Models in OpenAI style get every call in order, byte for byte.
Others get objects, where an unparsable call is `{}` (its observation quotes the raw text). What a provider wants back
as it came goes to that provider alone, and everybody else gets the text.
"""

import operator
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable

from adjourn.nodes.assembly import parse_arguments
from adjourn.nodes.attachments import ATTACHED
from adjourn.nodes.kept import FIELDS, TEXT_BLOCKS, call_extras
from adjourn.nodes.listening import SEND_BACK
from adjourn.nodes.providers import Provider, provider_of
from adjourn.nodes.stored_form import SENT_AS, kept_blocks, sent_calls
from adjourn.nodes.wire_ids import Ids
from adjourn.nodes.wire_memory import Made, Memory

__all__ = ["STAND_IN_NAME", "request_messages"]

STAND_IN_NAME: Final = "unknown_tool"
"""Stands in requests for a name that no service would take back (C-9); the observation quotes the real one."""

_LEGAL_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")

_FAMILIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Type of a block -> the provider that sends it and takes it back, for messages of other programs.
        "thinking": "anthropic",
        "redacted_thinking": "anthropic",
        "tool_use": "anthropic",
        "server_tool_use": "anthropic",
        "mcp_tool_use": "anthropic",
        "reasoning": "openai",
        "function_call": "openai",
        "web_search_call": "openai",
    }
)


_SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})


class Requested:
    """The last request of a run, for the next one, which mostly begins with the same messages."""

    def __init__(self) -> None:
        self._form: _Form | None = None

    def sent(
        self, messages: Sequence[BaseMessage], provider: Provider, tools: frozenset[str]
    ) -> list[BaseMessage]:
        """The messages as they go out, in order."""
        form = self._form
        if form is None or not form.goes_on(messages, provider, tools):
            form = _Form(provider, tools, Ids(provider))
        *earlier, last = messages[len(form.read) :]
        for message in earlier:
            form.take(message)
        called = form.called
        made = form.of(last)  # of this request only: mostly it is the runtime's own word
        form.called = called
        self._form = None if isinstance(last, AIMessage) else form  # a turn leaves its mark in the form
        return [*form.sent, *([] if made is None else [made])]


def request_messages(
    messages: Sequence[BaseMessage],
    model: Runnable[Any, Any],
    tools: Collection[str] = (),
    before: Requested | None = None,
) -> list[BaseMessage]:
    """Stored messages as they must be handed to `model`.

    `tools` are the names of the tools that the request offers; they are never replaced by a stand-in. `before`
    remembers what was sent, so that a long history is not written again.
    """
    if not messages:
        return []
    provider = provider_of(model)
    sent = (before or Requested()).sent(messages, provider, frozenset(tools))
    if provider.family == "anthropic":
        sent = _without_unanswered(sent)
    elif not provider.items:
        sent = _attached_behind(sent)
    return _one_system(sent) if provider.one_system else sent


_MEMORY: Final = Memory()


@dataclass(slots=True)
class _Form:
    """How one request to one provider is written, its messages in order."""

    provider: Provider
    tools: frozenset[str]
    ids: Ids
    called: bool = False  # whether a turn since the user's last message holds calls
    read: list[BaseMessage] = field(default_factory=list)
    sent: list[BaseMessage] = field(default_factory=list)  # what became of them

    def goes_on(self, messages: Sequence[BaseMessage], provider: Provider, tools: frozenset[str]) -> bool:
        """Whether these messages begin with those that were read, and go out in the same way."""
        same = (self.provider, self.tools) == (provider, tools) and len(messages) > len(self.read)
        return same and all(map(operator.is_, messages, self.read))

    def take(self, message: BaseMessage) -> None:
        """Write one more message."""
        made = self.of(message)
        self.read.append(message)
        if made is not None:
            self.sent.append(made)

    def of(self, message: BaseMessage) -> BaseMessage | None:
        """A message as it goes out; None when nothing of it is for this provider."""
        if isinstance(message, AIMessage):
            return self._turn(message)
        if isinstance(message, HumanMessage):
            self.called = False
        return self._answer(message) if isinstance(message, ToolMessage) else message

    def _answer(self, message: ToolMessage) -> ToolMessage:
        update: dict[str, Any] = {}
        if message.name is not None and (name := self._name(message.name)) != message.name:
            update["name"] = name
        if (id_ := self.ids.answered(message.tool_call_id)) != message.tool_call_id:
            update["tool_call_id"] = id_
        return message.model_copy(update=update) if update else message

    def _turn(self, message: AIMessage) -> AIMessage | None:
        before = _MEMORY.of(message)
        asked = before.calls if before else [str(call["id"]) for call in sent_calls(message)]
        self.called = self.called or bool(asked)
        form = (self.provider, self.tools, self.called, tuple(self.ids.asked(asked)))
        if before is None or before.form != form:
            made = self._made(message, form[-1])
            same, left_out = made is message, made is None
            before = Made(form, asked, None if same else made, left_out)
            _MEMORY.keep(message, before)
        return None if before.left_out else (before.message or message)

    def _made(self, message: AIMessage, ids: Sequence[str]) -> AIMessage | None:
        calls = sent_calls(message)
        for call, id_ in zip(calls, ids, strict=True):
            call["asked"], call["id"] = call["id"], id_
            call["function"]["name"] = self._name(call["function"]["name"])
        own = kept_blocks(message, self.provider.origin)
        content = (own if self._takes_blocks else None) or self._content(message)
        if not calls and not content and self.provider.family is not None:
            return None
        if self._takes_blocks:
            if not calls and content is message.content:
                return message
            return self._with_blocks(message, calls, content)
        back = self._back(message, own, calls) if self.called else None
        if not calls and not back and content is message.content:
            return message
        # langchain-openai sends the raw calls untouched exactly when both parsed lists are empty.
        return _copy(message, content, calls, [], back)

    @property
    def _takes_blocks(self) -> bool:
        """Whether content goes out as blocks; chat completions have text, and fields beside it."""
        return self.provider.items or not self.provider.verbatim

    def _with_blocks(
        self, message: AIMessage, calls: Sequence[dict[str, Any]], content: str | list[Any]
    ) -> AIMessage:
        if self.provider.items:
            return _as_items(message, calls, content, stateless=self.provider.stateless)
        return _as_objects(message, calls, content)

    def _back(
        self, message: AIMessage, own: Sequence[dict[str, Any]] | None, calls: Sequence[dict[str, Any]]
    ) -> dict[str, Any] | None:
        """The fields that came with a message and with its calls, for the server that sent them.

        DeepSeek wants its reasoning back from the first turn with calls to the answer, in all later requests too;
        where no tool was called it wants none, and its older models refuse it.
        """
        fields: dict[str, Any] = {"reasoning_content": ""} if self.provider.wants_reasoning else {}
        if own is None:
            return {"fields": fields, "calls": {}} if fields else None
        for block in own:
            if block.get("type") == FIELDS:
                fields |= {key: value for key, value in block.items() if key != "type"}
        raw = message.additional_kwargs.get("tool_calls") or ()
        extras = {sent["id"]: call_extras(call) for sent, call in zip(calls, raw, strict=False)}
        return {"fields": fields, "calls": {id_: extra for id_, extra in extras.items() if extra}}

    def _content(self, message: AIMessage) -> str | list[Any]:
        """What was said, without what other providers want back; the content itself where that is all."""
        content = message.content
        if isinstance(content, str):
            blank = self.provider.family == "anthropic" and not content.strip()
            return "" if blank else content  # a text of blanks is refused there
        if self.provider.family is None:
            return content
        kinds = {str(block.get("type")) for block in content if isinstance(block, dict)}
        family = message.response_metadata.get("model_provider") or next(
            (_FAMILIES[kind] for kind in kinds if kind in _FAMILIES), None
        )
        if kinds <= TEXT_BLOCKS or (family == self.provider.family and self._takes_blocks):
            return content
        return str(message.text)

    def _name(self, name: str) -> str:
        if name in self.tools:
            return name
        legal = len(name) <= self.provider.name_length and _LEGAL_NAME.fullmatch(name)
        return name if legal else STAND_IN_NAME


def _copy(
    message: AIMessage,
    content: str | list[Any],
    calls: Sequence[dict[str, Any]],
    parsed: list[ToolCall],
    back: Mapping[str, Any] | None = None,
) -> AIMessage:
    extras = {
        key: value for key, value in message.additional_kwargs.items() if key not in (SENT_AS, "tool_calls")
    }
    if calls:
        extras["tool_calls"] = [{key: call[key] for key in ("id", "type", "function")} for call in calls]
    if back:
        extras[SEND_BACK] = back
    update = {"content": content, "tool_calls": parsed, "invalid_tool_calls": [], "additional_kwargs": extras}
    return message.model_copy(update=update)


def _as_objects(message: AIMessage, calls: Sequence[dict[str, Any]], content: str | list[Any]) -> AIMessage:
    parsed = [
        ToolCall(
            name=call["function"]["name"],
            args=parse_arguments(call["function"]["arguments"])[0] or {},
            id=call["id"],
            type="tool_call",
        )
        for call in calls
    ]
    if not isinstance(content, str):
        inputs = {call["asked"]: one for call, one in zip(calls, parsed, strict=True)}
        content = list(_filled(content, "tool_use", "id", inputs, _use))
    return _copy(message, content, calls, parsed)


def _use(block: Mapping[str, Any], call: ToolCall) -> dict[str, Any]:
    return {**block, "id": call["id"], "name": call["name"], "input": call["args"]}


def _filled(blocks: Iterable[Any], kind: str, key: str, calls: Mapping[str, Any], make: Any) -> Iterator[Any]:
    """Blocks with their calls in place; what stands for a call that is not there is left out."""
    for block in blocks:
        if not isinstance(block, dict) or block.get("type") != kind:
            yield block
        elif block.get(key) in calls:
            yield make(block, calls[block[key]])


def _as_items(
    message: AIMessage, calls: Sequence[dict[str, Any]], content: str | list[Any], *, stateless: bool
) -> AIMessage:
    """For the Responses API, where calls are items of the content.

    `stateless`: nothing of the conversation is kept by the server, so that ids of items mean nothing to it.
    """

    def item(block: Mapping[str, Any], call: Mapping[str, Any]) -> dict[str, Any]:
        own = {"id": block["id"]} if block.get("id") and not stateless else {}
        return {"type": "function_call", "call_id": call["id"], **call["function"], **own}

    said = [{"type": "text", "text": content}] if isinstance(content, str) else content
    asked = {call["asked"]: call for call in calls}
    blocks = [
        block
        for block in _filled(said, "function_call", "call_id", asked, item)
        if block != {"type": "text", "text": ""}
    ]
    there = {block.get("call_id") for block in blocks if isinstance(block, dict)}
    missing = [item({}, call) for call in calls if call["id"] not in there]
    return _copy(message, [*blocks, *missing], [], [])


def _without_unanswered(messages: list[BaseMessage]) -> list[BaseMessage]:
    """The messages without those calls of the provider's own tools that the provider never answered.

    It answers one in the same turn or in a later one. Only the last turn may leave one open: where the provider paused
    it, or where it also calls tools of ours and waits for these. Any other was never answered, since the run was
    cancelled or another model went on.
    """
    kept: list[BaseMessage] = []
    closed: set[str] = set()
    is_last = True  # of the turns
    for place, message in reversed(list(enumerate(messages))):
        if not isinstance(message, AIMessage):
            kept.append(message)
            continue
        blocks = [block for block in message.content if isinstance(block, dict)]
        closed |= {str(block["tool_use_id"]) for block in blocks if "tool_use_id" in block}
        opened = {str(block["id"]) for block in blocks if block.get("type") in _SERVER_CALLS} - closed
        waits = is_last and (bool(message.tool_calls) or place == len(messages) - 1)
        is_last = False
        if opened and not waits:
            content = [block for block in message.content if not _is_call(block, opened)]
            if not content and not message.tool_calls:
                continue
            kept.append(message.model_copy(update={"content": content}))
        else:
            kept.append(message)
    return kept[::-1]


def _attached_behind(messages: list[BaseMessage]) -> list[BaseMessage]:
    """The messages with what is attached to results in a user message behind them: chat completions take text as a result."""
    if not any(isinstance(one, ToolMessage) and _attached(one) for one in messages):
        return messages
    made: list[BaseMessage] = []
    held: list[Any] = []
    for message in messages:
        blocks = _attached(message) if isinstance(message, ToolMessage) else []
        if blocks and isinstance(message, ToolMessage):
            note = f"[runtime] attached to the result of {message.name} ({message.tool_call_id}):"
            held += [{"type": "text", "text": note}, *blocks]
            made.append(message.model_copy(update={"content": str(message.text)}))
            continue
        if held and not isinstance(message, ToolMessage):
            made.append(HumanMessage(held))
            held = []
        made.append(message)
    return [*made, HumanMessage(held)] if held else made


def _attached(message: ToolMessage) -> list[Any]:
    if isinstance(message.content, str):
        return []
    return [one for one in message.content if isinstance(one, dict) and one.get("type") in ATTACHED]


def _is_call(block: Any, ids: set[str]) -> bool:
    return isinstance(block, dict) and block.get("type") in _SERVER_CALLS and block.get("id") in ids


def _one_system(messages: list[BaseMessage]) -> list[BaseMessage]:
    """One system message at the beginning, where a service takes no other: those that stand later join it."""
    system = [message for message in messages if isinstance(message, SystemMessage)]
    if not system or (len(system) == 1 and system[0] is messages[0]):
        return messages
    rest = [message for message in messages if not isinstance(message, SystemMessage)]
    if all(isinstance(message.content, str) for message in system):
        return [SystemMessage("\n\n".join(str(message.content) for message in system)), *rest]
    blocks = [block for message in system for block in _blocks(message.content)]
    return [SystemMessage(blocks), *rest]


def _blocks(content: str | list[Any]) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content

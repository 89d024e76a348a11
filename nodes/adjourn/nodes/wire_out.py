"""What goes out to a provider: the form in which a turn is stored, and in which history is sent (C-7, C-9, C-13).

The stored form holds each call twice: parsed in `tool_calls` or `invalid_tool_calls`, where LangChain's users
look, and as the model sent it in `additional_kwargs["tool_calls"]`, in order, in OpenAI's shape.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.runnables import Runnable

from adjourn.nodes.assembly import AssembledCall, Turn, Usage, canonical, parse_arguments
from adjourn.nodes.listening import asks_responses
from adjourn.nodes.providers import Provider, provider_of, unbound

__all__ = ["STAND_IN_NAME", "assistant_message", "call_ids", "raw_calls", "request_messages", "sent_calls"]

STAND_IN_NAME: Final = "unknown_tool"
"""Stands in requests for a name that no service would take back (C-9); the observation quotes the real one."""

_LEGAL_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")


def assistant_message(turn: Turn, message_id: str) -> AIMessage:
    """A turn as it is stored. `message_id` is minted by us: a provider's own may repeat (F-39).

    Give only turns whose `problem` is None: a call without an id cannot be answered.
    """
    extras: dict[str, Any] = {}
    if turn.reasoning:
        extras["reasoning_content"] = turn.reasoning
    if turn.refusal:
        extras["refusal"] = turn.refusal
    if turn.calls:
        extras["tool_calls"] = [_sent(call.id, call.name, call.raw) for call in turn.calls]
    metadata = {"finish_reason": turn.finish, "model_name": turn.model}
    return AIMessage(
        content=turn.answer,
        id=message_id,
        tool_calls=[_valid(call) for call in turn.calls if call.error is None],
        invalid_tool_calls=[_invalid(call) for call in turn.calls if call.error is not None],
        additional_kwargs=extras,
        response_metadata={key: value for key, value in metadata.items() if value is not None},
        usage_metadata=_usage_metadata(turn.usage),
    )


def _sent(id_: str | None, name: str | None, raw: str) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name or "", "arguments": raw}}


def _valid(call: AssembledCall) -> ToolCall:
    return ToolCall(name=call.name, args=call.arguments or {}, id=call.id, type="tool_call")


def _invalid(call: AssembledCall) -> InvalidToolCall:
    return InvalidToolCall(
        name=call.name, args=call.raw, id=call.id, error=call.error, type="invalid_tool_call"
    )


def _usage_metadata(usage: Usage | None) -> UsageMetadata | None:
    if usage is None:
        return None
    return UsageMetadata(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_token_details={"cache_read": usage.cached_tokens},
        output_token_details={"reasoning": usage.reasoning_tokens},
    )


def sent_calls(message: AIMessage) -> list[dict[str, Any]]:
    """All calls of a stored message in order, in OpenAI's shape, argument text as the model sent it.

    A message of another program may lack the raw text, or carry some that does not belong to its calls
    (it was edited): canonical JSON of the parsed calls stands in, valid ones first.
    """
    if (raw := raw_calls(message)) is not None:
        return raw
    valid = [_sent(call["id"], call["name"], canonical(call["args"])) for call in message.tool_calls]
    return valid + [
        _sent(call["id"], call["name"], call["args"] or "") for call in message.invalid_tool_calls
    ]


def call_ids(message: AIMessage) -> list[str]:
    """The ids of `sent_calls`, without building the calls: every request checks its whole history with them."""
    raw = _raw_of(message)
    calls = [*message.tool_calls, *message.invalid_tool_calls] if raw is None else raw
    return [str(call.get("id")) for call in calls]


def raw_calls(message: AIMessage) -> list[dict[str, Any]] | None:
    """The calls as the model sent them, in order; None where only their parsed form is known."""
    raw = _raw_of(message)
    return None if raw is None else [_as_sent(call) for call in raw]


def _raw_of(message: AIMessage) -> list[dict[str, Any]] | None:
    """The calls as the model sent them, where they belong to the parsed ones; else None."""
    raw: list[dict[str, Any]] | None = message.additional_kwargs.get("tool_calls")
    if not raw:
        return None
    parsed = [*message.tool_calls, *message.invalid_tool_calls]
    # mostly both hold the same ids in the same order; sorting is for turns with an invalid call before a valid one
    same = (
        not parsed
        or [one.get("id") for one in raw] == [one["id"] for one in parsed]
        or _ids(raw) == _ids(parsed)
    )
    return raw if same else None


def _ids(calls: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted(str(call.get("id")) for call in calls)


def _as_sent(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    return _sent(call.get("id"), function.get("name"), function.get("arguments") or "")


def request_messages(
    messages: Iterable[BaseMessage], model: Runnable[Any, Any], tools: Collection[str] = ()
) -> list[BaseMessage]:
    """Stored messages as they must be handed to `model`. Nothing stored is changed: what differs is a copy.

    `tools` are the names of the tools that the request offers; they are never replaced by a stand-in.
    Models in OpenAI style get every call in order, byte for byte. Others get objects, where an unparsable
    call is `{}` (its observation quotes the raw text).
    """
    provider = provider_of(model)
    items = provider.verbatim and asks_responses(unbound(model))
    offered = frozenset(tools)
    return [_for_request(message, provider, offered, as_items=items) for message in messages]


def _for_request(
    message: BaseMessage, provider: Provider, tools: frozenset[str], *, as_items: bool
) -> BaseMessage:
    if isinstance(message, ToolMessage) and message.name is not None:
        name = _request_name(message.name, provider, tools)
        return message if name == message.name else message.model_copy(update={"name": name})
    if not isinstance(message, AIMessage) or _stands(message, provider, tools):
        return message
    calls = sent_calls(message)
    for call in calls:
        call["function"]["name"] = _request_name(call["function"]["name"], provider, tools)
    if not provider.verbatim:
        return _with_objects(message, calls)
    if as_items:
        return _as_items(message, calls)
    # langchain-openai sends the raw calls untouched exactly when both parsed lists are empty.
    return _with_calls(message, calls, [])


def _stands(message: AIMessage, provider: Provider, tools: frozenset[str]) -> bool:
    """Whether a message can be sent as it is: it has no calls, or only parsed ones where objects are taken."""
    if not message.tool_calls and not message.invalid_tool_calls:
        return not message.additional_kwargs.get("tool_calls")
    if provider.verbatim or message.invalid_tool_calls:
        return False
    return all(call["name"] == _request_name(call["name"], provider, tools) for call in message.tool_calls)


def _request_name(name: str, provider: Provider, tools: frozenset[str]) -> str:
    if name in tools:
        return name
    return name if len(name) <= provider.name_length and _LEGAL_NAME.fullmatch(name) else STAND_IN_NAME


def _with_calls(message: AIMessage, calls: Sequence[dict[str, Any]], parsed: list[ToolCall]) -> AIMessage:
    extras = {**message.additional_kwargs, "tool_calls": list(calls)}
    return message.model_copy(
        update={"tool_calls": parsed, "invalid_tool_calls": [], "additional_kwargs": extras}
    )


def _with_objects(message: AIMessage, calls: Sequence[dict[str, Any]]) -> AIMessage:
    parsed = [
        ToolCall(
            name=call["function"]["name"],
            args=parse_arguments(call["function"]["arguments"])[0] or {},
            id=call["id"],
            type="tool_call",
        )
        for call in calls
    ]
    return _with_calls(message, calls, parsed)


def _as_items(message: AIMessage, calls: Sequence[dict[str, Any]]) -> AIMessage:
    """For the Responses API, where calls are items of the content."""
    items = [{"type": "function_call", "call_id": call["id"], **call["function"]} for call in calls]
    said = (
        [{"type": "text", "text": message.content}] if isinstance(message.content, str) else message.content
    )
    kept = [block for block in said if not isinstance(block, dict) or block.get("type") != "function_call"]
    blocks = [block for block in kept if block != {"type": "text", "text": ""}]
    return message.model_copy(
        update={"content": [*blocks, *items], "tool_calls": [], "invalid_tool_calls": []}
    )

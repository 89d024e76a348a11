"""The form in which a turn is stored: readable by LangChain's users, and byte for byte as the model sent it (C-7).

Each call is there twice: parsed in `tool_calls` or `invalid_tool_calls`, where LangChain's users look, and as the
model sent it in `additional_kwargs["tool_calls"]`, in order, in OpenAI's shape. The content is what was said, as
text. What else the provider wants back stands in `additional_kwargs["sent_as"]`, with the name of that provider.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall
from langchain_core.messages.ai import UsageMetadata

from adjourn.nodes.assembly import AssembledCall, Turn, Usage, canonical

__all__ = [
    "SENT_AS",
    "assistant_message",
    "call_ids",
    "continued",
    "is_paused",
    "kept_blocks",
    "raw_calls",
    "sent_calls",
]

SENT_AS: Final = "sent_as"


def assistant_message(turn: Turn, message_id: str) -> AIMessage:
    """A turn as it is stored. `message_id` is minted by us: a provider's own may repeat.

    Give only turns whose `problem` is None: a call without an id cannot be answered.
    """
    extras: dict[str, Any] = {}
    if turn.reasoning:
        extras["reasoning_content"] = turn.reasoning
    if turn.refusal:
        extras["refusal"] = turn.refusal
    if turn.calls:
        extras["tool_calls"] = [
            {**_sent(call.id, call.name, call.raw), **(call.extra or {})} for call in turn.calls
        ]
    if turn.origin and (turn.blocks or any(call.extra for call in turn.calls)):
        extras[SENT_AS] = {"origin": turn.origin, "blocks": [dict(block) for block in turn.blocks]}
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
        input_token_details={"cache_read": usage.cached_tokens, "cache_creation": usage.cache_write_tokens},
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


def kept_blocks(message: AIMessage, origin: str) -> list[dict[str, Any]] | None:
    """What a stored turn holds for the provider that sent it; None for any other, and where there is nothing."""
    kept = message.additional_kwargs.get(SENT_AS)
    if not origin or not isinstance(kept, dict) or kept.get("origin") != origin:
        return None
    blocks: list[dict[str, Any]] = kept.get("blocks") or []
    return blocks


def continued(before: AIMessage, turn: Turn) -> Turn:
    """A message that was cut off and the turn that goes on with it, as one turn."""
    text = str(before.text)
    whole = replace(turn, text=text + turn.text)
    earlier = kept_blocks(before, turn.origin)
    if not turn.blocks and not earlier:
        return replace(whole, blocks=())
    later = turn.blocks or ({"type": "text", "text": turn.text},)
    return replace(whole, blocks=(*(earlier or [{"type": "text", "text": text}]), *later))


def is_paused(message: BaseMessage) -> bool:
    """Whether a stored message is a turn that its provider paused."""
    return isinstance(message, AIMessage) and message.response_metadata.get("finish_reason") == "pause"

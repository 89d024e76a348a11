"""What differs between providers, in one place (C-13): reading their streams, and writing history for them.

Reading: `provider_of(model)` finds a model's row in the table, and `read(chunk, provider)` turns each LangChain
chunk into a `Piece`. What langchain-openai would drop before we see it is kept by `listening.py`.
Writing: `assistant_message` is the form in which a turn is stored, `request_messages` the form in which
stored messages are sent to a given model.

The stored form holds each call twice (C-7): parsed in `tool_calls` or `invalid_tool_calls`, where LangChain's
users look, and as the model sent it in `additional_kwargs["tool_calls"]`, in order, in OpenAI's shape.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    InvalidToolCall,
    ToolCall,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.runnables import Runnable

from adjourn.nodes.assembly import (
    AssembledCall,
    Assembler,
    Finish,
    Fragment,
    Piece,
    Turn,
    Usage,
    canonical,
    parse_arguments,
)
from adjourn.nodes.listening import asks_responses, listening

__all__ = [
    "STAND_IN_NAME",
    "Provider",
    "assistant_message",
    "listening",
    "provider_of",
    "read",
    "request_messages",
    "sent_calls",
]


@dataclass(frozen=True, slots=True)
class Provider:
    """One model package, as far as it differs from others.

    `ends`: every whole turn has an end signal, so that a stream without one broke off (C-10).
    `exact`: argument text comes as the model wrote it; else the package parsed it before we could see it.
    `verbatim`: requests take calls in OpenAI's shape as they stand, so that bytes and order survive.
    `name_length`: the longest name of a tool that the service takes, in characters.
    """

    name: str
    ends: bool = True
    exact: bool = True
    verbatim: bool = False
    name_length: int = 64

    def assembler(self) -> Assembler:
        """An empty assembler for one turn of this provider."""
        return Assembler(ends=self.ends)


UNKNOWN: Final = Provider("unknown", ends=False, exact=False)
"""A package that nothing is known about: test doubles, users' own models. Nothing is taken for granted."""

PROVIDERS: Final[Mapping[str, Provider]] = MappingProxyType(
    {
        # By the package that defines the model's class, or one that it derives from.
        "langchain_openai": Provider("openai", verbatim=True),
        "langchain_anthropic": Provider("anthropic", name_length=128),
        "langchain_google_genai": Provider("google", exact=False),
        "langchain_ollama": Provider("ollama", exact=False),
        "langchain_groq": Provider("groq"),
        "langchain_mistralai": Provider("mistral"),
        "adjourn": Provider("scripted"),
    }
)

_END_KEYS: Final = ("finish_reason", "stop_reason", "done_reason", "stopReason", "finishReason")

_ENDS: Final[Mapping[str, Finish | None]] = MappingProxyType(
    {
        # What providers call the four ways to end. None: they gave up in the middle, which is no end.
        # A word that is not here counts as `stop`: the provider did say that the turn is over.
        "tool_calls": "tool_calls",
        "function_call": "tool_calls",
        "tool_use": "tool_calls",
        "length": "length",
        "max_tokens": "length",
        "max_output_tokens": "length",
        "model_length": "length",
        "model_context_window_exceeded": "length",
        "incomplete": "length",
        "content_filter": "content_filter",
        "content_filtered": "content_filter",
        "guardrail_intervened": "content_filter",
        "refusal": "content_filter",
        "safety": "content_filter",
        "sensitive": "content_filter",
        "recitation": "content_filter",
        "prohibited_content": "content_filter",
        "blocklist": "content_filter",
        "error": None,
        "failed": None,
        "cancelled": None,
        "in_progress": None,
        "network_error": None,
        "insufficient_system_resource": None,
    }
)

_BLOCKS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        # Type of a content block -> what it is to us, and the key that holds its text.
        "text": ("text", "text"),
        "output_text": ("text", "text"),
        "refusal": ("refusal", "refusal"),
        "reasoning": ("reasoning", "reasoning"),
        "reasoning_content": ("reasoning", "reasoning_content"),
        "thinking": ("reasoning", "thinking"),
    }
)

STAND_IN_NAME: Final = "unknown_tool"
"""Stands in requests for a name that no service would take back (C-9); the observation quotes the real one."""

_LEGAL_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")


def provider_of(model: Runnable[Any, Any]) -> Provider:
    """The table's row for a model, bound to tools or not; `UNKNOWN` if its package is not in the table."""
    packages = (kind.__module__.partition(".")[0] for kind in type(_unbound(model)).__mro__)
    return next((PROVIDERS[package] for package in packages if package in PROVIDERS), UNKNOWN)


def _unbound(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    while isinstance(inner := getattr(model, "bound", None), Runnable):
        model = inner
    return model


# Reading.


def read(message: BaseMessage, provider: Provider = UNKNOWN) -> Piece:
    """What one chunk brought; or the whole turn, where a model does not stream and sends an `AIMessage`.

    A whole message has ended by the fact that it is here, whether or not it says why.
    """
    if not isinstance(message, AIMessage):
        return Piece(text=message.text)
    whole = not isinstance(message, AIMessageChunk)
    said = _said(message)
    fragments = tuple(_whole_calls(message) if whole else _fragments(cast(AIMessageChunk, message), provider))
    finish = _finish(message.response_metadata)
    if whole and not _names_end(message.response_metadata):
        finish = "tool_calls" if fragments else "stop"
    metadata = message.response_metadata
    return Piece(
        text=said.get("text", ""),
        reasoning=said.get("reasoning", ""),
        refusal=said.get("refusal", ""),
        fragments=fragments,
        finish=finish,
        usage=_usage(message.usage_metadata),
        model=metadata.get("model_name") or metadata.get("model"),
    )


def _said(message: AIMessage) -> dict[str, str]:
    extras = message.additional_kwargs
    said = {"reasoning": extras.get("reasoning_content") or "", "refusal": extras.get("refusal") or ""}
    blocks = [message.content] if isinstance(message.content, str) else message.content
    for block in blocks:
        kind, text = ("text", block) if isinstance(block, str) else _block(block)
        said[kind] = said.get(kind, "") + text
    return said


def _block(block: Mapping[str, Any]) -> tuple[str, str]:
    kind, key = _BLOCKS.get(block.get("type", ""), ("", ""))
    text = block.get(key) if kind else None
    if kind == "reasoning" and text is None:  # OpenAI's Responses API tells summaries of its reasoning
        text = "".join(part.get("text", "") for part in block.get("summary") or ())
    return kind, text if isinstance(text, str) else ""


def _names_end(metadata: Mapping[str, Any]) -> bool:
    return "status" in metadata or any(metadata.get(key) for key in _END_KEYS)


def _finish(metadata: Mapping[str, Any]) -> Finish | None:
    """The end signal in a chunk's metadata, None if it holds none.

    LangChain's own `chunk_position="last"` is no such signal: it is set whenever the connection was closed in
    order, also by a server that died in mid-turn behind a proxy.
    """
    word = next((metadata[key] for key in _END_KEYS if metadata.get(key)), None)
    if word is None and metadata.get("status"):  # the Responses API
        word = (metadata.get("incomplete_details") or {}).get("reason") or metadata["status"]
    if word is None:
        return None
    word = str(getattr(word, "name", word)).lower()
    return _ENDS.get(word, "stop")


def _usage(metadata: UsageMetadata | None) -> Usage | None:
    if metadata is None:
        return None
    return Usage(
        input_tokens=metadata["input_tokens"],
        output_tokens=metadata["output_tokens"],
        cached_tokens=metadata.get("input_token_details", {}).get("cache_read") or 0,
        reasoning_tokens=metadata.get("output_token_details", {}).get("reasoning") or 0,
    )


def _fragments(chunk: AIMessageChunk, provider: Provider) -> Iterator[Fragment]:
    if old := chunk.additional_kwargs.get("function_call"):
        yield Fragment(name=old.get("name"), arguments=old.get("arguments"), old=True)
    for part in chunk.tool_call_chunks:
        index, text = part.get("index"), part.get("args")
        arguments: str | dict[str, Any] | None = text
        if not provider.exact and text and index is None and part.get("name"):
            # A call that came whole, written out again by LangChain in its own way of writing JSON.
            arguments = parse_arguments(text)[0] or text
        yield Fragment(index, part.get("id"), part.get("name"), arguments, exact=provider.exact)


def _whole_calls(message: AIMessage) -> Iterator[Fragment]:
    exact = _raw_calls(message) is not None
    for index, call in enumerate(sent_calls(message)):
        function = call["function"]
        yield Fragment(index, call["id"], function["name"], function["arguments"], exact=exact)
    if old := message.additional_kwargs.get("function_call"):
        yield Fragment(name=old.get("name"), arguments=old.get("arguments"), old=True)


# Writing.


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
    if (raw := _raw_calls(message)) is not None:
        return raw
    valid = [_sent(call["id"], call["name"], canonical(call["args"])) for call in message.tool_calls]
    return valid + [
        _sent(call["id"], call["name"], call["args"] or "") for call in message.invalid_tool_calls
    ]


def _raw_calls(message: AIMessage) -> list[dict[str, Any]] | None:
    parsed = [*message.tool_calls, *message.invalid_tool_calls]
    raw = message.additional_kwargs.get("tool_calls")
    if not raw or (parsed and _ids(raw) != _ids(parsed)):
        return None
    return [_as_sent(call) for call in raw]


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
    return [_for_request(message, model, frozenset(tools)) for message in messages]


def _for_request(message: BaseMessage, model: Runnable[Any, Any], tools: frozenset[str]) -> BaseMessage:
    provider = provider_of(model)
    if isinstance(message, ToolMessage) and message.name is not None:
        name = _request_name(message.name, provider, tools)
        return message if name == message.name else message.model_copy(update={"name": name})
    if not isinstance(message, AIMessage) or not (calls := sent_calls(message)):
        return message
    for call in calls:
        call["function"]["name"] = _request_name(call["function"]["name"], provider, tools)
    if not provider.verbatim:
        return _with_objects(message, calls)
    if asks_responses(_unbound(model)):
        return _as_items(message, calls)
    # langchain-openai sends the raw calls untouched exactly when both parsed lists are empty.
    return _with_calls(message, calls, [])


def _request_name(name: str, provider: Provider, tools: frozenset[str]) -> str:
    legal = len(name) <= provider.name_length and _LEGAL_NAME.fullmatch(name)
    return name if legal or name in tools else STAND_IN_NAME


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

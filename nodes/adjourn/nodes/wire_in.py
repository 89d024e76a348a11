"""What comes in from a provider: LangChain chunks become pieces for the assembler (C-1, C-2, C-10, C-11)."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata

from adjourn.nodes.assembly import Finish, Fragment, Piece, Usage, parse_arguments
from adjourn.nodes.kept import FIELDS, call_extras
from adjourn.nodes.listening import SENT_CALLS, SENT_FIELDS
from adjourn.nodes.providers import UNKNOWN, Provider
from adjourn.nodes.stored_form import raw_calls, sent_calls

__all__ = ["read"]

_END_KEYS: Final = ("finish_reason", "stop_reason", "done_reason", "stopReason", "finishReason")

_ENDS: Final[Mapping[str, Finish | None]] = MappingProxyType(
    {
        # What providers call the ways to end. None: they gave up in the middle, which is no end.
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
        "refusal": "refusal",
        "pause_turn": "pause",
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


def read(message: BaseMessage, provider: Provider = UNKNOWN) -> Piece:
    """What one chunk brought; or the whole turn, where a model does not stream and sends an `AIMessage`.

    A whole message has ended by the fact that it is here, whether or not it says why.
    """
    if not isinstance(message, AIMessage):
        return Piece(text=message.text)
    whole = not isinstance(message, AIMessageChunk)
    if not whole and _is_plain(message):  # most of a long stream
        return Piece(
            text=str(message.content), fragments=tuple(_fragments(cast(AIMessageChunk, message), provider))
        )
    said = _said(message)
    fragments = tuple(_whole_calls(message) if whole else _fragments(cast(AIMessageChunk, message), provider))
    finish = _finish(message.response_metadata)
    if whole and not _names_end(message.response_metadata):
        finish = "tool_calls" if fragments else "stop"
    metadata = message.response_metadata
    return Piece(
        text=said.get("text", ""),
        reasoning=said.get("reasoning", ""),
        refusal=said.get("refusal", "") or _explained(finish, metadata),
        fragments=fragments,
        finish=finish,
        usage=usage_of(message.usage_metadata),
        model=metadata.get("model_name") or metadata.get("model"),
        blocks=tuple(_blocks(message)) if provider.origin else (),
    )


_PLAIN: Final = {"model_provider": "openai"}


def _is_plain(message: AIMessage) -> bool:
    """Whether a chunk holds a piece of text or of calls and nothing else."""
    nothing_else = not message.additional_kwargs and message.usage_metadata is None
    return nothing_else and message.response_metadata == _PLAIN and isinstance(message.content, str)


def _blocks(message: AIMessage) -> Iterator[Mapping[str, Any]]:
    """What may have to go back to the provider as it came."""
    if fields := message.additional_kwargs.get(SENT_FIELDS):
        yield {"type": FIELDS, "index": FIELDS, **fields}
    content = message.content
    if isinstance(content, str):
        # one block, should others come with it; of chat completions it is the content itself
        if content and message.response_metadata.get("model_provider") == "anthropic":
            yield {"type": "text", "index": "text", "text": content}
        return
    yield from (block for block in content if isinstance(block, dict))


def _explained(finish: Finish | None, metadata: Mapping[str, Any]) -> str:
    """Why the provider broke off, where it says so: that is the answer, or its end."""
    details = metadata.get("stop_details") if finish == "refusal" else None
    return str(details.get("explanation") or "") if isinstance(details, dict) else ""


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


def usage_of(metadata: UsageMetadata | None) -> Usage | None:
    """What LangChain's report of a turn says; None where there is none."""
    if metadata is None:
        return None
    cache: Mapping[str, Any] = metadata.get("input_token_details", {})
    return Usage(
        input_tokens=_count(metadata["input_tokens"]),
        output_tokens=_count(metadata["output_tokens"]),
        cached_tokens=_count(cache.get("cache_read")),
        reasoning_tokens=_count(metadata.get("output_token_details", {}).get("reasoning")),
        cache_write_tokens=_count(sum(cache.get(key) or 0 for key in _CACHE_WRITES)),
    )


def _count(reported: int | None) -> int:
    """What a report says, in the bounds of what can be stored: a wrong one must not cost the turn."""
    return max(0, min(reported or 0, MOST_TOKENS))


MOST_TOKENS: Final = 100_000_000  # of one turn: more is a mistake, and a sum of them would not fit its column

# Anthropic tells how long what it cached is kept; then the first of them is 0.
_CACHE_WRITES: Final = ("cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")


def _fragments(chunk: AIMessageChunk, provider: Provider) -> Iterator[Fragment]:
    if old := chunk.additional_kwargs.get("function_call"):
        yield Fragment(name=old.get("name"), arguments=old.get("arguments"), old=True)
    extras = chunk.additional_kwargs.get(SENT_CALLS) or {}
    for place, part in enumerate(chunk.tool_call_chunks):
        index, text = part.get("index"), part.get("args")
        arguments: str | dict[str, Any] | None = text
        if not provider.exact and text and index is None and part.get("name"):
            # A call that came whole, written out again by LangChain in its own way of writing JSON.
            arguments = parse_arguments(text)[0] or text
        extra = extras.get(str(place)) if extras else None
        yield Fragment(index, part.get("id"), part.get("name"), arguments, exact=provider.exact, extra=extra)


def _whole_calls(message: AIMessage) -> Iterator[Fragment]:
    exact = raw_calls(message) is not None
    raw = message.additional_kwargs.get("tool_calls") or ()
    for index, call in enumerate(sent_calls(message)):
        function, extra = call["function"], (call_extras(raw[index]) or None) if exact else None
        yield Fragment(index, call["id"], function["name"], function["arguments"], exact=exact, extra=extra)
    if old := message.additional_kwargs.get("function_call"):
        yield Fragment(name=old.get("name"), arguments=old.get("arguments"), old=True)

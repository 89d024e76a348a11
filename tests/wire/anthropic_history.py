"""Whether Anthropic's messages API would take a request, and what it says if not, in its own words."""

import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_KEYS = {
    # Type of a block -> its fields; any other is an extra input.
    "text": {"text", "citations"},
    "image": {"source"},
    "document": {"source", "title", "context", "citations"},
    "tool_use": {"id", "name", "input", "caller"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
    "server_tool_use": {"id", "name", "input", "caller"},
    "web_search_tool_result": {"tool_use_id", "content", "caller"},
    "web_fetch_tool_result": {"tool_use_id", "content", "caller"},
}
_NOT_CACHED = {"thinking", "redacted_thinking"}


def refusal(body: dict[str, Any], *, prefill: bool = False) -> str | None:
    """The message of the 400 that the API answers; None for a request that it takes.

    `prefill`: whether the model lets a request end with words put into its mouth; newer ones do not.
    """
    return next(_problems(body, prefill), None)


def _problems(body: dict[str, Any], prefill: bool) -> Iterator[str]:
    if not isinstance(body.get("max_tokens"), int):
        yield "max_tokens: Field required"
    messages = body["messages"]
    if not messages:
        yield "messages: at least one message is required"
    if messages[0]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    for place, message in enumerate(messages):
        yield from _message(place, message, last=place == len(messages) - 1)
    yield from _pairs(messages)
    yield from _server_tools(messages)
    if messages[-1]["role"] == "assistant" and not prefill and not _paused(messages[-1]):
        yield (
            "This model does not support assistant message prefill. "
            "The conversation must end with a user message."
        )
    yield from _thinking(body, messages)


def blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The content of a message as blocks."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _message(place: int, message: dict[str, Any], *, last: bool) -> Iterator[str]:
    role, content = message["role"], message["content"]
    if role == "system":
        yield (
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, '
            'not "system" as an input message role.'
        )
    if not content and not (last and role == "assistant"):
        yield (
            f"messages.{place}: all messages must have non-empty content "
            "except for the optional final assistant message"
        )
    for number, block in enumerate(blocks(message)):
        yield from _block(f"messages.{place}.content.{number}", block, role)
    if last and role == "assistant" and content and blocks(message)[-1].get("text", "x")[-1:].isspace():
        yield "messages: final assistant content cannot end with trailing whitespace"


def _block(where: str, block: dict[str, Any], role: str) -> Iterator[str]:
    kind = block["type"]
    if kind not in _KEYS:
        yield f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
    allowed = _KEYS[kind] | {"type"} | (set() if kind in _NOT_CACHED else {"cache_control"})
    for extra in sorted(set(block) - allowed):
        yield f"{where}.{kind}.{extra}: Extra inputs are not permitted"
    if kind == "text" and not block["text"]:
        yield "messages: text content blocks must be non-empty"
    elif kind == "text" and not block["text"].strip():
        yield "messages: text content blocks must contain non-whitespace text"
    if kind in ("tool_use", "server_tool_use"):
        yield from _use(f"{where}.{kind}", block, role)
    if kind == "tool_result":
        if role != "user":
            yield f"{where}: `tool_result` blocks can only be in `user` messages"
        if not _ID.fullmatch(block["tool_use_id"]):
            yield f"{where}.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        if not isinstance(block.get("is_error", False), bool):
            yield f"{where}.tool_result.is_error: Input should be a valid boolean"


def _use(where: str, block: dict[str, Any], role: str) -> Iterator[str]:
    if role != "assistant":
        yield f"{where}: `tool_use` blocks can only be in `assistant` messages"
    if not isinstance(block["id"], str) or not _ID.fullmatch(block["id"]):
        yield f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not _NAME.fullmatch(block["name"]):
        yield f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if not isinstance(block["input"], dict):
        yield f"{where}.input: Input should be a valid dictionary"


def _pairs(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Each `tool_use` is answered once, at the beginning of the next message; no result stands alone."""
    turns = _merged(messages)
    seen: set[str] = set()
    for (at, before), (place, message) in zip([(-1, []), *turns], [*turns, (len(messages), [])], strict=True):
        asked = [block["id"] for block in before if block["type"] == "tool_use"]
        for id_ in asked:
            if id_ in seen:
                yield "messages: `tool_use` ids must be unique"
            seen.add(id_)
        results: list[str] = []
        for block in message:
            if block["type"] != "tool_result":
                break
            results.append(block["tool_use_id"])
        missing = [id_ for id_ in asked if id_ not in results]
        if missing:
            yield (
                f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block "
                "in the next message."
            )
        for number, block in enumerate(message):
            if block["type"] == "tool_result" and block["tool_use_id"] not in asked:
                yield (
                    f"messages.{place}.content.{number}: unexpected `tool_use_id` found in `tool_result` "
                    f"blocks: {block['tool_use_id']}. Each `tool_result` block must have a corresponding "
                    "`tool_use` block in the previous message."
                )
        for id_ in results:
            if results.count(id_) > 1:
                yield (
                    f"messages.{place}.content: each tool_use must have a single result. "
                    f"Found multiple `tool_result` blocks with id: {id_}"
                )


def _merged(messages: Sequence[dict[str, Any]]) -> list[tuple[int, list[dict[str, Any]]]]:
    """Consecutive messages of one role count as one turn."""
    turns: list[tuple[int, list[dict[str, Any]]]] = []
    role = None
    for place, message in enumerate(messages):
        if message["role"] == role:
            turns[-1][1].extend(blocks(message))
        else:
            turns.append((place, list(blocks(message))))
        role = message["role"]
    return turns


def _server_tools(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A tool of the provider's has its result in this turn or a later one; only the last turn may leave it open.

    It may where it is paused, and where it also calls tools of the client, whose results come first.
    """
    turns = _merged(messages)
    spoken = [
        number
        for number, (_, content) in enumerate(turns)
        if messages[turns[number][0]]["role"] == "assistant"
    ]
    results = {
        block["tool_use_id"]
        for _, content in turns
        for block in content
        if block["type"].endswith("_tool_result") and block["type"] != "tool_result"
    }
    for number in spoken:
        at, content = turns[number]
        asks = any(block["type"] == "tool_use" for block in content)
        if number == spoken[-1] and (asks or number == len(turns) - 1):
            continue
        for block in content:
            if block["type"] == "server_tool_use" and block["id"] not in results:
                yield (
                    f"messages.{at}: `{block['name']}` tool use with id `{block['id']}` was found without "
                    f"a corresponding `{block['name']}_tool_result` block"
                )


def _paused(message: dict[str, Any]) -> bool:
    return any(block["type"] == "server_tool_use" for block in blocks(message))


def _thinking(body: dict[str, Any], messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Thinking that stands in a request is as the model wrote it: it carries its signature."""
    for place, message in enumerate(messages):
        for number, block in enumerate(blocks(message)):
            where = f"messages.{place}.content.{number}"
            if block["type"] == "thinking" and "signature" not in block:
                yield f"{where}.thinking.signature: Field required"
            if block["type"] == "thinking" and block["signature"] != signature(block["thinking"]):
                yield f"{where}: Invalid `signature` in `thinking` block"
    if (body.get("thinking") or {}).get("type") != "enabled" or messages[-1]["role"] != "user":
        return
    answered = messages[-2] if len(messages) > 1 else None
    in_loop = answered and any(block["type"] == "tool_result" for block in blocks(messages[-1]))
    if answered and in_loop and blocks(answered)[0]["type"] not in ("thinking", "redacted_thinking"):
        yield (
            f"messages.{len(messages) - 2}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            f"`{blocks(answered)[0]['type']}`. When `thinking` is enabled, a final `assistant` message must start "
            "with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
        )


def signature(text: str) -> str:
    """What the simulated service signs its thinking with: a changed thought no longer fits it."""
    return f"sig-{zlib.crc32(text.encode()):08x}"

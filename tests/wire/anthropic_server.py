"""Anthropic's messages API on loopback: streams what a test gives it, and refuses what Anthropic refuses.

with AnthropicServer([answers(says("Hello"))]) as server:
    ChatAnthropic(base_url=server.url, api_key="x", model="claude-scripted")
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import JSONResponse, Response, StreamingResponse
from wire.anthropic_history import refusal, signature
from wire.loopback import Broken, Cut, Line, Loopback, Pause, Recorded

MODEL = "claude-scripted"

_ERRORS = {
    # Status -> the type of the error, as the API's documentation of errors lists them.
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(frozen=True)
class Block:
    """A content block: how it starts, its deltas, and odd things in between."""

    start: dict[str, Any]
    deltas: tuple[dict[str, Any] | Line | Pause | Cut, ...] = ()


Part = Block | Line | Pause | Cut


@dataclass(frozen=True)
class Reply:
    """One answer. With a `status` other than 200 it is an error; `stop=None` sends no end signal.

    `usage` stands in the last `message_delta`. `whole` sends `message_stop`.
    """

    parts: tuple[Part, ...] = ()
    stop: str | None = "end_turn"
    usage: dict[str, Any] = field(default_factory=lambda: {"input_tokens": 1, "output_tokens": 1})
    whole: bool = True
    details: dict[str, Any] | None = None
    status: int = 200
    message: str = "Internal server error"
    headers: dict[str, str] = field(default_factory=dict)


def answers(
    *parts: Part,
    stop: str | None = "end_turn",
    usage: dict[str, Any] | None = None,
    whole: bool = True,
    details: dict[str, Any] | None = None,
) -> Reply:
    """A streamed turn. Asked without `stream`, it comes as one message."""
    used = usage or {"input_tokens": 1, "output_tokens": 1}
    return Reply(parts, stop, used, whole, details)


def fails(status: int, message: str = "", *, retry_after_s: float | None = None) -> Reply:
    """An HTTP error."""
    headers = {} if retry_after_s is None else {"retry-after": f"{retry_after_s:g}"}
    return Reply(status=status, message=message or f"error {status}", headers=headers)


def says(*pieces: str) -> Block:
    """Text."""
    return Block(
        {"type": "text", "text": ""}, tuple({"type": "text_delta", "text": piece} for piece in pieces)
    )


def uses(id: str, name: str, *pieces: str, kind: str = "tool_use") -> Block:
    """A call: its input in pieces of JSON; none for a tool without parameters."""
    start = {"type": kind, "id": id, "name": name, "input": {}}
    return Block(start, tuple({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def thinks(*pieces: str) -> Block:
    """Thinking, with the signature that belongs to it."""
    said: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    said.append({"type": "signature_delta", "signature": signature("".join(pieces))})
    return Block({"type": "thinking", "thinking": "", "signature": ""}, tuple(said))


def whole(**block: Any) -> Block:
    """A block that comes as one: the result of a tool of the provider's, thinking that is not shown."""
    return Block(block)


def error_event(kind: str = "overloaded_error", message: str = "Overloaded") -> Line:
    """An error in the middle of a stream that began with a 200."""
    return Line(_event("error", {"error": {"type": kind, "message": message}}))


PING = Line('event: ping\ndata: {"type": "ping"}\n\n')


class AnthropicServer(Loopback[Reply]):
    """The messages API at `url`: see `Loopback`. `prefill`: see `refusal`."""

    paths = ("/v1/messages",)
    prefill = False

    def refused(self, recorded: Recorded, path: str) -> Response | None:
        wrong = refusal(recorded.body, prefill=self.prefill)
        return None if wrong is None else _error(400, wrong)

    def turns(self, recorded: Recorded) -> int:
        return sum(message["role"] == "assistant" for message in recorded.messages)

    def respond(self, reply: Reply | None, recorded: Recorded, path: str) -> Response:
        if reply is None:
            return _error(418, f"the script has {len(self.replies)} replies, one more was asked for")
        if reply.status != 200:
            return _error(reply.status, reply.message, headers=reply.headers)
        if not recorded.body.get("stream"):
            return JSONResponse(_whole(reply), headers=reply.headers)
        return StreamingResponse(_events(reply), media_type="text/event-stream", headers=reply.headers)


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    kind = _ERRORS.get(status, "api_error")
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return JSONResponse(body, status_code=status, headers=headers)


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data}, ensure_ascii=False)}\n\n"


def _message(content: Sequence[dict[str, Any]], usage: dict[str, Any], stop: str | None) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


async def _events(reply: Reply) -> AsyncIterator[str]:
    usage = {**reply.usage, "output_tokens": 1}
    yield _event("message_start", {"message": _message([], usage, None)})
    number = 0
    for part in reply.parts:
        if isinstance(part, Block):
            async for line in _block(number, part):
                yield line
            number += 1
        else:
            yield await _odd(part)
    if reply.stop is not None:
        delta: dict[str, Any] = {"stop_reason": reply.stop, "stop_sequence": None}
        if reply.details is not None:
            delta["stop_details"] = reply.details
        yield _event("message_delta", {"delta": delta, "usage": reply.usage})
    if reply.whole:
        yield _event("message_stop", {})


async def _block(number: int, block: Block) -> AsyncIterator[str]:
    yield _event("content_block_start", {"index": number, "content_block": block.start})
    if number == 0:
        yield PING.text
    for delta in block.deltas:
        if isinstance(delta, dict):
            yield _event("content_block_delta", {"index": number, "delta": delta})
        else:
            yield await _odd(delta)
    yield _event("content_block_stop", {"index": number})


async def _odd(part: Line | Pause | Cut) -> str:
    match part:
        case Cut():
            await asyncio.sleep(0.02)  # what was sent so far must leave first
            raise Broken
        case Pause(seconds):
            await asyncio.sleep(seconds)
            return ""
        case Line(text):
            return text


def _whole(reply: Reply) -> dict[str, Any]:
    """The same turn as one message, for a request without `stream`."""
    content = [_joined(part) for part in reply.parts if isinstance(part, Block)]
    return _message(content, reply.usage, reply.stop)


def _joined(block: Block) -> dict[str, Any]:
    made = dict(block.start)
    for key, text in _texts(block):
        made[key] = made.get(key, "") + text
    if "partial_json" in made:
        made["input"] = json.loads(made.pop("partial_json") or "{}")
    return made


def _texts(block: Block) -> Iterator[tuple[str, str]]:
    for delta in block.deltas:
        if isinstance(delta, dict):
            yield from ((key, text) for key, text in delta.items() if key != "type")

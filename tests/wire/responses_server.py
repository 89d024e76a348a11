"""OpenAI's Responses API on loopback: streams items that a test gives it, and refuses what OpenAI refuses.

with ResponsesServer([responds(message("Hello"))]) as server:
    ChatOpenAI(base_url=server.url, api_key="x", model="gpt-scripted", use_responses_api=True)
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import JSONResponse, Response, StreamingResponse
from wire.loopback import Broken, Cut, Loopback, Recorded

MODEL = "gpt-scripted"


@dataclass(frozen=True)
class Item:
    """An item of the output: how it is when it is whole, and the events between its beginning and its end."""

    whole: dict[str, Any]
    added: dict[str, Any]
    events: tuple[dict[str, Any] | Cut, ...] = ()


@dataclass(frozen=True)
class Reply:
    """One answer. `status` is the response's; None: the stream ends without a word. `error` is told before it."""

    items: tuple[Item, ...] = ()
    status: str | None = "completed"
    incomplete: str | None = None
    error: dict[str, Any] | None = None
    usage: dict[str, Any] = field(
        default_factory=lambda: {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        }
    )


def responds(*items: Item, status: str | None = "completed", **settings: Any) -> Reply:
    """A turn. Asked without `stream`, it comes as one response."""
    return Reply(items, status, **settings)


def used(input: int, output: int, cached: int = 0, reasoning: int = 0) -> dict[str, Any]:
    """What `usage` says."""
    return {
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": input + output,
    }


def message(*pieces: str | Cut, id: str = "msg_1") -> Item:
    """Text."""
    text = "".join(piece for piece in pieces if isinstance(piece, str))
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    deltas = [
        piece
        if isinstance(piece, Cut)
        else {"type": "response.output_text.delta", "content_index": 0, "delta": piece, "logprobs": []}
        for piece in pieces
    ]
    begins = {"type": "response.content_part.added", "content_index": 0, "part": {**part, "text": ""}}
    ends = {"type": "response.output_text.done", "content_index": 0, "text": text, "logprobs": []}
    whole = {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": [part]}
    return Item(whole, {**whole, "status": "in_progress", "content": []}, (begins, *deltas, ends))


def refuses(text: str, id: str = "msg_1") -> Item:
    """A refusal."""
    part = {"type": "refusal", "refusal": text}
    done = {"type": "response.refusal.done", "content_index": 0, "refusal": text}
    whole = {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": [part]}
    return Item(whole, {**whole, "status": "in_progress", "content": []}, (done,))


def calls(call_id: str, name: str, *pieces: str, id: str = "fc_1") -> Item:
    """A call: its arguments in pieces."""
    whole = {
        "type": "function_call",
        "id": id,
        "call_id": call_id,
        "name": name,
        "arguments": "".join(pieces),
        "status": "completed",
    }
    deltas = [{"type": "response.function_call_arguments.delta", "delta": piece} for piece in pieces]
    return Item(whole, {**whole, "arguments": "", "status": "in_progress"}, tuple(deltas))


def reasons(*pieces: str, id: str = "rs_1", encrypted: str | None = "gAAAAABo") -> Item:
    """Reasoning: its summary in pieces, and the sealed form that a request may carry."""
    summary = [{"type": "summary_text", "text": "".join(pieces)}] if pieces else []
    whole = {"type": "reasoning", "id": id, "summary": summary, "encrypted_content": encrypted}
    events: list[dict[str, Any]] = []
    if pieces:
        part = {"type": "summary_text", "text": ""}
        events.append({"type": "response.reasoning_summary_part.added", "summary_index": 0, "part": part})
    events += [
        {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": piece}
        for piece in pieces
    ]
    return Item(whole, {**whole, "summary": [], "encrypted_content": None}, tuple(events))


def searches(query: str, id: str = "ws_1") -> Item:
    """A search that the provider runs itself."""
    whole = {
        "type": "web_search_call",
        "id": id,
        "status": "completed",
        "action": {"type": "search", "query": query},
    }
    return Item(
        whole, {"type": "web_search_call", "id": id, "status": "in_progress", "action": whole["action"]}
    )


class ResponsesServer(Loopback[Reply]):
    """The Responses API at `url`: see `Loopback`."""

    paths = ("/v1/responses",)
    prefix = "/v1"

    def refused(self, recorded: Recorded, path: str) -> Response | None:
        wrong = next(_problems(recorded.body), None)
        return None if wrong is None else _error(400, wrong)

    def turns(self, recorded: Recorded) -> int:
        return sum(item.get("role") == "assistant" for item in recorded.body["input"])

    def respond(self, reply: Reply | None, recorded: Recorded, path: str) -> Response:
        if reply is None:
            return _error(418, f"the script has {len(self.replies)} replies, one more was asked for")
        if not recorded.body.get("stream"):
            return JSONResponse(_response(reply, reply.status))
        return StreamingResponse(_events(reply), media_type="text/event-stream")


def _problems(body: dict[str, Any]) -> Iterator[str]:
    """What the API says about an input that does not hang together."""
    items = body["input"]
    asked = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answered = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    for call_id in answered:
        if call_id not in asked:
            yield f"No tool call found for function call output with call_id {call_id}."
    for call_id in asked:
        if call_id not in answered:
            yield f"No tool output found for function call {call_id}."
    yield from _reasoning(items, stored=body.get("store") is not False)
    for place, item in enumerate(items):
        if item.get("role") not in (None, "user", "assistant", "system", "developer"):
            yield (
                f"Invalid value: '{item['role']}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
            )
        for part in item.get("content") or () if isinstance(item.get("content"), list) else ():
            if part["type"] not in ("input_text", "output_text", "refusal", "input_image", "input_file"):
                yield (
                    f"Invalid value: '{part['type']}'. Supported values are: 'input_text', 'input_image', "
                    f"'output_text', 'refusal', 'input_file'. (input[{place}])"
                )


def _reasoning(items: Sequence[dict[str, Any]], *, stored: bool) -> Iterator[str]:
    """Reasoning and what follows it belong together; without a store it is sent sealed or not at all."""
    for place, item in enumerate(items):
        follower = items[place + 1].get("type") if place + 1 < len(items) else None
        if item.get("type") == "reasoning":
            if follower not in ("message", "function_call", "web_search_call", "reasoning"):
                yield f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
            if not stored and not item.get("encrypted_content"):
                yield (
                    f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false. "
                    "Try again with `store` set to true, or remove this item from your input."
                )
        before = items[place - 1].get("type") if place else None
        if (
            item.get("type") == "function_call"
            and item.get("id")
            and before not in ("reasoning", "function_call", "message")
        ):
            yield (
                f"Item '{item['id']}' of type 'function_call' was provided without its required 'reasoning' item."
            )


def _error(status: int, words: str) -> Response:
    body = {"message": words, "type": "invalid_request_error", "param": "input", "code": None}
    return JSONResponse({"error": body}, status_code=status)


def _response(reply: Reply, status: str | None) -> dict[str, Any]:
    ended = status not in (None, "in_progress")
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status or "in_progress",
        "error": reply.error if status == "failed" else None,
        "incomplete_details": {"reason": reply.incomplete} if reply.incomplete and ended else None,
        "instructions": None,
        "metadata": {},
        "model": MODEL,
        "output": [item.whole for item in reply.items] if ended else [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": reply.usage if ended else None,
    }


async def _events(reply: Reply) -> AsyncIterator[str]:
    for number, event in enumerate(_told(reply)):
        if isinstance(event, Cut):
            await asyncio.sleep(0.02)  # what was sent so far must leave first
            raise Broken
        data = json.dumps({**event, "sequence_number": number}, ensure_ascii=False)
        yield f"event: {event['type']}\ndata: {data}\n\n"


def _told(reply: Reply) -> Iterator[dict[str, Any] | Cut]:
    for word in ("created", "in_progress"):
        yield {"type": f"response.{word}", "response": _response(reply, "in_progress")}
    for index, item in enumerate(reply.items):
        yield {"type": "response.output_item.added", "output_index": index, "item": item.added}
        for event in item.events:
            yield (
                event
                if isinstance(event, Cut)
                else {
                    **event,
                    "output_index": index,
                    "item_id": item.whole["id"],
                }
            )
        yield {"type": "response.output_item.done", "output_index": index, "item": item.whole}
    if reply.status == "error":
        yield {"type": "error", **(reply.error or {}), "param": None}
    elif reply.status is not None:
        yield {"type": f"response.{reply.status}", "response": _response(reply, reply.status)}

"""A small OpenAI-compatible server on loopback: streams what a test gives it, and refuses what OpenAI refuses.

    with OpenAIServer([streams("Hello", finish="stop")]) as server:
        ChatOpenAI(base_url=server.url, api_key="x", model="scripted")

As a program it prints its URL and plays a script until it is ended:

    python tests/wire/openai_server.py SCRIPT.json [--by-history] [--log REQUESTS.jsonl]

where the script is a list of objects with the fields of `Reply` (deltas as in `streams`).
"""

import argparse
import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse, Response, StreamingResponse
from wire.loopback import Broken, Cut, Line, Loopback, Pause, Recorded, Wait
from wire.openai_history import refusal

MODEL = "scripted-1"


@dataclass(frozen=True)
class Chunk:
    """A whole chunk, sent as one event: for chunks without choices and other odd shapes."""

    data: dict[str, Any]


Delta = str | dict[str, Any] | list[dict[str, Any]] | Line | Chunk | Pause | Wait | Cut
"""A text delta, a whole delta, the `tool_calls` of a delta, or one of the classes above."""


@dataclass(frozen=True)
class Reply:
    """One answer. With a `status` other than 200 it is an error; `finish=None` sends no end signal.

    `usage` is (prompt tokens, completion tokens) in a last chunk without choices. `done` sends `[DONE]`,
    `first` the chunk that begins a turn and holds its role.
    """

    deltas: tuple[Delta, ...] = ()
    finish: str | None = "stop"
    usage: tuple[int, int] | None = None
    done: bool = True
    status: int = 200
    message: str = "The server had an error while processing your request."
    headers: dict[str, str] = field(default_factory=dict)
    first: bool = True


def streams(
    *deltas: Delta,
    finish: str | None = "stop",
    usage: tuple[int, int] | None = None,
    done: bool = True,
    first: bool = True,
) -> Reply:
    """A streamed turn, one chunk per delta. Asked without `stream`, it comes as one message."""
    return Reply(deltas, finish, usage, done, first=first)


def fails(status: int, message: str = "", *, retry_after_s: float | None = None) -> Reply:
    """An HTTP error."""
    headers = {} if retry_after_s is None else {"retry-after": f"{retry_after_s:g}"}
    return Reply(status=status, message=message or f"error {status}", headers=headers)


def fragment(
    index: int | None = None,
    id: str | None = None,
    name: str | None = None,
    arguments: Any = None,
) -> dict[str, Any]:
    """An entry of a delta's `tool_calls`; what is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    entry = {"index": index, "id": id, "type": "function" if id else None, "function": function}
    return {key: value for key, value in entry.items() if value is not None}


class OpenAIServer(Loopback[Reply]):
    """Chat completions at `url`: see `Loopback`."""

    paths = ("/v1/chat/completions",)
    prefix = "/v1"

    def refused(self, recorded: Recorded, path: str) -> Response | None:
        wrong = refusal(recorded.messages)
        return None if wrong is None else _error(400, *wrong)

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


def _error(
    status: int, message: str, param: str | None = None, headers: dict[str, str] | None = None
) -> Response:
    kinds = {400: "invalid_request_error", 401: "invalid_request_error", 429: "requests"}
    code = "rate_limit_exceeded" if status == 429 else None
    error = {"message": message, "type": kinds.get(status, "server_error"), "param": param, "code": code}
    return JSONResponse({"error": error}, status_code=status, headers=headers)


def _envelope(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": MODEL}


def _chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _event({**_envelope("chat.completion.chunk"), "choices": [choice]})


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


def _usage(usage: tuple[int, int]) -> dict[str, int]:
    prompt, completion = usage
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


async def _events(reply: Reply) -> AsyncIterator[str]:
    if reply.first:
        yield _chunk({"role": "assistant", "content": ""})
    for delta in reply.deltas:
        match delta:
            case Cut():
                await asyncio.sleep(0.02)  # what was sent so far must leave first
                raise Broken
            case Pause(seconds):
                await asyncio.sleep(seconds)
            case Wait(event):
                if not await asyncio.to_thread(event.wait, 5):
                    raise Broken
            case Line(text):
                yield text
            case Chunk(data):
                yield _event({**_envelope("chat.completion.chunk"), **data})
            case _:
                yield _chunk(_delta(delta))
    if reply.finish is not None:
        yield _chunk({}, reply.finish)
    if reply.usage is not None:
        yield _event({**_envelope("chat.completion.chunk"), "choices": [], "usage": _usage(reply.usage)})
    if reply.done:
        yield "data: [DONE]\n\n"


def _delta(delta: Any) -> dict[str, Any]:
    if isinstance(delta, str):
        return {"content": delta}
    if isinstance(delta, list):
        return {"tool_calls": delta}
    plain: dict[str, Any] = delta
    return plain


def _whole(reply: Reply) -> dict[str, Any]:
    """The same turn as one message, for a request without `stream`."""
    deltas = [_delta(delta) for delta in reply.deltas if isinstance(delta, str | dict | list)]
    message: dict[str, Any] = {"role": "assistant", "content": _joined(deltas, "content")}
    if refused := _joined(deltas, "refusal"):
        message["refusal"] = refused
    if calls := list(_joined_calls(deltas)):
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": reply.finish}
    usage = {"usage": _usage(reply.usage)} if reply.usage is not None else {}
    return {**_envelope("chat.completion"), "choices": [choice], **usage}


def _joined(deltas: Sequence[dict[str, Any]], key: str) -> str | None:
    return "".join(delta.get(key) or "" for delta in deltas) or None


def _joined_calls(deltas: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Well-formed fragments by index; odd ones belong in streams."""
    by_index: dict[int, dict[str, Any]] = {}
    for entry in (entry for delta in deltas for entry in delta.get("tool_calls") or ()):
        new = {"id": "", "type": "function", "function": {"name": "", "arguments": None}}
        call = by_index.setdefault(entry["index"], new)
        call["id"] = call["id"] or entry.get("id") or ""
        function, piece = call["function"], entry.get("function") or {}
        function["name"] += piece.get("name") or ""
        if (arguments := piece.get("arguments")) is not None:
            before = function["arguments"]
            function["arguments"] = arguments if before is None else before + arguments
    yield from (by_index[index] for index in sorted(by_index))


def _from_json(data: dict[str, Any]) -> Reply:
    fields = {**data, "deltas": tuple(data.get("deltas", ()))}
    if isinstance(usage := fields.get("usage"), list):
        fields["usage"] = tuple(usage)
    return Reply(**fields)


def main() -> None:
    """Play a script from a file until the process is ended."""
    parser = argparse.ArgumentParser(description="an OpenAI-compatible server that plays a script")
    parser.add_argument("script", type=Path)
    parser.add_argument("--by-history", action="store_true")
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    replies = [_from_json(data) for data in json.loads(options.script.read_text())]
    with OpenAIServer(replies, by_history=options.by_history, log=options.log) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()

"""A server on loopback that streams as many fragments as the model's name says: `text/12800`, `a call/12800`.

It imports little, so that it is there at once, and prints its port.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

FRAGMENT = "abcd "


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    envelope = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**envelope, "choices": [choice]}).encode() + b"\n\n"


def _call(arguments: str, **first: str) -> bytes:
    function = {"arguments": arguments, **({"name": first["name"]} if first else {})}
    entry: dict[str, Any] = {"index": 0, "function": function}
    if first:
        entry |= {"id": first["id"], "type": "function"}
    return _chunk({"tool_calls": [entry]})


def _stream(kind: str, fragments: int) -> Iterator[bytes]:
    """So many fragments, and what stands around them."""
    yield _chunk({"role": "assistant", "content": ""})
    if kind == "text":
        yield from [_chunk({"content": FRAGMENT})] * fragments
        yield _chunk({}, "stop")
    else:
        yield _call("", id="call_a", name="save")
        yield _call('{"text":"')
        yield from [_call(FRAGMENT)] * fragments
        yield _call('"}')
        yield _chunk({}, "tool_calls")
    yield b"data: [DONE]\n\n"


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        except (asyncio.IncompleteReadError, ConnectionError):
            break
        length = next(line for line in head.split("\r\n") if line.startswith("content-length"))
        body = json.loads(await reader.readexactly(int(length.partition(":")[2])))
        kind, _, fragments = body["model"].partition("/")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for part in _stream(kind, int(fragments)):
            writer.write(b"%x\r\n%s\r\n" % (len(part), part))
        writer.write(b"0\r\n\r\n")
        await writer.drain()
    writer.close()


async def _serve() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())

"""A database that is some milliseconds away: a proxy on loopback, in a process of its own, that hands on each piece late.

    with away(url, 1.0) as far: ...   # what is sent arrives half a millisecond later, and so does each answer

Pieces do not wait for each other: it delays, and limits nothing else.
"""

import asyncio
import selectors
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa


@contextmanager
def away(url: str, there_and_back_ms: float) -> Iterator[str]:
    """The URL under which the database at `url` is reached that late."""
    at = sa.make_url(url)
    words = [str(there_and_back_ms), at.query.get("host") or at.host or "", str(at.port or 5432)]
    proxy = subprocess.Popen([sys.executable, __file__, *map(str, words)], stdout=subprocess.PIPE, text=True)
    try:
        assert proxy.stdout is not None
        port = int(proxy.stdout.readline())
        far = at.difference_update_query(["host"]).set(host="127.0.0.1", port=port)
        yield far.render_as_string(hide_password=False)
    finally:
        proxy.terminate()
        proxy.wait()


async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late_s: float) -> None:
    """Hand on what is read, each piece so much later."""
    loop = asyncio.get_running_loop()
    while piece := await reader.read(1 << 16):
        loop.call_later(late_s, writer.write, piece)
    loop.call_later(late_s, writer.close)


async def serve(late_s: float, host: str, port: int) -> None:
    """Say the port, then hand on until the process is stopped."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = (
            asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
            if host.startswith("/")
            else asyncio.open_connection(host, port)
        )
        their_reader, their_writer = await there
        for one in (writer, their_writer):
            made: socket.socket = one.get_extra_info("socket")
            if made.family != socket.AF_UNIX:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.gather(hand_on(reader, their_writer, late_s), hand_on(their_reader, writer, late_s))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def loop() -> asyncio.AbstractEventLoop:
    """One that is exact: `epoll` waits for whole milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(serve(float(sys.argv[1]) / 2000, sys.argv[2], int(sys.argv[3])))

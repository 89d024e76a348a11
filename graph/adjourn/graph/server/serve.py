"""`adjourn serve`: the server in a process of its own, which goes in order when it is told to (SIGTERM, Ctrl-C)."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

from adjourn.checkpoints.errors import UsageError
from adjourn.graph.runner import Runner
from adjourn.graph.server.desk import Desk

CLOSE_S = 5  # for answers that are on their way; event streams are closed at once


class Server(uvicorn.Server):
    """uvicorn's, which begins to hand runs back at the signal, and leaves its end to the caller.

    uvicorn raises the signal again when it has ended, which would take the process down before it has let go of the
    runs where it was told twice.
    """

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer requests, and say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals while inside."""
        loop = asyncio.get_running_loop()
        taken = (signal.SIGINT, signal.SIGTERM)
        for one in taken:
            loop.add_signal_handler(one, self._told, one)
        try:
            yield
        finally:
            for one in taken:
                loop.remove_signal_handler(one)

    def _told(self, number: signal.Signals) -> None:
        desk: Desk | None = getattr(self.config.app.state, "desk", None)  # type: ignore[union-attr]
        if desk is not None and not self.should_exit:
            desk.hosting.go()
        elif desk is not None:
            desk.hosting.hurry()
        self.force_exit = self.should_exit  # told twice
        self.handle_exit(number, None)


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens; `port` 0: any that is free. Raises `UsageError` when the place is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # named as TCP: only then asyncio lets small answers go at once, and not 40 ms later
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host.strip("[]"), port))
        made.listen(2048)
    except OSError as error:
        made.close()
        raise UsageError(f"cannot listen at {host}, port {port}: {error.strerror or error}") from error
    return made


def serve(app: Starlette, runner: Runner, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until a signal comes; then hand the runs back. `ready` is called when requests are answered.

    Raises `UsageError` when it cannot start; its log has told why.
    """
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=CLOSE_S
    )
    server = Server(config, ready)

    async def run() -> None:
        await server.serve(sockets=[listening])
        await runner.drain(0)  # told twice, it has not waited: what still works is left to its lease

    asyncio.run(run())
    if not server.started:
        raise UsageError("the server could not start; what it wrote above tells why")

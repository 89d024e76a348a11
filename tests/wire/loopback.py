"""A server on loopback, in a thread of its own: plays the replies that a test gives it, and keeps every request."""

import asyncio
import itertools
import json
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

# langchain-openai keeps one client for each address of a process, also after it was closed, and ports come back:
# each server has a path of its own.
_SERIAL = itertools.count(1)


@dataclass(frozen=True)
class Line:
    """A raw piece of the body, sent as it is: a comment, a ping, half an event."""

    text: str


@dataclass(frozen=True)
class Pause:
    """Nothing is sent for `seconds`."""

    seconds: float


@dataclass(frozen=True)
class Wait:
    """Nothing is sent until the test has set `event`; after five seconds the connection breaks."""

    event: threading.Event


class Cut:
    """The connection breaks here, in the middle of the body."""


class Broken(Exception):
    """Ends the response in the middle: uvicorn then closes the connection without a last chunk."""


@dataclass(frozen=True)
class Recorded:
    """A request as it came: the bytes of its body, and what they say."""

    raw: bytes
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def messages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.body["messages"]
        return found


ReplyT = TypeVar("ReplyT")


class Loopback(ABC, Generic[ReplyT]):
    """The server between `start` and `stop` (or as a context manager).

    The n-th request gets the n-th reply; with `by_history=True` the reply is chosen by the number of
    assistant messages in the request, so that a restarted client goes on in place. A history that the real
    service would refuse is answered 400 and uses up no reply. `requests` holds every request, the refused ones too.
    """

    paths: Sequence[str] = ()
    prefix = ""

    def __init__(
        self, replies: Sequence[ReplyT] = (), *, by_history: bool = False, log: Path | None = None
    ) -> None:
        self.replies = list(replies)
        self.requests: list[Recorded] = []
        self._by_history = by_history
        self._log = log
        self._given = 0
        self._socket = socket.socket()
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._serial = next(_SERIAL)

    @property
    def url(self) -> str:
        """What `base_url` must be."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/{self._serial}{self.prefix}"

    def start(self) -> Self:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(128)  # a client may connect from now on, also before the loop runs
        routes = [Route(f"/{{serial}}{path}", self._answer, methods=["POST"]) for path in self.paths]
        config = uvicorn.Config(
            Starlette(routes=routes), log_level="critical", lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name=type(self).__name__)
        self._thread.start()
        return self

    def _run(self) -> None:
        assert self._server is not None
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(timeout=5)
            assert not self._thread.is_alive(), "the server did not stop"
        self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def _answer(self, request: Request) -> Response:
        raw = await request.body()
        recorded = Recorded(raw, json.loads(raw), dict(request.headers))
        self.requests.append(recorded)
        if self._log is not None:
            with self._log.open("ab") as log:
                log.write(raw + b"\n")
        if (refused := self.refused(recorded, request.url.path)) is not None:
            return refused
        number = self.turns(recorded) if self._by_history else self._given
        self._given += 1
        reply = self.replies[number] if number < len(self.replies) else None
        return self.respond(reply, recorded, request.url.path)

    @abstractmethod
    def refused(self, recorded: Recorded, path: str) -> Response | None:
        """The answer to a request that the real service would refuse; None for any other."""

    @abstractmethod
    def turns(self, recorded: Recorded) -> int:
        """How many turns of the model the request holds."""

    @abstractmethod
    def respond(self, reply: ReplyT | None, recorded: Recorded, path: str) -> Response:
        """The reply as bytes; None: the script is at its end."""

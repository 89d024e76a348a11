"""Events over HTTP: Server-Sent Events that a listener takes up again with `Last-Event-ID`, or stored ones as JSON.

A stored event's number is its id. `text_delta` and pings carry no id, so that a listener that reconnects asks for
what it has not seen. The stream closes when the run waits for people or ends; a listener that leaves stops nothing.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from adjourn.checkpoints.events import Event
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.checkpoints.records import to_json
from adjourn.graph.server.desk import Desk, caller_of, desk_of, own_run, query_of, shown
from adjourn.graph.server.problems import Refused
from adjourn.graph.server.shapes import EventList, EventShown, EventsQuery

log = logging.getLogger("adjourn.server")

PING_S = 15.0  # proxies cut connections that are silent for a minute, some after 30 s
SEND_S = 60.0  # a listener that takes nothing for so long is gone
GRACE_S = 2.0  # for the last frames of a stream when the server goes
LONGEST_ID = 15  # digits: more events than any run has
RETRY_MS = 1000  # after which a browser reconnects


async def events(request: Request) -> Response:
    """The events of a run of the caller's after `Last-Event-ID` (or `after`), stored and live.

    204 when there is nothing and nothing will come before somebody answers; an EventSource then stops asking.
    With `Accept: application/json`: the stored ones, at once.
    """
    desk, run = desk_of(request), await own_run(request)
    after = last_seen(request)
    if "application/json" in request.headers.get("accept", ""):
        stored = await desk.runner.events(run.id, after=after)
        return shown(EventList(events=[EventShown.model_validate(one.to_dict()) for one in stored]))
    if run.row.last_event <= after and run.status != RunStatus.RUNNING:
        return Response(status_code=204)
    if desk.hosting.closing.is_set():
        raise desk.hosting.refusal()
    who = caller_of(request).name or "@"
    desk.streams.must_have_room(who)
    frames = _frames(desk.runner.follow(run.id, after=after), desk, who)
    # the library would break the connection when the server goes; until its grace is over, the frames have ended
    return _Stream(
        frames, ping=PING_S, send_timeout=SEND_S, shutdown_event=anyio.Event(), shutdown_grace_period=GRACE_S
    )


class _Stream(EventSourceResponse):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except TimeoutError:
            log.info("a listener of %s took nothing for %g s and was let go", scope["path"], SEND_S)


def last_seen(request: Request) -> int:
    """The number after which events are wanted. Raises `Refused` (400) for a header that holds none."""
    header = request.headers.get("last-event-id")
    if header is None:
        return query_of(request, EventsQuery).after
    if not header.isdecimal() or len(header) > LONGEST_ID:
        raise Refused(400, "invalid_event_id", "Last-Event-ID is the number of the last event that you got")
    return int(header)


async def _frames(told: AsyncGenerator[Event], desk: Desk, who: str) -> AsyncIterator[ServerSentEvent]:
    with desk.streams.one(who):
        async with aclosing(_until(desk.hosting.closing, told)) as events_:
            yield ServerSentEvent(retry=RETRY_MS)
            async for event in events_:
                yield frame(event)


async def _until(closing: asyncio.Event, told: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
    """What is told, until the server goes."""
    async with aclosing(told):
        going = asyncio.create_task(closing.wait())
        try:
            while True:
                coming = asyncio.ensure_future(anext(told, None))
                try:
                    await asyncio.wait({coming, going}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not coming.done():
                        coming.cancel()
                        with anyio.CancelScope(shield=True):  # a listener that left: it must end all the same
                            await asyncio.wait({coming})
                if coming.cancelled() or (event := coming.result()) is None:
                    return
                yield event
        finally:
            going.cancel()


def frame(event: Event) -> ServerSentEvent:
    """An event as it is sent. Its number is the id; a delta has none."""
    number = None if event.number is None else str(event.number)
    return ServerSentEvent(to_json(event.to_dict()), event=event.word, id=number)

"""The routes as a table: what each takes and gives. Starlette's routes and the OpenAPI description are made of it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from adjourn.graph.server import inbox_routes, run_routes, sse
from adjourn.graph.server.shapes import (
    AnswersRequest,
    AnswersTaken,
    EventList,
    EventsQuery,
    Health,
    Inbox,
    ListQuery,
    Me,
    RunList,
    RunShown,
    StartRequest,
)

Handler = Callable[[Request], Awaitable[Response]]
Shape = type[BaseModel]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route. `gives`: status -> shapes, any of which its JSON has; none: no body. `streams`: also as events.

    `headers`: those that it looks at, with what they mean. `problems`: the statuses it may refuse with, beside those that
    each route has. `public`: anybody may ask.
    """

    method: str
    path: str
    handler: Handler
    gives: Mapping[int, Sequence[Shape]]
    takes: Shape | None = None
    query: Shape | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    problems: Sequence[int] = ()
    streams: bool = False
    public: bool = False

    @property
    def name(self) -> str:
        """Its `operationId`."""
        return self.handler.__name__

    @property
    def texts(self) -> tuple[str, str]:
        """Its first sentence, and the rest, from what the handler says about itself."""
        first, _, rest = (self.handler.__doc__ or "").partition("\n")
        return first.strip(), "\n".join(line.strip() for line in rest.strip().splitlines())


_WAIT = {
    "Prefer": "`wait=N`: answer when the run waits for people or has ended, at most N seconds later (RFC 7240)."
}
_KEY = {
    "Idempotency-Key": "A text of your own. Sent twice, it starts one run, and gives that run both times."
}
_LAST = {"Last-Event-ID": "The number of the last event that you got; only later ones come."}

ENDPOINTS: Sequence[Endpoint] = (
    Endpoint(
        "POST", "/runs", run_routes.start, {201: [RunShown], 200: [RunShown]},
        takes=StartRequest, headers={**_KEY, **_WAIT}, problems=(400, 403, 409, 413, 415, 422, 503),
    ),
    Endpoint("GET", "/runs", run_routes.list_runs, {200: [RunList]}, query=ListQuery, problems=(422,)),
    Endpoint("GET", "/runs/{run_id}", run_routes.show, {200: [RunShown]}, problems=(404,)),
    Endpoint(
        "POST", "/runs/{run_id}/answers", run_routes.answer, {200: [RunShown, AnswersTaken]},
        takes=AnswersRequest, headers=_WAIT, problems=(400, 403, 404, 409, 413, 415, 422, 503),
    ),
    Endpoint(
        "POST", "/runs/{run_id}/retry", run_routes.retry, {200: [RunShown]},
        headers=_WAIT, problems=(403, 404, 409, 422, 503),
    ),
    Endpoint("POST", "/runs/{run_id}/cancel", run_routes.cancel, {200: [RunShown]}, problems=(403, 404)),
    Endpoint(
        "GET", "/runs/{run_id}/events", sse.events, {200: [EventList], 204: []},
        query=EventsQuery, headers=_LAST, problems=(400, 404, 422), streams=True,
    ),
    Endpoint("GET", "/inbox", inbox_routes.inbox, {200: [Inbox]}),
    Endpoint("GET", "/me", inbox_routes.me, {200: [Me]}),
    Endpoint("GET", "/healthz", inbox_routes.health, {200: [Health], 503: [Health]}, public=True),
)  # fmt: skip

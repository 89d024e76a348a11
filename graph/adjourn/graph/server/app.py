"""The server as an ASGI application: the table of routes, the page, and what every request passes."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from adjourn.graph.runner import Runner
from adjourn.graph.server.access import Access
from adjourn.graph.server.bounds import Bounds, Streams
from adjourn.graph.server.desk import Admit, ContextOf, Desk
from adjourn.graph.server.entrance import Entrance, Rates
from adjourn.graph.server.hosting import DRAIN_S, SWEEP_S, Hosting
from adjourn.graph.server.inbox import assets, page
from adjourn.graph.server.metrics_page import metrics
from adjourn.graph.server.openapi import description
from adjourn.graph.server.problems import HANDLERS
from adjourn.graph.server.table import ENDPOINTS

_PUBLIC = frozenset({"/", "/openapi.json", "/favicon.ico", *(one.path for one in ENDPOINTS if one.public)})


def make_app(
    runner: Runner,
    access: Access | None = None,
    bounds: Bounds | None = None,
    *,
    admit: Admit | None = None,
    context: ContextOf | None = None,
    drain_s: float = DRAIN_S,
    sweep_s: float = SWEEP_S,
) -> Starlette:
    """The server of one runner, to be run by any ASGI server, with one worker process for each runner.

    - `access`: who may come in; None: who calls on loopback, without a token. A server that others can reach needs
      tokens, which this function cannot see to: `adjourn serve` does.
    - `bounds`: how much one caller may ask for; None: the defaults.
    - `admit`: called with person, message and thread before a run is stored; raise `NotAllowed` to refuse it.
    - `context`: called with person and thread (None: a new one) before a run is stored; gives what `Runner.start` takes as
      `context`. It is said here and never by the caller, so that tools may trust it.
    - `drain_s`: seconds that the steps in hand may take when the server goes. `sweep_s`: seconds between two looks for
      runs whose owner died.

    The runner stays the caller's: close it when the server has ended. An application that mounts it enters its lifespan
    in its own: that is what takes runs up again, and hands them back.
    """
    access, bounds = access or Access(), bounds or Bounds()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        hosting = Hosting(runner, drain_s=drain_s, sweep_s=sweep_s)
        app.state.desk = Desk(runner, hosting, bounds, Streams(bounds.max_streams), admit, context)
        async with hosting.open():
            yield

    entrance = Middleware(Entrance, access, bounds, Rates.of(bounds), is_public)
    return Starlette(
        routes=[
            *(Route(one.path, one.handler, methods=[one.method]) for one in ENDPOINTS),
            Route("/openapi.json", _openapi),
            Route("/metrics", metrics),
            Route("/", page),
            Mount("/assets", assets()),
        ],
        middleware=[entrance],
        exception_handlers=_handlers(),
        lifespan=lifespan,
    )


def _handlers() -> Mapping[Any, Any]:
    return dict(HANDLERS)


def is_public(path: str) -> bool:
    """Whether anybody may read a path: the page, which holds no data, and the description."""
    return path in _PUBLIC or path.startswith("/assets/")


@cache
def _described() -> dict[str, Any]:
    return description()


async def _openapi(_: Request) -> Response:
    return JSONResponse(_described())

"""What every handler of a request needs, in one place; and who may see what."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from adjourn.checkpoints import family
from adjourn.checkpoints.errors import RunNotFound, WrongGraph
from adjourn.checkpoints.json_data import read_json
from adjourn.checkpoints.lifecycle import InterruptState
from adjourn.checkpoints.records import Interrupt, RunRow, to_json
from adjourn.graph.run import Run
from adjourn.graph.runner import Runner
from adjourn.graph.server.access import Caller
from adjourn.graph.server.bounds import Bounds, Streams
from adjourn.graph.server.hosting import Hosting
from adjourn.graph.server.problems import Refused

Admit = Callable[[str | None, str, str | None], None]
"""Called with person, message and thread before a run is stored; what it raises refuses the run."""

ContextOf = Callable[[str | None, str | None], Mapping[str, Any]]
"""Called with person and thread before a run is stored; gives the run's context."""

BodyT = TypeVar("BodyT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Desk:
    """One server's runner and what belongs to it. `admit` None: everybody who comes in may start runs. `context`
    None: those that start here have none."""

    runner: Runner
    hosting: Hosting
    bounds: Bounds
    streams: Streams
    admit: Admit | None = None
    context: ContextOf | None = None


def desk_of(request: Request) -> Desk:
    """The desk of the server that got the request. Raises `RuntimeError` for one that was mounted and not opened."""
    desk: Desk | None = getattr(request.app.state, "desk", None)
    if desk is None:
        raise RuntimeError(
            "this server was not opened: an application that mounts it has to enter its lifespan, "
            "`async with server.router.lifespan_context(server)`, in its own"
        )
    return desk


def caller_of(request: Request) -> Caller:
    """Who sent the request; the entrance has found out."""
    caller: Caller = request.state.caller
    return caller


def owns(caller: Caller, run: RunRow) -> bool:
    """Whether the run is the caller's, so that they may see all of it and stop it."""
    return caller.sees_all or (caller.name is not None and run.started_by == caller.name)


async def own_run(request: Request) -> Run:
    """The run that the path names, if it is the caller's or works for one that is. Any other is as if it were not there."""
    desk, run_id = desk_of(request), request.path_params["run_id"]
    try:
        run = await desk.runner.get(run_id)
        first = run.row
        if first.parent_run_id is not None:
            first = await desk.runner.database.aread(partial(family.top, run=first))
    except RunNotFound:
        raise not_here(run_id) from None
    if first.graph != desk.runner.name or not owns(caller_of(request), first):
        raise not_here(run_id)
    return run


def not_here(run_id: str) -> Refused:
    """There is no such run, as far as the caller may know."""
    detail = f"there is no run {run_id!r} here, or it is not yours; GET /runs lists yours"
    return Refused(404, "run_not_found", detail, run_id=run_id)


async def may_answer(desk: Desk, caller: Caller, run: RunRow, question: Interrupt) -> bool:
    """Whether the caller may answer an open question of a run, or of one that works for it."""
    try:
        asking = desk.runner.family.at(run, question.path)
    except WrongGraph:  # the app has no such specialist any more: nobody can answer it here
        return False
    return await asking.bound.may_answer(question, caller.name)


async def may_answer_some(desk: Desk, caller: Caller, run: RunRow) -> bool:
    """Whether a run has an open question that the caller may answer. The runner checks each one when they do."""
    read = partial(family.read_interrupts, run_id=run.id, state=InterruptState.OPEN)
    for one in await desk.runner.database.aread(read):
        if await may_answer(desk, caller, run, one):
            return True
    return False


async def body_of(request: Request, shape: type[BodyT]) -> BodyT:
    """The JSON body in its shape. Raises `Refused` (400) where it is no JSON, `ValidationError` for a wrong field."""
    raw = await request.body()
    if not raw.strip():
        raise Refused(400, "no_body", "this request needs a JSON body; /openapi.json shows its shape")
    try:
        given = read_json(raw)
    except ValueError:
        raise Refused(400, "invalid_json", "the body is not JSON; mend it and send it again") from None
    return shape.model_validate(given)


def query_of(request: Request, shape: type[BodyT], *lists: str) -> BodyT:
    """The query in its shape; `lists` are the names that may come several times."""
    given: dict[str, Any] = dict(request.query_params)
    given |= {name: request.query_params.getlist(name) for name in lists if name in given}
    return shape.model_validate(given)


def shown(model: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A model as a JSON response."""
    # not pydantic's own text: it raises on half a surrogate pair, which a model may well have said
    return Response(to_json(model.model_dump(mode="json")), status, headers, media_type="application/json")

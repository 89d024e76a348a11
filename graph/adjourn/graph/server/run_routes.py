"""Runs over HTTP: start, list, show, answer, try again, cancel. Each way a run stops is a 200."""

import hashlib
from collections.abc import Coroutine
from functools import partial
from typing import Any

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from adjourn.checkpoints import journal, thread_ops
from adjourn.checkpoints.errors import NotAllowed, RunBusy, RunNotFound, StoredDataError, UsageError
from adjourn.checkpoints.records import RunRow
from adjourn.graph.behalf import OnBegun
from adjourn.graph.names import check_name
from adjourn.graph.run import Run
from adjourn.graph.runner import Admit
from adjourn.graph.said import Message, read_said
from adjourn.graph.server.access import Caller
from adjourn.graph.server.desk import (
    Desk,
    body_of,
    caller_of,
    desk_of,
    may_answer_some,
    not_here,
    own_run,
    owns,
    query_of,
    shown,
)
from adjourn.graph.server.problems import Refused
from adjourn.graph.server.shapes import (
    AnswersRequest,
    AnswersTaken,
    ListQuery,
    RunLine,
    RunList,
    RunShown,
    StartRequest,
)

LONGEST_WAIT_S = 60.0  # of `Prefer: wait`: proxies cut what takes longer
KEY_LIMIT = 255  # characters of an Idempotency-Key


def line_of(row: RunRow) -> RunLine:
    """A run in a list."""
    facts = _facts(Run(row))
    del facts["interrupts"], facts["calls"]  # not read here: empty would be a lie
    return RunLine.model_validate(facts)


def run_of(run: Run) -> RunShown:
    """A run with its calls and open questions."""
    return RunShown.model_validate(_facts(run))


def _facts(run: Run) -> dict[str, Any]:
    row = run.row
    more = {
        "shown_reason": run.shown_reason or None,
        "last_event": row.last_event,
        "updated_at": row.updated_at,
    }
    return {**run.to_dict(), **more}


async def start(request: Request) -> Response:
    """Start a run. Answers as soon as the run is stored; with `Prefer: wait=N`, when it stops, at most N seconds later.

    201 for a new run; 200 for one that the same `run_id` or `Idempotency-Key` has started before.
    """
    desk, caller = desk_of(request), caller_of(request)
    asked = await body_of(request, StartRequest)
    said = read_said(asked.message)
    run_id = asked.run_id or keyed_id(request.headers.get("idempotency-key"), caller)
    before = await _started_before(desk, caller, run_id, asked, said)
    if before is not None:
        await desk.hosting.wait(before.id, wait_s(request))
        return shown(run_of(await desk.runner.get(before.id)), 200, _at(before.id))
    if desk.admit is not None:
        desk.admit(caller.name, said.text, asked.thread_id)
    context = None if desk.context is None else desk.context(caller.name, asked.thread_id)

    stored: list[RunRow] = []

    def drive(on_begun: OnBegun) -> Coroutine[Any, Any, Run]:
        def begun(row: RunRow) -> None:
            stored.append(row)
            on_begun(row)

        return desk.runner.start(
            asked.message,
            thread_id=asked.thread_id,
            by=caller.name,
            run_id=run_id,
            priority=asked.priority,
            context=context,
            on_begun=begun,
            admit=_thread_is_open_to(caller),
        )

    try:
        started = await desk.hosting.begin(drive)
    except (RunBusy, UsageError):  # the same start at the same moment was first
        if (before := await _started_before(desk, caller, run_id, asked, said)) is None:
            raise
        return shown(run_of(await desk.runner.get(before.id)), 200, _at(before.id))
    await desk.hosting.wait(started, wait_s(request))
    return shown(run_of(await desk.runner.get(started)), 201 if stored else 200, _at(started))


def _at(run_id: str) -> dict[str, str]:
    return {"Location": f"/runs/{run_id}"}


def keyed_id(key: str | None, caller: Caller) -> str | None:
    """The run id that an Idempotency-Key stands for: each person's keys are their own."""
    if key is None:
        return None
    if not key.strip() or len(key) > KEY_LIMIT:
        raise Refused(400, "invalid_key", f"an Idempotency-Key has 1 to {KEY_LIMIT} characters")
    named = hashlib.sha256(f"{caller.name}\n{key}".encode()).hexdigest()[:24]
    return f"run_k{named}"


async def _started_before(
    desk: Desk, caller: Caller, run_id: str | None, asked: StartRequest, said: Message
) -> RunRow | None:
    """The run that this id has started before. Raises `Refused` (409) if it was started with something else."""
    if run_id is None:
        return None
    try:
        row, blocks = await desk.runner.database.aread(partial(_with_blocks, run_id=run_id))
    except RunNotFound:
        return None
    same = (row.input, blocks) == (said.text, said.blocks) and asked.thread_id in (None, row.thread_id)
    if not same or not owns(caller, row) or row.graph != desk.runner.name:
        detail = (
            f"the id {run_id!r} was used to start another run; take another id, or another Idempotency-Key"
        )
        raise Refused(409, "id_was_used", detail)
    return row


def _with_blocks(connection: Connection, run_id: str) -> tuple[RunRow, list[Any] | None]:
    row = journal.read_run(connection, run_id)
    return row, journal.read_blocks(connection, row)


def _thread_is_open_to(caller: Caller) -> Admit:
    """Refuse to go on with somebody else's conversation: the model would read it out."""

    def admit(connection: Connection, run: RunRow) -> None:
        others = journal.list_runs(connection, thread_id=run.thread_id, limit=1)
        # a conversation that no run tells of was brought over, or is another program's: nobody knows whose it is
        unknown = not others and not caller.sees_all and thread_ops.has_checkpoints(connection, run.thread_id)
        if unknown or any(not owns(caller, one) for one in others):
            raise NotAllowed(caller.name, f"go on with thread {run.thread_id}: it is somebody else's")

    return admit


def wait_s(request: Request) -> float:
    """Seconds that `Prefer: wait=N` asks for (RFC 7240); 0 without, at most `LONGEST_WAIT_S`."""
    for part in request.headers.get("prefer", "").replace(";", ",").split(","):
        name, _, value = part.strip().partition("=")
        if name.lower() == "wait" and value.strip().isdecimal():
            return min(float(value), LONGEST_WAIT_S)
    return 0.0


async def list_runs(request: Request) -> Response:
    """The caller's runs, newest first."""
    desk, caller = desk_of(request), caller_of(request)
    query = query_of(request, ListQuery, "status")
    check_name("thread_id", query.thread_id)
    damaged: list[StoredDataError] = []
    rows = await desk.runner.database.aread(
        lambda connection: journal.list_runs(
            connection,
            statuses=query.status,
            thread_id=query.thread_id,
            graph=desk.runner.name,
            started_by=None if caller.sees_all else caller.name,
            roots=True,
            limit=query.limit,
            damaged=damaged,
        )
    )
    return shown(RunList(runs=[line_of(one) for one in rows], damaged=[str(one) for one in damaged]))


async def show(request: Request) -> Response:
    """One run of the caller's."""
    return shown(run_of(await own_run(request)))


async def answer(request: Request) -> Response:
    """Answer open questions; when none is left, the run goes on. With `Prefer: wait=N` it is waited for.

    Somebody else's run is not shown: the answer says which questions were answered.
    """
    desk, caller = desk_of(request), caller_of(request)
    run_id = request.path_params["run_id"]
    given = (await body_of(request, AnswersRequest)).answers
    try:
        row = await desk.runner.database.aread(partial(journal.read_run, run_id=run_id))
    except RunNotFound:
        raise not_here(run_id) from None
    mine = owns(caller, row) and row.graph == desk.runner.name
    if not mine and not await may_answer_some(desk, caller, row):
        raise not_here(run_id)
    await desk.hosting.begin(
        lambda on_begun: desk.runner.resume(run_id, given, by=caller.name, on_begun=on_begun)
    )
    await desk.hosting.wait(run_id, wait_s(request))
    run = await desk.runner.get(run_id)
    if mine:
        return shown(run_of(run))
    return shown(AnswersTaken(run_id=run_id, run_status=run.row.status, answered=list(given)))  # type: ignore[arg-type]


async def retry(request: Request) -> Response:
    """Take a failed run up again."""
    desk, caller, run = desk_of(request), caller_of(request), await own_run(request)
    await desk.hosting.begin(lambda on_begun: desk.runner.resume(run.id, by=caller.name, on_begun=on_begun))
    await desk.hosting.wait(run.id, wait_s(request))
    return shown(run_of(await desk.runner.get(run.id)))


async def cancel(request: Request) -> Response:
    """Stop a run, whoever drives it. Answers when it has written its end. Twice is once."""
    desk, caller, run = desk_of(request), caller_of(request), await own_run(request)
    return shown(run_of(await desk.runner.cancel(run.id, by=caller.name)))

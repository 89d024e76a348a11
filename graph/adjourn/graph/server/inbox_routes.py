"""The inbox: open questions that the caller may answer; who the caller is; whether the server takes work."""

from collections.abc import AsyncGenerator
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from adjourn.checkpoints import family
from adjourn.checkpoints.errors import StoredDataError
from adjourn.checkpoints.records import Interrupt, RunRow
from adjourn.graph.server.desk import Desk, caller_of, desk_of, may_answer, owns, shown
from adjourn.graph.server.shapes import Asked, Health, Inbox, Me, QuestionShown

MOST_QUESTIONS = 500  # shown at once; more than a person answers in a day
MOST_PAGES = 40  # of as many questions, that are looked through for those of the caller


async def inbox(request: Request) -> Response:
    """Open questions of runs that wait, oldest first: those of the caller's runs, and those they may answer.

    Whoever sees all is told of damaged rows as well: whose they are, nobody knows.
    """
    desk, caller = desk_of(request), caller_of(request)
    shown_ones: list[Asked] = []
    damaged: list[StoredDataError] = []
    async for run, question in _open_questions(desk, damaged):
        mine = owns(caller, run)
        allowed = await may_answer(desk, caller, run, question)
        if mine or allowed:
            shown_ones.append(_asked(run, question, mine=mine, allowed=allowed))
        # each more is a question to the rule of the app, and shown to nobody
        if len(shown_ones) == MOST_QUESTIONS:
            break
    told = [str(one) for one in damaged] if caller.sees_all else []
    return shown(Inbox(questions=shown_ones, damaged=told))


async def _open_questions(
    desk: Desk, damaged: list[StoredDataError]
) -> AsyncGenerator[tuple[RunRow, Interrupt]]:
    """The oldest ones, read a page at a time: most may be others' questions, and older than the caller's."""
    behind: family.Place | None = None
    for _ in range(MOST_PAGES):
        read = partial(family.open_questions, graph=desk.runner.name, limit=MOST_QUESTIONS, damaged=damaged)
        page, behind = await desk.runner.database.aread(partial(read, behind=behind))
        for one in page:
            yield one
        if behind is None:
            return


def _asked(run: RunRow, question: Interrupt, *, mine: bool, allowed: bool) -> Asked:
    return Asked(
        run_id=run.id,
        thread_id=run.thread_id,
        graph=run.graph,
        started_by=run.started_by,
        asked_at=question.created_at,
        mine=mine,
        may_answer=allowed,
        question=QuestionShown.model_validate(question.to_dict()),
    )


async def me(request: Request) -> Response:
    """Who the caller is."""
    caller = caller_of(request)
    return shown(Me(person=caller.name, sees_all=caller.sees_all, graph=desk_of(request).runner.name))


async def health(request: Request) -> Response:
    """200 while the server takes work, 503 while it is going."""
    closing = desk_of(request).hosting.closing.is_set()
    return shown(Health(status="closing" if closing else "ok"), 503 if closing else 200)

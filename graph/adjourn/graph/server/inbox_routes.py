"""The inbox: open questions that the caller may answer; who the caller is; whether the server takes work."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from adjourn.checkpoints import family
from adjourn.checkpoints.records import Interrupt, RunRow
from adjourn.graph.server.desk import caller_of, desk_of, may_answer, owns, shown
from adjourn.graph.server.shapes import Asked, Health, Inbox, Me, QuestionShown

MOST_QUESTIONS = 500  # shown at once; more than a person answers in a day
MOST_PAGES = 40  # of as many questions, that are looked through for those of the caller


async def inbox(request: Request) -> Response:
    """Open questions of runs that wait, oldest first: those of the caller's runs, and those they may answer."""
    desk, caller = desk_of(request), caller_of(request)
    shown_ones: list[Asked] = []
    behind: Interrupt | None = None
    for _ in range(MOST_PAGES):  # most may be others' questions, and older
        page = partial(family.open_questions, graph=desk.runner.name, limit=MOST_QUESTIONS, behind=behind)
        asked, behind = await desk.runner.database.aread(page)
        for run, question in asked:
            mine = owns(caller, run)
            allowed = await may_answer(desk, caller, run, question)
            if mine or allowed:
                shown_ones.append(_asked(run, question, mine=mine, allowed=allowed))
        if behind is None or len(shown_ones) >= MOST_QUESTIONS:
            break
    return shown(Inbox(questions=shown_ones[:MOST_QUESTIONS]))


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

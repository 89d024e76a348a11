"""LangGraph's pending interrupts and our questions: which belongs to which, and what each is resumed with."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langgraph.types import Interrupt as Pending
from pydantic import ValidationError

from adjourn.checkpoints.database import now
from adjourn.checkpoints.lifecycle import InterruptState, InterruptType
from adjourn.checkpoints.records import Interrupt, RunRow, as_text
from adjourn.nodes.delegation import DELEGATED
from adjourn.nodes.observations import plain

_SETTLED = (InterruptState.ANSWERED, InterruptState.EXPIRED)  # what a run goes on with
_OURS = {"id", "call_id", "response_schema"}  # what each question of ours has


def is_ours(pending: Pending) -> bool:
    """Whether it is the one that carries all our questions, and not one of somebody's own node."""
    asked = pending.value.get("questions") if isinstance(pending.value, dict) else None
    return (
        isinstance(asked, list)
        and bool(asked)
        and all(isinstance(one, dict) and one.keys() >= _OURS for one in asked)
    )


def asks_itself(pending: Pending) -> bool:
    """Whether one of our questions in it has a row: those that stand for a specialist have none."""
    return any(one.get("type") != DELEGATED for one in pending.value["questions"])


def answers_to(pending: Sequence[Pending], rows: Sequence[Interrupt]) -> dict[str, Any] | None:
    """What LangGraph is resumed with; None while an answer is missing.

    `rows`: all questions, as they were asked, those of the runs below included: while one of them is open, so is the
    call that waits for its run.
    """
    if any(row.state == InterruptState.OPEN for row in rows):
        return None
    by_id: dict[str, Interrupt] = {}
    by_langgraph_id: dict[str | None, Interrupt] = {}
    for row in rows:
        by_id[row.id] = row
        by_langgraph_id[row.langgraph_id] = row  # of those that were asked again, the newest counts
    given = {}
    for one in pending:
        if is_ours(one):
            mine = [question for question in one.value["questions"] if question["type"] != DELEGATED]
            given[one.id] = _answers([by_id.get(question["id"]) for question in mine])
        else:
            newest = by_langgraph_id.get(one.id)
            given[one.id] = newest.answer if newest and newest.state == InterruptState.ANSWERED else None
    return None if None in given.values() else given


def _answers(asked: Sequence[Interrupt | None]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for row in asked:
        if row is None or row.state not in _SETTLED:
            return None
        found[row.id] = _answer(row)
    return found


def _answer(row: Interrupt) -> dict[str, Any]:
    if row.state == InterruptState.EXPIRED:
        return {"expired": True}
    return {"answer": row.answer, "by": row.agreed, "at": row.closed_at}


def custom(run: RunRow, pending: Pending, step: int, place: int) -> Interrupt:
    """A question that somebody's own node asked with LangGraph's `interrupt()` (C-37)."""
    value = plain(pending.value)
    return Interrupt(
        id=_custom_id(run.id, pending.id, 0),
        run_id=run.id,
        step=step,
        call_id="",
        path=run.path,
        position=place,
        type=InterruptType.CUSTOM.value,
        tool="",
        arguments={},
        reason=as_text(value) if isinstance(value, str) else "",
        payload={"value": value},
        response_schema=pending.response_schema if isinstance(pending.response_schema, dict) else {},
        state=InterruptState.OPEN.value,
        langgraph_id=pending.id,
        created_at=now(),
    )


def asked_again(pending: Iterable[Pending], rows: Sequence[Interrupt], error: Exception) -> list[Interrupt]:
    """The questions of nodes that did not take their answers, each anew, with what was wrong.

    LangGraph keeps nothing of such an answer, and says only that one was refused: where several nodes were
    answered at once, each of them is asked again.
    """
    newest: Mapping[str | None, Interrupt] = {row.langgraph_id: row for row in rows}
    asked = [newest[one.id] for one in pending if not is_ours(one) and one.id in newest]
    return [
        replace(
            row,
            id=_custom_id(
                row.run_id, str(row.langgraph_id), sum(r.langgraph_id == row.langgraph_id for r in rows)
            ),
            reason=as_text(f"{_first(row, rows).reason} ({_said(error)})".strip()),
            state=InterruptState.OPEN.value,
            answer=None,
            answered_by=None,
            closed_at=None,
            created_at=now(),
        )
        for row in asked
        if row.state == InterruptState.ANSWERED
    ]


def _first(row: Interrupt, rows: Sequence[Interrupt]) -> Interrupt:
    return next(one for one in rows if one.langgraph_id == row.langgraph_id)


def _said(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    told = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}".removeprefix(": ") for one in told)


def _custom_id(run_id: str, langgraph_id: str, times: int) -> str:
    """The id of a question of somebody's own node that was asked `times` times before. LangGraph's own id would not do:
    a fork has the same."""
    identity = f"{run_id}\n{langgraph_id}\n{times}"
    return f"int_{hashlib.sha256(identity.encode()).hexdigest()[:12]}"

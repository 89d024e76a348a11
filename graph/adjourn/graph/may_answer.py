"""Who may answer which question: the rule of the application, and the approvers that a tool names."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import NotAllowed
from adjourn.checkpoints.journal import write_audit
from adjourn.checkpoints.lifecycle import InterruptState
from adjourn.checkpoints.records import Interrupt

log = logging.getLogger("adjourn.run")

MayAnswer = Callable[[Interrupt, str], bool | Awaitable[bool]]
"""Told a question and a name, says whether this person may answer it; sync or async. One that raises says no."""


async def refusal(question: Interrupt, person: str | None, rule: MayAnswer | None) -> NotAllowed | None:
    """Why this person may not answer this question; None: they may.

    Where there is a rule, or the tool names approvers, an answer without a name is refused.
    """
    if rule is None and question.approvals is None:
        return None
    if not person:
        return NotAllowed(
            person, f"answer {question.id}: it needs a name (by=..., on the command line --by NAME)"
        )
    of = question.approvals["of"] if question.approvals else []
    if of and person not in of:
        needed = question.approvals["needed"] if question.approvals else 1
        return NotAllowed(person, f"answer {question.id}: it takes {needed} of {', '.join(of)}")
    if rule is not None and not await _says_yes(rule, question, person):
        return NotAllowed(person, f"answer {question.id} ({question.tool or question.type})")
    return None


async def check_persons(
    database: Database, questions: Iterable[Interrupt], person: str | None, rule: MayAnswer | None
) -> None:
    """Raise `NotAllowed`, and write it down, if this person may not answer one of these questions that are open."""
    for one in questions:
        refused = await refusal(one, person, rule) if one.state == InterruptState.OPEN else None
        if refused is not None:
            await database.awrite(
                lambda connection, one=one: write_audit(  # type: ignore[misc]
                    connection, one.run_id, "refused", by=person, interrupt_id=one.id
                )
            )
            raise refused


async def _says_yes(rule: MayAnswer, question: Interrupt, person: str) -> bool:
    try:
        said = rule(question, person)
        return bool(await said if inspect.isawaitable(said) else said)
    except Exception:
        log.exception("the rule of who may answer failed on %s; %s is refused", question.id, person)
        return False

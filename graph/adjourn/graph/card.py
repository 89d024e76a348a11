"""A run in a notebook: how it stands and why, its timeline, what its calls were, what is asked, what it answered."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from adjourn.checkpoints.database import now
from adjourn.checkpoints.records import CallRow, Interrupt
from adjourn.graph.captions import caption
from adjourn.graph.picture import COLOURS, safe, svg
from adjourn.graph.run import Run
from adjourn.graph.timeline import timeline
from adjourn.graph.why import why

_TONES = {"finished": "ok", "interrupted": "waiting", "failed": "failed", "cancelled": "other"}


def run_card(run: Run, *, asks: bool = True) -> str:
    """The run as a piece of HTML, in the language of its input; `asks`: with its open questions."""
    from adjourn.nodes.texts import language_of  # the command line draws too, and knows its language

    language, at = language_of(run.row.input), now()
    colour = COLOURS[_TONES.get(run.status, "model")]
    parts = [
        f'<div style="font-family:system-ui,sans-serif"><b style="color:{colour}">{safe(run.status_noting(language=language))}</b> '
        f"<code>{safe(run.id)}</code><div>{safe(why(run, language, at))}</div>",
        svg(timeline(run, at), run.id, language),
        _calls(run.calls),
    ]
    parts += [question_card(one, language) for one in run.interrupts if asks]
    if run.answer:
        parts.append(f'<div style="white-space:pre-wrap;margin-top:.5em">{safe(run.answer)}</div>')
    return "".join([*parts, "</div>"])


def _calls(calls: Sequence[CallRow]) -> str:
    if not calls:
        return ""
    names = ("step", "tool", "arguments", "outcome")
    head = "".join(f'<th style="text-align:left">{name}</th>' for name in names)
    rows = [(one.step, one.tool, _arguments(one), one.outcome) for one in calls]
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _arguments(call: CallRow) -> str:
    return call.raw or "" if call.arguments is None else json.dumps(call.arguments, ensure_ascii=False)


def _cell(value: object) -> str:
    return f'<td style="text-align:left">{safe(value)}</td>'


def question_card(question: Interrupt, language: str) -> str:
    """An open question: what it is about, who agreed so far, and when it expires."""
    told = [approvals_caption(question.approvals, language)] if question.approvals is not None else []
    if question.expires_at is not None:
        told.append(caption("asks.expires", language, at=question.expires_at))
    below = "".join(f"<div>{safe(one)}</div>" for one in told)
    colour = COLOURS["waiting"]
    return (
        f'<div style="border-left:3px solid {colour};padding-left:.5em"><b>{safe(question.type)}</b> '
        f"<code>{safe(question.id)}</code> {safe(question.asked)}{below}</div>"
    )


def approvals_caption(approvals: Mapping[str, Any], language: str) -> str:
    """Who agreed so far, of how many, and who may."""
    given = approvals["given"]
    who = ", ".join(f"{one['by']} {one['at'] or ''}".strip() for one in given)
    of = f" ({', '.join(approvals['of'])})" if approvals["of"] else ""
    told = {"given": len(given), "needed": approvals["needed"], "of": of, "who": f": {who}" if who else ""}
    return caption("asks.agreed", language, **told)

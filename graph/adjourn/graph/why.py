"""Why a run stands where it stands, in one sentence that its rows bear out."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from adjourn.checkpoints.lifecycle import CallState, FlowStepState, RunStatus, StopReason
from adjourn.checkpoints.records import CallRow
from adjourn.graph.captions import caption, length, moment
from adjourn.graph.run import Run

NAMED = 3  # calls that a sentence names; the rest are below it
SHOWN = 60  # characters of a call's arguments in a sentence

_FAILED = frozenset({CallState.FAILED, CallState.UNKNOWN})


def why(run: Run, language: str, at: str) -> str:
    """The sentence, in `"en"` or `"zh"`; `at` is the stored time that it is told at."""
    if run.status == RunStatus.INTERRUPTED:
        asked = min((one.created_at for one in run.interrupts), default=run.row.updated_at)
        return caption("why.interrupted", language, since=moment(asked), questions=len(run.interrupts))
    if run.status == RunStatus.RUNNING:
        return _who_drives(run, language, at)
    if run.status == RunStatus.FAILED:
        return caption("why.failed", language, error=_error(run))
    broken = next((one for one in run.flow if one.status == FlowStepState.FAILED), None)
    if broken is not None and run.stop_reason == StopReason.TOO_MANY_FAILS:  # a flow stops at its first one
        return caption("why.flow_failed", language, step=broken.step, reason=broken.reason or "-")
    reason = StopReason(run.stop_reason or StopReason.CANCELLED)
    told = _FACTS.get(reason, _counts)(run, language)
    return caption(f"why.{reason.value}", language, **told)


def _who_drives(run: Run, language: str, at: str) -> str:
    owner, lease = run.row.lease_owner, run.row.lease_until
    if owner is None:
        return caption("why.queued", language, since=moment(run.row.updated_at))
    if lease is not None and lease < at:
        return caption("why.lost", language, since=moment(lease))
    return caption("why.running", language, owner=owner)


def _error(run: Run) -> str:
    error = run.error or {}
    return f"{error.get('class', '')}: {error.get('message', '')}".strip(": ")


def _counts(run: Run, _language: str) -> Mapping[str, object]:
    row = run.row
    ended = datetime.fromisoformat(row.ended_at or row.updated_at)
    wall = (ended - datetime.fromisoformat(row.created_at)).total_seconds() * 1000
    return {
        "steps": row.steps,
        "active": f"{row.active_ms / 1000:.1f}",
        "wall": length(max(0.0, wall)),
        "tokens": row.input_tokens + row.output_tokens,
        "cost": f"{row.cost:g}",
    }


def _who(run: Run, language: str) -> Mapping[str, object]:
    """Who ended it, as the audit says; a cancel by Ctrl-C has no row there."""
    ends = [one for one in run.audit if one.action in ("cancel_requested", "cancelled", "dismissed")]
    named = next((one for one in ends if one.by), ends[-1] if ends else None)
    if named is None:
        return {"by": ""}
    return {"by": caption("by" if named.by else "at", language, by=named.by, at=moment(named.at))}


def _failing(run: Run, _language: str) -> Mapping[str, object]:
    """The last steps in which calls ran and all failed."""
    by_step: dict[int, list[CallRow]] = {}
    for call in run.calls:
        if call.started_at is not None:
            by_step.setdefault(call.step, []).append(call)
    last: list[CallRow] = []
    count = 0
    for step in sorted(by_step, reverse=True):
        if not all(one.outcome in _FAILED for one in by_step[step]):
            break
        last, count = [*by_step[step], *last], count + 1
    told = Counter(f"{one.tool} ({one.error_code or one.outcome})" for one in last)
    return {"steps": count, "calls": _listed(told)}


def _repeated(run: Run, _language: str) -> Mapping[str, object]:
    """What was asked for more than once, most often first."""
    said = {one.digest: f"{one.tool} {_short(one)}" for one in run.calls}
    counted = Counter(one.digest for one in run.calls)
    often = {digest: count for digest, count in counted.items() if count > 1}
    return {"calls": _listed({said[digest]: count for digest, count in often.items()})}


def _short(call: CallRow) -> str:
    words = call.raw or "" if call.arguments is None else json.dumps(call.arguments, ensure_ascii=False)
    return words if len(words) <= SHOWN else f"{words[: SHOWN - 1]}…"


def _listed(counted: Mapping[str, int]) -> str:
    most: Iterable[tuple[str, int]] = Counter(counted).most_common()
    told = [f"{words} ×{count}" if count > 1 else words for words, count in most]
    return ", ".join([*told[:NAMED], *(["…"] if len(told) > NAMED else [])]) or "-"


_FACTS: Mapping[StopReason, Callable[[Run, str], Mapping[str, object]]] = {
    StopReason.TOO_MANY_FAILS: _failing,
    StopReason.LOOP_DETECTED: _repeated,
    StopReason.DISMISSED: _who,
    StopReason.CANCELLED: _who,
}

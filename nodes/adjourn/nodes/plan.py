"""From calls to batches: what runs together, and what runs next. Pure.

A batch is a group of neighbouring reads, or one write (C-20). Batches are numbered when the model has
spoken; which of them may run is told anew at each superstep from how the calls stand.
"""

from collections.abc import Iterable, Sequence

from adjourn.checkpoints.lifecycle import CallState, Effect
from adjourn.nodes.calls import Call


def number_batches(kinds: Sequence[tuple[Effect, bool]]) -> list[int]:
    """The batch number of each call of a step, in request order.

    `kinds` holds (effect, may run beside others) per call. Only neighbouring reads that may run beside
    others share a number.
    """
    numbers: list[int] = []
    before: tuple[Effect, bool] | None = None
    for kind in kinds:
        joins = kind == before == (Effect.READ, True)
        numbers.append(numbers[-1] if joins else (numbers[-1] + 1 if numbers else 0))
        before = kind
    return numbers


def next_batch(calls: Sequence[Call]) -> list[Call]:
    """The calls that run next, in request order; empty when nothing can run before a person answers.

    Reads behind a waiting write run, unless they name the write's resource; writes behind a waiting write
    do not (C-23).
    """
    runnable = [call for call in calls if call["state"] in _TO_RUN and not _blocked(call, calls)]
    if runnable and runnable[0]["effect"] == Effect.WRITE:
        return runnable[:1]  # alone, also where an edit made a write of what was planned as a read
    return [
        call for call in runnable if call["batch"] == runnable[0]["batch"] and call["effect"] == Effect.READ
    ]


# started: the process died in it, and the ledger tells what to do
_TO_RUN = (CallState.PLANNED, CallState.STARTED)


def _blocked(call: Call, calls: Iterable[Call]) -> bool:
    waiting = [
        one
        for one in calls
        if one["position"] < call["position"]
        and one["effect"] == Effect.WRITE
        and one["state"] == CallState.WAITING
    ]
    if call["effect"] == Effect.WRITE:
        return bool(waiting)
    resource = call.get("resource")
    return resource is not None and any(one.get("resource") == resource for one in waiting)


def waiting(calls: Iterable[Call]) -> list[Call]:
    """The calls that wait for a person, in request order."""
    return [call for call in calls if call["state"] == CallState.WAITING]

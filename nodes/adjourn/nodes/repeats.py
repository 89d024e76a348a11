"""Does this call repeat an earlier one of its run, and does the run go round in circles? (C-54) Pure.

The calls of a run stand in a log: the digest of each, and behind it, where it succeeded, where its result stands.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence

from adjourn.checkpoints.lifecycle import CallState, Effect
from adjourn.nodes.calls import Call
from adjourn.nodes.counters import Counters

TRAIL = 64  # newest calls in which a cycle is looked for: one of 32 calls is found where it begins for the third time
DIGEST = 12  # hex digits: 48 bits tell the calls of one run apart

RAN = (CallState.OK, CallState.FAILED, CallState.UNKNOWN)


_in_order = json.JSONEncoder(sort_keys=True).encode  # `json.dumps` would make one for each call


def digest(call: Call) -> str:
    """The same for two calls of one tool with the same arguments, whatever the order of their keys."""
    same = _in_order([call["name"], call["arguments"]])
    return hashlib.sha256(same.encode()).hexdigest()[:DIGEST]


def place(message_id: str, position: int) -> str:
    """Where the result of a call stands: how the id of its tool message ends."""
    return f"{message_id[-8:]}.{position}"


def earlier_result(counters: Counters, of: str) -> str | None:
    """The place of the result of the same call; None: it is no repetition.

    It succeeded in this run, and no write was started since.
    """
    return next((one[DIGEST:] for one in reversed(_same(counters, of)) if len(one) > DIGEST), None)


def _same(counters: Counters, of: str) -> list[str]:
    """The same calls since the last write, oldest first."""
    logged = counters["log"][counters["since"] :]
    if of not in "".join(logged):  # as most calls
        return []
    return [one for one in logged if one.startswith(of)]


def trail(counters: Counters) -> list[str]:
    """The digests of the newest calls, oldest first."""
    return [one[:DIGEST] for one in counters["log"][-TRAIL:]]


def copies(batch: Sequence[Call], digests: Mapping[str, str]) -> dict[str, str]:
    """The calls of a batch that another one of it runs for: id -> that one's id. Calls without a digest have none."""
    first: dict[str, str] = {}
    twins: dict[str, str] = {}
    for call in batch:
        of = digests.get(call["id"])
        if of is not None and first.setdefault(of, call["id"]) != call["id"]:
            twins[call["id"]] = first[of]
    return twins


def comes_round(before: Sequence[str], of: str, times: int) -> bool:
    """Whether one more such call begins a cycle of two or more calls for the `times`-th time."""
    if of not in before:  # as most calls
        return False
    calls = [*before, of]
    for period in range(2, (len(calls) - 1) // (times - 1) + 1):
        tail = calls[-((times - 1) * period + 1) :]
        if tail[:-period] == tail[period:] and len(set(tail[:period])) > 1:
            return True
    return False


def count(
    counters: Counters,
    call: Call,
    of: str | None,
    *,
    result_at: str,
    max_identical: int | None,
    copied: Collection[str] = (),
) -> None:
    """Take note of a call that has ended. `of` None: its tool may be called again and again.

    `copied` holds the ids of the calls that another one ran for: they count neither way.
    """
    state, ran = CallState(call["state"]), call["state"] in RAN
    if ran and call["effect"] == Effect.WRITE:  # what was read before may have changed
        counters["since"] = len(counters["log"])
    if of is None or call["id"] in copied or not (ran or state is CallState.REPEATED):
        return
    before = trail(counters)
    counters["log"].append(of + result_at if state is CallState.OK else of)
    if max_identical is None:
        return
    same = _same(counters, of)
    first = next((at for at, one in enumerate(same) if len(one) > DIGEST), len(same))  # failures do not count
    counters["looped"] |= len(same) - first >= max_identical or comes_round(before, of, max_identical)

"""What a run has spent and done so far, as the state holds it: plain JSON data. Pure.

Counters are written with the superstep that changed them, so that a resume finds them as they were and a crash loses
only what that superstep counts again when it runs again. Only what differs from the beginning of a run is written:
`kept` leaves the rest out, `counters_of` fills it in. The log of calls has a channel of its own, to which a superstep
hands over what it adds: it grows with the run.
"""

from collections.abc import Mapping
from typing import Any, TypedDict


class Counters(TypedDict):
    """Counted from the beginning of the run, over all its owners."""

    began_at: float | None  # when the run began, in seconds since 1970; None: its owner knows
    began_with: str | None  # where nobody resets the state for a new run: the id of the user's message
    active_ms: int  # time worked, not waited
    input_tokens: int
    output_tokens: int
    cost: float  # in the currency of the price table
    protocol_errors: int  # refused turns in a row
    sent_back: int  # answers without evidence
    fails_in_row: int  # steps in which calls ran and all failed
    failing: dict[str, int]  # tool -> failures in a row; a tool that is switched off keeps its number
    brought: list[str]  # tools that brought something
    # the calls, oldest first, as `repeats.py` writes them; only ever added to, which is cheap to store
    log: list[str]
    since: int  # how many of them were made before the last write
    looped: bool  # the run goes round in circles
    cut: str | None  # id of the message that was cut off and is to be continued
    wrapped_up: bool  # the last message tells what was found: no closing message is needed


def new_counters(began_at: float | None = None, began_with: str | None = None) -> Counters:
    """The counters of a run that begins."""
    return {
        "began_at": began_at,
        "began_with": began_with,
        "active_ms": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "cost": 0.0,
        "protocol_errors": 0,
        "sent_back": 0,
        "fails_in_row": 0,
        "failing": {},
        "brought": [],
        "log": [],
        "since": 0,
        "looped": False,
        "cut": None,
        "wrapped_up": False,
    }


def counters_of(state: Mapping[str, Any]) -> Counters:
    """A copy of a state's counters, which may be changed."""
    found: Any = {**new_counters(), **state.get("counters", {})}
    counters: Counters = found
    counters["failing"], counters["brought"] = {**counters["failing"]}, [*counters["brought"]]
    counters["log"] = [*(state.get("tried") or ())]
    return counters


def kept(counters: Counters) -> Counters:
    """The part of the counters that the state holds beside the log: those that differ from the beginning of a run."""
    new: Mapping[str, Any] = {**new_counters(), "log": counters["log"]}
    found: Any = {name: value for name, value in counters.items() if value != new[name]}
    changed: Counters = found
    return changed


def log_of(before: list[str], added: list[str] | None) -> list[str]:
    """The log with what a superstep adds; None: a run begins, and with it its log."""
    return [] if added is None else before + added

"""Where a flow stands, as the state holds it: plain JSON data. Pure."""

from collections.abc import Mapping
from typing import Any, TypedDict

from adjourn.checkpoints.lifecycle import FlowStepState


class SpentBefore(TypedDict):
    """What a run had spent when a step began: a free loop counts its own limits from there."""

    active_s: float
    wall_s: float
    tokens: int
    cost: float


def nothing_spent() -> SpentBefore:
    """What a run that begins has spent."""
    return {"active_s": 0.0, "wall_s": 0.0, "tokens": 0, "cost": 0.0}


class Brought(TypedDict, total=False):
    """The result of a step: it stands in a message, which is stored once, or it is a short text."""

    message: str  # its id
    text: str


class FlowState(TypedDict):
    """One run's way through its flow. `at` None: no step has begun; `""`: the closing word is being asked for."""

    run_id: str
    at: str | None
    began: int  # model calls and steps of the flow before the step in hand
    spent: SpentBefore  # and what the run had spent by then
    said: str  # id of the newest assistant message when the step in hand began
    turns: int  # model turns of the step in hand
    tries: int  # how often the step in hand was begun again
    asked: int  # model turns of the whole flow
    results: dict[str, Brought]  # where what each step that is done brought is found
    failed: str | None  # the step whose failure is being undone
    why: str  # and why it failed


def new_flow(run_id: str) -> FlowState:
    """The flow of a run that begins."""
    return {
        "run_id": run_id,
        "at": None,
        "began": 0,
        "spent": nothing_spent(),
        "said": "",
        "turns": 0,
        "tries": 0,
        "asked": 0,
        "results": {},
        "failed": None,
        "why": "",
    }


def flow_of(state: Mapping[str, Any]) -> FlowState:
    """A copy of a state's flow, which may be changed; a new one where the state holds that of an earlier run."""
    kept: FlowState | None = state.get("flow")
    run_id = str(state.get("run_id", ""))
    if kept is None or kept["run_id"] != run_id:
        return new_flow(run_id)
    return {**kept, "results": {**kept["results"]}}


class StepMove(TypedDict):
    """A step of a flow has come to a state; `reason` says why where it did not succeed."""

    name: str
    position: int  # its place in the flow, from 1
    state: FlowStepState
    reason: str | None

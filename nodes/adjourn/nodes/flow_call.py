"""A call that a flow makes by itself, in a message of its own: the model was not asked."""

from typing import Any
from uuid import uuid4

from adjourn.checkpoints.database import now
from adjourn.checkpoints.events import Message, ToolCall
from adjourn.nodes.assembly import AssembledCall, Turn, canonical
from adjourn.nodes.calls import Call
from adjourn.nodes.guards import Limits
from adjourn.nodes.masking import Masker
from adjourn.nodes.planning import Planner
from adjourn.nodes.run_context import RunContext, StepFacts
from adjourn.nodes.state import RunState
from adjourn.nodes.stored_form import assistant_message
from adjourn.nodes.tool import Tool

MODEL = "flow"  # stands in `steps.model` where no model was asked


def own_call(
    own: Tool,
    arguments: dict[str, Any],
    *,
    step: int,
    run: RunContext,
    limits: Limits,
    masker: Masker,
    language: str,
) -> RunState:
    """Plan a call of `own` as if a model had made it, and write the step down. Gives what the node writes."""
    sent = AssembledCall(
        position=0,
        id=f"flow_{uuid4().hex[:16]}",
        name=own.name,
        raw=canonical(arguments),
        arguments=arguments,
    )
    turn, message_id = Turn(calls=(sent,), finish="tool_calls", model=MODEL), f"msg_{uuid4().hex}"
    planner = Planner(
        {own.name: own},
        limits,
        run.run_id,
        step,
        language,
        masker,
        run.ledger.is_doubtful,
        can_seal=bool(run.keyring),
    )
    calls = planner.plan(turn)
    _write(run, step, message_id, calls, masker)
    return {
        "messages": [assistant_message(turn, message_id)],
        "step": step,
        "calls": calls,
        "outcome": "tools",
        "stop_reason": None,
    }


def _write(run: RunContext, step: int, message_id: str, calls: list[Call], masker: Masker) -> None:
    at = now()
    facts = StepFacts(
        step=step,
        model=MODEL,
        message_id=message_id,
        latency_ms=0,
        usage=None,
        cost=0.0,
        counted=True,
        started_at=at,
        ended_at=at,
    )
    said = Message(
        run_id=run.run_id, path=run.path, step=step, message_id=message_id, text="", calls=len(calls)
    )
    told = [
        ToolCall(
            run_id=run.run_id,
            path=run.path,
            step=step,
            call_id=call["id"],
            name=call["name"],
            arguments=masker.data(call["arguments"]),
        )
        for call in calls
    ]
    run.ledger.plan_step(facts, calls, [said, *told])

"""What the model is told of a step's calls: one tool message for each, in request order, as far as the step has come.

A call that has not run yet gets a provisional one (C-41). It is replaced in place later, since message ids derive from
the assistant message and the position.
"""

from collections.abc import Sequence

from langchain_core.messages import ToolMessage

from adjourn.checkpoints.lifecycle import CallState, ErrorCode
from adjourn.nodes.batch_budget import fit
from adjourn.nodes.calls import Call, is_final
from adjourn.nodes.observations import content_of, failure, parted, with_attached
from adjourn.nodes.texts import say


def tell(
    calls: Sequence[Call], upto: int, *, message_id: str, limit: int, language: str
) -> list[ToolMessage]:
    """The tool messages that are new, for the calls up to position `upto`, or replaced; the calls note that they are told.

    `limit`: characters that the observations of the whole step may have together (C-74).
    """
    messages: list[ToolMessage] = []
    untold = [one for one in calls if is_final(one) and one.get("told") != "final"]
    left = max(0, limit - sum(one.get("size", 0) for one in calls))
    parts = [parted(one["observation"]) for one in untold]
    texts = fit([text for text, _ in parts], left, language)
    fitted = dict(zip((one["id"] for one in untold), texts, strict=True))
    attached = {one["id"]: blocks for one, (_, blocks) in zip(untold, parts, strict=True)}
    for call in calls:
        told = call.get("told")
        if call["position"] > upto and told is None:
            continue  # what stands there already is replaced wherever it stands
        if is_final(call) and told != "final":
            del call["observation"]
            call["size"] = len(fitted[call["id"]])
            told_now = with_attached(fitted[call["id"]], attached[call["id"]])
            messages.append(_message(call, told_now, message_id))
            call["told"] = "final"
        elif not is_final(call) and told is None:
            text = say("awaiting_user", language, tool=call["name"])
            messages.append(_message(call, failure(ErrorCode.AWAITING_USER, text), message_id))
            call["told"] = "provisional"
    return messages


def _message(call: Call, observation: str, message_id: str) -> ToolMessage:
    return ToolMessage(
        content=content_of(observation),
        tool_call_id=call["id"],
        name=call["name"],
        status="success" if call["state"] == CallState.OK else "error",
        id=f"{message_id}.{call['position']}",
    )

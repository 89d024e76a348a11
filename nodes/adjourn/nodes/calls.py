"""A call and a question as the state holds them: plain JSON data. Pure."""

from typing import Any, Literal, NotRequired, TypedDict

from adjourn.checkpoints.lifecycle import FINAL


class Call(TypedDict):
    """One call of the current step, as requested and as it stands."""

    id: str
    name: str
    position: int  # its place in the assistant message, from 0
    batch: int  # which group of the step it runs with, from 0
    effect: str  # "read" or "write"
    arguments: dict[str, Any] | None  # None: the text did not parse
    state: str  # a word of CallState
    raw: NotRequired[str]  # the argument text, where it did not parse
    resource: NotRequired[str]
    question: NotRequired["Question"]  # what a person is asked while the call waits
    asked: NotRequired[int]  # questions about this call that were answered
    approved: NotRequired[bool]  # a person agreed to these arguments
    approved_by: NotRequired[str | None]
    agreed: NotRequired[list[dict[str, Any]]]  # who agreed to these arguments, where more people have to
    asked_for: NotRequired[dict[str, Any]]  # the arguments before a person edited them
    observation: NotRequired[str]  # the final observation, until it stands in the messages
    size: NotRequired[int]  # characters of the final observation that stands in the messages
    told: NotRequired[Literal["provisional", "final"]]  # which observation stands in the messages


class Question(TypedDict):
    """One question to a person, before it is a row; `id` is stable over re-reads and re-execution."""

    id: str
    call_id: str
    type: str
    reason: str
    payload: dict[str, Any]
    response_schema: dict[str, Any]
    expires_in_s: NotRequired[float]  # seconds from when it is asked; without: it waits until it is answered
    approvals: NotRequired[dict[str, Any]]  # needed, of, given; without: one person's answer settles it


def is_final(call: Call) -> bool:
    """Whether the call has its outcome."""
    return call["state"] in FINAL

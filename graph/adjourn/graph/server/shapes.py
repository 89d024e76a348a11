"""What comes in and what goes out, as pydantic models: requests are checked with them, and `/openapi.json` is made of them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from adjourn.checkpoints.lifecycle import (
    HIGHEST_PRIORITY,
    CallState,
    Effect,
    ErrorCode,
    InterruptType,
    RunStatus,
    StopReason,
)

Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}$")]
"""An id that a client may choose: it stands in paths and logs."""


class _Taken(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)


class _Given(BaseModel):
    model_config = ConfigDict(extra="allow")


class StartRequest(_Taken):
    """A message that starts a run. The same `run_id`, or the same header `Idempotency-Key`, starts it once."""

    message: str | list[str | dict[str, Any]] = Field(
        min_length=1,
        description="What the run is to do: a text, or texts and content blocks such as "
        '`{"type": "image", "url": ...}`.',
    )
    thread_id: Id | None = Field(None, description="The conversation to go on with; without: a new one.")
    run_id: Id | None = Field(None, description="An id of your own for the run; without: one is made.")
    priority: int = Field(
        0,
        ge=-HIGHEST_PRIORITY,
        le=HIGHEST_PRIORITY,
        strict=True,
        description="Workers take the highest first, then the oldest.",
    )


class AnswersRequest(_Taken):
    """Answers by the ids of their questions. All are checked before any is stored."""

    answers: dict[str, Any] = Field(
        min_length=1,
        description="Question id -> answer. For `params_required` the values; for `confirm_risky` "
        '`{"action": "approve"}`, `{"action": "edit", "arguments": {...}}` or `{"action": "reject", "reason": "..."}`; '
        "each question's `response_schema` says it exactly.",
    )


class ListQuery(_Taken):
    """Which runs are listed."""

    status: list[RunStatus] = Field(default=[], description="Only those of these statuses.")
    thread_id: str | None = Field(None, description="Only those of this conversation.")
    limit: int = Field(50, ge=1, le=200, description="At most so many, newest first.")


class EventsQuery(_Taken):
    """From where events are given; the header `Last-Event-ID` says the same and wins."""

    after: int = Field(0, ge=0, lt=10**15, description="Only events with a number above this one.")


class QuestionShown(_Given):
    """An open question: what is asked, about which call, and the JSON Schema of the answer."""

    id: str
    call_id: str
    path: str
    type: InterruptType
    tool: str
    arguments: dict[str, Any]
    reason: str
    payload: dict[str, Any]
    response_schema: dict[str, Any]
    approvals: dict[str, Any] | None = Field(
        None, description="Where several have to agree: `needed`, `of` (empty: anybody), and `given` so far."
    )
    expires_at: str | None = None


class CallShown(_Given):
    """A tool call, without its result: the events hold what people may see of it."""

    step: int
    call_id: str
    tool: str
    effect: Effect
    arguments: dict[str, Any] | None
    outcome: CallState
    error_code: ErrorCode | None
    attempts: int


class RunLine(_Given):
    """A run in a list."""

    id: str
    thread_id: str
    graph: str
    status: RunStatus
    stop_reason: StopReason | None
    shown_reason: str | None = Field(
        description="`stop_reason`, or `ask_user` while the run waits for people."
    )
    started_by: str | None
    priority: int
    input: str
    answer: str | None
    error: dict[str, Any] | None = Field(description="Why it failed: class and message.")
    steps: int
    last_event: int = Field(description="The number of the newest event: ask for those after it.")
    created_at: str
    updated_at: str
    ended_at: str | None


class RunShown(RunLine):
    """A run with its calls and its open questions."""

    interrupts: list[QuestionShown]
    calls: list[CallShown]


class RunList(BaseModel):
    """Runs, newest first."""

    runs: list[RunLine]
    damaged: list[str] = Field([], description="Rows that cannot be read and are left out: which, and why.")


class Asked(BaseModel):
    """An open question, and the run that asks."""

    run_id: str
    thread_id: str
    graph: str
    started_by: str | None
    asked_at: str
    mine: bool = Field(description="Whether the run is yours, so that you may see all of it.")
    may_answer: bool = Field(
        description="False: it is a question of your run that other people have to answer."
    )
    question: QuestionShown


class Inbox(BaseModel):
    """Open questions that you may answer, and those of your runs, the oldest first."""

    questions: list[Asked]
    damaged: list[str] = Field(
        [], description="Rows that cannot be read and are left out; told to whoever sees all."
    )


class AnswersTaken(BaseModel):
    """What became of answers to somebody else's run."""

    run_id: str
    run_status: RunStatus
    answered: list[str]


class EventShown(_Given):
    """An event. Its other fields depend on `type`; `text_delta` alone has no number, and is not stored."""

    type: Literal[
        "run_started", "step_started", "text_delta", "text_discarded", "message", "tool_call", "tool_progress",
        "tool_result", "loop_interrupt", "interrupt_answered", "run_finished", "run_failed",
    ]  # fmt: skip
    run_id: str
    path: str
    step: int
    number: int | None


class EventList(BaseModel):
    """Stored events, in order."""

    events: list[EventShown]


class Me(BaseModel):
    """Who you are here."""

    person: str | None
    sees_all: bool = Field(
        description="Whether every run is shown: the server is on loopback and has no tokens."
    )
    graph: str


class Health(BaseModel):
    """Whether the server takes work."""

    status: Literal["ok", "closing"]


class Problem(_Given):
    """What went wrong (RFC 9457). `detail` is one sentence that says what to do; `type` is stable."""

    type: str
    title: str
    status: int
    detail: str

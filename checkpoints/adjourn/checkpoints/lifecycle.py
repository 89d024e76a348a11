"""The states of runs, calls and interrupts, and the moves between them.

This file owns the life cycles. Each table maps a state and an event to the next state; a state without
a way out has an empty entry. A move that is not in its table raises `IllegalMove` and changes nothing.
The database holds the same words: the CHECK constraints in `run_schema.py` are made from these enums, and
each UPDATE of a status names the states it may start from (`sources`).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from adjourn.checkpoints.errors import IllegalMove

HIGHEST_PRIORITY = 1000  # of a run; the lowest is its negative. Only their order counts


class RunStatus(StrEnum):
    """Where a run stands. `running` and `interrupted` are live: a thread has at most one such run."""

    RUNNING = "running"  # somebody drives it, or drove it until a lease ran out
    INTERRUPTED = "interrupted"  # waits for people and holds nothing
    FINISHED = "finished"  # has an answer or a stop reason
    CANCELLED = "cancelled"  # a person stopped it
    FAILED = "failed"  # a model or a worker gave up; resumable


class RunEvent(StrEnum):
    """What can happen to a run."""

    RECOVER = "recover"  # another owner takes over after the lease ran out
    ASK = "ask"  # calls wait for a person
    GO_ON = "go_on"  # the set of answers is complete
    FINISH = "finish"
    DISMISS = "dismiss"  # a plain message closed its questions
    CANCEL = "cancel"
    FAIL = "fail"
    RETRY = "retry"  # a failed run is taken up again


class CallState(StrEnum):
    """Where a call stands; all but the first three are outcomes and final."""

    PLANNED = "planned"  # issued, not judged yet
    STARTED = "started"  # its tool runs, or ran when the process died
    WAITING = "waiting"  # a person is asked
    OK = "ok"
    FAILED = "failed"  # the tool raised, timed out, or was cut off by a limit
    INVALID = "invalid"  # arguments or tool name: it could not run
    DENIED = "denied"  # no permission
    DECLINED = "declined"  # a person said no
    DISMISSED = "dismissed"  # the question was passed over by a plain message
    EXPIRED = "expired"  # nobody answered in time
    CANCELLED = "cancelled"
    SKIPPED = "skipped"  # a limit or an earlier failure kept it from running
    REPEATED = "repeated"  # the same call succeeded before in this run
    UNKNOWN = "unknown"  # a write whose effect cannot be told


class InterruptState(StrEnum):
    """Where a question stands."""

    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"
    DISMISSED = "dismissed"
    CANCELLED = "cancelled"


class InterruptType(StrEnum):
    """What a question is about."""

    PARAMS_REQUIRED = "params_required"  # values are missing
    CONFIRM_RISKY = "confirm_risky"  # agreement is needed
    OUTCOME_UNKNOWN = "outcome_unknown"  # did this write happen?
    CUSTOM = "custom"  # raised by LangGraph's own `interrupt()`


class StopReason(StrEnum):
    """Why a run ended. A closed list: each finished or cancelled run has exactly one."""

    ANSWERED = "answered"
    MAX_STEPS = "max_steps"
    TIMEOUT = "timeout"
    TOO_MANY_FAILS = "too_many_fails"
    LOOP_DETECTED = "loop_detected"
    NO_EVIDENCE = "no_evidence"
    BUDGET_SPENT = "budget_spent"
    PROTOCOL_ERROR = "protocol_error"
    DISMISSED = "dismissed"
    CANCELLED = "cancelled"


class FlowStepState(StrEnum):
    """Where a step of a flow stands."""

    PENDING = "pending"  # not reached yet
    RUNNING = "running"  # reached; it may wait for a person
    DONE = "done"
    SKIPPED = "skipped"  # its condition did not hold, or a branch went past it
    FAILED = "failed"  # it did not succeed, or people said no
    STOPPED = "stopped"  # the model called nothing, or the run ended in it


class Effect(StrEnum):
    """What a tool does to the world."""

    READ = "read"
    WRITE = "write"


class ErrorCode(StrEnum):
    """Why a call did not succeed, as the model is told. A closed list."""

    INVALID_ARGUMENTS = "invalid_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    OUTPUT_CUT = "output_cut"
    PERMISSION_DENIED = "permission_denied"
    TOOL_ERROR = "tool_error"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    NOT_FOUND = "not_found"
    CANCELLED = "cancelled"
    RUN_STOPPED = "run_stopped"
    TOO_MANY_CALLS = "too_many_calls"
    SKIPPED_WRITE_LIMIT = "skipped_write_limit"
    SKIPPED_AFTER_FAILURE = "skipped_after_failure"
    SKIPPED_IN_SERIAL_STEP = "skipped_in_serial_step"
    REPEATED_CALL = "repeated_call"
    TOOL_DISABLED = "tool_disabled"
    AWAITING_USER = "awaiting_user"
    USER_DECLINED = "user_declined"
    USER_DISMISSED = "user_dismissed"
    EXPIRED = "expired"
    OUTCOME_UNKNOWN = "outcome_unknown"
    SPECIALIST_STOPPED = "specialist_stopped"


_RS, _RE = RunStatus, RunEvent
RUN_MOVES: Mapping[RunStatus, Mapping[RunEvent, RunStatus]] = {
    _RS.RUNNING: {
        _RE.RECOVER: _RS.RUNNING,
        _RE.ASK: _RS.INTERRUPTED,
        _RE.FINISH: _RS.FINISHED,
        _RE.DISMISS: _RS.FINISHED,
        _RE.CANCEL: _RS.CANCELLED,
        _RE.FAIL: _RS.FAILED,
    },
    _RS.INTERRUPTED: {
        _RE.GO_ON: _RS.RUNNING,
        _RE.DISMISS: _RS.FINISHED,
        _RE.CANCEL: _RS.CANCELLED,
    },
    _RS.FAILED: {_RE.RETRY: _RS.RUNNING, _RE.DISMISS: _RS.FINISHED, _RE.CANCEL: _RS.CANCELLED},
    _RS.FINISHED: {},
    _RS.CANCELLED: {},
}

LIVE: frozenset[RunStatus] = frozenset({RunStatus.RUNNING, RunStatus.INTERRUPTED})

_CS = CallState
_UNRUN = (_CS.INVALID, _CS.DENIED, _CS.DECLINED, _CS.CANCELLED, _CS.SKIPPED, _CS.REPEATED)
_RAN = (_CS.OK, _CS.FAILED, _CS.UNKNOWN)
_PASSED_OVER = (_CS.DISMISSED, _CS.EXPIRED)

# A call's event is the state it leads to: `started` on a started call is its next attempt, `waiting` on a
# waiting one its next question, `planned` a person's yes. Reads have no `started` of their own: what a crash
# leaves of them is read again. What a person was asked about may have happened before (`outcome_unknown`).
CALL_MOVES: Mapping[CallState, Mapping[CallState, CallState]] = {
    _CS.PLANNED: {to: to for to in (_CS.STARTED, _CS.WAITING, *_RAN, *_UNRUN)},
    _CS.STARTED: {to: to for to in (_CS.STARTED, _CS.WAITING, *_RAN, *_UNRUN)},
    _CS.WAITING: {to: to for to in (_CS.PLANNED, _CS.STARTED, _CS.WAITING, *_RAN, *_UNRUN, *_PASSED_OVER)},
    **{state: {} for state in CallState if state not in (_CS.PLANNED, _CS.STARTED, _CS.WAITING)},
}

FINAL: frozenset[CallState] = frozenset(state for state, moves in CALL_MOVES.items() if not moves)

_IS = InterruptState
INTERRUPT_MOVES: Mapping[InterruptState, Mapping[InterruptState, InterruptState]] = {
    _IS.OPEN: {to: to for to in (_IS.ANSWERED, _IS.EXPIRED, _IS.DISMISSED, _IS.CANCELLED)},
    _IS.ANSWERED: {},
    _IS.EXPIRED: {},
    _IS.DISMISSED: {},
    _IS.CANCELLED: {},
}

_FS = FlowStepState
# A step that failed may be begun again.
FLOW_STEP_MOVES: Mapping[FlowStepState, Mapping[FlowStepState, FlowStepState]] = {
    _FS.PENDING: {to: to for to in (_FS.RUNNING, _FS.SKIPPED, _FS.FAILED)},
    _FS.RUNNING: {to: to for to in (_FS.RUNNING, _FS.DONE, _FS.FAILED, _FS.STOPPED)},
    _FS.FAILED: {_FS.RUNNING: _FS.RUNNING},
    _FS.DONE: {},
    _FS.SKIPPED: {},
    _FS.STOPPED: {},
}

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


def move(table: Mapping[S, Mapping[E, S]], state: S, event: E, *, of: str) -> S:
    """The state that `event` leads to from `state`.

    `of` names what moves, for the error: `"run run_1"`.
    Raises `IllegalMove` when the table has no such move.
    """
    try:
        return table[state][event]
    except KeyError:
        raise IllegalMove(of, state.value, event.value) from None


def sources(table: Mapping[S, Mapping[E, S]], event: E) -> tuple[S, ...]:
    """The states from which `event` may happen, for the WHERE of the UPDATE that makes the move."""
    return tuple(state for state, moves in table.items() if event in moves)

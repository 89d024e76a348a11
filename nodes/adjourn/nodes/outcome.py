"""How a call ended: what the model is told, what people see, and what the ledger keeps. Pure."""

from dataclasses import dataclass
from typing import Any

from adjourn.checkpoints.lifecycle import CallState, ErrorCode
from adjourn.nodes.observations import failure
from adjourn.nodes.texts import say


@dataclass(frozen=True, slots=True)
class Outcome:
    """The normalised end of a call (C-25). `question` is set instead when the tool returned one.

    `observation` is JSON text. `error` holds class, text and stack of an exception, for the ledger only.
    """

    state: CallState
    observation: str = ""
    code: ErrorCode | None = None
    shown: Any = None
    error: dict[str, str] | None = None
    question: dict[str, Any] | None = None
    attempts: int = 0
    took_ms: int | None = None


# The state of a call that ended for this reason without its tool having a say: not entered, or stopped from outside.
STATE_OF: dict[ErrorCode, CallState] = {
    ErrorCode.INVALID_ARGUMENTS: CallState.INVALID,
    ErrorCode.UNKNOWN_TOOL: CallState.INVALID,
    ErrorCode.OUTPUT_CUT: CallState.INVALID,
    ErrorCode.PERMISSION_DENIED: CallState.DENIED,
    ErrorCode.TOOL_ERROR: CallState.FAILED,
    ErrorCode.TIMEOUT: CallState.FAILED,
    ErrorCode.RATE_LIMITED: CallState.FAILED,
    ErrorCode.UNAVAILABLE: CallState.FAILED,
    ErrorCode.NOT_FOUND: CallState.FAILED,
    ErrorCode.SPECIALIST_STOPPED: CallState.FAILED,
    ErrorCode.CANCELLED: CallState.CANCELLED,
    ErrorCode.RUN_STOPPED: CallState.SKIPPED,
    ErrorCode.TOO_MANY_CALLS: CallState.SKIPPED,
    ErrorCode.SKIPPED_WRITE_LIMIT: CallState.SKIPPED,
    ErrorCode.SKIPPED_AFTER_FAILURE: CallState.SKIPPED,
    ErrorCode.SKIPPED_IN_SERIAL_STEP: CallState.SKIPPED,
    ErrorCode.REPEATED_CALL: CallState.REPEATED,
    ErrorCode.TOOL_DISABLED: CallState.SKIPPED,
    ErrorCode.USER_DECLINED: CallState.DECLINED,
    ErrorCode.USER_DISMISSED: CallState.DISMISSED,
    ErrorCode.EXPIRED: CallState.EXPIRED,
    ErrorCode.OUTCOME_UNKNOWN: CallState.UNKNOWN,
}


def failed(
    code: ErrorCode,
    language: str,
    tool: str,
    *,
    state: CallState | None = None,
    text: str | None = None,
    suggestion: str | None = None,
    data: Any = None,
    error: dict[str, str] | None = None,
    attempts: int = 0,
    took_ms: int | None = None,
    **values: object,
) -> Outcome:
    """The outcome of a call that did not succeed, told in the user's language.

    `state` is what became of a call whose tool was entered; None: as the code says. `text` is the key of the text, where
    it is not the code's own word; `values` fill it in.
    """
    message = say(text or code.value, language, tool=tool, **values)
    return Outcome(
        state=state or STATE_OF[code],
        observation=failure(code, message, suggestion=suggestion, data=data),
        code=code,
        error=error,
        attempts=attempts,
        took_ms=took_ms,
    )

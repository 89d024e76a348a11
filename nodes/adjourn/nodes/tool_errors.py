"""What a tool may raise to say more than that it failed. Every other exception is understood by its class."""

from typing import Any, ClassVar

from adjourn.checkpoints.errors import AdjournError, UsageError
from adjourn.checkpoints.lifecycle import ErrorCode

# The others are the runtime's own: they say why a tool was not entered, or what became of it without its doing.
RAISABLE: frozenset[ErrorCode] = frozenset(
    {
        ErrorCode.TOOL_ERROR,
        ErrorCode.INVALID_ARGUMENTS,
        ErrorCode.NOT_FOUND,
        ErrorCode.PERMISSION_DENIED,
        ErrorCode.RATE_LIMITED,
        ErrorCode.TIMEOUT,
        ErrorCode.UNAVAILABLE,
        ErrorCode.OUTCOME_UNKNOWN,
    }
)


class ToolError(AdjournError):
    """The call failed, and the message is meant for the model.

    `code` is one of the codes that a tool can bring about (`RAISABLE`); `suggestion` says what the model could do, `data`
    holds what was found before it failed. A write that raises this is known to have failed: raise it only where its
    effect did not happen, or cannot matter. With the code `outcome_unknown` it says that this is not known.

    Raises `UsageError` for any other code.
    """

    codes: ClassVar[frozenset[ErrorCode]] = RAISABLE
    # for a class of one's own that does not call this `__init__`
    message: str = ""
    code: ErrorCode = ErrorCode.TOOL_ERROR
    suggestion: str | None = None
    data: Any = None

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode | str = ErrorCode.TOOL_ERROR,
        suggestion: str | None = None,
        data: Any = None,
    ) -> None:
        super().__init__(message)
        if code not in self.codes:
            raise UsageError(
                f"a tool cannot bring about {code!s}; its codes are {', '.join(sorted(self.codes))}"
            )
        self.message = message
        self.code = ErrorCode(code)
        self.suggestion = suggestion
        self.data = data


class NotDone(ToolError):
    """A write had no effect, whatever went wrong: it is `failed`, not `unknown` (C-28)."""


class RateLimited(ToolError):
    """The system asks to be called later. `retry_after_s`: how much later, in seconds; None: it did not say.

    The call is taken as not done. A read, and a write that is declared idempotent, is tried again (C-30).
    """

    retry_after_s: float | None = None

    def __init__(self, message: str = "too many requests", *, retry_after_s: float | None = None) -> None:
        super().__init__(message, code=ErrorCode.RATE_LIMITED)
        self.retry_after_s = retry_after_s


class SpecialistError(ToolError):
    """What the runtime itself says of a call that hands a task on, which may not have been entered: any code."""

    codes = frozenset(ErrorCode)

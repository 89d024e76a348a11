"""What a tool may raise to say more than that it failed. Every other exception is understood by its class."""

from typing import Any

from adjourn.checkpoints.errors import AdjournError
from adjourn.checkpoints.lifecycle import ErrorCode


class ToolError(AdjournError):
    """The call failed, and the message is meant for the model.

    `code` is one of the codes that a tool can bring about; `suggestion` says what the model could do, `data`
    holds what was found before it failed. A write that raises this is known to have failed: raise it only
    where its effect did not happen, or cannot matter.
    """

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode | str = ErrorCode.TOOL_ERROR,
        suggestion: str | None = None,
        data: Any = None,
    ) -> None:
        super().__init__(message)
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

    def __init__(self, message: str = "too many requests", *, retry_after_s: float | None = None) -> None:
        super().__init__(message, code=ErrorCode.RATE_LIMITED)
        self.retry_after_s = retry_after_s

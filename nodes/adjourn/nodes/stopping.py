"""What becomes of the calls of a step when their run is stopped."""

from adjourn.checkpoints.lifecycle import Effect, ErrorCode, StopReason
from adjourn.nodes.calls import Call
from adjourn.nodes.context import Happened
from adjourn.nodes.execute import Executor, verified
from adjourn.nodes.outcome import Outcome, failed


async def stopped(
    call: Call, executor: Executor, reason: StopReason, *, was_running: bool, is_in_doubt: bool
) -> Outcome:
    """The outcome of a call that had not ended: of a write that had started, as far as can be told (C-61).

    A read that was running when the time was over is answered `timeout` (C-53).
    """
    tool, language, name = executor.tools.get(call["name"]), executor.language, call["name"]
    code, text = ErrorCode.RUN_STOPPED, None
    if reason is StopReason.CANCELLED:
        code = ErrorCode.CANCELLED
    elif was_running and call["effect"] == Effect.READ:
        code, text = ErrorCode.TIMEOUT, "timeout.run"
    if is_in_doubt:
        verdict = None
        if tool is not None:
            verdict = await verified(tool, executor.context(call, tool), executor.run.places)
        if tool is not None and isinstance(verdict, Happened):
            return executor.succeeded(tool, call, verdict.result)
        code = code if verdict is False else ErrorCode.OUTCOME_UNKNOWN
    return failed(code, language, name, text=text)

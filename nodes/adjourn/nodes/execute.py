"""One call: look-up, argument check, attempts within their time limit, outcome. One entry point (C-25).

An exception in a tool is an outcome, never the end of the run. LangGraph's own control exceptions pass.
"""

import asyncio
import inspect
import logging
import random
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from langgraph.errors import GraphBubbleUp, GraphInterrupt

from adjourn.checkpoints.lifecycle import CallState, Effect, ErrorCode
from adjourn.nodes.attempt import begin, result_of
from adjourn.nodes.calls import Call
from adjourn.nodes.context import Happened, ToolContext
from adjourn.nodes.failures import Failure, TimeLimit, failure_of, public_message
from adjourn.nodes.masking import Masker
from adjourn.nodes.merging import merge
from adjourn.nodes.observations import plain, success
from adjourn.nodes.outcome import Outcome, failed
from adjourn.nodes.questions import asks
from adjourn.nodes.run_context import RunContext
from adjourn.nodes.texts import say
from adjourn.nodes.tool import ArgumentProblems, Tool
from adjourn.nodes.tool_errors import ToolError

log = logging.getLogger("adjourn.call")

BACKOFF_S = 0.2  # before the second attempt; doubled for each further one, and jittered by half
LONGEST_WAIT_S = 30.0  # a rate limit that asks for more is answered as it is: the model can decide
VERIFY_S = 10.0  # how long `verify` may take


@dataclass(frozen=True, slots=True)
class Executor:
    """Executes the calls of one step."""

    tools: Mapping[str, Tool]
    run: RunContext
    step: int
    language: str
    max_parallel: int
    masker: Masker

    def context(self, call: Call, tool: Tool) -> ToolContext:
        """What the tool is told about this call (C-31), before its first attempt."""
        run = self.run
        return ToolContext(
            run_id=run.run_id,
            thread_id=run.thread_id,
            step=self.step,
            call_id=call["id"],
            tool=tool.name,
            # the same for each attempt, also after a crash and in another process
            idempotency_key=f"{run.run_id}:{self.step}:{call['id']}",
            arguments=call["arguments"] or {},
            started_by=run.started_by,
            approved=call.get("approved", False),
            approved_by=call.get("approved_by"),
            cancelled=run.cancel.for_threads,
        )

    def succeeded(self, tool: Tool, call: Call, result: Any) -> Outcome:
        """The outcome of a call with this result; one without any JSON form does no harm."""
        note = edit_note(call, self.language, self.masker)
        limit, language, mask = tool.result_limit, self.language, self.masker.data
        try:
            shaped = merge(plain(result), tool.merge_by, rank=tool.rank_by) if tool.merge_by else result
            observation = success(shaped, limit=limit, language=language, note=note, mask=mask)
        except Exception as error:  # a result with a hostile __str__, or a cycle; the tool did its work
            log.warning("call %s of %s: its result has no JSON form: %s", call["id"], tool.name, error)
            observation = success(f"<{type(result).__name__}>", limit=limit, language=language, note=note)
        return Outcome(CallState.OK, observation=observation)

    async def execute(self, call: Call, *, attempts: int = 0) -> Outcome:
        """Judge and run one call; give its outcome. Never raises but for `LeaseLost` and LangGraph's control.

        A write's `started` is on the disk before its tool is entered (C-33). The outcome is not stored here.
        `attempts` is how many were made before, by an owner that died.
        """
        tool = self.tools.get(call["name"])
        if tool is None:
            return unknown_tool(call["name"], self.tools, self.language)
        arguments = call["arguments"] or {}
        problems = tool.problems(arguments)
        if problems.wrong or problems.missing:
            return invalid_arguments(tool, problems, self.language, self.masker)
        is_write = Effect.WRITE in (call["effect"], tool.effect_of(arguments))
        return await _Execution(tool, call, self, is_write, attempt=attempts).outcome()


def edit_note(call: Call, language: str, masker: Masker) -> dict[str, Any] | None:
    """What the observation says when a person changed the arguments (C-44)."""
    if "asked_for" not in call:
        return None
    asked = masker.data(call["asked_for"])
    return {"ran": masker.data(call["arguments"]), "note": say("edited", language, asked=asked)}


def unknown_tool(name: str, tools: Mapping[str, Tool], language: str) -> Outcome:
    """The outcome of a call of a name that is not on the list; the message lists the ones that are (C-26)."""
    known = ", ".join(tools) or "-"
    return failed(ErrorCode.UNKNOWN_TOOL, language, name, known=known)


def invalid_arguments(tool: Tool, problems: ArgumentProblems, language: str, masker: Masker) -> Outcome:
    """The outcome of a call whose arguments do not fit: each field, and what was expected (C-26)."""
    said = [f"{field}: {why}" if field else why for field, why in problems.wrong.items()]
    said += [f"{field}: Field required" for field in problems.missing]
    return failed(
        ErrorCode.INVALID_ARGUMENTS,
        language,
        tool.name,
        suggestion=say("invalid_arguments.suggestion", language, tool=tool.name),
        why=masker.text("; ".join(said)),
    )


@dataclass(slots=True)
class _Execution:
    """The attempts of one call. `attempt` is the number of the last one that was made."""

    tool: Tool
    call: Call
    executor: Executor
    is_write: bool
    attempt: int = 0
    made: int = 0  # attempts by this owner
    time_limits: int = 0
    began: float = 0.0

    async def outcome(self) -> Outcome:
        """Make attempts until one succeeds, or none is worth making."""
        self.began = time.monotonic()
        while True:
            try:
                result = await self._attempt()
            except GraphInterrupt:
                return self._failed(ErrorCode.TOOL_ERROR, raised=ToolError(_NO_INTERRUPT), **self._counted())
            except GraphBubbleUp:
                raise
            except _NoPlace:
                return self._failed(ErrorCode.SKIPPED_AFTER_FAILURE, attempts=self.attempt)
            except Exception as error:
                failure = failure_of(error)
                wait_s = self._wait_before_another(error, failure)
                if wait_s is None:
                    return await self._given_up(error, failure)
                log.info(
                    "call %s of %s, attempt %s: %r", self.call["id"], self.tool.name, self.attempt, error
                )
                await asyncio.sleep(wait_s)
            else:
                return self._ended(result)

    async def _attempt(self) -> Any:
        """One attempt. What it raises is the tool's own, or `TimeLimit`."""
        run, tool = self.executor.run, self.tool
        if self.is_write:
            if not await run.places.writes_ended(tool.timeout_s):
                raise _NoPlace
        else:
            await run.places.read(self.executor.max_parallel)
        entered = False
        try:
            context = self._context()
            arguments = tool.bind(self.call["arguments"] or {}, context)
            self.attempt, self.made = self.attempt + 1, self.made + 1
            if self.is_write:
                await run.ledger.start(
                    self.executor.step,
                    self.call,
                    attempt=self.attempt,
                    idempotency_key=context.idempotency_key,
                    synced=True,
                )
                self.call["state"] = CallState.STARTED.value
            work = begin(tool, arguments)
            entered = True
        finally:
            if not entered and not self.is_write:
                run.places.give_back()
        if not self.is_write:
            work.add_done_callback(run.places.give_back)
        try:
            return await result_of(work, tool.timeout_s)
        finally:
            if self.is_write:
                run.places.abandon_write(work)  # if it still goes on

    def _context(self) -> ToolContext:
        limit = self.tool.timeout_s
        deadline = None if limit is None else time.monotonic() + limit
        context = self.executor.context(self.call, self.tool)
        return replace(context, attempt=self.attempt + 1, deadline=deadline)

    def _wait_before_another(self, error: Exception, failure: Failure) -> float | None:
        """Seconds to wait before another attempt; None: none is made (C-30)."""
        self.time_limits += failure.code is ErrorCode.TIMEOUT
        may = not self.is_write or self.tool.idempotent
        if not (failure.again and may) or self.made > self.tool.retries or self.time_limits > 1:
            return None
        if failure.retry_after_s is not None:
            return failure.retry_after_s if failure.retry_after_s <= LONGEST_WAIT_S else None
        return BACKOFF_S * 2.0 ** (self.made - 1) * random.uniform(0.5, 1.5)

    def _ended(self, result: Any) -> Outcome:
        if asks(result):
            return Outcome(CallState.WAITING, question=result, attempts=self.attempt, took_ms=self._took_ms())
        return replace(self.executor.succeeded(self.tool, self.call, result), **self._counted())

    async def _given_up(self, error: Exception, failure: Failure) -> Outcome:
        kept = {name: self.executor.masker.text(text) for name, text in _kept(error).items()}
        log.warning("call %s of %s raised %s: %s", self.call["id"], self.tool.name, kept["class"], error)
        code = failure.code
        if self.is_write and failure.lost:
            verdict = await verified(self.tool, self._context())
            if isinstance(verdict, Happened):
                return self._ended(verdict.result)
            code = failure.code if verdict is False else ErrorCode.OUTCOME_UNKNOWN
        return self._failed(code, error=kept, raised=error, **self._counted())

    def _failed(self, code: ErrorCode, *, raised: Exception | None = None, **more: Any) -> Outcome:
        seconds = f"{self.tool.timeout_s:g}" if isinstance(raised, TimeLimit) else "-"
        masker = self.executor.masker
        why = masker.text(public_message(raised)) if raised is not None else "-"
        told = raised if isinstance(raised, ToolError) else None
        return failed(
            code,
            self.executor.language,
            self.tool.name,
            why=why,
            seconds=seconds,
            suggestion=masker.text(told.suggestion) if told and told.suggestion else None,
            data=masker.data(plain(told.data)) if told else None,
            **more,
        )

    def _counted(self) -> dict[str, Any]:
        return {"attempts": self.attempt, "took_ms": self._took_ms()}

    def _took_ms(self) -> int:
        return round((time.monotonic() - self.began) * 1000)


# It would have to be matched with its answer by the order of calls in the node, and reads run side by side.
_NO_INTERRUPT = "a tool cannot call LangGraph's interrupt(); return params_required(...) or confirm_risky(...) of adjourn.nodes"


class _NoPlace(Exception):
    """An abandoned write of the run still goes on: no other one may start (C-21)."""


async def verified(tool: Tool, context: ToolContext) -> Happened | bool | None:
    """What the tool's `verify` says of a write whose outcome was lost; None: it cannot tell, or there is none."""
    if tool.verify is None:
        return None
    try:
        async with asyncio.timeout(VERIFY_S):
            said = tool.verify(context)
            if inspect.isawaitable(said):
                said = await said
    except Exception as error:
        log.warning("verify of %s for call %s failed: %r", tool.name, context.call_id, error)
        return None
    return said if isinstance(said, Happened) or said is False else None


def _kept(error: Exception) -> dict[str, str]:
    """What the ledger keeps of an exception (C-29)."""
    return {
        "class": f"{type(error).__module__}.{type(error).__qualname__}",
        "text": str(error),
        "stack": "".join(traceback.format_exception(error)),
    }

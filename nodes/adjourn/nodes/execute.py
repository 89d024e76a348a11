"""One call: look-up, argument check, attempts within their time limit, outcome. One entry point (C-25).

An exception in a tool is an outcome, never the end of the run. LangGraph's own control exceptions pass.
"""

import asyncio
import copy
import functools
import logging
import random
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from langgraph.errors import GraphBubbleUp, GraphInterrupt

from adjourn.checkpoints.lifecycle import CallState, Effect, ErrorCode
from adjourn.checkpoints.records import KEY_LENGTH, shortened
from adjourn.checkpoints.sealed import hidden
from adjourn.nodes.attempt import HeldPlaces, Places, Work, begin, in_thread, result_of
from adjourn.nodes.calls import Call
from adjourn.nodes.context import Happened, ToolContext
from adjourn.nodes.failures import Failure, TimeLimit, failure_of, public_message, text_of
from adjourn.nodes.masking import Masker
from adjourn.nodes.observations import plain, success
from adjourn.nodes.outcome import Outcome, failed
from adjourn.nodes.progress import Progress
from adjourn.nodes.questions import asks
from adjourn.nodes.results import shaped
from adjourn.nodes.run_context import RunContext
from adjourn.nodes.sealing import forms
from adjourn.nodes.texts import say
from adjourn.nodes.tool import ArgumentProblems, Tool
from adjourn.nodes.tool_errors import ToolError

log = logging.getLogger("adjourn.call")

BACKOFF_S = 0.2  # before the second attempt; doubled for each further one, and jittered by half
LONGEST_WAIT_S = 30.0  # a rate limit that asks for more is answered as it is: the model can decide
VERIFY_S = 10.0  # how long `verify` may take
ENDS_S = 0.2  # how long one waits for an attempt that was told to stop, before `verify` is asked: a task ends at once


@dataclass(frozen=True, slots=True)
class Executor:
    """Executes the calls of one step."""

    tools: Mapping[str, Tool]
    run: RunContext
    step: int
    language: str
    max_parallel: int
    masker: Masker
    left_s: float | None = None  # of the run's time, when the batch began; None: no limit

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
            idempotency_key=shortened(f"{run.run_id}:{self.step}:{call['id']}", KEY_LENGTH),
            arguments=hidden(call["arguments"] or {}),
            context=copy.deepcopy(run.given),  # what a tool does to it is no other tool's matter
            started_by=run.started_by,
            approved=call.get("approved", False),
            approved_by=call.get("approved_by"),
            cancelled=run.cancel.for_threads,
            children=run.children if tool.delegates is not None else None,
        )

    def succeeded(self, tool: Tool, call: Call, result: Any, masker: Masker | None = None) -> Outcome:
        """The outcome of a call with this result; one without any JSON form does no harm."""
        masker, language = masker or self.masker, self.language
        note = edit_note(call, language, masker)
        try:
            told = shaped(tool, result, language=language, note=note, mask=masker.data)
        except Exception as error:  # a result with a hostile __str__, or a cycle; the tool did its work
            kind = type(error).__name__
            log.warning("call %s of %s: its result has no JSON form (%s)", call["id"], tool.name, kind)
            nothing = f"<{type(result).__name__}>"
            observation = success(nothing, limit=tool.result_limit, language=language, note=note)
            return Outcome(CallState.OK, observation=observation)
        return Outcome(CallState.OK, observation=told.observation, shown=told.shown)

    async def execute(self, call: Call, *, attempts: int = 0) -> Outcome:
        """Judge and run one call; give its outcome. Never raises but for `LeaseLost` and LangGraph's control.

        A write's `started` is on the disk before its tool is entered (C-33). The outcome is not stored here.
        `attempts` is how many were made before, by an owner that died. What the store or the key of a secret
        refuses is passed on: that is no matter of the tool's.
        """
        tool = self.tools.get(call["name"])
        if tool is None:
            return unknown_tool(call["name"], self.tools, self.language)
        arguments = call["arguments"] or {}
        problems = tool.problems(arguments)
        if problems.wrong or problems.missing:
            return invalid_arguments(tool, problems, self.language, self.masker)
        is_write = Effect.WRITE in (call["effect"], tool.effect_of(arguments))
        plain_ones = self.run.keyring.opened(arguments, tool.secret)
        secrets = forms(plain_ones[name] for name in tool.secret)
        return await _Execution(tool, call, self, is_write, plain_ones, secrets, attempt=attempts).outcome()


def edit_note(call: Call, language: str, masker: Masker) -> dict[str, Any] | None:
    """What the observation says when a person changed the arguments (C-44)."""
    if "asked_for" not in call:
        return None
    asked = masker.data(hidden(call["asked_for"]))
    return {"ran": masker.data(hidden(call["arguments"] or {})), "note": say("edited", language, asked=asked)}


def unknown_tool(name: str, tools: Mapping[str, Tool], language: str) -> Outcome:
    """The outcome of a call of a name that is not on the list; the message lists the ones that are (C-26)."""
    known = ", ".join(tools) or "-"
    return failed(ErrorCode.UNKNOWN_TOOL, language, name, known=known)


def invalid_arguments(tool: Tool, problems: ArgumentProblems, language: str, masker: Masker) -> Outcome:
    """The outcome of a call whose arguments do not fit: each field, and what was expected (C-26)."""
    # masked apart: after `password:` every word would be taken for one
    wrong = {masker.text(field): masker.text(why) for field, why in problems.wrong.items()}
    said = [f"{field}: {why}" if field else why for field, why in wrong.items()]
    said += [f"{field}: Field required" for field in problems.missing]
    return failed(
        ErrorCode.INVALID_ARGUMENTS,
        language,
        tool.name,
        suggestion=say("invalid_arguments.suggestion", language, tool=tool.name),
        why="; ".join(said),
    )


class _Refused(Exception):
    """The tool was not entered: no place or turn for it came in time. Holds how that is told."""

    def __init__(self, code: ErrorCode, text: str | None = None, **values: object) -> None:
        super().__init__(code)
        self.code = code
        self.told: dict[str, Any] = {"text": text, **values}


@dataclass(slots=True)
class _Execution:
    """The attempts of one call. `attempt` is the number of the last one that was made.

    `arguments` are the real ones, secrets open; `secrets` are the texts by which secrets are found, and hidden, in
    whatever the tool gives out.
    """

    tool: Tool
    call: Call
    executor: Executor
    is_write: bool
    arguments: dict[str, Any]
    secrets: list[str]
    attempt: int = 0
    made: int = 0  # attempts by this owner
    time_limits: int = 0
    began: float = field(default_factory=time.monotonic)
    progress: Progress | None = None  # of the last attempt
    masker: Masker = field(init=False)  # hides the secrets too
    hides: Masker = field(init=False)  # hides nothing else

    def __post_init__(self) -> None:
        self.masker = self.executor.masker.hiding(self.secrets)
        self.hides = Masker(()).hiding(self.secrets)

    async def outcome(self) -> Outcome:
        """Make attempts until one succeeds, or none is worth making."""
        before: tuple[Exception, Failure] | None = None
        while True:
            try:
                work, held = await self._begun()
            except _Refused as refusal:
                return await self._refused(refusal, before)
            try:
                result = await self._result(work, held)
            except GraphInterrupt:
                return self._failed(ErrorCode.TOOL_ERROR, raised=ToolError(_NO_INTERRUPT), **self._counted())
            except GraphBubbleUp:
                raise
            except Exception as error:
                failure = failure_of(error)
                wait_s = self._wait_before_another(error, failure)
                if wait_s is None:
                    return await self._given_up(error, failure)
                before = error, failure
                self._log(logging.INFO, f"attempt {self.attempt} raised", error)
                await asyncio.sleep(wait_s)
            else:
                return self._ended(result)

    async def _refused(self, refusal: _Refused, before: tuple[Exception, Failure] | None) -> Outcome:
        """No (further) attempt can be made. What an attempt before it came to decides, whoever made it."""
        if before is not None:
            return await self._given_up(*before)
        if self.is_write and self.attempt:  # an owner that died had entered it
            return await self._given_up(refusal, Failure(refusal.code, lost=True))
        return self._failed(refusal.code, **self._counted(), **refusal.told)

    async def _begun(self) -> tuple[Work, HeldPlaces]:
        """Enter the tool, when its turn has come and, of a write, `started` is on the disk.

        Raises `_Refused`, and what the ledger raises.
        """
        run, held = self.executor.run, HeldPlaces()
        try:
            await self._take_places(held)
            context = replace(self._context(), report=self._reporter())
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
            else:
                run.ledger.entered(self.executor.step, self.call, attempt=self.attempt)
            work = _work(self.tool, self.arguments, context)
        except BaseException:
            held.give_back()
            raise
        held.until(work)
        return work, held

    async def _take_places(self, held: HeldPlaces) -> None:
        """Wait for the tool's own place and turn, then for the run's (C-21). None of it counts as the tool's time."""
        tool, throttle, run = self.tool, self.tool.throttle, self.executor.run
        busy = _Refused(ErrorCode.UNAVAILABLE, "unavailable.busy")
        if throttle.most is not None and not await held.take(throttle.slots, throttle.most, tool.timeout_s):
            raise busy
        rate = throttle.rate
        if rate is not None and not await rate.wait(self._patience_s()):
            raise _Refused(ErrorCode.RATE_LIMITED, "rate_limited.here", rate=tool.rate)
        if self.is_write and not await run.places.writes_ended(tool.timeout_s):
            raise _Refused(ErrorCode.SKIPPED_AFTER_FAILURE)
        if not self.is_write and not await held.take(
            run.places.reads, self.executor.max_parallel, tool.timeout_s
        ):
            raise busy
        if run.gate is not None and tool.delegates is None:
            entered = await run.gate.enter(is_write=self.is_write, patience_s=tool.timeout_s)
            if entered is None:
                raise _Refused(ErrorCode.SKIPPED_AFTER_FAILURE)
            held.leaves(entered.leave, entered.abandon)
        while rate is not None and (left := rate.begin()) > 0:  # noqa: ASYNC110 - it is told how long
            await asyncio.sleep(left)

    def _patience_s(self) -> float:
        """How long a call may wait for its turn: no longer than the run has time."""
        left = self.executor.left_s
        return LONGEST_WAIT_S if left is None else max(0.0, min(LONGEST_WAIT_S, left))

    async def _result(self, work: Work, held: HeldPlaces) -> Any:
        """What the tool gives within its time limit, or raises; `TimeLimit` after it."""
        try:
            return await result_of(work, self.tool.timeout_s, on_abandon=held.abandon)
        finally:
            if self.progress is not None:
                self.progress.close()
            if self.is_write:
                self.executor.run.places.abandon_write(work)  # if it still goes on

    def _reporter(self) -> Progress | None:
        """What passes on what this attempt says of its progress; None: the tool has nothing to say it by."""
        if not self.tool.injected:
            return None
        ledger, step, name = self.executor.run.ledger, self.executor.step, self.tool.name

        def tell(message: str, share: float | None) -> None:
            ledger.progress(step, self.call["id"], name, self.hides.text(message), share)

        self.progress = Progress(tell)
        return self.progress

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
        try:
            if asks(result):
                # it may say which password was wrong, and the question is stored
                shown = self.hides.data(plain(result)) if self.tool.secret else result
                return Outcome(CallState.WAITING, question=shown, **self._counted())
        except Exception as error:  # a question without any JSON form
            return self._failed(ErrorCode.TOOL_ERROR, raised=error, **self._counted())
        return self._succeeded(result)

    def _succeeded(self, result: Any) -> Outcome:
        told = self.executor.succeeded(self.tool, self.call, result, self.masker)
        return replace(told, **self._counted())

    async def _given_up(self, error: Exception, failure: Failure) -> Outcome:
        self._log(logging.WARNING, "raised", error)
        code = failure.code
        if self.is_write and failure.lost:
            verdict = await verified(self.tool, self._context(), self.executor.run.places)
            if isinstance(verdict, Happened):
                return self._succeeded(verdict.result)
            code = failure.code if verdict is False else ErrorCode.OUTCOME_UNKNOWN
        return self._failed(code, raised=error, **self._counted())

    def _failed(self, code: ErrorCode, *, raised: Exception | None = None, **more: Any) -> Outcome:
        if raised is not None:
            more |= self._told(code, raised)
        return failed(code, self.executor.language, self.tool.name, **{"why": "-", "seconds": "-", **more})

    def _told(self, code: ErrorCode, raised: Exception) -> dict[str, Any]:
        """What is told, and kept, of a call that was entered and raised."""
        text, delegates = self.masker.text, self.tool.delegates is not None
        told: dict[str, Any] = {
            "why": text(public_message(raised)),
            "error": {name: text(one) for name, one in _kept(raised).items()},
        }
        if not delegates:
            told["state"] = CallState.UNKNOWN if code is ErrorCode.OUTCOME_UNKNOWN else CallState.FAILED
        if isinstance(raised, TimeLimit):
            told["seconds"] = f"{self.tool.timeout_s:g}"
        if isinstance(raised, ToolError):
            told["suggestion"] = text(text_of(raised.suggestion)) if raised.suggestion else None
            told["data"] = self._data(raised.data)
            if code is not ErrorCode.OUTCOME_UNKNOWN:  # these say it all, whatever the code
                told["text"] = "delegation" if delegates else "tool_error"
        return told

    def _data(self, value: Any) -> Any:
        """What a tool gave with its error, as JSON data; its class alone where that has no such form."""
        try:
            # inside an object, as it will be told: one level more may be too deep
            return self.masker.data(plain({"data": value})["data"])
        except Exception:
            return f"<{type(value).__name__}>"

    def _log(self, level: int, what: str, error: Exception) -> None:
        """Say what a tool raised: its class, and its text masked like everything that leaves it."""
        text, kind = self.masker.text(text_of(error)), type(error).__name__
        call_id, tool, executor = self.call["id"], self.tool.name, self.executor
        ids = {"run_id": executor.run.run_id, "step": executor.step, "call_id": call_id, "tool": tool}
        log.log(level, "call %s of %s %s %s: %s", call_id, tool, what, kind, text, extra=ids)

    def _counted(self) -> dict[str, Any]:
        return {"attempts": self.attempt, "took_ms": self._took_ms()}

    def _took_ms(self) -> int:
        return round((time.monotonic() - self.began) * 1000)


# It would have to be matched with its answer by the order of calls in the node, and reads run side by side.
_NO_INTERRUPT = "a tool cannot call LangGraph's interrupt(); return params_required(...) or confirm_risky(...) of adjourn.nodes"


def _work(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Work:
    """The tool at work. A validator of its own that changed its mind is the tool's failure too."""
    try:
        return begin(tool, tool.bind(arguments, context))
    except Exception as error:
        work: Work = asyncio.get_running_loop().create_future()
        work.set_exception(error)
        return work


async def verified(tool: Tool, context: ToolContext, places: Places) -> Happened | bool | None:
    """What the tool's `verify` says of a write whose outcome was lost; None: it cannot tell, or there is none.

    That it did not happen counts only when no attempt goes on, which could still do it. A plain function runs in a
    thread, as a tool does: it asks a system that may not answer.
    """
    if tool.verify is None:
        return None
    may_deny = await places.writes_ended(ENDS_S)
    try:
        said = await result_of(in_thread(functools.partial(tool.verify, context)), VERIFY_S)
    except Exception as error:
        kind = type(error).__name__
        log.warning("verify of %s for call %s failed: %s", tool.name, context.call_id, kind)
        return None
    return said if isinstance(said, Happened) or (said is False and may_deny) else None


def _kept(error: Exception) -> dict[str, str]:
    """What the ledger keeps of an exception (C-29)."""
    return {
        "class": f"{type(error).__module__}.{type(error).__qualname__}",
        "text": text_of(error),
        "stack": _stack(error),
    }


def _stack(error: Exception) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:  # a class of somebody's own, whose attributes cannot be shown
        return ""

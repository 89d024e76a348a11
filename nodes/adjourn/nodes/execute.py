"""One call: look-up, argument check, time limit, outcome. One entry point for every call (C-25).

An exception in a tool is an outcome, never the end of the run. LangGraph's own control exceptions pass.
"""

import asyncio
import contextvars
import functools
import logging
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langgraph.errors import GraphBubbleUp

from adjourn.checkpoints.lifecycle import CallState, Effect, ErrorCode
from adjourn.nodes.calls import Call
from adjourn.nodes.context import ToolContext
from adjourn.nodes.observations import success
from adjourn.nodes.outcome import Outcome, failed
from adjourn.nodes.questions import asks
from adjourn.nodes.run_context import RunContext
from adjourn.nodes.texts import say
from adjourn.nodes.tool import ArgumentProblems, Tool

log = logging.getLogger("adjourn.call")

# Which code an exception's class stands for (C-29), most special first. Its text is for the ledger; the
# model sees the public message of the code, and the text only where the class promises that it is meant.
CODES: tuple[tuple[type[BaseException], ErrorCode], ...] = (
    (TimeoutError, ErrorCode.TIMEOUT),
    (PermissionError, ErrorCode.PERMISSION_DENIED),
    (FileNotFoundError, ErrorCode.NOT_FOUND),
    (ConnectionError, ErrorCode.UNAVAILABLE),
    (LookupError, ErrorCode.NOT_FOUND),
)


async def execute(
    call: Call, tools: Mapping[str, Tool], run: RunContext, *, step: int, language: str
) -> Outcome:
    """Judge and run one call; give its outcome. Never raises but for `LeaseLost` and LangGraph's control.

    A write's `started` is on the disk before its tool is entered (C-33). The outcome is not stored here.
    """
    tool = tools.get(call["name"])
    if tool is None:
        return unknown_tool(call["name"], tools, language)
    arguments = call["arguments"] or {}
    problems = tool.problems(arguments)
    if problems.wrong or problems.missing:
        return invalid_arguments(tool, problems, language)
    key = f"{run.run_id}:{step}:{call['id']}"
    if call["effect"] == Effect.WRITE:
        await run.ledger.start(step, call, attempt=1, idempotency_key=key, synced=True)
    deadline = None if tool.timeout_s is None else time.monotonic() + tool.timeout_s
    context = ToolContext(
        run_id=run.run_id,
        thread_id=run.thread_id,
        step=step,
        call_id=call["id"],
        tool=tool.name,
        idempotency_key=key,
        deadline=deadline,
        started_by=run.started_by,
        approved=call.get("approved", False),
        approved_by=call.get("approved_by"),
        cancelled=run.cancel.for_threads,
    )
    return await _run(tool, call, context, language)


def unknown_tool(name: str, tools: Mapping[str, Tool], language: str) -> Outcome:
    """The outcome of a call of a name that is not on the list; the message lists the ones that are (C-26)."""
    known = ", ".join(tools) or "-"
    return failed(ErrorCode.UNKNOWN_TOOL, language, name, known=known)


def invalid_arguments(tool: Tool, problems: ArgumentProblems, language: str) -> Outcome:
    """The outcome of a call whose arguments do not fit: each field, and what was expected (C-26)."""
    said = [f"{field}: {why}" if field else why for field, why in problems.wrong.items()]
    said += [f"{field}: Field required" for field in problems.missing]
    return failed(
        ErrorCode.INVALID_ARGUMENTS,
        language,
        tool.name,
        suggestion=say("invalid_arguments.suggestion", language, tool=tool.name),
        why="; ".join(said),
    )


async def _run(tool: Tool, call: Call, context: ToolContext, language: str) -> Outcome:
    began = time.monotonic()
    limit = asyncio.timeout(tool.timeout_s)
    try:
        async with limit:
            result = await _enter(tool, tool.bind(call["arguments"] or {}, context))
        took_ms = round((time.monotonic() - began) * 1000)
        return _ended(tool, call, result, took_ms, language)
    except GraphBubbleUp:
        raise
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise  # from outside: the tools node took the call back
        took_ms = round((time.monotonic() - began) * 1000)
        passed = isinstance(error, TimeoutError) and limit.expired()
        return _raised(tool, call, error, passed=passed, took_ms=took_ms, language=language)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _enter(tool: Tool, arguments: dict[str, Any]) -> Awaitable[Any]:
    if tool.is_async:
        awaitable: Awaitable[Any] = tool.function(**arguments)
        return awaitable
    return in_thread(functools.partial(tool.function, **arguments))


def _ended(tool: Tool, call: Call, result: Any, took_ms: int, language: str) -> Outcome:
    if asks(result):
        return Outcome(CallState.WAITING, question=result, attempts=1, took_ms=took_ms)
    note = edit_note(call, language)
    try:
        observation = success(result, limit=tool.result_limit, language=language, note=note)
    except Exception as error:  # a result with a hostile __str__ or a cycle; the tool did its work
        log.warning("call %s of %s: its result has no JSON form: %s", call["id"], tool.name, error)
        observation = success(
            f"<{type(result).__name__}>", limit=tool.result_limit, language=language, note=note
        )
    return Outcome(CallState.OK, observation=observation, attempts=1, took_ms=took_ms)


def edit_note(call: Call, language: str) -> dict[str, Any] | None:
    """What the observation says when a person changed the arguments (C-44)."""
    if "asked_for" not in call:
        return None
    return {"ran": call["arguments"], "note": say("edited", language, asked=call["asked_for"])}


def _raised(
    tool: Tool, call: Call, error: BaseException, *, passed: bool, took_ms: int, language: str
) -> Outcome:
    kept = {
        "class": f"{type(error).__module__}.{type(error).__qualname__}",
        "text": str(error),
        "stack": "".join(traceback.format_exception(error)),
    }
    log.warning("call %s of %s raised %s: %s", call["id"], tool.name, kept["class"], error)
    code = next((code for kind, code in CODES if isinstance(error, kind)), ErrorCode.TOOL_ERROR)
    # A write that was given up, or broke off on the way, may have happened (C-28).
    lost = passed or isinstance(error, ConnectionError | TimeoutError)
    if call["effect"] == Effect.WRITE and lost:
        code = ErrorCode.OUTCOME_UNKNOWN
    why = public_message(error)
    seconds = f"{tool.timeout_s:g}" if passed else "-"
    return failed(
        code, language, tool.name, error=kept, attempts=1, took_ms=took_ms, why=why, seconds=seconds
    )


def public_message(error: BaseException) -> str:
    """What a model may see of an exception: its first line without paths and addresses of the host."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    first = str(error).strip().partition("\n")[0]
    return " ".join("..." if "/" in word or "\\" in word else word for word in first.split())[:300] or "-"


async def in_thread(function: Callable[[], Any]) -> Any:
    """Run `function` in a daemon thread of its own and wait for it.

    A cancelled or timed-out wait abandons the thread: its late result is thrown away. Threads of the event
    loop's pool would not do, since the loop waits for them at its end.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def work() -> None:
        value: Any = None
        raised: Exception | None = None
        try:
            value = context.run(function)
        except Exception as error:
            # a future refuses StopIteration
            raised = (
                RuntimeError("the tool raised StopIteration") if isinstance(error, StopIteration) else error
            )
        except BaseException as error:  # SystemExit and the like end a thread, not a run
            raised = RuntimeError(f"the tool raised {type(error).__name__}: {error}")
        try:
            loop.call_soon_threadsafe(settle, value, raised)
        except RuntimeError:  # the loop is closed: nobody waits any more
            log.debug("a late result of an abandoned thread was thrown away")

    threading.Thread(target=work, name="adjourn-tool", daemon=True).start()
    return await future

"""One attempt of a call: run a tool in a task or a thread, for as long as it may take, and no longer.

Neither a thread nor a task that swallows its cancellation can be stopped. Such an attempt is *abandoned*:
nobody waits for it, its late result is thrown away, but it keeps its place until it really ends (C-21).
"""

import asyncio
import contextvars
import functools
import inspect
import itertools
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from typing import Any

from adjourn.nodes.failures import SelfCancelled, TimeLimit, text_of
from adjourn.nodes.threads import Threads
from adjourn.nodes.throttle import Slots
from adjourn.nodes.tool import Tool
from adjourn.nodes.tool_errors import ToolError

log = logging.getLogger("adjourn.call")

Work = asyncio.Future[Any]

MOST_ITEMS = 10_000  # of what a tool yields: an endless generator must not fill the memory


class Places:
    """How many reads of a run are under way, over all its steps, and which of its abandoned writes still go on."""

    def __init__(self) -> None:
        self.reads = Slots()
        self._abandoned_writes: set[Work] = set()

    def abandon_write(self, work: Work) -> None:
        """Remember a write that goes on although nobody waits for it."""
        if not work.done():
            self._abandoned_writes.add(work)
            work.add_done_callback(self._abandoned_writes.discard)

    async def writes_ended(self, timeout_s: float | None) -> bool:
        """Wait until no abandoned write goes on, at most `timeout_s`; False: one still does (C-21)."""
        if not self._abandoned_writes:
            return True
        _, going_on = await asyncio.wait(set(self._abandoned_writes), timeout=timeout_s)
        return not going_on


class HeldPlaces:
    """The places that one attempt holds, until its work really ends."""

    def __init__(self) -> None:
        self._slots: list[Slots] = []
        self._leave: list[Callable[[], None]] = []
        self._let_go: list[Callable[[], None]] = []
        self._is_abandoned = False

    async def take(self, slots: Slots, most: int, patience_s: float | None) -> bool:
        """Take one more place; False: see `Slots.take`."""
        if not await slots.take(most, patience_s):
            return False
        self._slots.append(slots)
        return True

    def leaves(self, leave: Callable[[], None], let_go: Callable[[], None]) -> None:
        """Note what else is to be called: `leave` when the work ends, `let_go` when nobody waits for it any more."""
        self._leave.append(leave)
        self._let_go.append(let_go)

    def give_back(self) -> None:
        """The tool was not entered after all."""
        while self._slots:
            self._slots.pop().give_back()
        while self._leave:
            self._leave.pop()()

    def until(self, work: Work) -> None:
        """Keep the places until the work ends."""
        work.add_done_callback(self._ended)

    def abandon(self) -> None:
        """Nobody waits for the work any more."""
        while self._let_go:
            self._let_go.pop()()
        if self._slots and not self._is_abandoned:
            self._is_abandoned = True
            for one in self._slots:
                one.abandon()

    def _ended(self, _work: Work) -> None:
        while self._slots:
            self._slots.pop().ended(abandoned=self._is_abandoned)
        while self._leave:
            self._leave.pop()()


def begin(tool: Tool, arguments: dict[str, Any]) -> Work:
    """Start the tool; the work ends when the tool really does."""
    if tool.is_async:
        return asyncio.ensure_future(_awaited(tool.function(**arguments)))
    return in_thread(functools.partial(tool.function, **arguments))


async def _awaited(value: Any) -> Any:
    """What comes of an awaitable in the end, collected where it yields."""
    try:
        while isinstance(value, Awaitable):
            value = await value
        if isinstance(value, AsyncIterable) and inspect.isasyncgen(value):
            return [one async for one in _at_most(value)]
        return _collected(value)
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:  # SystemExit and the like would end the event loop, and with it every run
        raise RuntimeError(f"the tool raised {type(error).__name__}: {text_of(error)}") from error


async def _at_most(items: AsyncIterable[Any]) -> AsyncIterable[Any]:
    count = 0
    async for one in items:
        count += 1
        if count > MOST_ITEMS:
            raise _too_many()
        yield one


def _collected(value: Any) -> Any:
    """What a tool yields, as a list; any other value as it is."""
    if not isinstance(value, Iterator) or hasattr(value, "read"):  # an open file is no list of results
        return value
    items = list(itertools.islice(value, MOST_ITEMS + 1))
    if len(items) > MOST_ITEMS:
        raise _too_many()
    return items


def _too_many() -> ToolError:
    return ToolError(f"it yields more than {MOST_ITEMS} items; narrow the request")


async def result_of(
    work: Work, timeout_s: float | None, *, on_abandon: Callable[[], None] = lambda: None
) -> Any:
    """What the work gives, or the exception that it raises.

    Raises `TimeLimit` when it has not ended in time. When it does, or when the waiting is cancelled, the
    work is told to stop, and nobody sees what it still gives; `on_abandon` is called then.
    """
    try:
        done, _ = await asyncio.wait({work}, timeout=timeout_s)
    except asyncio.CancelledError:
        _let_go(work, on_abandon)
        raise
    if not done:
        _let_go(work, on_abandon)
        raise TimeLimit(f"no result within {timeout_s:g} s")
    if work.cancelled():
        raise SelfCancelled("the tool cancelled itself")
    return work.result()


def _let_go(work: Work, on_abandon: Callable[[], None]) -> None:
    if work.done():
        _drop(work)
        return
    on_abandon()
    stopped = work.inner if isinstance(work, _ThreadWork) else work
    if isinstance(stopped, asyncio.Task):
        stopped.cancel()
    work.add_done_callback(_drop)


def _drop(work: Work) -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        # its text is not masked, and nobody needs it
        log.info("an abandoned attempt failed later: %s", type(error).__name__)


class _ThreadWork(asyncio.Future[Any]):
    """A tool in a thread; `inner` is the task of what it returned, where that has to be awaited."""

    inner: "asyncio.Task[Any] | None" = None


def in_thread(function: Callable[[], Any]) -> Work:
    """Run `function` in a daemon thread, with the caller's context variables."""
    loop = asyncio.get_running_loop()
    work = _ThreadWork(loop=loop)
    context = contextvars.copy_context()

    def settle(value: Any, error: Exception | None) -> None:
        if error is not None:
            work.set_exception(error)
        elif isinstance(value, Awaitable) or inspect.isasyncgen(value):
            # a plain function that returns a coroutine: a lambda, or a decorator that knows no `async`
            work.inner = loop.create_task(_awaited(value), context=context)
            work.inner.add_done_callback(functools.partial(_pass_on, work))
        else:
            work.set_result(value)

    def run() -> None:
        value: Any = None
        raised: Exception | None = None
        try:
            value = context.run(lambda: _collected(function()))
        except Exception as error:
            # a future refuses StopIteration
            raised = (
                RuntimeError("the tool raised StopIteration") if isinstance(error, StopIteration) else error
            )
        except BaseException as error:  # SystemExit and the like end a thread, not a run
            raised = RuntimeError(f"the tool raised {type(error).__name__}: {text_of(error)}")
        try:
            loop.call_soon_threadsafe(settle, value, raised)
        except RuntimeError:  # the loop is closed: nobody waits any more
            if inspect.iscoroutine(value):
                value.close()
            log.debug("a late result of an abandoned thread was thrown away")

    _THREADS.run(run)
    return work


_THREADS = Threads()


def _pass_on(work: Work, inner: "asyncio.Task[Any]") -> None:
    if inner.cancelled():
        work.cancel()
    elif (error := inner.exception()) is not None:
        work.set_exception(error)
    else:
        work.set_result(inner.result())

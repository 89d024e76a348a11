"""Whatever a tool is, and however it ends, the run goes on (C-25, C-28, C-29)."""

import asyncio
import contextvars
import functools
import json
import threading

import pytest
from runs.observed import told

from adjourn.checkpoints.errors import StoreError
from adjourn.nodes import Happened, ToolContext, ToolError, confirm_risky, params_required, tool
from adjourn.nodes.scripted import call, says

WHO = contextvars.ContextVar("who", default="nobody")


async def result_of(house, made, **arguments):
    """What the model is told of one call of this tool, and the run."""
    run = await house.runner([says("", call(made.name, arguments, id="c")), "ok"], tools=[made]).start("go")
    assert run.status == "finished"
    return told(house, "c"), run


async def aplain(n: int) -> int:
    """Give it back, later."""
    await asyncio.sleep(0)
    return n


class Callable:
    """Called like a function."""

    async def __call__(self, n: int) -> int:
        return await aplain(n)


@functools.wraps(aplain)
def wrapped(n: int):
    """What a decorator that knows no `async` leaves: a plain function that gives a coroutine."""
    return aplain(n)


@pytest.mark.parametrize(
    "function", [aplain, functools.partial(aplain), Callable(), functools.partial(Callable()), wrapped]
)
async def test_c25_a_tool_may_be_any_callable(house, function):
    answer, _ = await result_of(house, tool(effect="read", name="t", description="T.")(function), n=7)
    assert answer["data"] == 7


def numbers(n: int):
    """Yield numbers."""
    yield from range(n)


async def anumbers(n: int):
    """Yield numbers, later."""
    for one in range(n):
        yield one


async def lazily(n: int):
    """Give a generator."""
    return (one for one in range(n))


@pytest.mark.parametrize("function", [numbers, anumbers, lazily, lambda n: map(int, range(n))])
async def test_c25_what_a_tool_yields_is_a_list(house, function):
    made = tool(effect="read", name="t", description="T.")(function)
    assert (await result_of(house, made, n=3))[0]["data"] == [0, 1, 2]


@pytest.mark.parametrize("function", [numbers, anumbers])
async def test_c25_who_yields_without_end_is_stopped(house, function):
    made = tool(effect="read", name="t", description="T.")(function)
    answer, _ = await result_of(house, made, n=10_000_000)
    assert "10000" in answer["message"]


def raises(error):
    raise error


async def araises(error):
    raise error


@pytest.mark.parametrize("do", [raises, araises])
@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        StopIteration(1),
        StopAsyncIteration(),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_c29_whatever_a_tool_raises_is_an_observation(house, do, error, effect):
    if do is raises:

        def fails() -> str:
            """Fail."""
            return do(error)

    else:

        async def fails() -> str:
            """Fail."""
            return await do(error)

    answer, run = await result_of(house, tool(effect=effect)(fails))
    cancelled_itself = do is araises and isinstance(error, asyncio.CancelledError)
    if cancelled_itself and effect == "write":  # it may have been in its middle
        assert (run.calls[0].outcome, answer["errorCode"]) == ("unknown", "outcome_unknown")
    else:
        assert (run.calls[0].outcome, answer["errorCode"]) == ("failed", "tool_error")
    assert "Traceback" not in json.dumps(answer)


class Hostile:
    """Cannot be shown."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class HostileError(Exception):
    """Cannot be shown, nor read."""

    __str__ = Hostile.__str__
    response = property(Hostile.__str__)


class HostileExit(BaseException):
    """Cannot be shown, and no `except Exception` sees it."""

    __str__ = Hostile.__str__


def nested(levels):
    data = []
    for _ in range(levels):
        data = [data]
    return data


CYCLE = {}
CYCLE["again"] = CYCLE

UNTELLABLE = {
    "its text": HostileError(),
    "its text, and it ends a thread": HostileExit(),
    "in a group": ExceptionGroup("g", [HostileError()]),
    "its errno": OSError(5, Hostile()),
    "its message": ToolError(Hostile()),
    "its suggestion": ToolError("x", suggestion=Hostile()),
    "its data": ToolError("x", data={"a": Hostile()}),
    "its data, a cycle": ToolError("x", data=CYCLE),
    **{f"its data, {levels} levels": ToolError("x", data=nested(levels)) for levels in (470, 485, 600, 5000)},
}


@pytest.mark.parametrize("do", [raises, araises])
@pytest.mark.parametrize("error", UNTELLABLE.values(), ids=UNTELLABLE)
async def test_c29_an_exception_that_cannot_be_told_is_an_observation(house, do, error):
    def fails() -> str:
        """Fail."""
        return do(error)

    answer, run = await result_of(house, tool(effect="write")(fails))
    assert (run.calls[0].outcome, answer["errorCode"]) == ("failed", "tool_error")


UNASKABLE = {
    "its reason": confirm_risky(Hostile()),
    "its type": {"interrupt": True, "interruptType": Hostile()},
    "its payload": confirm_risky("x", {"a": Hostile()}),
    "its payload, a cycle": confirm_risky("x", CYCLE),
    **{
        f"its payload, {levels} levels": confirm_risky("x", {"a": nested(levels)})
        for levels in (200, 400, 5000)
    },
    "its schema": params_required({"n": {"default": Hostile()}}),
    "its schema, nested": params_required({"n": {"default": nested(400)}}),
}


@pytest.mark.parametrize("question", UNASKABLE.values(), ids=UNASKABLE)
async def test_c29_c37_a_question_that_nobody_can_be_asked_is_an_observation(house, question):
    @tool(effect="write")
    def asks(n: int = 1) -> dict:
        """Ask."""
        return question

    answer, run = await result_of(house, asks)
    assert (run.calls[0].outcome, answer["errorCode"]) == ("failed", "tool_error")


async def test_c29_c73_a_question_that_cannot_be_searched_for_a_secret_is_an_observation(house):
    @tool(effect="write", secret=["word"])
    def asks(word: str) -> dict:
        """Ask."""
        return confirm_risky("Sure?", {"a": Hostile()})

    runner = house.runner([says("", call("asks", {}, id="c")), "ok"], tools=[asks])
    run = await runner.start("go")
    run = await runner.resume(run.id, {run.interrupts[0].id: {"word": "hunter2-hunter2"}})
    assert (run.status, run.calls[0].outcome) == ("finished", "failed")
    assert told(house, "c")["errorCode"] == "tool_error"


@pytest.mark.parametrize("is_async", [True, False])
async def test_c28_context_variables_reach_a_tool_and_nothing_comes_back(house, is_async):
    def look() -> str:
        """Look who it is."""
        who = WHO.get()
        WHO.set("the tool")
        return who

    async def alook() -> str:
        """Look who it is."""
        return look()

    WHO.set("the caller")
    answer, _ = await result_of(house, tool(effect="read", name="look")(alook if is_async else look))
    assert (answer["data"], WHO.get()) == ("the caller", "the caller")


async def test_c28_an_attempt_that_was_given_up_ends_with_nobody_hearing_of_it(house, caplog):
    hold, ended = threading.Event(), threading.Event()

    @tool(effect="read", timeout_s=0.05, retries=0)
    def late() -> str:
        """Fail late."""
        hold.wait(20)
        ended.set()
        raise RuntimeError("password=hunter2-hunter2")

    caplog.set_level("INFO")
    answer, run = await result_of(house, late)
    assert answer["errorCode"] == "timeout"
    heard = threading.Event()
    caplog.handler.addFilter(lambda record: heard.set() or True if "failed later" in record.msg else True)
    hold.set()
    assert await asyncio.to_thread(ended.wait, 5)
    assert await asyncio.to_thread(heard.wait, 5)
    assert "hunter2" not in caplog.text
    assert [one.outcome for one in (await house.runners[0].get(run.id)).calls] == ["failed"]


async def test_c28_a_coroutine_behind_a_plain_function_is_told_to_stop(house):
    stopped = asyncio.Event()

    async def slow() -> str:
        try:
            await asyncio.sleep(20)
        finally:
            stopped.set()
        return ""

    @tool(effect="read", timeout_s=0.1, retries=0)
    def plain():
        """Wait."""
        return slow()

    answer, _ = await result_of(house, plain)
    assert answer["errorCode"] == "timeout"
    await asyncio.wait_for(stopped.wait(), 5)


@pytest.mark.in_process  # it breaks its own process's store
async def test_c29_what_the_store_refuses_is_no_failure_of_the_tool(house, monkeypatch):
    ran = []

    @tool(effect="write")
    def pay() -> str:
        """Pay."""
        ran.append(1)
        return "paid"

    runner = house.runner([says("", call("pay", {}, id="c")), "ok"], tools=[pay])
    real = runner.database.write

    def full(work, *, synced=False):
        if synced:
            raise StoreError("the disk is full")
        return real(work, synced=synced)

    monkeypatch.setattr(runner.database, "write", full)
    run = await runner.start("go")
    assert (run.status, ran, run.row.error["message"]) == ("failed", [], "the disk is full")
    monkeypatch.undo()
    run = await runner.resume(run.id)
    assert (run.status, ran) == ("finished", [1])


@pytest.mark.parametrize("is_async", [True, False])
async def test_c35_verify_may_block_and_does_not_hold_up_the_process(house, is_async):
    """A plain `verify` runs in a thread; here it waits for what only the event loop can bring."""
    loop, brought = asyncio.get_running_loop(), threading.Event()

    def verify(context: ToolContext):
        loop.call_soon_threadsafe(brought.set)
        assert brought.wait(5)
        return Happened({"paid": context.call_id})

    async def averify(context: ToolContext):
        return Happened({"paid": context.call_id})

    @tool(effect="write", verify=averify if is_async else verify)
    async def pay() -> str:
        """Pay."""
        raise ConnectionResetError("gone")

    answer, run = await result_of(house, pay)
    assert (answer["data"], run.calls[0].outcome) == ({"paid": "c"}, "ok")


async def test_c29_the_log_is_masked(house, caplog):
    caplog.set_level("INFO")

    @tool(effect="read")
    def fails() -> str:
        """Fail."""
        raise ConnectionError("call 13800138000 at https://u:hunter2@db/")

    await result_of(house, fails)
    assert "[phone]" in caplog.text
    assert "13800138000" not in caplog.text
    assert "hunter2" not in caplog.text


async def test_c73_a_masking_rule_that_raises_withholds_the_value_and_fails_no_run(house, caplog, rows):
    from adjourn.nodes.masking import DEFAULT, Masker, Rule

    def broken(text):
        if "odd" in text:
            raise ZeroDivisionError(text)
        return ()

    @tool(effect="read")
    def look(what: str) -> dict:
        """Look."""
        return {"a": f"odd secret {what}", "b": "plain"}

    masker = Masker([*DEFAULT, Rule("mine", broken)])
    runner = house.runner(
        [says("", call("look", {"what": "odd thing"}, id="c")), "ok"], tools=[look], masker=masker
    )
    run = await runner.start("go", on_event=house.hear)
    assert run.status == "finished"
    assert told(house, "c")["data"] == {"a": "[withheld]", "b": "plain"}
    assert run.calls[0].arguments == {"what": "[withheld]"}
    for table in ("calls", "events"):
        assert "odd" not in json.dumps(rows(f"SELECT * FROM {table}"))
    assert caplog.text.count("'mine'") == 1
    assert "odd" not in caplog.text
    house.check([run.id])

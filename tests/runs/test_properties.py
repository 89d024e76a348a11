"""Whatever a run meets, these hold: any mix of tools, outcomes, delays, questions, cancels and crashes (C-14, C-15, C-20,
C-21, C-34 to C-36).

A crash is a database that refuses everything from some transaction on, that transaction stored or not: nothing that
the owner does afterwards reaches the store. The next owner comes when the first one has ended, as after its lease.
`ADJOURN_RUN_EXAMPLES` sets how many runs are made up; 50 take about 20 seconds.
"""

import asyncio
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolMessage
from sqlalchemy import Connection, text

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import AdjournError, RunNotFound
from adjourn.graph import Limits, Run, Runner, build_react
from adjourn.nodes import (
    NotDone,
    RateLimited,
    ScriptedModel,
    ToolContext,
    approve,
    params_required,
    reject,
    tool,
)
from adjourn.nodes.scripted import call, says

EXAMPLES = int(os.environ.get("ADJOURN_RUN_EXAMPLES", "50"))
TIME_LIMIT_S = 0.04
KEEPS_S = 0.09  # of a tool that passes its limit
READS, WRITES = ("look", "look_slowly", "look_rarely"), ("pay", "put", "send")
ENDS = ("ok", "ok", "ok", "raises", "huge", "late", "not_done", "rate_limited", "broken_off", "asks", "exits")


@dataclass(frozen=True)
class Asked:
    """One call of the model's: which tool, how it ends, how long it takes in milliseconds."""

    name: str
    how: str = "ok"
    ms: int = 0
    arguments: dict[str, Any] | None = None


@dataclass(frozen=True)
class Story:
    """One run: its steps, the transactions at which owners die, when somebody cancels, what people say."""

    steps: tuple[tuple[Asked, ...], ...]
    deaths: tuple[tuple[int, bool], ...] = ()  # (number of the transaction, whether it is stored)
    cancel_ms: int | None = None
    declines: bool = False
    max_parallel: int = 2


ASKED = st.builds(
    Asked,
    st.sampled_from((*READS, *WRITES)),
    st.sampled_from(ENDS),
    st.sampled_from((0, 0, 3, 8)),
) | st.sampled_from((Asked("nothing"), Asked("pay", arguments={"how": 7})))
STORIES = st.builds(
    Story,
    st.lists(st.lists(ASKED, min_size=1, max_size=6).map(tuple), min_size=1, max_size=3).map(tuple),
    st.lists(st.tuples(st.integers(1, 14), st.booleans()), max_size=2).map(tuple),
    st.none() | st.integers(0, 60),
    st.booleans(),
    st.integers(1, 4),
)


@dataclass
class World:
    """What the tools really did: (call, tool, began, ended, whether its time was over), and how many reads were at
    work at most."""

    did: list[tuple[str, str, float, float, bool]] = field(default_factory=list)
    effects: Counter[str] = field(default_factory=Counter)
    reading: int = 0
    most_reading: int = 0
    inside: int = 0
    lock: threading.Condition = field(default_factory=threading.Condition)

    def begins(self, context: ToolContext) -> float:
        with self.lock:
            self.inside += 1
            if context.tool in READS:
                self.reading += 1
                self.most_reading = max(self.most_reading, self.reading)
        return time.monotonic()

    def ends(self, context: ToolContext, began: float) -> None:
        with self.lock:
            ended = time.monotonic()
            late = context.deadline is not None and ended > context.deadline
            self.did.append((context.idempotency_key, context.tool, began, ended, late))
            self.reading -= context.tool in READS
            self.inside -= 1
            self.lock.notify_all()

    def wait_until_idle(self) -> None:
        """A process that dies takes its threads along; here they end by themselves."""
        with self.lock:
            assert self.lock.wait_for(lambda: self.inside == 0, timeout=30)

    def acts(self, how: str, context: ToolContext) -> Any:
        """What comes of the call; a question and a refusal have no effect."""
        if how == "asks" and "what" not in context.arguments:
            return params_required({"what": {"type": "string"}}, "What?")
        if how in _RAISES and how != "broken_off":
            raise _RAISES[how]()
        self.effects[context.idempotency_key] += 1
        if how == "broken_off":
            raise ConnectionResetError("gone")
        return [{"n": n, "text": "x" * 100} for n in range(200)] if how == "huge" else {"how": how}

    def tools(self) -> list[Any]:
        """Reads and writes, in tasks and in threads."""

        async def in_task(how: str, ms: int, context: ToolContext) -> Any:
            began = self.begins(context)
            try:
                await asyncio.sleep(KEEPS_S if how == "late" else ms / 1000)
                return self.acts(how, context)
            finally:
                self.ends(context, began)

        def in_thread(how: str, ms: int, context: ToolContext) -> Any:
            began = self.begins(context)
            try:
                time.sleep(KEEPS_S if how == "late" else ms / 1000)
                return self.acts(how, context)
            finally:
                self.ends(context, began)

        @tool(effect="read", timeout_s=TIME_LIMIT_S, retries=1)
        async def look(n: int, how: str, ms: int, context: ToolContext, what: str = "") -> Any:
            """Look."""
            return await in_task(how, ms, context)

        @tool(effect="read", timeout_s=TIME_LIMIT_S, retries=0, max_parallel=2)
        def look_slowly(n: int, how: str, ms: int, context: ToolContext, what: str = "") -> Any:
            """Look, in a thread."""
            return in_thread(how, ms, context)

        @tool(effect="read", timeout_s=TIME_LIMIT_S, retries=0, rate="2/0.02s")
        async def look_rarely(n: int, how: str, ms: int, context: ToolContext, what: str = "") -> Any:
            """Look, not too often."""
            return await in_task(how, ms, context)

        @tool(effect="write", timeout_s=TIME_LIMIT_S)
        async def pay(n: int, how: str, ms: int, context: ToolContext, what: str = "") -> Any:
            """Pay."""
            return await in_task(how, ms, context)

        @tool(effect="write", timeout_s=TIME_LIMIT_S)
        def put(n: int, how: str, ms: int, context: ToolContext, what: str = "") -> Any:
            """Put, in a thread."""
            return in_thread(how, ms, context)

        @tool(effect="write", timeout_s=TIME_LIMIT_S, confirm=True)
        async def send(n: int, how: str, ms: int, context: ToolContext, what: str = "") -> Any:
            """Send, after a yes."""
            return await in_task(how, ms, context)

        return [look, look_slowly, look_rarely, pay, put, send]


_RAISES: dict[str, Callable[[], BaseException]] = {
    "raises": lambda: RuntimeError("no"),
    "not_done": lambda: NotDone("nothing happened"),
    "rate_limited": lambda: RateLimited(retry_after_s=0.001),
    "broken_off": lambda: ConnectionResetError("gone"),
    "exits": lambda: SystemExit(1),
}


class Gone(Exception):
    """The process of this owner is dead."""


class Dying(Database):
    """A database of an owner that dies at one of its writing transactions; None: it lives."""

    def __init__(self, url: str, death: tuple[int, bool] | None) -> None:
        super().__init__(url)
        self.death = death
        self.count = 0
        self.is_dead = False

    def write_once(self, work: Any, *, synced: bool = False) -> Any:
        if self.is_dead:
            raise Gone
        self.count += 1
        if self.death is None or self.count != self.death[0]:
            return super().write_once(work, synced=synced)
        if self.death[1]:
            super().write_once(work, synced=synced)
        self.is_dead = True
        raise Gone

    def read(self, work: Any) -> Any:
        if self.is_dead:
            raise Gone
        return super().read(work)


@dataclass
class Played:
    """What a story came to."""

    run: Run | None
    world: World
    violations: list[str]
    messages: list[Any]


async def play(story: Story, url: str) -> Played:
    """Let the story happen: owners die and others take over, people answer, until the run has ended."""
    world, models = World(), []
    turns = [
        says("", *(_call(one, step, place) for place, one in enumerate(calls)))
        for step, calls in enumerate(story.steps)
    ]
    deaths: list[tuple[int, bool] | None] = [*story.deaths, None]
    run: Run | None = None
    for owner, death in enumerate(deaths):
        model = ScriptedModel(turns=[*turns, "done"], by_history=True)
        models.append(model)
        limits = Limits(
            max_parallel=story.max_parallel, cancel_grace_s=0.02, max_fails_in_row=None, breaker=None
        )
        database = Dying(url, death)
        runner = Runner(build_react(model, world.tools(), limits=limits), database)
        try:
            run = await _own(runner, story, first=owner == 0)
            break
        except Gone:
            await _overdue(url)
        finally:
            await asyncio.gather(
                *(asyncio.wrap_future(one.ended) for one in list(runner._owner._driving.values()))
            )
            await asyncio.to_thread(world.wait_until_idle)
            await asyncio.to_thread(runner.close)
            await asyncio.to_thread(database.close)
    violations = [one for model in models for one in model.violations]
    messages = list(models[-1].requests[-1]) if models[-1].requests else []
    return Played(run, world, violations, messages)


def _call(one: Asked, step: int, place: int) -> Any:
    arguments = {"n": 100 * step + place, "how": one.how, "ms": one.ms}
    return call(one.name, one.arguments or arguments, id=f"c{place}")  # ids return in each step


async def _own(runner: Runner, story: Story, *, first: bool) -> Run | None:
    """Drive the run as one owner, with somebody who may cancel it, until it has ended."""
    canceller = asyncio.create_task(_cancel(runner, story)) if first and story.cancel_ms is not None else None
    try:
        run = await _begin(runner)
        while run.status == "interrupted":
            answers = {one.id: _answer(one, story) for one in run.interrupts}
            run = await runner.resume(run.id, answers)
        return run
    except AdjournError:
        if canceller is None:
            raise
        await asyncio.wait({canceller})  # it was cancelled between two looks
        return await runner.get("run_x")
    finally:
        if canceller is not None:
            canceller.cancel()
            await asyncio.gather(canceller, return_exceptions=True)


async def _begin(runner: Runner) -> Run:
    try:
        run = await runner.get("run_x")
    except RunNotFound:
        return await runner.start("go", thread_id="t", run_id="run_x")
    if run.status == "running":
        return await runner.recover(run.id)
    return await runner.resume(run.id) if run.status == "failed" else run


async def _cancel(runner: Runner, story: Story) -> None:
    await asyncio.sleep((story.cancel_ms or 0) / 1000)
    try:
        await runner.cancel("run_x")
    except (RunNotFound, Gone):
        return


def _answer(question: Any, story: Story) -> Any:
    if question.type == "params_required":
        return {"what": "this"}
    if question.type == "outcome_unknown":
        return {"action": "leave"}
    return reject("no") if story.declines else approve()


async def _overdue(url: str) -> None:
    """Let the lease of a dead owner be over."""

    def work(connection: Connection) -> None:
        connection.execute(
            text("UPDATE runs SET lease_until = '2000-01-01T00:00:00.000000Z' WHERE status = 'running'")
        )

    database = Database(url)
    await asyncio.to_thread(database.write, work)
    await asyncio.to_thread(database.close)


def check(story: Story, played: Played, url: str) -> None:
    """The properties."""
    world, run = played.world, played.run
    assert played.violations == []
    assert world.most_reading <= story.max_parallel
    _nothing_twice(story, world)
    _nothing_beside_a_write(world)
    if run is None:
        return
    assert run.status in ("finished", "cancelled")
    database = Database(url)
    history = _history(run, database)
    database.close()
    _answered_once_in_order(history)
    for one in run.calls:
        assert one.result is not None
        if one.outcome == "ok" and one.effect == "write":
            assert world.effects[one.idempotency_key] == 1
        if one.outcome in ("declined", "invalid", "skipped", "denied", "repeated"):
            assert world.effects[one.idempotency_key] == 0


def _history(run: Run, database: Database) -> list[Any]:
    from adjourn.checkpoints.saver import SQLAlchemySaver

    found = SQLAlchemySaver(database).get_tuple({"configurable": {"thread_id": run.thread_id}})
    return found.checkpoint["channel_values"].get("messages", []) if found else []


def _answered_once_in_order(messages: list[Any]) -> None:
    asked: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert asked, "an answer without its call"
            assert message.tool_call_id == asked.pop(0)
        else:
            assert asked == []
            if isinstance(message, AIMessage):
                asked = [str(one["id"]) for one in message.tool_calls]
    assert asked == []


def _nothing_twice(story: Story, world: World) -> None:
    """No write has its effect twice; a read that succeeded without a crash in between was entered once."""
    for key, count in world.effects.items():
        name = next(one[1] for one in world.did if one[0] == key)
        assert count == 1 or name in READS
        if not story.deaths:
            assert count <= 2  # `broken_off` is tried once more


def _nothing_beside_a_write(world: World) -> None:
    """Nothing that is within its time limit runs beside a write."""
    spans = sorted((began, ended, name, late) for _, name, began, ended, late in world.did)
    for place, (_, ended, name, late) in enumerate(spans):
        for began, _, other, _ in spans[place + 1 :]:
            if began >= ended:
                break
            # what was given up ends when it likes; reads may go on beside it, writes may not beside a write
            writes = {name, other} & set(WRITES)
            assert not writes or (late and (name in READS or other in READS)), (name, other)


@pytest.mark.timeout(180 + 5 * EXAMPLES)
@settings(
    max_examples=EXAMPLES,
    derandomize="ADJOURN_RUN_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
@given(STORIES)
@example(Story(((Asked("pay"), Asked("look"), Asked("send")),), deaths=((6, False), (3, True))))
@example(Story(((Asked("put", "late"), Asked("pay"), Asked("look")),)))
@example(Story(((Asked("look_slowly", "late"),) * 4,), max_parallel=1))
@example(Story(((Asked("pay", ms=8), Asked("send")),), cancel_ms=20))
@example(
    Story(((Asked("look", "asks"), Asked("pay", "asks")), (Asked("send", "huge"),)), deaths=((9, True),))
)
def test_c14_c15_c20_c21_c34_c36_whatever_happens(story: Story) -> None:
    with tempfile.TemporaryDirectory(prefix="adjourn-story-") as folder:
        url = f"sqlite:///{Path(folder) / 'adjourn.db'}"
        played = asyncio.run(play(story, url))
        check(story, played, url)

"""ToolsNode: run the next batch of the step's plan, and answer each call in request order.

It never raises: whatever becomes of a call is its observation. Outcomes go to the ledger as they happen;
observations go into the messages up to the batch that has ended (`telling.py`). When the step is done, the limits
of the run are looked at (`guards.py`).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from langchain_core.runnables import RunnableConfig

from adjourn.checkpoints.events import StepStarted
from adjourn.checkpoints.lifecycle import (
    CallState,
    StopReason,
)
from adjourn.nodes.beforehand import Beforehand
from adjourn.nodes.calling import Calling
from adjourn.nodes.calls import Call, is_final
from adjourn.nodes.counters import counters_of, kept
from adjourn.nodes.execute import Executor
from adjourn.nodes.guards import Limits, stop_reason
from adjourn.nodes.judging import Judge
from adjourn.nodes.masking import Masker
from adjourn.nodes.permission import Permission
from adjourn.nodes.plan import next_batch, waiting
from adjourn.nodes.run_context import RunContext, run_context
from adjourn.nodes.standing import left_s, standing_of
from adjourn.nodes.state import Route, RunState, last_assistant
from adjourn.nodes.step_calls import StepCalls, is_write
from adjourn.nodes.stopping import stopped
from adjourn.nodes.telling import tell
from adjourn.nodes.tool import Tool


class ToolsNode:
    """Runs one batch per superstep. Returns `tools`, `ask`, `model` or `finish` as its outcome."""

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        limits: Limits | None = None,
        permission: Permission | None = None,
        masker: Masker | None = None,
    ) -> None:
        self.tools: Mapping[str, Tool] = {one.name: one for one in tools}
        self.limits = limits or Limits()
        self.permission = permission or Permission()
        self.masker = masker or Masker()

    async def __call__(self, state: RunState, config: RunnableConfig) -> RunState:
        return await _Batch(self, state, run_context(config)).work()


async def _settled(tasks: set[asyncio.Task[None]]) -> None:
    """Wait until tasks have ended, and look at what each raised, so that nobody warns of those that were not the first."""
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()


class _Batch:
    """The work of one superstep on the calls of its step."""

    def __init__(self, node: ToolsNode, state: RunState, run: RunContext) -> None:
        self.tools = node.tools
        self.limits = node.limits
        self.run_context = run
        self.step = state["step"]
        self.language = state.get("language", "en")
        self.calls = StepCalls([{**call} for call in state["calls"]], self.step, run.ledger, self.language)
        self.settled_before = {
            one["id"] for one in self.calls.all if is_final(one) and one.get("told") != "provisional"
        }
        self.message_id = last_assistant(state["messages"]).id or f"{run.run_id}.{self.step}"
        self.at_work = 0  # calls of the batch that have not come to their end
        self.upto = -1  # observations are told up to this position
        self.counters = counters_of(state)
        self.tried_before = len(self.counters["log"])
        self.stop: StopReason | None = None  # why the run ends now, whatever is left of the step
        run.clock.at_least(self.counters["active_ms"])
        self.judge = Judge(
            self.counters,
            self.tools,
            self.limits,
            language=self.language,
            messages=state["messages"],
            message_id=self.message_id,
        )
        self.executor = Executor(
            self.tools,
            run,
            self.step,
            self.language,
            node.limits.max_parallel,
            node.masker,
            left_s=left_s(self.counters, run, self.limits),
        )
        permission = node.permission.below(run.above)
        self.beforehand = Beforehand(self.calls, self.tools, permission, self.judge, run.run_id)
        self.calling = Calling(self.calls, permission, self.judge, self.executor)

    async def work(self) -> RunState:
        """Judge what has changed since, run the next batch, and give what the node writes.

        A cancel, or the end of the run's time, settles all that has not ended.
        """
        self.beforehand.look()
        self._look_at_time()
        batch = [] if self.stop else next_batch(self.calls.all)
        await self._run_all(batch)
        if self.limits.skip_after_failure:
            self.calls.skip_after_failure()
        if batch:
            self.upto = batch[-1]["position"]
        self._look_at_time()
        if self.stop:
            await self._settle_rest(self.stop, batch)
        route = await self._route()
        return self._written(route)

    def _look_at_time(self) -> None:
        if self.run_context.cancel.is_set():
            self.stop = StopReason.CANCELLED
        elif not self.stop and (left := self._left_s()) is not None and left <= 0:
            self.stop = StopReason.TIMEOUT

    def _left_s(self) -> float | None:
        return left_s(self.counters, self.run_context, self.limits)

    async def _route(self) -> Route:
        """Where to go. When nothing more can run, the limits decide whether the run goes on; nobody is asked in vain."""
        self._learn()
        if self.stop:
            return "finish"
        if next_batch(self.calls.all):
            return "tools"
        is_over = not waiting(self.calls.all)
        if is_over:
            self.judge.end_step(self.calls.all)
        standing = await standing_of(self.counters, self.step, self.run_context, self.limits)
        reason = stop_reason(standing, self.limits)
        if reason in (None, StopReason.MAX_STEPS):  # at its last step the model still has the last word
            return "model" if is_over else "ask"
        self.stop = reason
        await self._settle_rest(reason, ())
        return "finish"

    def _learn(self) -> None:
        """Count the calls that got their outcome in this superstep, those that people decided on included."""
        for call in self.calls.all:
            if is_final(call) and call["id"] not in self.settled_before:
                self.judge.learn(call)

    def _written(self, route: Route) -> RunState:
        run = self.run_context
        if route == "ask":
            self.calls.ask()
        elif route == "model":
            run.ledger.emit(StepStarted(run_id=run.run_id, path=run.path, step=self.step + 1))
        upto = self.upto if route == "tools" else len(self.calls.all)
        limit = self.limits.max_result_chars_per_step
        told = tell(self.calls.all, upto, message_id=self.message_id, limit=limit, language=self.language)
        self.counters["active_ms"] = run.clock.worked_ms()
        result: RunState = {
            "messages": [*told],
            "calls": self.calls.all,
            "outcome": route,
            "counters": kept(self.counters),
        }
        if added := self.counters["log"][self.tried_before :]:
            result["tried"] = added
        return {**result, "stop_reason": self.stop.value} if self.stop else result

    # -- the batch

    async def _run_all(self, batch: Sequence[Call]) -> None:
        """Run the batch; a cancel, or the end of the run's time, takes back what has not ended."""
        tasks = [asyncio.create_task(self._run_one(call)) for call in self.judge.begin(batch)]
        self.at_work = len(tasks)
        if not tasks:
            return
        cancel = self.run_context.cancel.waiter()
        running = set(tasks)
        try:
            while running and not cancel.done():
                done, _ = await asyncio.wait(
                    {*running, cancel}, timeout=self._left_s(), return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    self.stop = StopReason.TIMEOUT
                    break
                running -= done
                for task in done - {cancel}:
                    task.result()  # `LeaseLost` and LangGraph's control exceptions pass through
            # C-61: a write that is in its tool gets its grace; one that still waits for its turn does not
            if running and any(is_write(call) and call["state"] == CallState.STARTED for call in batch):
                await asyncio.wait(running, timeout=self.limits.cancel_grace_s)
        finally:
            cancel.cancel()
            for task in running:
                task.cancel()
            await _settled(set(tasks))
        await self.run_context.ledger.settled()
        if not self.stop and not self.run_context.cancel.is_set():
            for call in batch:
                if call["id"] in self.judge.copies:
                    self.calls.settle(call, self.judge.of_copy(call, self.calls.all))

    async def _run_one(self, call: Call) -> None:
        try:
            outcome = await self.calling.outcome_of(call)
        finally:
            self.at_work -= 1
        if outcome is None:
            return
        self.calls.close(call, outcome)
        ledger = self.run_context.ledger
        if self.at_work or self.calling.must_be_kept(call):
            await ledger.end(self.step, call, outcome)
        else:  # the checkpoint follows at once, and stores it; a read that is killed in between runs again
            ledger.settle(self.step, call, outcome)

    async def _settle_rest(self, reason: StopReason, running: Sequence[Call]) -> None:
        """Settle each call that has not ended; `running` are those of the batch that was stopped."""
        for call in self.calls.all:
            if not is_final(call) and not self.calls.had_ended(call):
                outcome = await stopped(
                    call,
                    self.executor,
                    reason,
                    was_running=call in running,
                    is_in_doubt=self.calls.in_doubt(call),
                )
                self.calls.settle(call, outcome)

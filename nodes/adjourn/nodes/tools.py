"""ToolsNode: run the next batch of the step's plan, and answer each call in request order.

It never raises: whatever becomes of a call is its observation. Outcomes go to the ledger as they happen;
observations go into the messages up to the batch that has ended (`telling.py`). When the step is done, the limits
of the run are looked at (`guards.py`).
"""

import asyncio
import copy
import json
from collections.abc import Iterable, Mapping, Sequence

from langchain_core.runnables import RunnableConfig

from adjourn.checkpoints.events import StepStarted
from adjourn.checkpoints.lifecycle import (
    CALL_MOVES,
    CallState,
    Effect,
    ErrorCode,
    InterruptType,
    StopReason,
    move,
)
from adjourn.checkpoints.sealed import hidden
from adjourn.nodes.calls import Call, Question, is_final
from adjourn.nodes.context import Happened
from adjourn.nodes.counters import counters_of, kept
from adjourn.nodes.execute import Executor, verified
from adjourn.nodes.failures import text_of
from adjourn.nodes.guards import Limits, stop_reason
from adjourn.nodes.judging import Judge
from adjourn.nodes.masking import Masker
from adjourn.nodes.outcome import Outcome, failed
from adjourn.nodes.permission import Permission, Request, Verdict
from adjourn.nodes.plan import next_batch, waiting
from adjourn.nodes.questions import declared_question, make_question, repeats_a_doubt, returned_question
from adjourn.nodes.run_context import RunContext, run_context
from adjourn.nodes.standing import left_s, standing_of
from adjourn.nodes.state import Route, RunState, last_assistant
from adjourn.nodes.stopping import in_doubt, stopped
from adjourn.nodes.telling import tell
from adjourn.nodes.texts import say
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


def _is_write(call: Call) -> bool:
    return call["effect"] == Effect.WRITE


async def _settled(tasks: set[asyncio.Task[None]]) -> None:
    """Wait until cancelled tasks have ended, and look at what they raised, so that nobody warns of it."""
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()


class _Batch:
    """The work of one superstep. `calls` is a copy that is changed here and returned."""

    def __init__(self, node: ToolsNode, state: RunState, run: RunContext) -> None:
        self.tools = node.tools
        self.limits = node.limits
        self.permission = node.permission.below(run.above)
        self.run_context = run
        self.step = state["step"]
        self.language = state.get("language", "en")
        self.calls: list[Call] = [{**call} for call in state["calls"]]
        self.settled_before = {
            one["id"] for one in self.calls if is_final(one) and one.get("told") != "provisional"
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

    async def work(self) -> RunState:
        """Judge what has changed since, run the next batch, and give what the node writes.

        A cancel, or the end of the run's time, settles all that has not ended.
        """
        self._judge()
        self._look_at_time()
        batch = [] if self.stop else next_batch(self.calls)
        await self._run_all(batch)
        self._skip_after_failure()
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
        if next_batch(self.calls):
            return "tools"
        is_over = not waiting(self.calls)
        if is_over:
            self.judge.end_step(self.calls)
        standing = await standing_of(self.counters, self.step, self.run_context, self.limits)
        reason = stop_reason(standing, self.limits)
        if reason in (None, StopReason.MAX_STEPS):  # at its last step the model still has the last word
            return "model" if is_over else "ask"
        self.stop = reason
        await self._settle_rest(reason, ())
        return "finish"

    def _learn(self) -> None:
        """Count the calls that got their outcome in this superstep, those that people decided on included."""
        for call in self.calls:
            if is_final(call) and call["id"] not in self.settled_before:
                self.judge.learn(call)

    def _written(self, route: Route) -> RunState:
        run = self.run_context
        if route == "ask":
            self._ask()
        elif route == "model":
            run.ledger.emit(StepStarted(run_id=run.run_id, path=run.path, step=self.step + 1))
        upto = self.upto if route == "tools" else len(self.calls)
        limit = self.limits.max_result_chars_per_step
        told = tell(self.calls, upto, message_id=self.message_id, limit=limit, language=self.language)
        self.counters["active_ms"] = run.clock.worked_ms()
        result: RunState = {
            "messages": [*told],
            "calls": self.calls,
            "outcome": route,
            "counters": kept(self.counters),
        }
        if added := self.counters["log"][self.tried_before :]:
            result["tried"] = added
        return {**result, "stop_reason": self.stop.value} if self.stop else result

    # -- before the batch

    def _judge(self) -> None:
        """Settle what a person or the model's output decided; find the questions that answers lead to."""
        for call in self.calls:
            if is_final(call) and call.get("told") == "provisional":
                self._settle_again(call)
            elif call["state"] == CallState.PLANNED and call.get("told") == "provisional":
                self._question_again(call)
            elif call["state"] == CallState.WAITING and "told" not in call:
                self._spare_question(call)

    def _settle_again(self, call: Call) -> None:
        """A call that waited and now never runs: the ledger learns it with this superstep."""
        code = json.loads(call["observation"]).get("errorCode")
        outcome = Outcome(
            CallState(call["state"]), call["observation"], code=ErrorCode(code) if code else None
        )
        self.run_context.ledger.settle(self.step, call, outcome)

    def _spare_question(self, call: Call) -> None:
        """Nobody is asked about a call that would not run whatever the answer: by the mode, or by a guard."""
        asks = call["question"]["type"] == InterruptType.CONFIRM_RISKY
        if self.permission.rules_out(Effect(call["effect"]), asks=asks):
            self._deny(call)
        else:
            self._refused_early(call)

    def _refused_early(self, call: Call) -> bool:
        """Whether a guard objects before a person is asked. After a write that is still to run, it may not any more."""
        if any(_is_write(one) and not is_final(one) for one in self.calls[: call["position"]]):
            return False
        refused = self.judge.refused(call)
        if refused is not None:
            self._settle(call, refused)
        return refused is not None

    def _deny(self, call: Call) -> None:
        self._settle(
            call, failed(ErrorCode.PERMISSION_DENIED, self.language, call["name"], text="not_permitted")
        )

    def _question_again(self, call: Call) -> None:
        tool = self.tools.get(call["name"])
        if tool is None:
            return
        arguments = call["arguments"] or {}  # a person may have changed what the call does and touches
        call["effect"] = tool.effect_of(arguments).value
        resource = tool.resource_of(arguments)
        if resource is not None:
            call["resource"] = resource
        question = declared_question(
            call,
            tool,
            run_id=self.run_context.run_id,
            step=self.step,
            language=self.language,
            is_doubtful=self.run_context.ledger.is_doubtful,
        )
        if question is not None and not self._refused_early(call):
            self._wait(call, question)

    def _skip_after_failure(self) -> None:
        """After a write that failed or is unknown, the later writes of the step do not run, nor is anybody asked."""
        lost = (CallState.FAILED, CallState.UNKNOWN)
        broken = [one["position"] for one in self.calls if _is_write(one) and one["state"] in lost]
        if not broken or not self.limits.skip_after_failure:
            return
        for call in self.calls:
            unrun = call["state"] in (CallState.PLANNED, CallState.WAITING) and not self._in_doubt(call)
            if _is_write(call) and unrun and call["position"] > broken[0]:
                self._settle(call, failed(ErrorCode.SKIPPED_AFTER_FAILURE, self.language, call["name"]))

    def _in_doubt(self, call: Call) -> bool:
        """Whether the call is a write that had started when its owner died, or that a person is asked about."""
        return in_doubt(call, self.run_context.ledger.stored(self.step, call["id"]))

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
            if running and any(_is_write(call) and call["state"] == CallState.STARTED for call in batch):
                await asyncio.wait(running, timeout=self.limits.cancel_grace_s)
        finally:
            cancel.cancel()
            for task in running:
                task.cancel()
            await _settled(running)
        await self.run_context.ledger.settled()
        if not self.stop and not self.run_context.cancel.is_set():
            for call in batch:
                if call["id"] in self.judge.copies:
                    self._settle(call, self.judge.of_copy(call, self.calls))

    async def _run_one(self, call: Call) -> None:
        try:
            outcome = await self._outcome_of(call)
        finally:
            self.at_work -= 1
        if outcome is None:
            return
        if outcome.question is not None:
            self._asked(call, outcome)
            return
        self._close(call, outcome)
        ledger = self.run_context.ledger
        if self.at_work or self._must_be_kept(call):
            await ledger.end(self.step, call, outcome)
        else:  # the checkpoint follows at once, and stores it; a read that is killed in between runs again
            ledger.settle(self.step, call, outcome)

    def _must_be_kept(self, call: Call) -> bool:
        """Whether nothing makes up for the loss of the call's outcome: it wrote, or others worked for it."""
        tool = self.tools.get(call["name"])
        if tool is None:
            return False
        return (
            _is_write(call)
            or tool.delegates is not None
            or tool.effect_of(call["arguments"] or {}) is Effect.WRITE
        )

    async def _outcome_of(self, call: Call) -> Outcome | None:
        """What the call comes to; None: it had its outcome, was refused one, or waits for a person."""
        if self._had_ended(call):
            return None
        stored = self.run_context.ledger.stored(self.step, call["id"])
        tool = self.tools.get(call["name"])
        outcome = await self._settle_lost(call, tool) if self._in_doubt(call) else None
        if call["state"] == CallState.WAITING:
            return None
        if outcome is None and not await self._may_run(call, tool):
            return None
        return outcome or await self.executor.execute(call, attempts=stored.attempts if stored else 0)

    def _had_ended(self, call: Call) -> bool:
        """Whether the call has its outcome from an owner that died before the superstep's end: it is kept (C-34)."""
        stored = self.run_context.ledger.stored(self.step, call["id"])
        if stored is None or stored.observation is None:
            return False
        call["state"], call["observation"] = stored.state, stored.observation
        return True

    async def _settle_lost(self, call: Call, tool: Tool | None) -> Outcome | None:
        """A write that was started by an owner that died (C-35). None: it may run (again), or a person is asked."""
        if tool is None:
            return failed(ErrorCode.OUTCOME_UNKNOWN, self.language, call["name"])
        if tool.idempotent:
            return None
        verdict = await verified(tool, self.executor.context(call, tool), self.run_context.places)
        if isinstance(verdict, Happened):
            return self.executor.succeeded(tool, call, verdict.result)
        if verdict is None:
            reason = say("ask.outcome_unknown", self.language, tool=tool.name)
            kind, run_id = InterruptType.OUTCOME_UNKNOWN, self.run_context.run_id
            self._wait(call, make_question(call, tool, kind, reason, {}, run_id=run_id, step=self.step))
        return None

    async def _may_run(self, call: Call, tool: Tool | None) -> bool:
        """Ask for permission (C-27), the guards, and whether an identical write is in doubt (C-61).

        False: the call was denied or refused, or waits for a person.
        """
        if tool is None:
            return True
        run, arguments = self.run_context, call["arguments"] or {}
        agreed, effect = call.get("approved", False), tool.effect_of(arguments)
        request = Request(
            run.started_by,
            tool.name,
            effect,
            hidden(arguments),
            run.run_id,
            run.thread_id,
            copy.deepcopy(run.given),
        )
        # what was agreed to was asked about: that verdict is kept, and not computed again (C-38)
        asks = agreed or tool.question_of(arguments) is not None
        verdict = await self.permission.verdict(request, agreed=agreed, asks=asks)
        if verdict is Verdict.DENY:
            self._deny(call)
            return False
        refused = None if self._in_doubt(call) else self.judge.refused(call)
        if refused is not None:
            self._settle(call, refused)
            return False
        # who agreed was told of the doubt that there was when they were asked
        doubtful = not agreed and repeats_a_doubt(call, tool, run.ledger.is_doubtful)
        if verdict is Verdict.ALLOW and not doubtful:
            return True
        reason = say("ask.doubtful" if doubtful else "ask.permission", self.language, tool=tool.name)
        kind = InterruptType.CONFIRM_RISKY
        self._wait(call, make_question(call, tool, kind, reason, {}, run_id=run.run_id, step=self.step))
        return False

    def _asked(self, call: Call, outcome: Outcome) -> None:
        """The call waits for its answer; with a question that nobody could be asked, it has failed."""
        tool, run_id = self.tools[call["name"]], self.run_context.run_id
        try:
            question = returned_question(call, tool, outcome.question or {}, run_id=run_id, step=self.step)
        except Exception as error:  # whatever a tool put into it: a cycle, a hostile __str__
            why = self.executor.masker.text(text_of(error))
            told = failed(ErrorCode.TOOL_ERROR, self.language, tool.name, why=why, attempts=outcome.attempts)
            self._settle(call, told)
        else:
            self._wait(call, question)

    async def _settle_rest(self, reason: StopReason, running: Sequence[Call]) -> None:
        """Settle each call that has not ended; `running` are those of the batch that was stopped."""
        for call in self.calls:
            if not is_final(call) and not self._had_ended(call):
                outcome = await stopped(
                    call,
                    self.executor,
                    reason,
                    was_running=call in running,
                    is_in_doubt=self._in_doubt(call),
                )
                self._settle(call, outcome)

    # -- after the batch

    def _wait(self, call: Call, question: Question) -> None:
        call["state"] = move(
            CALL_MOVES, CallState(call["state"]), CallState.WAITING, of=f"call {call['id']}"
        ).value
        call["question"] = question

    def _settle(self, call: Call, outcome: Outcome) -> None:
        """The call has its outcome without having run; that is stored with this superstep."""
        self._close(call, outcome)
        self.run_context.ledger.settle(self.step, call, outcome)

    def _close(self, call: Call, outcome: Outcome) -> None:
        call["state"] = outcome.state.value
        call["observation"] = outcome.observation

    def _ask(self) -> None:
        asked = [(call, call["question"]) for call in waiting(self.calls) if "question" in call]
        self.run_context.ledger.ask(self.step, asked)

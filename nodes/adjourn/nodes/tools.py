"""ToolsNode: run the next batch of the step's plan, and answer each call in request order.

It never raises: whatever becomes of a call is its observation. Outcomes go to the ledger as they happen;
observations go into the messages up to the batch that has ended, in request order, a provisional one for
each call that has not run yet (C-41). It is replaced in place later, since message ids derive from the
assistant message and the position.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig

from adjourn.checkpoints.events import StepStarted
from adjourn.checkpoints.lifecycle import CALL_MOVES, CallState, Effect, ErrorCode, InterruptType, move
from adjourn.nodes.batch_budget import fit
from adjourn.nodes.calls import Call, Question, is_final
from adjourn.nodes.context import Happened
from adjourn.nodes.execute import Executor, verified
from adjourn.nodes.guards import Limits
from adjourn.nodes.masking import Masker
from adjourn.nodes.observations import failure
from adjourn.nodes.outcome import Outcome, failed
from adjourn.nodes.permission import Permission, Request, Verdict
from adjourn.nodes.plan import next_batch, waiting
from adjourn.nodes.questions import declared_question, make_question, returned_question
from adjourn.nodes.run_context import RunContext, run_context
from adjourn.nodes.state import Outcome as Route
from adjourn.nodes.state import RunState, last_assistant
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
        work = _Batch(self, state, run_context(config))
        await work.run()
        return work.result()


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
        self.permission = node.permission
        self.run_context = run
        self.step = state["step"]
        self.language = state.get("language", "en")
        self.calls: list[Call] = [{**call} for call in state["calls"]]
        self.message_id = last_assistant(state["messages"]).id or f"{run.run_id}.{self.step}"
        self.upto = -1  # observations are told up to this position
        self.executor = Executor(
            self.tools, run, self.step, self.language, node.limits.max_parallel, node.masker
        )

    async def run(self) -> None:
        """Judge what has changed since, then run the next batch. A cancel settles all that has not ended."""
        self._judge()
        batch = [] if self._is_cancelled() else next_batch(self.calls)
        await self._run_all(batch)
        self._skip_after_failure()
        if batch:
            self.upto = batch[-1]["position"]
        if self._is_cancelled():
            await self._cancel_rest()
        if not next_batch(self.calls):
            self.upto = len(self.calls)

    def _is_cancelled(self) -> bool:
        return self.run_context.cancel.is_set()

    def result(self) -> RunState:
        """What the node writes."""
        route = self._route()
        if route == "ask":
            self._ask()
        elif route == "model":
            run = self.run_context
            run.ledger.emit(StepStarted(run_id=run.run_id, path=run.path, step=self.step + 1))
        return {"messages": self._tell(), "calls": self.calls, "outcome": route}

    def _route(self) -> Route:
        if self._is_cancelled():
            return "finish"
        if next_batch(self.calls):
            return "tools"
        return "ask" if waiting(self.calls) else "model"

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
        """Nobody is asked about a call that the mode denies whatever the answer."""
        asks = call["question"]["type"] == InterruptType.CONFIRM_RISKY
        if self.permission.rules_out(Effect(call["effect"]), asks=asks):
            self._deny(call)

    def _deny(self, call: Call) -> None:
        denied = failed(ErrorCode.PERMISSION_DENIED, self.language, call["name"], text="not_permitted")
        self._close(call, denied)
        self.run_context.ledger.settle(self.step, call, denied)

    def _question_again(self, call: Call) -> None:
        tool = self.tools.get(call["name"])
        if tool is None:
            return
        arguments = call["arguments"] or {}  # a person may have changed what the call does and touches
        call["effect"] = tool.effect_of(arguments).value
        resource = tool.resource_of(arguments)
        if resource is not None:
            call["resource"] = resource
        run_id = self.run_context.run_id
        question = declared_question(call, tool, run_id=run_id, step=self.step, language=self.language)
        if question is not None:
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
                outcome = failed(ErrorCode.SKIPPED_AFTER_FAILURE, self.language, call["name"])
                self._close(call, outcome)
                self.run_context.ledger.settle(self.step, call, outcome)

    def _in_doubt(self, call: Call) -> bool:
        """Whether the call is a write that had started when its owner died, or that a person is asked about."""
        stored = self.run_context.ledger.stored(self.step, call["id"])
        started = CallState.STARTED in (call["state"], stored.state if stored else None)
        asked = "question" in call and call["question"]["type"] == InterruptType.OUTCOME_UNKNOWN
        return _is_write(call) and (started or asked)

    # -- the batch

    async def _run_all(self, batch: Sequence[Call]) -> None:
        """Run the batch, at most `max_parallel` at a time; a cancel takes back what has not ended."""
        tasks = [asyncio.create_task(self._run_one(call)) for call in batch]
        if not tasks:
            return
        cancel = asyncio.create_task(self.run_context.cancel.wait())
        running = set(tasks)
        try:
            while running and not cancel.done():
                done, _ = await asyncio.wait({*running, cancel}, return_when=asyncio.FIRST_COMPLETED)
                running -= done
                for task in done - {cancel}:
                    task.result()  # `LeaseLost` and LangGraph's control exceptions pass through
            if running and all(_is_write(call) for call in batch):  # C-61: a write gets its grace
                await asyncio.wait(running, timeout=self.limits.cancel_grace_s)
        finally:
            cancel.cancel()
            for task in running:
                task.cancel()
            await _settled(running)
        await self.run_context.ledger.settled()

    async def _run_one(self, call: Call) -> None:
        ledger = self.run_context.ledger
        stored = ledger.stored(self.step, call["id"])
        if stored is not None and stored.observation is not None:  # C-34
            call["state"], call["observation"] = stored.state, stored.observation
            return
        tool = self.tools.get(call["name"])
        outcome = await self._settle_lost(call, tool) if self._in_doubt(call) else None
        if call["state"] == CallState.WAITING:
            return
        if outcome is None and not await self._may_run(call, tool):
            return
        if outcome is None:
            outcome = await self.executor.execute(call, attempts=stored.attempts if stored else 0)
        if outcome.question is not None:
            self._asked(call, outcome)
            return
        self._close(call, outcome)
        await ledger.end(self.step, call, outcome)

    async def _settle_lost(self, call: Call, tool: Tool | None) -> Outcome | None:
        """A write that was started by an owner that died (C-35). None: it may run (again), or a person is asked."""
        if tool is None:
            return failed(ErrorCode.OUTCOME_UNKNOWN, self.language, call["name"])
        if tool.idempotent:
            return None
        verdict = await verified(tool, self.executor.context(call, tool))
        if isinstance(verdict, Happened):
            return self.executor.succeeded(tool, call, verdict.result)
        if verdict is None:
            reason = say("ask.outcome_unknown", self.language, tool=tool.name)
            kind, run_id = InterruptType.OUTCOME_UNKNOWN, self.run_context.run_id
            self._wait(call, make_question(call, tool, kind, reason, {}, run_id=run_id, step=self.step))
        return None

    async def _may_run(self, call: Call, tool: Tool | None) -> bool:
        """Ask for permission (C-27), and whether an identical write is in doubt (C-61).

        False: the call was denied, or waits for a person.
        """
        if tool is None:
            return True
        run, arguments = self.run_context, call["arguments"] or {}
        agreed, effect = call.get("approved", False), tool.effect_of(arguments)
        request = Request(run.started_by, tool.name, effect, arguments, run.run_id, run.thread_id)
        asks = tool.question_of(arguments) is not None
        verdict = await self.permission.verdict(request, agreed=agreed, asks=asks)
        if verdict is Verdict.DENY:
            self._deny(call)
            return False
        doubtful = (
            effect is Effect.WRITE and not agreed and not tool.idempotent and run.ledger.is_doubtful(call)
        )
        if verdict is Verdict.ALLOW and not doubtful:
            return True
        reason = say("ask.doubtful" if doubtful else "ask.permission", self.language, tool=tool.name)
        kind = InterruptType.CONFIRM_RISKY
        self._wait(call, make_question(call, tool, kind, reason, {}, run_id=run.run_id, step=self.step))
        return False

    def _asked(self, call: Call, outcome: Outcome) -> None:
        tool = self.tools[call["name"]]
        try:
            run_id = self.run_context.run_id
            self._wait(
                call, returned_question(call, tool, outcome.question or {}, run_id=run_id, step=self.step)
            )
        except (ValueError, KeyError, TypeError) as error:
            broken = failed(ErrorCode.TOOL_ERROR, self.language, tool.name, why=str(error), attempts=1)
            self._close(call, broken)
            self.run_context.ledger.settle(self.step, call, broken)

    async def _cancel_rest(self) -> None:
        """Settle each call that has not ended: `cancelled`, or what became of a write that had started (C-61)."""
        for call in self.calls:
            if is_final(call):
                continue
            outcome = await self._cancelled(call)
            self._close(call, outcome)
            self.run_context.ledger.settle(self.step, call, outcome)

    async def _cancelled(self, call: Call) -> Outcome:
        tool = self.tools.get(call["name"])
        if not self._in_doubt(call):
            return failed(ErrorCode.CANCELLED, self.language, call["name"])
        verdict = await verified(tool, self.executor.context(call, tool)) if tool is not None else None
        if tool is not None and isinstance(verdict, Happened):
            return self.executor.succeeded(tool, call, verdict.result)
        code = ErrorCode.CANCELLED if verdict is False else ErrorCode.OUTCOME_UNKNOWN
        return failed(code, self.language, call["name"])

    # -- after the batch

    def _wait(self, call: Call, question: Question) -> None:
        call["state"] = move(
            CALL_MOVES, CallState(call["state"]), CallState.WAITING, of=f"call {call['id']}"
        ).value
        call["question"] = question

    def _close(self, call: Call, outcome: Outcome) -> None:
        call["state"] = outcome.state.value
        call["observation"] = outcome.observation

    def _ask(self) -> None:
        asked = [(call, call["question"]) for call in waiting(self.calls) if "question" in call]
        self.run_context.ledger.ask(self.step, asked)

    def _tell(self) -> list[Any]:
        """The tool messages that are new or replaced, in request order, up to where the step has come."""
        messages: list[Any] = []
        untold = [one for one in self.calls if is_final(one) and one.get("told") != "final"]
        fitted = dict(zip((one["id"] for one in untold), self._fitted(untold), strict=True))
        for call in self.calls:
            if call["position"] > self.upto:
                break
            told = call.get("told")
            if is_final(call) and told != "final":
                del call["observation"]
                call["size"] = len(fitted[call["id"]])
                messages.append(self._message(call, fitted[call["id"]]))
                call["told"] = "final"
            elif not is_final(call) and told is None:
                text = say("awaiting_user", self.language, tool=call["name"])
                messages.append(self._message(call, failure(ErrorCode.AWAITING_USER, text)))
                call["told"] = "provisional"
        return messages

    def _fitted(self, untold: Sequence[Call]) -> list[str]:
        """The observations that are told now, within what is left of the step's budget (C-74)."""
        spent = sum(one.get("size", 0) for one in self.calls)
        left = max(0, self.limits.max_result_chars_per_step - spent)
        return fit([one["observation"] for one in untold], left, self.language)

    def _message(self, call: Call, observation: str) -> ToolMessage:
        ok = call["state"] == CallState.OK
        return ToolMessage(
            content=observation,
            tool_call_id=call["id"],
            name=call["name"],
            status="success" if ok else "error",
            id=f"{self.message_id}.{call['position']}",
        )

"""One call of a batch, when its turn has come: the last look at it, its run, and its outcome or its question."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass

from adjourn.checkpoints.lifecycle import CallState, Effect, ErrorCode, InterruptType
from adjourn.checkpoints.sealed import hidden
from adjourn.nodes.calls import Call
from adjourn.nodes.context import Happened
from adjourn.nodes.execute import Executor, verified
from adjourn.nodes.failures import text_of
from adjourn.nodes.judging import Judge
from adjourn.nodes.outcome import Outcome, failed
from adjourn.nodes.permission import Permission, Request, Verdict
from adjourn.nodes.questions import make_question, repeats_a_doubt, returned_question
from adjourn.nodes.run_context import RunContext
from adjourn.nodes.step_calls import StepCalls, is_write
from adjourn.nodes.texts import say
from adjourn.nodes.tool import Tool


@dataclass(frozen=True, slots=True)
class Calling:
    """Brings calls of one superstep to their outcome, each just when it runs (C-25)."""

    calls: StepCalls
    permission: Permission
    judge: Judge
    executor: Executor

    @property
    def _run(self) -> RunContext:
        return self.executor.run

    @property
    def _tools(self) -> Mapping[str, Tool]:
        return self.executor.tools

    async def outcome_of(self, call: Call) -> Outcome | None:
        """What the call comes to; None: it had its outcome, was refused one, or waits for a person."""
        if self.calls.had_ended(call):
            return None
        stored = self.calls.ledger.stored(self.calls.step, call["id"])
        tool = self._tools.get(call["name"])
        outcome = await self._settle_lost(call, tool) if self.calls.in_doubt(call) else None
        if call["state"] == CallState.WAITING:
            return None
        if outcome is None and not await self._may_run(call, tool):
            return None
        outcome = outcome or await self.executor.execute(call, attempts=stored.attempts if stored else 0)
        if outcome.question is not None:
            self._asked(call, outcome)
            return None
        return outcome

    def must_be_kept(self, call: Call) -> bool:
        """Whether nothing makes up for the loss of the call's outcome: it wrote, or others worked for it."""
        tool = self._tools.get(call["name"])
        if tool is None:
            return False
        return (
            is_write(call)
            or tool.delegates is not None
            or tool.effect_of(call["arguments"] or {}) is Effect.WRITE
        )

    async def _settle_lost(self, call: Call, tool: Tool | None) -> Outcome | None:
        """A write that was started by an owner that died (C-35). None: it may run (again), or a person is asked."""
        if tool is None:
            return failed(ErrorCode.OUTCOME_UNKNOWN, self.calls.language, call["name"])
        if tool.idempotent:
            return None
        verdict = await verified(tool, self.executor.context(call, tool), self._run.places)
        if isinstance(verdict, Happened):
            return self.executor.succeeded(tool, call, verdict.result)
        if verdict is None:
            self._ask(call, tool, InterruptType.OUTCOME_UNKNOWN, "ask.outcome_unknown")
        return None

    async def _may_run(self, call: Call, tool: Tool | None) -> bool:
        """Ask for permission (C-27), the guards, and whether an identical write is in doubt (C-61).

        False: the call was denied or refused, or waits for a person.
        """
        if tool is None:
            return True
        run, arguments = self._run, call["arguments"] or {}
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
            self.calls.deny(call)
            return False
        refused = None if self.calls.in_doubt(call) else self.judge.refused(call)
        if refused is not None:
            self.calls.settle(call, refused)
            return False
        # who agreed was told of the doubt that there was when they were asked
        doubtful = not agreed and repeats_a_doubt(call, tool, run.ledger.is_doubtful)
        if verdict is Verdict.ALLOW and not doubtful:
            return True
        self._ask(call, tool, InterruptType.CONFIRM_RISKY, "ask.doubtful" if doubtful else "ask.permission")
        return False

    def _ask(self, call: Call, tool: Tool, kind: InterruptType, text: str) -> None:
        """The runtime asks about a call, with a text of its own."""
        reason, run_id = say(text, self.calls.language, tool=tool.name), self._run.run_id
        self.calls.wait(
            call, make_question(call, tool, kind, reason, {}, run_id=run_id, step=self.calls.step)
        )

    def _asked(self, call: Call, outcome: Outcome) -> None:
        """The tool asked: the call waits for its answer; with a question that nobody could be asked, it has failed."""
        tool, run_id, step = self._tools[call["name"]], self._run.run_id, self.calls.step
        try:
            question = returned_question(call, tool, outcome.question or {}, run_id=run_id, step=step)
        except Exception as error:  # whatever a tool put into it: a cycle, a hostile __str__
            why, language = self.executor.masker.text(text_of(error)), self.calls.language
            told = failed(ErrorCode.TOOL_ERROR, language, tool.name, why=why, attempts=outcome.attempts)
            self.calls.settle(call, told)
        else:
            self.calls.wait(call, question)

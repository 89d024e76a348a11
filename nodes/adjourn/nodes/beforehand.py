"""What is settled before the next batch of a step runs: by what people answered, and by what makes questions needless."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from adjourn.checkpoints.lifecycle import CallState, Effect, ErrorCode, InterruptType
from adjourn.nodes.calls import Call, is_final
from adjourn.nodes.judging import Judge
from adjourn.nodes.outcome import Outcome
from adjourn.nodes.permission import Permission
from adjourn.nodes.questions import declared_question
from adjourn.nodes.step_calls import StepCalls
from adjourn.nodes.tool import Tool


@dataclass(frozen=True, slots=True)
class Beforehand:
    """Settles what a person or the model's output decided; finds the questions that answers lead to."""

    calls: StepCalls
    tools: Mapping[str, Tool]
    permission: Permission
    judge: Judge
    run_id: str

    def look(self) -> None:
        """Look at each call once."""
        for call in self.calls.all:
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
        self.calls.ledger.settle(self.calls.step, call, outcome)

    def _spare_question(self, call: Call) -> None:
        """Nobody is asked about a call that would not run whatever the answer: by the mode, or by a guard."""
        asks = call["question"]["type"] == InterruptType.CONFIRM_RISKY
        if self.permission.rules_out(Effect(call["effect"]), asks=asks):
            self.calls.deny(call)
        else:
            self._refused_early(call)

    def _refused_early(self, call: Call) -> bool:
        """Whether a guard objects before a person is asked. After a write that is still to run, it may not any more."""
        if self.calls.writes_before(call):
            return False
        refused = self.judge.refused(call)
        if refused is not None:
            self.calls.settle(call, refused)
        return refused is not None

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
            run_id=self.run_id,
            step=self.calls.step,
            language=self.calls.language,
            is_doubtful=self.calls.ledger.is_doubtful,
        )
        if question is not None and not self._refused_early(call):
            self.calls.wait(call, question)

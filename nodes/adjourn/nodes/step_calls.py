"""The calls of a step while a superstep works on them: how each comes to its state, and how the ledger learns of it."""

from dataclasses import dataclass

from adjourn.checkpoints.lifecycle import CALL_MOVES, CallState, Effect, ErrorCode, InterruptType, move
from adjourn.nodes.calls import Call, Question, is_final
from adjourn.nodes.outcome import Outcome, failed
from adjourn.nodes.plan import waiting
from adjourn.nodes.run_context import Ledger


def is_write(call: Call) -> bool:
    """Whether the call was planned as one that writes."""
    return call["effect"] == Effect.WRITE


@dataclass(frozen=True, slots=True)
class StepCalls:
    """The calls of one step, in request order: copies, which are changed here and returned by the node."""

    all: list[Call]
    step: int
    ledger: Ledger
    language: str

    def had_ended(self, call: Call) -> bool:
        """Whether the call has its outcome from an owner that died before the superstep's end: it is kept (C-34)."""
        stored = self.ledger.stored(self.step, call["id"])
        if stored is None or stored.observation is None:
            return False
        call["state"], call["observation"] = stored.state, stored.observation
        return True

    def in_doubt(self, call: Call) -> bool:
        """Whether the call is a write that had started when its owner died, or that a person is asked about."""
        stored = self.ledger.stored(self.step, call["id"])
        started = CallState.STARTED in (call["state"], stored.state if stored else None)
        asked = "question" in call and call["question"]["type"] == InterruptType.OUTCOME_UNKNOWN
        return is_write(call) and (started or asked)

    def wait(self, call: Call, question: Question) -> None:
        """The call waits for a person."""
        now_waits = move(CALL_MOVES, CallState(call["state"]), CallState.WAITING, of=f"call {call['id']}")
        call["state"], call["question"] = now_waits.value, question

    def close(self, call: Call, outcome: Outcome) -> None:
        """The call has its outcome; the ledger is told by the caller."""
        call["state"], call["observation"] = outcome.state.value, outcome.observation

    def settle(self, call: Call, outcome: Outcome) -> None:
        """The call has its outcome without having run; that is stored with this superstep."""
        self.close(call, outcome)
        self.ledger.settle(self.step, call, outcome)

    def deny(self, call: Call) -> None:
        """The call may not run, whoever asks for it (C-27)."""
        self.settle(
            call, failed(ErrorCode.PERMISSION_DENIED, self.language, call["name"], text="not_permitted")
        )

    def skip_after_failure(self) -> None:
        """After a write that failed or is unknown, the later writes of the step do not run, nor is anybody asked."""
        lost = (CallState.FAILED, CallState.UNKNOWN)
        broken = [one["position"] for one in self.all if is_write(one) and one["state"] in lost]
        if not broken:
            return
        for call in self.all:
            unrun = call["state"] in (CallState.PLANNED, CallState.WAITING) and not self.in_doubt(call)
            if is_write(call) and unrun and call["position"] > broken[0]:
                self.settle(call, failed(ErrorCode.SKIPPED_AFTER_FAILURE, self.language, call["name"]))

    def writes_before(self, call: Call) -> bool:
        """Whether a write is still to run before this call."""
        before = self.all[: call["position"]]
        return any(is_write(one) and not is_final(one) for one in before)

    def ask(self) -> None:
        """Store the questions of the calls that wait, with this superstep."""
        asked = [(call, call["question"]) for call in waiting(self.all) if "question" in call]
        self.ledger.ask(self.step, asked)

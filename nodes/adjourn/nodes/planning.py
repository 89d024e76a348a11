"""From a turn to the calls of a step: their batches, their declared questions, and what can never run.

What does not parse, was cut off, names no tool, or is one too many gets its observation here (C-5 to C-12,
C-24). Everything else is judged again just before it runs (C-25).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from adjourn.checkpoints.lifecycle import CallState, Effect, ErrorCode
from adjourn.nodes.assembly import AssembledCall, Turn
from adjourn.nodes.calls import Call
from adjourn.nodes.execute import unknown_tool
from adjourn.nodes.guards import Limits
from adjourn.nodes.masking import Masker
from adjourn.nodes.outcome import Outcome, failed
from adjourn.nodes.plan import number_batches
from adjourn.nodes.questions import IsDoubtful, declared_question
from adjourn.nodes.tool import Tool

RAW_SHOWN = 500  # characters of an unparsable argument text that the model is shown again


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes the plan of one step of one run.

    `serial`: the step of a flow, which knows one tool; calls of any other name, and a second write, do not run (C-77).
    `is_doubtful`: the ledger's, whether the outcome of an identical write is unknown.
    """

    tools: Mapping[str, Tool]
    limits: Limits
    run_id: str
    step: int
    language: str
    masker: Masker
    is_doubtful: IsDoubtful
    serial: bool = False
    can_seal: bool = True  # whether there is a key for what people fill into secret parameters

    def plan(self, turn: Turn) -> list[Call]:
        """The calls of the turn in request order. All declared questions are found here (C-23)."""
        kinds = [self._kind(sent) for sent in turn.calls]
        batches = number_batches(kinds)
        planned: list[Call] = []
        writes = 0
        for sent, (effect, _), batch in zip(turn.calls, kinds, batches, strict=True):
            writes += effect is Effect.WRITE
            outcome = self._hopeless(sent, effect, truncated=turn.truncated, writes=writes)
            call = _requested(sent, effect, batch)
            planned.append(self._prepared(call) if outcome is None else _closed(call, sent, outcome))
        return planned

    def _kind(self, sent: AssembledCall) -> tuple[Effect, bool]:
        tool = self.tools.get(sent.name)
        if tool is None or sent.arguments is None:
            return Effect.READ, True  # it never runs: it must not keep its neighbours apart
        return tool.effect_of(sent.arguments), tool.parallel

    def _hopeless(
        self, sent: AssembledCall, effect: Effect, *, truncated: bool, writes: int
    ) -> Outcome | None:
        """The outcome of a call that can never run, whatever happens before its turn comes."""
        return (
            self._unreadable(sent, effect, truncated=truncated)
            or self._misplaced(sent, effect, writes=writes)
            or self._one_too_many(sent, effect, writes=writes)
        )

    def _unreadable(self, sent: AssembledCall, effect: Effect, *, truncated: bool) -> Outcome | None:
        if sent.cut or (truncated and effect is Effect.WRITE):
            return failed(ErrorCode.OUTPUT_CUT, self.language, sent.name)
        return None if sent.error is None else _unparsable(sent, self.language, self.masker)

    def _misplaced(self, sent: AssembledCall, effect: Effect, *, writes: int) -> Outcome | None:
        if self.serial and (sent.name not in self.tools or (effect is Effect.WRITE and writes > 1)):
            return failed(ErrorCode.SKIPPED_IN_SERIAL_STEP, self.language, sent.name)
        if sent.name not in self.tools:
            return unknown_tool(sent.name, self.tools, self.language)
        if self.tools[sent.name].secret and not self.can_seal:  # nobody may give what would be stored plain
            return failed(ErrorCode.TOOL_ERROR, self.language, sent.name, text="no_key")
        return None

    def _one_too_many(self, sent: AssembledCall, effect: Effect, *, writes: int) -> Outcome | None:
        limits, language = self.limits, self.language
        if sent.position >= limits.max_calls_per_step:
            return failed(ErrorCode.TOO_MANY_CALLS, language, sent.name, limit=limits.max_calls_per_step)
        most = limits.max_writes_per_step
        if effect is Effect.WRITE and most is not None and writes > most:
            return failed(ErrorCode.SKIPPED_WRITE_LIMIT, language, sent.name, limit=most)
        return None

    def _prepared(self, call: Call) -> Call:
        tool = self.tools[call["name"]]
        arguments = call["arguments"] = tool.without_blanks(call["arguments"] or {})
        resource = tool.resource_of(arguments)
        if resource is not None:
            call["resource"] = resource
        if tool.problems(arguments).wrong:
            return call  # answered `invalid_arguments` when its turn comes; nobody is asked before that
        question = declared_question(
            call,
            tool,
            run_id=self.run_id,
            step=self.step,
            language=self.language,
            is_doubtful=self.is_doubtful,
        )
        if question is not None:
            call["state"], call["question"] = CallState.WAITING.value, question
        return call


def _requested(sent: AssembledCall, effect: Effect, batch: int) -> Call:
    return {
        "id": str(sent.id),
        "name": sent.name,
        "position": sent.position,
        "batch": batch,
        "effect": effect.value,
        "arguments": sent.arguments,
        "state": CallState.PLANNED.value,
    }


def _closed(call: Call, sent: AssembledCall, outcome: Outcome) -> Call:
    call["state"], call["observation"] = outcome.state.value, outcome.observation
    if sent.error is not None:
        call["raw"] = sent.raw
    return call


def _unparsable(sent: AssembledCall, language: str, masker: Masker) -> Outcome:
    raw = sent.raw if len(sent.raw) <= RAW_SHOWN else sent.raw[:RAW_SHOWN] + "..."
    raw, why = masker.text(raw), masker.text(str(sent.error))
    return failed(ErrorCode.INVALID_ARGUMENTS, language, sent.name, text="unparsable", why=why, raw=raw)

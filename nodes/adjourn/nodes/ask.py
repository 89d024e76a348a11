"""AskNode: one LangGraph interrupt that carries all open questions of the step.

Nothing with an effect is here, so that LangGraph's re-execution on resume is harmless. Answers were
checked and stored before LangGraph is resumed with them.
"""

from collections.abc import Callable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from adjourn.checkpoints.lifecycle import CallState, ErrorCode
from adjourn.nodes.calls import Call
from adjourn.nodes.delegation import DELEGATED
from adjourn.nodes.execute import edit_note
from adjourn.nodes.masking import Masker
from adjourn.nodes.observations import success
from adjourn.nodes.outcome import failed
from adjourn.nodes.plan import waiting
from adjourn.nodes.questions import apply_answer
from adjourn.nodes.state import RunState
from adjourn.nodes.texts import say
from adjourn.nodes.tool import RESULT_LIMIT


class AskNode:
    """Asks, and turns answers into verdicts on the calls that waited. Its outcome is always `tools`.

    LangGraph is resumed with `{question id: {"answer": ..., "by": name or None, "at": ...}}`, complete;
    `{"expired": True}` stands for a question that nobody answered in time.
    """

    def __init__(self, *, masker: Masker | None = None, may_answer: Callable[..., Any] | None = None) -> None:
        self.masker = masker or Masker()
        self.may_answer = may_answer  # asked by whoever takes answers, before this node runs

    async def __call__(self, state: RunState, config: RunnableConfig) -> RunState:
        asked = waiting(state["calls"])
        answers: dict[str, dict[str, Any]] = interrupt(
            {"questions": [call["question"] for call in asked if "question" in call]}
        )
        language = state.get("language", "en")
        return {
            "calls": [self._answered(call, answers, language) for call in state["calls"]],
            "outcome": "tools",
        }

    def _answered(self, call: Call, answers: dict[str, dict[str, Any]], language: str) -> Call:
        if call["state"] != CallState.WAITING or "question" not in call:
            return call  # one that would have been asked about may have been passed over since
        if call["question"]["type"] == DELEGATED:  # its specialist was answered; it goes on with the call
            again: Call = {**call, "state": CallState.PLANNED.value}
            del again["question"]
            return again
        given, name = answers[call["question"]["id"]], call["name"]
        if given.get("expired"):
            return self._expired(call, language)
        answer = given["answer"]
        changed = apply_answer(call, answer, by=given.get("by"), at=given.get("at"), masker=self.masker)
        if changed["state"] == CallState.DECLINED:
            why = answer.get("reason") or say("user_declined.no_reason", language)
            changed["observation"] = failed(ErrorCode.USER_DECLINED, language, name, why=why).observation
        elif changed["state"] == CallState.UNKNOWN:
            changed["observation"] = failed(ErrorCode.OUTCOME_UNKNOWN, language, name).observation
        elif changed["state"] == CallState.OK:
            note, mask = edit_note(changed, language, self.masker), self.masker.data
            changed["observation"] = success(
                answer["result"], limit=RESULT_LIMIT, language=language, note=note, mask=mask
            )
        return changed

    def _expired(self, call: Call, language: str) -> Call:
        outcome = failed(ErrorCode.EXPIRED, language, call["name"])
        changed: Call = {**call, "state": outcome.state.value, "observation": outcome.observation}
        del changed["question"]
        return changed

"""May this call run? What the guards of a run say of a call, and what they learn from how it ended. Pure."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from adjourn.checkpoints.lifecycle import CallState, ErrorCode
from adjourn.nodes.calls import Call
from adjourn.nodes.counters import Counters
from adjourn.nodes.evidence import brings
from adjourn.nodes.guards import Limits
from adjourn.nodes.outcome import Outcome, failed
from adjourn.nodes.repeats import RAN, comes_round, copies, count, digest, earlier_result, place, trail
from adjourn.nodes.texts import say
from adjourn.nodes.tool import Tool


class Judge:
    """Judges the calls of one superstep. `counters` are changed by `learn` and `end_step`.

    `messages` hold the earlier results, `message_id` is that of the assistant message with the calls.
    """

    def __init__(
        self,
        counters: Counters,
        tools: Mapping[str, Tool],
        limits: Limits,
        *,
        language: str,
        messages: Sequence[AnyMessage],
        message_id: str,
    ) -> None:
        self.counters = counters
        self.limits = limits
        self.language = language
        self._tools = tools
        self._messages = messages
        self._message_id = message_id
        self.copies: Mapping[str, str] = {}
        self.circling: set[str] = set()
        self._digests: dict[str, str | None] = {}  # by call id: arguments do not change within a superstep

    def digest(self, call: Call) -> str | None:
        """What equal calls have in common; None: this one may be repeated at will, or can never run."""
        if call["id"] not in self._digests:
            tool = self._tools.get(call["name"])
            has_none = tool is None or tool.repeatable or call["arguments"] is None
            self._digests[call["id"]] = None if has_none else digest(call)
        return self._digests[call["id"]]

    def begin(self, batch: Sequence[Call]) -> list[Call]:
        """Look at a whole batch before it runs. Gives the calls that run: copies of one call run once."""
        digests = {call["id"]: of for call in batch if (of := self.digest(call)) is not None}
        self.copies = copies(batch, digests)
        before, times = trail(self.counters), self.limits.max_identical_calls
        for call_id, of in digests.items():
            if times is None or call_id in self.copies:
                continue
            if comes_round(before, of, times):
                self.circling.add(call_id)
            before.append(of)
        return [call for call in batch if call["id"] not in self.copies]

    def refused(self, call: Call) -> Outcome | None:
        """Why a call does not run: the first guard that objects; None: it may."""
        return next((outcome for guard in GUARDS if (outcome := guard(self, call)) is not None), None)

    def of_copy(self, call: Call, calls: Sequence[Call]) -> Outcome:
        """The outcome of a copy, from the call that ran for it; where that one did not run, the copy did not either."""
        twin = next(one for one in calls if one["id"] == self.copies[call["id"]])
        observation = twin.get("observation", "")
        told: dict[str, Any] = json.loads(observation) if observation else {}
        if observation and twin["state"] not in RAN:
            return Outcome(CallState(twin["state"]), observation, code=ErrorCode(told["errorCode"]))
        text, data = "repeated_call.copy", told.get("data")
        return failed(
            ErrorCode.REPEATED_CALL, self.language, call["name"], text=text, data=data, twin=twin["id"]
        )

    def result_at(self, at: str) -> Any:
        """The data of an earlier result; None where it stands in the history no more."""
        message = next((one for one in reversed(self._messages) if (one.id or "").endswith(at)), None)
        return None if message is None else json.loads(str(message.text)).get("data")

    # -- what is learned

    def learn(self, call: Call) -> None:
        """Take note of a call that has just got its outcome; its observation is still with it."""
        counters, name, state = self.counters, call["name"], call["state"]
        failing, breaker = counters["failing"], self.limits.breaker
        if state in (CallState.FAILED, CallState.UNKNOWN):
            failing[name] = failing.get(name, 0) + 1
        elif state == CallState.OK and not self.is_off(name):
            failing.pop(name, None)
        if breaker is None:
            failing.clear()
        if state == CallState.OK and name not in counters["brought"]:
            tool = self._tools.get(name)
            if brings(call["observation"], tool.is_empty if tool else None):
                counters["brought"].append(name)
        count(
            counters,
            call,
            self.digest(call),
            result_at=place(self._message_id, call["position"]),
            max_identical=self.limits.max_identical_calls,
            copied=self.copies,
        )

    def end_step(self, calls: Sequence[Call]) -> None:
        """Count a step in which calls ran and all failed (C-53); what did not run counts neither way."""
        ran = [call["state"] for call in calls if call["state"] in RAN]
        if CallState.OK in ran:
            self.counters["fails_in_row"] = 0
        elif ran:
            self.counters["fails_in_row"] += 1

    def is_off(self, tool: str) -> bool:
        """Whether a tool is switched off for the rest of the run (C-55)."""
        breaker = self.limits.breaker
        return breaker is not None and self.counters["failing"].get(tool, 0) >= breaker


def _switched_off(judge: Judge, call: Call) -> Outcome | None:
    name = call["name"]
    if not judge.is_off(name):
        return None
    suggestion = say("tool_disabled.suggestion", judge.language, tool=name)
    times = judge.counters["failing"][name]
    return failed(ErrorCode.TOOL_DISABLED, judge.language, name, suggestion=suggestion, times=times)


def _repeated(judge: Judge, call: Call) -> Outcome | None:
    of = judge.digest(call)
    stands_at = None if of is None else earlier_result(judge.counters, of)
    if stands_at is None:
        return None
    suggestion = say("repeated_call.suggestion", judge.language)
    data = judge.result_at(stands_at)
    return failed(ErrorCode.REPEATED_CALL, judge.language, call["name"], suggestion=suggestion, data=data)


def _going_round(judge: Judge, call: Call) -> Outcome | None:
    if call["id"] not in judge.circling:
        return None
    suggestion = say("repeated_call.suggestion", judge.language)
    text = "repeated_call.cycle"
    return failed(ErrorCode.REPEATED_CALL, judge.language, call["name"], text=text, suggestion=suggestion)


GUARDS: Sequence[Callable[[Judge, Call], Outcome | None]] = (_switched_off, _repeated, _going_round)

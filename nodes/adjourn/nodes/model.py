"""ModelNode: check limits and history, ask, and say what becomes of the turn.

A turn is accepted, with the plan of its calls; or it is asked for again with a reason: it may not stand in the history
(C-9), it is an answer without evidence (C-56), or it was cut off (C-10). When no steps are left, the model is asked for a last
word, with its tools switched off (C-57).
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from adjourn.checkpoints.errors import ModelFailed, UsageError
from adjourn.checkpoints.events import Event, Message, StepStarted, ToolCall
from adjourn.checkpoints.lifecycle import Effect, ErrorCode, StopReason
from adjourn.nodes.asking import Asking
from adjourn.nodes.assembly import Turn
from adjourn.nodes.bound_model import BoundModel
from adjourn.nodes.calls import Call
from adjourn.nodes.context import RunInfo
from adjourn.nodes.counters import Counters, counters_of, kept, new_counters
from adjourn.nodes.evidence import Evidence
from adjourn.nodes.guards import REFUSED, SENT_BACK, Limits, steps_left, stop_reason
from adjourn.nodes.history import healed
from adjourn.nodes.masking import Masker
from adjourn.nodes.observations import failure
from adjourn.nodes.planning import Planner
from adjourn.nodes.requesting import Prompt, Requests
from adjourn.nodes.run_context import RunContext, check_of_its_run, run_context
from adjourn.nodes.spending import Prices, check_prices, cost_of, spend
from adjourn.nodes.standing import left_s, standing_of
from adjourn.nodes.state import FRESH, RunState
from adjourn.nodes.stored_form import assistant_message, continued, is_paused
from adjourn.nodes.texts import language_of, say
from adjourn.nodes.tool import Tool
from adjourn.nodes.tool_search import FIND_TOOLS, searched, shown

log = logging.getLogger("adjourn.model")

Choose = Callable[[RunInfo], str]
"""Names the model that is asked first, before each model call."""


class ModelNode:
    """Asks the model once per superstep. Returns `tools`, `model` or `finish` as its outcome.

    `fallbacks` are asked in their order when the model cannot be reached (C-58); `choose_model` names the one of all of them
    that is asked first. `serial`: this is the step of a flow (C-77); `forced`: the provider is told that its one tool must be
    called. `provider_tools` are tools that the provider runs itself, as its API describes them (C-13).
    """

    def __init__(
        self,
        model: BaseChatModel,
        tools: Iterable[Tool] = (),
        *,
        fallbacks: Iterable[BaseChatModel] = (),
        choose_model: Choose | None = None,
        system_prompt: Prompt | None = None,
        max_history_tokens: int | None = None,
        limits: Limits | None = None,
        evidence: Evidence | None = None,
        prices: Prices | None = None,
        masker: Masker | None = None,
        serial: bool = False,
        forced: bool = False,
        provider_tools: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        self.masker = masker or Masker()
        self.serial = serial
        self.tools: Mapping[str, Tool] = {one.name: one for one in tools}
        self.limits = limits or Limits()
        self.evidence = evidence
        self.prices = prices or {}
        self._asked, self._forced, self._own = (model, *fallbacks), forced, list(provider_tools)
        self._bound: dict[tuple[str, ...], list[BoundModel]] = {}
        self.searches = FIND_TOOLS in self.tools and bool(searched(self.tools.values()))
        self.models = self.showing(shown([], self.tools) if self.searches else [*self.tools])
        self.requests = Requests(self.models[0].name, system_prompt, max_history_tokens)
        self._choose = choose_model
        if evidence is not None:
            evidence.check(self.tools)
        check_prices(self.limits, [one.name for one in self.models], self.prices)

    def showing(self, names: Iterable[str]) -> list[BoundModel]:
        """The models, told of these tools."""
        key = tuple(names)
        if key not in self._bound:
            told = [self.tools[name] for name in key]
            self._bound[key] = [
                BoundModel.of(one, told, forced=self._forced, provider_tools=self._own) for one in self._asked
            ]
        return self._bound[key]

    def asked(self, history: Sequence[AnyMessage], info: RunInfo) -> Sequence[BoundModel]:
        """The models in the order in which they are asked, told of the tools that this history has come to.

        Raises `UsageError` where the function of the graph names none of them.
        """
        models = self.showing(shown(history, self.tools)) if self.searches else self.models
        if self._choose is None:
            return models
        name = self._choose(info)
        if name not in (known := [one.name for one in models]):
            raise UsageError(f"choose_model gave {name!r}; the models of this graph are {', '.join(known)}")
        return sorted(models, key=lambda one: one.name != name)

    async def __call__(self, state: RunState, config: RunnableConfig) -> RunState:
        run = run_context(config)
        check_of_its_run(state, run)
        state = _begun(state)
        counters, steps = counters_of(state), state.get("step", 0)
        run.clock.at_least(counters["active_ms"])
        reason = stop_reason(await standing_of(counters, steps, run, self.limits), self.limits)
        if run.cancel.is_set():
            reason = StopReason.CANCELLED
        if reason not in (None, StopReason.MAX_STEPS):
            return {"outcome": "finish", "stop_reason": reason.value}
        return await _Step(self, state, run, counters, is_last=reason is not None).work()


def _begun(state: RunState) -> RunState:
    """The state, reset where a run begins: without a runner, which would do that, with each user message."""
    if "run_id" in state:
        return state
    said = next((one for one in reversed(state["messages"]) if isinstance(one, HumanMessage)), None)
    if said is None or counters_of(state)["began_with"] == said.id:
        return state
    kept: Any = {**state, **FRESH, "note": state.get("note"), "language": language_of(str(said.text))}
    begun: RunState = kept
    begun["counters"] = new_counters(time.time(), said.id)
    return begun


class _Step:
    """One model call of a run. `counters` are changed here and returned.

    `is_last`: the call outside the count, with the tools switched off.
    """

    def __init__(
        self, node: ModelNode, state: RunState, run: RunContext, counters: Counters, *, is_last: bool
    ) -> None:
        self.node = node
        self.state = state
        self.run = run
        self.counters = counters
        self.is_last = is_last
        self.language = state.get("language", "en")
        self.mended = self._mended()
        self.history = state["messages"] if self.mended is None else self.mended
        step = state.get("step", 0) + 1
        info = run.info(step, self.language)
        self.asking = Asking(
            node.asked(self.history, info),
            node.requests.of(self.history, self._notes(), info),
            node.tools,
            run,
            step,
            left_s=lambda: left_s(counters, run, node.limits),
            tools_off=is_last,
        )

    async def work(self) -> RunState:
        """Ask, and give what the node writes. Raises `ModelFailed`."""
        turn = await self._turn()
        result = self._stopped(self._why_no_turn()) if turn is None else await self._taken(turn)
        self.counters["active_ms"] = self.run.clock.worked_ms()
        result["counters"] = kept(self.counters)
        if self.state.get("note") is not None:
            result.setdefault("note", None)
        if "run_id" not in self.state:
            result["language"] = self.language
            if self.state.get("tried", ()) is None:  # the run begins here
                result["tried"] = self.state["tried"]
        if self.mended is not None:
            written: list[Any] = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *self.mended]
            result["messages"] = written + list(result.get("messages", []))
        return result

    # -- before the model is asked

    def _mended(self) -> list[AnyMessage] | None:
        """The history made legal (C-15); None when it is."""
        messages, run = self.state["messages"], self.run
        if run.legal.are(messages):
            return None
        log.warning("run %s: the history was open and was healed before the request", run.run_id)

        def missing(call_id: str, name: str) -> str:
            stored = run.ledger.stored(self.state.get("step", 0), call_id)
            if stored is not None and stored.observation is not None:
                return stored.observation
            tool = self.node.tools.get(name)
            is_read = tool is not None and tool.effect == Effect.READ
            code = ErrorCode.CANCELLED if is_read else ErrorCode.OUTCOME_UNKNOWN
            return failure(code, say(code.value, self.language, tool=name))

        return healed(messages, missing)

    def _notes(self) -> list[str]:
        """What the runtime tells the model now (C-88). A turn that its provider paused goes back without a word."""
        if self.history and is_paused(self.history[-1]) and not self.is_last:
            return []
        notes = [self.state.get("note")]
        left = steps_left(self.state.get("step", 0), self.node.limits)
        if self.is_last:
            notes.append(say("runtime.last_word", self.language))
        elif left is not None:
            notes.append(say("runtime.steps_left", self.language, left=left))
        return [one for one in notes if one]

    # -- what becomes of its turn

    async def _turn(self) -> Turn | None:
        try:
            return await self.asking.turn_in_time()
        except ModelFailed as error:
            if not self.is_last:
                raise
            # a fixed sentence stands in for it
            log.warning("run %s: no last word: %s", self.run.run_id, type(error.__cause__ or error).__name__)
            return None

    def _why_no_turn(self) -> StopReason:
        if self.run.cancel.is_set():
            return StopReason.CANCELLED
        return StopReason.MAX_STEPS if self.is_last and self._has_time() else StopReason.TIMEOUT

    def _has_time(self) -> bool:
        left = left_s(self.counters, self.run, self.node.limits)
        return left is None or left > 0

    async def _taken(self, turn: Turn) -> RunState:
        if turn.finish == "refusal" and not turn.calls and not turn.answer:
            turn = replace(turn, refusal=say("model_refused", self.language))
        names = (turn.model, self.asking.model.name)
        cost = cost_of(turn.usage, names, self.node.prices)
        spend(self.counters, turn.usage, cost)
        if self.is_last:
            return await self._last_word(turn, cost)
        before = self._cut_message()
        whole = turn if before is None else continued(before, turn)
        if whole.problem is not None:
            return await self._refused(whole, cost)
        if whole.paused:
            return self._goes_on(whole, cost, before)
        missing = None if whole.calls or self.node.evidence is None else self._missing(self.node.evidence)
        if missing is not None:
            return await self._sent_back(whole, cost, missing)
        if before is None and self._may_go_on(whole):
            return self._goes_on(whole, cost, before, say("runtime.cut", self.language))
        return self._accepted(whole, cost, f"msg_{uuid4().hex}" if before is None else str(before.id))

    def _cut_message(self) -> AIMessage | None:
        """The message that this turn continues."""
        last = self.history[-1]
        cut = self.counters["cut"]
        return last if cut is not None and isinstance(last, AIMessage) and last.id == cut else None

    def _missing(self, evidence: Evidence) -> str | None:
        return evidence.missing(self.counters["brought"], self.language)

    def _may_go_on(self, turn: Turn) -> bool:
        """Whether this is a text that was cut off for its length, and there is a step left to continue it."""
        is_text = turn.finish == "length" and not turn.calls and bool(turn.text)
        return is_text and self.asking.step < self.node.limits.max_steps

    def _accepted(self, turn: Turn, cost: float, message_id: str) -> RunState:
        node, run_id = self.node, self.run.run_id
        planner = Planner(
            node.tools,
            node.limits,
            run_id,
            self.asking.step,
            self.language,
            node.masker,
            self.run.ledger.is_doubtful,
            node.serial,
            can_seal=bool(self.run.keyring),
        )
        calls = planner.plan(turn)
        self.counters["protocol_errors"], self.counters["cut"] = 0, None
        told = [self._said(turn, message_id, len(calls)), *(self._asked_for(call) for call in calls)]
        self._write(turn, cost, message_id, calls, told)
        result = self._next("tools" if calls else "finish")
        result["messages"], result["calls"] = [assistant_message(turn, message_id)], calls
        if not calls:
            result["stop_reason"] = StopReason.ANSWERED.value
        return result

    def _goes_on(
        self, turn: Turn, cost: float, before: AIMessage | None, note: str | None = None
    ) -> RunState:
        """A turn that was cut off (C-10), or that its provider paused (C-13): it stands in the history as it is.

        `note` asks the model to continue what was cut off; a paused turn goes back without a word.
        """
        message_id = f"msg_{uuid4().hex}" if before is None else str(before.id)
        self.counters["protocol_errors"] = 0
        self.counters["cut"] = None if note is None else message_id
        self._write(turn, cost, message_id, [], [self._said(turn, message_id, 0), self._step_started()])
        result = self._next("model", note)
        result["messages"] = [assistant_message(turn, message_id)]
        return result

    async def _refused(self, turn: Turn, cost: float) -> RunState:
        """A turn that may not stand in the history (C-9): asked for again once, then the run ends."""
        self.counters["protocol_errors"] += 1
        over = self.counters["protocol_errors"] > REFUSED
        note = say("runtime.refused", self.language, problem=turn.problem)
        return await self._again(
            turn, cost, turn.problem or "", note, StopReason.PROTOCOL_ERROR if over else None
        )

    async def _sent_back(self, turn: Turn, cost: float, missing: str) -> RunState:
        """An answer without evidence (C-56): asked for again twice, then the run ends."""
        self.counters["sent_back"] += 1
        self.counters["protocol_errors"] = 0
        over = self.counters["sent_back"] > SENT_BACK
        note = say("runtime.no_evidence", self.language, missing=missing)
        reason = StopReason.NO_EVIDENCE
        return await self._again(turn, cost, reason.value, note, reason if over else None)

    async def _again(self, turn: Turn, cost: float, why: str, note: str, over: StopReason | None) -> RunState:
        """The turn does not count. `over`: why the run ends in place of another turn."""
        await self.asking.discard(why)
        self._write(turn, cost, None, [], [] if over else [self._step_started()])
        result = self._next("model", note) if over is None else self._stopped(over)
        result["step"] = self.asking.step
        return result

    async def _last_word(self, turn: Turn, cost: float) -> RunState:
        """The text is the run's answer; a turn that calls tools all the same is not used (C-57)."""
        result = self._stopped(StopReason.MAX_STEPS)
        if turn.problem is not None or turn.calls or not turn.answer:
            await self.asking.discard(turn.problem or "the tools are switched off")
            self._write(turn, cost, None, [], [])
            return result
        message_id = f"msg_{uuid4().hex}"
        self._write(turn, cost, message_id, [], [self._said(turn, message_id, 0)])
        self.counters["wrapped_up"] = True
        result["messages"] = [assistant_message(turn, message_id)]
        return result

    # -- what is written

    def _next(self, outcome: Any, note: str | None = None) -> RunState:
        result: RunState = {"step": self.asking.step, "outcome": outcome}
        return result if note is None else {**result, "note": note}

    def _stopped(self, reason: StopReason) -> RunState:
        return {"outcome": "finish", "stop_reason": reason.value}

    def _write(
        self, turn: Turn, cost: float, message_id: str | None, calls: list[Call], told: list[Event]
    ) -> None:
        facts = self.asking.facts(turn, message_id, cost, counted=not self.is_last)
        self.run.ledger.plan_step(facts, calls, told)

    def _step_started(self) -> Event:
        return StepStarted(run_id=self.run.run_id, path=self.run.path, step=self.asking.step + 1)

    def _said(self, turn: Turn, message_id: str, calls: int) -> Event:
        return Message(
            run_id=self.run.run_id,
            path=self.run.path,
            step=self.asking.step,
            message_id=message_id,
            text=turn.answer,
            calls=calls,
            truncated=turn.truncated,
        )

    def _asked_for(self, call: Call) -> Event:
        return ToolCall(
            run_id=self.run.run_id,
            path=self.run.path,
            step=self.asking.step,
            call_id=call["id"],
            name=call["name"],
            arguments=self.node.masker.data(call["arguments"]),
        )

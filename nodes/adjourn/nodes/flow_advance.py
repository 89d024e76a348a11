"""One turn of a flow: by how the step in hand ended, which one comes next, and what that one is given to do.

`FlowNode` takes one such turn whenever the model and tools nodes come back to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langchain_core.messages import AIMessage

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.events import Message, StepStarted
from adjourn.checkpoints.lifecycle import FlowStepState, StopReason
from adjourn.nodes.counters import Counters, counters_of, kept
from adjourn.nodes.flow_call import own_call
from adjourn.nodes.flow_ended import Ended, how_it_ended, newest_said, value_of
from adjourn.nodes.flow_state import Brought, FlowState, StepMove, flow_of
from adjourn.nodes.flow_table import (
    RETRY,
    STOP,
    ApprovalStep,
    BranchStep,
    FunctionStep,
    GraphStep,
    LoopStep,
    Results,
    Step,
    ToolStep,
)
from adjourn.nodes.guards import Standing, stop_reason
from adjourn.nodes.questions import params_required
from adjourn.nodes.run_context import RunContext
from adjourn.nodes.state import FRESH, RunState, last_assistant
from adjourn.nodes.texts import say
from adjourn.nodes.tool import Tool, tool

if TYPE_CHECKING:
    from adjourn.nodes.flow import FlowNode

UNBOUNDED = 1_000_000  # model turns of a step: the flow itself counts them

# A run that ends for one of these ends, whatever the step says about failures: there is no time or money to undo.
_ENDS_ALL = (StopReason.CANCELLED, StopReason.TIMEOUT, StopReason.BUDGET_SPENT)
# For one of these the step in hand fails; where its failure stops the flow, it is the run's stop reason too.
_ENDS_STEP = (StopReason.LOOP_DETECTED, StopReason.PROTOCOL_ERROR)


@tool(effect="read", repeatable=True)
def ask_person(question: str, answer: str = "") -> Any:
    """Put a question of the model to a person."""
    fields = {"answer": {"type": "string", "minLength": 1}}
    return {"answer": answer} if answer else params_required(fields, reason=question)


class Advance:
    """One turn of the flow. `flow` is a copy that is changed here and returned."""

    def __init__(self, node: "FlowNode", state: RunState, run: RunContext, standing: Standing) -> None:
        self.node = node
        self.table = node.table
        self.state = state
        self.run = run
        self.standing = standing
        self.flow: FlowState = flow_of(state)
        self.language = state.get("language", "en")
        self.moves: list[StepMove] = []
        self.came_from_model = state.get("outcome") == "finish"
        stopped = state.get("stop_reason")
        self.reason = StopReason(stopped) if stopped else None
        self.counters: Counters | None = None  # where the step changes them
        self.anew = False  # the log of calls begins again
        self.brought: dict[str, Any] = {}  # the results, once somebody asked for them

    def go(self) -> RunState:
        """What the node writes."""
        result = self._gone()
        if self.flow["at"] is None and not self.moves:
            return result  # cancelled before it began
        self.run.ledger.flow(self.moves)
        if self.counters is not None:
            result["counters"] = kept(self.counters)
        if self.anew:
            result["tried"] = FRESH["tried"]
        return {**result, "flow": self.flow}

    def _gone(self) -> RunState:
        at = self.flow["at"]
        if self.run.cancel.is_set():
            if at:
                self._move(at, FlowStepState.STOPPED, StopReason.CANCELLED.value)
            return self._finish(StopReason.CANCELLED)
        if at is None:
            self._begin_table()
            return self._next_of(None)
        if at and at not in self.table.steps:
            raise UsageError(
                f"the flow of this app has no step {at!r}, which run {self.run.run_id} has reached; go on with the app that began it"
            )
        if at == "":
            return self._finish(self.reason or StopReason.ANSWERED)
        step = self.table.steps[at]
        ended = how_it_ended(step, self._names(step), self.state, self.flow)
        return self._go_on(step) if ended is None else self._after(at, ended)

    def _begin_table(self) -> None:
        for name in self.table.steps:
            self._move(name, FlowStepState.PENDING)

    def _move(self, name: str, state: FlowStepState, reason: str | None = None) -> None:
        position = self.table.position(name)
        self.moves.append({"name": name, "position": position, "state": state, "reason": reason})

    # -- what steps brought

    def _names(self, step: Step) -> set[str]:
        """The tools whose calls are those of the step."""
        own = self.node.own.get(step.name)
        return {own.name} if own is not None else {one.name for one in self.node.of_step[step.name]}

    @property
    def results(self) -> Mapping[str, Any]:
        """What each step that is done brought."""
        if not self.brought and self.flow["results"]:
            by_id = {one.id: one for one in self.state["messages"]}
            self.brought = {name: value_of(one, by_id) for name, one in self.flow["results"].items()}
        return self.brought

    def _done_with(self, name: str, result: Brought) -> None:
        self._move(name, FlowStepState.DONE)
        self.flow["results"][name], self.brought = result, {}

    # -- where the flow goes

    def _after(self, at: str, ended: Ended) -> RunState:
        if ended.state is FlowStepState.STOPPED:
            self._move(at, FlowStepState.STOPPED, ended.why)
            return self._finish(StopReason.ANSWERED)  # the model's own words
        if ended.state is FlowStepState.DONE:
            self._done_with(at, ended.result)
            if self.reason and self.reason in _ENDS_ALL:  # the limit was reached as it ended
                return self._finish(self.reason)
            return self._undone() if self.flow["failed"] is not None else self._next_of(at)
        step = self.table.steps[at]
        ends = self.reason in _ENDS_ALL and not self._own_limit(step)
        if self.reason and (ends or (self.reason in _ENDS_STEP and step.on_failure == STOP)):
            self._move(at, FlowStepState.STOPPED, ended.why)
            return self._finish(self.reason)
        return self._failed(at, ended)

    def _own_limit(self, step: Step) -> bool:
        """Whether a free loop was stopped by a limit of its own, and none of the whole flow's is reached."""
        whole = replace(self.node.limits, max_steps=UNBOUNDED)
        cancelled = self.reason is StopReason.CANCELLED
        return (
            isinstance(step, LoopStep)
            and not cancelled
            and stop_reason(self.standing, whole) not in _ENDS_ALL
        )

    def _failed(self, at: str, ended: Ended) -> RunState:
        step = self.table.steps[at]
        self._move(at, FlowStepState.FAILED, ended.why)
        if step.on_failure == RETRY and ended.may_retry and self.flow["tries"] < step.retries:
            return self._begin(at, again=True)
        if self.flow["failed"] is not None:
            return self._undone(also=ended.why)
        self.flow["failed"], self.flow["why"] = at, ended.why
        if step.on_failure in (STOP, RETRY):
            return self._undone()
        return self._begin(step.on_failure)

    def _undone(self, also: str = "") -> RunState:
        """The flow ends at a step that failed, after what was to be undone for it."""
        failed = str(self.flow["failed"])
        why = self.flow["why"] if not also else f"{self.flow['why']} {also}"
        text = say(
            "flow.failed", self.language, step=self.table.steps[failed].shown, why=why, done=self._done()
        )
        return self._finish(StopReason.TOO_MANY_FAILS, text)

    def _done(self) -> str:
        done = [self.table.steps[name].shown for name in self.flow["results"]]
        return ", ".join(done) or say("flow.nothing", self.language)

    def _next_of(self, at: str | None) -> RunState:
        """Begin the next step whose condition holds."""
        after = list(self.table.after(at))
        while after:
            name = after.pop(0)
            step = self.table.steps[name]
            try:
                if step.when is not None and not step.when(self.results):
                    self._move(name, FlowStepState.SKIPPED)
                    continue
                if not isinstance(step, BranchStep):
                    return self._begin(name)
                chosen = step.choose(self.results)
                if chosen not in step.to:
                    raise ValueError(f"it chose {chosen!r}, which is none of {', '.join(step.to)}")
            except Exception as error:  # the author's function; the flow must not go on as if it had said yes
                return self._failed(
                    name, Ended(FlowStepState.FAILED, why=self._public(error), may_retry=False)
                )
            self._move(name, FlowStepState.RUNNING)
            self._done_with(name, {"text": chosen})
            passed, after = after[: after.index(chosen)], after[after.index(chosen) :]
            for one in passed:
                self._move(one, FlowStepState.SKIPPED)
        return self._close()

    def _public(self, error: Exception) -> str:
        return self.node.masker.text(f"{type(error).__name__}: {error}")

    def _close(self) -> RunState:
        self.flow["at"] = ""
        if not self.node.closing:
            return self._finish(StopReason.ANSWERED, say("flow.done", self.language, done=self._done()))
        return self._ask_model(say("flow.closing", self.language))

    # -- what a step is given to do

    def _begin(self, name: str, *, again: bool = False) -> RunState:
        flow = self.flow
        flow["at"], flow["turns"], flow["began"] = name, 0, self.state.get("step", 0)
        flow["tries"] = flow["tries"] + 1 if again else 0
        flow["said"], at = newest_said(self.state), self.standing
        flow["spent"] = {"active_s": at.active_s, "wall_s": at.wall_s, "tokens": at.tokens, "cost": at.cost}
        self._move(name, FlowStepState.RUNNING)
        self._fresh_guards()
        return self._go_on(self.table.steps[name])

    def _go_on(self, step: Step) -> RunState:
        if isinstance(step, FunctionStep):
            return self._call(self.node.own[step.name], self._arguments(self.node.own[step.name]))
        if isinstance(step, GraphStep):
            return self._with_text(step, "task", self._message() if step.task is None else step.task)
        if isinstance(step, ApprovalStep):
            return self._with_text(step, "question", step.question)
        if self.came_from_model and self.flow["turns"] and isinstance(step, ToolStep):
            # the model spoke in place of calling its tool: a person answers it
            return self._call(ask_person, {"question": str(last_assistant(self.state["messages"]).text)})
        return self._ask_model(self._instruction(step))

    def _fresh_guards(self) -> None:
        """A step begins because the table says so: what earlier steps called or failed at does not count against it."""
        counters = self._changed()
        counters["fails_in_row"], counters["failing"], counters["protocol_errors"] = 0, {}, 0
        counters["since"], counters["looped"], self.anew = 0, False, True

    def _changed(self) -> Counters:
        self.counters = self.counters or counters_of(self.state)
        return self.counters

    def _with_text(self, step: Step, parameter: str, text: str | Callable[[Results], str]) -> RunState:
        """The step's call, with a text that may be a function of the results."""
        try:
            said = text(self.results) if callable(text) else text
        except Exception as error:
            return self._failed(
                step.name, Ended(FlowStepState.FAILED, why=self._public(error), may_retry=False)
            )
        return self._call(self.node.own[step.name], {parameter: str(said)})

    def _arguments(self, own: Tool) -> dict[str, Any]:
        """The results of the steps that its parameters are named after."""
        known = {**self.results, "message": self._message()}
        return {name: known[name] for name in own.schema["properties"] if name in known}

    def _message(self) -> str:
        wanted = f"{self.flow['run_id']}.input"
        return next((str(one.text) for one in self.state["messages"] if one.id == wanted), "")

    def _instruction(self, step: Step) -> str:
        place, of = self.table.position(step.name), len(self.table.order)
        if isinstance(step, LoopStep):
            return say("flow.loop", self.language, place=place, of=of, step=step.shown, prompt=step.prompt)
        (shown,) = self.node.of_step[step.name]
        prompt = step.prompt if isinstance(step, ToolStep) and step.prompt else ""
        return say(
            "flow.tool", self.language, place=place, of=of, step=step.shown, tool=shown.name, prompt=prompt
        )

    def _ask_model(self, note: str) -> RunState:
        if self.flow["asked"] >= self.node.limits.max_steps:
            at = self.flow["at"]
            if at:
                self._move(at, FlowStepState.STOPPED, StopReason.MAX_STEPS.value)
            return self._finish(StopReason.MAX_STEPS)
        self.flow["turns"] += 1
        self.flow["asked"] += 1
        self._announce()
        self._unwrap()
        return {"outcome": "model", "note": note, "stop_reason": None}

    def _unwrap(self) -> None:
        """A loop's last word is not the run's."""
        if counters_of(self.state)["wrapped_up"]:
            self._changed()["wrapped_up"] = False

    def _announce(self) -> None:
        """A step begins; the first one and those that follow tools were announced already."""
        if self.came_from_model:
            run = self.run
            run.ledger.emit(StepStarted(run_id=run.run_id, path=run.path, step=self.state.get("step", 0) + 1))

    def _call(self, own: Tool, arguments: dict[str, Any]) -> RunState:
        """A call of the runtime's own, in a message of its own."""
        self._announce()
        self._unwrap()
        return own_call(
            own,
            arguments,
            step=self.state.get("step", 0) + 1,
            run=self.run,
            limits=self.node.limits,
            masker=self.node.masker,
            language=self.language,
        )

    # -- the end

    def _finish(self, reason: StopReason, text: str | None = None) -> RunState:
        """The run ends; `text` is its closing message, None: the model's words, or the fixed sentence for the reason."""
        result: RunState = {"outcome": "finish", "stop_reason": reason.value}
        if text is None:
            return result
        run, message = self.run, AIMessage(text, id=f"msg_{uuid4().hex}")
        run.ledger.emit(
            Message(
                run_id=run.run_id,
                path=run.path,
                step=self.state.get("step", 0) + 1,
                message_id=str(message.id),
                text=text,
            )
        )
        self._changed()["wrapped_up"] = True
        return {**result, "messages": [message]}

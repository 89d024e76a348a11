"""OwnGraphNode: a LangGraph graph of somebody's own does the work of a run.

The graph runs inside this node, in the checkpoint namespace of its task: what its nodes have done is kept by
LangGraph, so that a resume or a recovery goes on behind it, and what one of them asks by `interrupt()` comes up as a
question of the run. What its nodes do to the world is their own matter: they have no ledger, and a node that was
interrupted or killed runs again from its beginning, as LangGraph says.
"""

import asyncio
import copy
import json
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs

from adjourn.checkpoints.events import Message
from adjourn.checkpoints.lifecycle import Effect, StopReason
from adjourn.nodes.counters import counters_of, kept
from adjourn.nodes.finish import FOUND_SHOWN
from adjourn.nodes.guards import Limits
from adjourn.nodes.model_watch import LimitReached, ModelWatch
from adjourn.nodes.progress import Progress
from adjourn.nodes.run_context import RunContext, run_context
from adjourn.nodes.spending import Prices
from adjourn.nodes.standing import left_s
from adjourn.nodes.state import RunState
from adjourn.nodes.texts import say

TakeIn = Callable[[str], Any]
"""From what the run is asked to do to the graph's input."""

GiveOut = Callable[[Any], Any]
"""From the graph's last values to the answer: a text, or JSON data. With those of a graph that was stopped it may
fail: then nothing was found."""


class OwnGraphNode:
    """Runs the graph once. Its outcome is always `finish`.

    - `take_in` None: the graph gets the conversation as `messages`; `give_out` None: the text of its last message.
    - `limits`: `max_steps` counts its model calls; the time, tokens and cost hold too, the others are for nodes of ours.
    - `effect`: `write` keeps it apart from all other calls of its family while it works (C-21).
    """

    def __init__(
        self,
        graph: Any,
        *,
        limits: Limits | None = None,
        prices: Prices | None = None,
        take_in: TakeIn | None = None,
        give_out: GiveOut | None = None,
        effect: Effect = Effect.WRITE,
        hands_on: bool = False,
    ) -> None:
        self.graph = graph
        self.limits = limits or Limits()
        self.prices = prices or {}
        self.take_in = take_in
        self.give_out = give_out or last_text
        self.effect = effect
        self.hands_on = hands_on  # runs work for it, which take their own places at the gate

    async def __call__(self, state: RunState, config: RunnableConfig) -> RunState:
        return await _Work(self, state, run_context(config)).done(config)


class _Work:
    """One pass of the graph: from its beginning, or from where it stood."""

    def __init__(self, node: OwnGraphNode, state: RunState, run: RunContext) -> None:
        self.node = node
        self.state = state
        self.run = run
        self.language = state.get("language", "en")
        self.counters = counters_of(state)
        self.values: Any = None  # the newest
        self.progress = Progress(self._tell_progress)
        run.clock.at_least(self.counters["active_ms"])

    async def done(self, config: RunnableConfig) -> RunState:
        """Let the graph work, and give what the node writes. What a node of the graph raises is raised again."""
        below = await self.run.ledger.spent_below()
        watch = ModelWatch(self.run, self.node.limits, self.node.prices, below)
        working = asyncio.create_task(self._work(merge_configs(config, {"callbacks": [watch]}), watch))
        try:
            reason = await self._ended(working, watch)
        finally:
            await watch.stored()
            await self.run.ledger.settled()
        steps, _ = self.run.ledger.so_far()
        result: RunState = {"outcome": "finish", "step": max(steps, watch.steps), "stop_reason": reason.value}
        if reason is StopReason.CANCELLED:
            return result
        self.counters["active_ms"], self.counters["wrapped_up"] = self.run.clock.worked_ms(), True
        message = self._message(reason, result["step"])
        return {**result, "messages": [message], "counters": kept(self.counters)}

    async def _work(self, config: RunnableConfig, watch: ModelWatch) -> None:
        run, entered = self.run, None
        if run.gate is not None and self.node.effect is Effect.WRITE and not self.node.hands_on:
            entered = await run.gate.enter(is_write=True)
            if entered is None:
                raise RuntimeError("a write that was given up still goes on; try again when it has ended")
        try:
            async for mode, part in self.node.graph.astream(
                self._given(),
                config,
                stream_mode=["values", "custom"],
                context=context_for(self.node.graph, run),
            ):
                if mode == "custom":
                    self.progress(
                        part if isinstance(part, str) else json.dumps(part, ensure_ascii=False, default=str)
                    )
                    continue
                self.values = part
                if run.budgets is not None and await run.budgets.are_spent():
                    watch.stop(StopReason.BUDGET_SPENT)
        finally:
            self.progress.close()
            if entered is not None:
                entered.leave()

    def _tell_progress(self, message: str, share: float | None) -> None:
        """What the graph's nodes write by `get_stream_writer()`."""
        ledger = self.run.ledger
        ledger.progress(ledger.so_far()[0], "", self.node.graph.get_name(), message, share)

    def _given(self) -> Any:
        if self.node.take_in is None:
            return {"messages": self.state["messages"]}
        return self.node.take_in(str(self.state["messages"][-1].text))

    async def _ended(self, working: asyncio.Task[None], watch: ModelWatch) -> StopReason:
        """Wait for the graph, a cancel, a limit or the end of the time, whichever comes first."""
        stops: dict[asyncio.Future[Any], StopReason | None] = {
            self.run.cancel.waiter(): StopReason.CANCELLED,
            asyncio.create_task(watch.over.wait()): None,
        }
        try:
            left = left_s(self.counters, self.run, self.node.limits)
            ended, _ = await asyncio.wait(
                {working, *stops},
                timeout=None if left is None else max(0.0, left),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for one in stops:
                one.cancel()
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
        stopped = next((one for one in stops if one in ended), None)
        if working in ended and not (watch.reason and _raised(working)):
            working.result()
            return StopReason.ANSWERED
        return (stops[stopped] if stopped else None) or watch.reason or StopReason.TIMEOUT

    def _message(self, reason: StopReason, steps: int) -> AIMessage:
        text = self._answer() if reason is StopReason.ANSWERED else self._stopped(reason, steps)
        run, message = self.run, AIMessage(text, id=f"msg_{uuid4().hex}")
        told = Message(
            run_id=run.run_id, path=run.path, step=steps + 1, message_id=str(message.id), text=text
        )
        run.ledger.emit(told)
        return message

    def _answer(self) -> str:
        given = self.node.give_out(self.values)
        return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)

    def _stopped(self, reason: StopReason, steps: int) -> str:
        """The fixed sentence for the reason, and what the graph had found by then."""
        try:
            found = self._answer()[:FOUND_SHOWN]
        except Exception:  # the author's function, on values that are not all there
            found = ""
        told = say("stop.found", self.language, found=found) if found else say("stop.nothing", self.language)
        return f"{say(f'stop.{reason.value}', self.language, steps=steps)} {told}"


def context_for(graph: Any, run: RunContext) -> dict[str, Any] | None:
    """What nodes find as `runtime.context`: what the run was started with, where the graph has a `context_schema`."""
    return None if graph.context_schema is None else copy.deepcopy(dict(run.given))


def _raised(working: asyncio.Task[None]) -> bool:
    """Whether the graph was stopped by the limit itself; one that caught it goes on to its end."""
    return working.cancelled() or isinstance(working.exception(), LimitReached)


def last_text(values: Any) -> str:
    """The text of the last message of a graph that has `messages`; empty where it has none yet."""
    messages: list[AnyMessage] = values.get("messages", []) if isinstance(values, Mapping) else []
    said = next((one for one in reversed(messages) if isinstance(one, AIMessage)), None)
    return "" if said is None else str(said.text)

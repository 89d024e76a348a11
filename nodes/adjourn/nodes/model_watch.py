"""Model calls that nodes of somebody's own make: counted, written down, and refused when a limit is reached (C-53).

LangChain tells each of them to its callbacks. What they cost is stored when they have ended, whatever becomes of the
node that made them: one that runs again after a crash has asked twice, and both are counted.
"""

import asyncio
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from adjourn.checkpoints.database import now
from adjourn.checkpoints.lifecycle import StopReason
from adjourn.nodes.guards import Limits, Standing, stop_reason
from adjourn.nodes.run_context import RunContext, StepFacts
from adjourn.nodes.spending import Prices, Spent, cost_of
from adjourn.nodes.wire_in import usage_of


class LimitReached(Exception):
    """The run may not ask a model any more; raised where a node of somebody's own asks one."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A model call that has begun."""

    model: str
    began: float
    started_at: str


class ModelWatch(BaseCallbackHandler):
    """Watches one run. `over` is set when a limit is reached, `reason` says which.

    Its methods are called on the event loop, or on the threads of synchronous nodes.
    """

    raise_error = True
    run_inline = True

    def __init__(self, run: RunContext, limits: Limits, prices: Prices, below: Spent) -> None:
        self.over = asyncio.Event()
        self.reason: StopReason | None = None
        self.steps, before = run.ledger.so_far()
        self._tokens, self._cost = before.tokens + below.tokens, before.cost + below.cost
        self._run, self._limits, self._prices = run, limits, prices
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()  # nodes may ask at once, each on a thread of its own
        self._asked: dict[UUID, _Asked] = {}
        self._storing: list[Future[None]] = []

    def check(self) -> None:
        """Raise `LimitReached` when no model may be asked now."""
        standing = Standing(self.steps, tokens=self._tokens, cost=self._cost)
        reason = stop_reason(standing, self._limits)
        if reason is not None:
            self.stop(reason)

    def stop(self, reason: StopReason) -> None:
        """The run is over: raises `LimitReached`."""
        self.reason = reason
        self._loop.call_soon_threadsafe(self.over.set)
        raise LimitReached(reason.value)

    async def stored(self) -> None:
        """Wait until what was asked so far is written down; raises what the store raises."""
        while self._storing:
            await asyncio.wrap_future(self._storing.pop())

    # -- what LangChain tells

    def on_chat_model_start(
        self, serialized: Mapping[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **told: Any
    ) -> None:
        """A chat model is about to be asked."""
        self._begins(run_id, told)

    def on_llm_start(
        self, serialized: Mapping[str, Any], prompts: list[str], *, run_id: UUID, **told: Any
    ) -> None:
        """A completion model, which has no chat messages, is about to be asked."""
        self._begins(run_id, told)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """The model has answered."""
        asked = self._asked.pop(run_id, None)
        if asked is not None:
            facts = self._facts(asked, response)
            with self._lock:
                self._tokens += facts.usage.total_tokens if facts.usage else 0
                self._cost += facts.cost
            written = self._run.ledger.model_called(facts)
            self._storing.append(asyncio.run_coroutine_threadsafe(written, self._loop))

    def _begins(self, run_id: UUID, told: Mapping[str, Any]) -> None:
        model = str((told.get("metadata") or {}).get("ls_model_name") or "model")
        with self._lock:
            self.check()
            self.steps += 1
            self._asked[run_id] = _Asked(model, time.monotonic(), now())

    def _facts(self, asked: _Asked, response: LLMResult) -> StepFacts:
        first = next((one for many in response.generations for one in many), None)
        message = first.message if isinstance(first, ChatGeneration) else None
        usage = usage_of(getattr(message, "usage_metadata", None))
        named = message.response_metadata.get("model_name") if message is not None else None
        return StepFacts(
            step=0,  # the ledger numbers them as they end
            model=str(named or asked.model),
            message_id=None,
            latency_ms=round((time.monotonic() - asked.began) * 1000),
            usage=usage,
            cost=cost_of(usage, (named, asked.model), self._prices),
            counted=True,
            started_at=asked.started_at,
            ended_at=now(),
        )

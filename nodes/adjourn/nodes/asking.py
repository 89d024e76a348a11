"""One model call: the request, its attempts, the turn that comes of it, and what is written down about it.

A model call that fails for good raises `ModelFailed`: the run is then `failed`, keeps everything, and can be
resumed.
"""

import asyncio
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable, RunnableBinding

from adjourn.checkpoints.database import now
from adjourn.checkpoints.errors import ModelFailed
from adjourn.checkpoints.events import TextDelta, TextDiscarded
from adjourn.nodes.assembly import Turn
from adjourn.nodes.listening import listening, on_this_loop
from adjourn.nodes.providers import Provider, provider_of, unbound
from adjourn.nodes.run_context import RunContext, StepFacts
from adjourn.nodes.tool import Tool
from adjourn.nodes.wire_in import read
from adjourn.nodes.wire_out import request_messages

log = logging.getLogger("adjourn.model")

ATTEMPTS = 3  # of one model call, the first included
BACKOFF_S = 0.5  # before the second attempt; doubled for the third
TRANSIENT_STATUS = frozenset({408, 409, 429})  # C-58; and everything from 500


@dataclass(frozen=True, slots=True)
class BoundModel:
    """A chat model with its tools, and what is known about its provider."""

    name: str
    provider: Provider
    runnable: Runnable[Any, Any]

    @classmethod
    def of(cls, model: BaseChatModel, tools: Collection[Tool]) -> "BoundModel":
        """`model`, told of `tools`."""
        heard = listening(model)
        bound = heard.bind_tools([one.for_model for one in tools]) if tools else heard
        return cls(model_name(model), provider_of(model), bound)

    def here(self) -> Runnable[Any, Any]:
        """The model as it can be used on the running event loop."""
        inner = unbound(self.runnable)
        own = on_this_loop(inner)
        if own is inner:
            return self.runnable
        return (
            self.runnable.model_copy(update={"bound": own})
            if isinstance(self.runnable, RunnableBinding)
            else own
        )


def model_name(model: BaseChatModel) -> str:
    """How a model is called in tables and errors."""
    for attribute in ("model_name", "model"):
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(model).__name__


@dataclass(slots=True)
class Asking:
    """One model call of a run. `attempt` counts from 1, on from those of owners that failed."""

    model: BoundModel
    request: list[AnyMessage]
    tools: Collection[str]
    run: RunContext
    step: int
    attempt: int = 0
    spoke: bool = False  # whether this attempt sent text
    started_at: str = ""
    began: float = 0.0

    async def turn_or_cancel(self) -> Turn | None:
        """The whole turn, or None when the run is cancelled first; the model call is then taken back (C-60)."""
        asking = asyncio.ensure_future(self._turn())
        cancel = asyncio.ensure_future(self.run.cancel.wait())
        try:
            await asyncio.wait({asking, cancel}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
        finally:
            cancel.cancel()
            if not asking.done():
                asking.cancel()
                await asyncio.wait({asking})
        await self.discard("cancelled")
        return None

    async def _turn(self) -> Turn:
        """The whole turn, after at most `ATTEMPTS` attempts. Raises `ModelFailed`."""
        self.started_at, self.began = now(), time.monotonic()
        self.attempt = before = self.run.ledger.discarded(self.step)
        messages = request_messages(self.request, self.model.runnable, self.tools)
        while True:
            self.attempt += 1
            try:
                turn = await self._stream(messages)
                if turn.finish is not None:
                    return turn
                error: Exception = ConnectionError("the stream broke off before its end")
            except Exception as raised:
                error = raised
            await self.discard(type(error).__name__)
            if self.attempt - before >= ATTEMPTS or not is_transient(error):
                raise ModelFailed(self.model.name, f"{type(error).__name__}: {error}") from error
            log.warning("model %s, attempt %s: %s", self.model.name, self.attempt, error)
            await asyncio.sleep(BACKOFF_S * 2.0 ** (self.attempt - before - 1))

    async def _stream(self, messages: list[Any]) -> Turn:
        assembler = self.model.provider.assembler()
        self.spoke = False
        async for chunk in self.model.here().astream(messages):
            text = assembler.feed(read(chunk, self.model.provider))
            if text:
                self.spoke = True
                self._say(text)
        return assembler.finish()

    def _say(self, text: str) -> None:
        run = self.run
        run.ledger.emit(
            TextDelta(run_id=run.run_id, path=run.path, step=self.step, text=text, attempt=self.attempt)
        )

    async def discard(self, reason: str) -> None:
        """Void the deltas of the last attempt, if it sent any (C-66)."""
        if not self.spoke:
            return
        self.spoke = False
        run = self.run
        await run.ledger.tell(
            TextDiscarded(
                run_id=run.run_id, path=run.path, step=self.step, attempt=self.attempt, reason=reason
            )
        )

    def facts(self, turn: Turn, message_id: str | None) -> StepFacts:
        """What the steps table keeps."""
        return StepFacts(
            step=self.step,
            model=turn.model or self.model.name,
            message_id=message_id,
            latency_ms=round((time.monotonic() - self.began) * 1000),
            input_tokens=turn.usage.input_tokens if turn.usage else None,
            output_tokens=turn.usage.output_tokens if turn.usage else None,
            started_at=self.started_at,
            ended_at=now(),
        )


# By name: the classes are httpx's and the providers' own, which need not be installed. The others are how a
# stream that broke off in its middle shows itself: an event with half a JSON, an error event, no event at all.
_NETWORK = frozenset({"ConnectionError", "TimeoutError", "TransportError", "APIConnectionError"})
_BROKEN_STREAM = frozenset({"JSONDecodeError", "APIError"})


def is_transient(error: BaseException) -> bool:
    """Whether asking again may help (C-58): network errors, 408, 409, 429 and everything from 500."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in TRANSIENT_STATUS or status >= 500
    if {kind.__name__ for kind in type(error).__mro__} & _NETWORK or type(error).__name__ in _BROKEN_STREAM:
        return True
    return isinstance(error, ValueError) and "No generation chunks" in str(error)

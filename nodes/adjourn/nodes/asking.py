"""One model call: the request, its attempts, the turn that comes of it, and what is written down about it.

A model that cannot be reached is asked again, then its fallbacks are. When all are spent, or the error is one that
no repetition mends, `ModelFailed` is raised: the run is then `failed`, keeps everything, and can be resumed.
"""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AnyMessage

from adjourn.checkpoints.database import now
from adjourn.checkpoints.errors import ModelFailed
from adjourn.checkpoints.events import TextDelta, TextDiscarded
from adjourn.nodes.assembly import Turn
from adjourn.nodes.bound_model import BoundModel
from adjourn.nodes.model_errors import is_transient, wait_before_s
from adjourn.nodes.run_context import RunContext, StepFacts
from adjourn.nodes.wire_in import read
from adjourn.nodes.wire_out import request_messages

log = logging.getLogger("adjourn.model")


@dataclass(slots=True)
class Asking:
    """One model call of a run. `attempt` counts from 1, over all models, on from those of owners that failed.

    `models`: the model, then its fallbacks. `left_s` gives the seconds until the run's time is over, None: never.
    """

    models: Sequence[BoundModel]
    request: list[AnyMessage]
    tools: Collection[str]
    run: RunContext
    step: int
    left_s: Callable[[], float | None]
    tools_off: bool = False
    attempt: int = 0
    spoke: bool = False  # whether this attempt sent text
    started_at: str = ""
    began: float = 0.0
    model: BoundModel = field(init=False)  # the one that was asked last
    limit: asyncio.Timeout | None = None  # of the whole call

    def __post_init__(self) -> None:
        self.model = self.models[0]

    async def turn_in_time(self) -> Turn | None:
        """The whole turn; None when the run is cancelled or its time is over first: the call is then taken back (C-60).

        Raises `ModelFailed`.
        """
        cancel = self.run.cancel.waiter()
        limit = self.limit = asyncio.timeout(self.left_s())
        try:
            async with limit:
                cancel.add_done_callback(functools.partial(_end, limit))
                turn = await self._turn()
        except Exception:  # also what a model made of being taken back
            if not limit.expired():
                raise
        else:
            if not limit.expired():
                return turn
        finally:
            cancel.cancel()
        await self.discard("cancelled" if self.run.cancel.is_set() else "timeout")
        return None

    async def _turn(self) -> Turn:
        """The whole turn of the first model that gives one. Raises `ModelFailed`."""
        self.started_at, self.began = now(), time.monotonic()
        self.attempt = self.run.ledger.discarded(self.step)
        errors: list[tuple[str, Exception]] = []
        for model in self.models:
            self.model = model
            turn = await self._turn_of_this_model(errors)
            if turn is not None:
                return turn
        raise _failed(errors) from errors[-1][1]

    async def _turn_of_this_model(self, errors: list[tuple[str, Exception]]) -> Turn | None:
        """The whole turn; None when this model is spent, with its last error behind the others."""
        messages = request_messages(self.request, self.model.runnable, self.tools, self.run.requested)
        attempts = 0
        while True:
            self.attempt, attempts = self.attempt + 1, attempts + 1
            try:
                turn = await self._stream(messages)
                if turn.finish is not None:
                    return turn
                error: Exception = ConnectionError("the stream broke off before its end")
            except Exception as raised:
                error = raised
            if self.limit is not None and self.limit.expired():
                raise error
            await self.discard(type(error).__name__)
            kind = type(error).__name__  # a provider's text may quote the request
            ids = {"run_id": self.run.run_id, "step": self.step}
            log.warning("model %s, attempt %s: %s", self.model.name, self.attempt, kind, extra=ids)
            if not is_transient(error):
                raise _failed([*errors, (self.model.name, error)]) from error
            wait_s = wait_before_s(error, attempts, self.left_s())
            if wait_s is None:
                errors.append((self.model.name, error))
                return None
            await asyncio.sleep(wait_s)

    async def _stream(self, messages: list[Any]) -> Turn:
        assembler = self.model.provider.assembler()
        self.spoke = False
        async for chunk in self.model.stream(messages, tools_off=self.tools_off):
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

    def facts(self, turn: Turn, message_id: str | None, cost: float, *, counted: bool) -> StepFacts:
        """What the steps table keeps."""
        return StepFacts(
            step=self.step,
            model=turn.model or self.model.name,
            message_id=message_id,
            latency_ms=round((time.monotonic() - self.began) * 1000),
            usage=turn.usage,
            cost=cost,
            counted=counted,
            started_at=self.started_at,
            ended_at=now(),
        )


def _end(limit: asyncio.Timeout, cancel: "asyncio.Future[None]") -> None:
    """Let the time be over when the run is cancelled."""
    with contextlib.suppress(RuntimeError):  # the turn has come just now
        if not cancel.cancelled():
            limit.reschedule(0)


def _failed(errors: Sequence[tuple[str, Exception]]) -> ModelFailed:
    """What became of the run's model and, in their order, of its fallbacks."""
    told = [(name, f"{type(error).__name__}: {error}") for name, error in errors]
    whole = told[0][1] if len(told) == 1 else "; ".join(f"{name}: {why}" for name, why in told)
    return ModelFailed(", ".join(dict.fromkeys(name for name, _ in told)), whole)

"""One owner drives one run: makes LangGraph go on from where the run stands, and writes down how it ended.

The graph is given input, answers, or nothing; which of these is told by our tables and the thread's
checkpoint together, never by LangGraph's `next`. While it works, the lease is renewed.
"""

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained, is_invalid_resume
from langgraph.runtime import RunControl
from langgraph.types import Command
from langgraph.types import Interrupt as Pending
from sqlalchemy import Connection

from adjourn.checkpoints import family, journal, leases
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import AdjournError, LeaseLost
from adjourn.checkpoints.events import LoopInterrupt, RunFinished
from adjourn.checkpoints.hooks import FENCE, OUTBOX
from adjourn.checkpoints.lifecycle import (
    RUN_MOVES,
    InterruptState,
    RunEvent,
    RunStatus,
    StopReason,
)
from adjourn.checkpoints.records import RunRow
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.graph import starts
from adjourn.graph.children import ChildRuns
from adjourn.graph.closing import close_below
from adjourn.graph.graph_parts import Graph
from adjourn.graph.ledger_rows import failure_of
from adjourn.graph.own_graphs import is_ours_alone
from adjourn.graph.pending import answers_to, asked_again, asks_itself, custom, is_ours
from adjourn.graph.run_log import Before, Listener, RunLog
from adjourn.graph.tracing import traced
from adjourn.graph.within import Within
from adjourn.nodes.clock import Clock
from adjourn.nodes.masking import Masker
from adjourn.nodes.own_graph import context_for
from adjourn.nodes.run_context import RUN_KEY, Cancel, RunContext
from adjourn.nodes.sealing import Keyring
from adjourn.nodes.state import RunState

log = logging.getLogger("adjourn.run")

# LangGraph's own limit counts supersteps and leaves calls open; ours counts model calls and does not (C-53).
RECURSION_LIMIT = 100_000

# Of the state. Each superstep would give all of it otherwise.
READ_AT_THE_END = ("messages", "step", "stop_reason")


@dataclass(frozen=True, slots=True)
class Found:
    """What an owner finds in the store when it takes a run: what was written down before, and the input for a thread of
    which nothing was stored; None: its checkpoint tells how to go on."""

    before: Before
    input: RunState | None

    @classmethod
    def read(cls, connection: Connection, run: RunRow) -> "Found":
        """In one transaction, best in the one that takes the run."""
        return cls(Before.read(connection, run), starts.input_of_new_thread(connection, run))


class Drive:
    """A claimed run, from here to where it waits, ends or fails."""

    def __init__(
        self,
        database: Database,
        graph: Graph,
        run: RunRow,
        *,
        cancel: Cancel,
        control: RunControl,
        listener: Listener,
        lease_s: float,
        masker: Masker,
        keyring: Keyring,
        children: ChildRuns | None = None,
        within: Within | None = None,
        found: Found | None = None,
    ) -> None:
        self._database = database
        self._graph = graph
        self._run = run
        self._cancel = cancel
        self._control = control
        self._listener = listener
        self._lease_s = lease_s
        self._masker = masker
        self._keyring = keyring
        self._children = children
        self._within = within
        self._found = found  # until the graph has gone on once
        self._clock = Clock(run.active_ms)

    async def to_its_end(self) -> None:
        """Drive until the run waits, ends or fails; how it ended is stored when this returns.

        Raises `LeaseLost` when another owner took the run over: then nothing more was written.
        """
        async with traced(self._database, self._run):
            await self._driven()

    async def _driven(self) -> None:
        renewing = asyncio.create_task(self._renew())
        try:
            await self._pass()
        except asyncio.CancelledError:
            if self._control.drain_requested:  # the process goes before the step has ended
                raise  # the lease runs out
            # Not by our own signal: the event loop is being taken down, and with it every task of the graph
            # (`asyncio.run` does so after Ctrl-C). One more pass, with the signal set, settles what is open.
            self._cancel.set()
            _stay_alive()
            await self._pass()
            raise
        finally:
            renewing.cancel()

    async def _pass(self) -> None:
        """Let the graph go on once, and write down how it ended."""
        run = self._run
        written = RunLog(
            self._database,
            run,
            Before(),
            self._listener,
            self._masker,
            keyring=self._keyring,
            frozen=is_ours_alone(self._graph),
        )
        try:
            found, self._found = self._found, None
            if found is None:
                found = await self._database.aread(lambda connection: Found.read(connection, run))
            written.learn(found.before)
            await self._conclude(written, *await self._invoke(written, found.input))
        except LeaseLost:
            raise
        except GraphDrained:
            await written.hand_back(active_ms=self._active_ms())
        except Exception as error:
            if not (is_invalid_resume(error) and await self._ask_again(written, error)):
                await self._fail(written, error)

    def _active_ms(self) -> int:
        return self._clock.worked_ms()

    async def _renew(self) -> None:
        """Extend the lease until cancelled, or until it is lost: then the next write of this owner is refused."""
        run, held = self._run, True
        while held:
            await asyncio.sleep(self._lease_s / 3)
            try:
                held = await self._database.awrite(
                    lambda connection: leases.renew(
                        connection, run.id, run.fence, lease_s=self._lease_s, active_ms=self._active_ms()
                    ),
                    short=True,
                )
            except Exception as error:
                # a database that is away for a moment: the lease has room for two more tries
                log.warning("run %s: the lease could not be renewed: %s", run.id, error)

    # -- going on

    async def _invoke(
        self, written: RunLog, first: RunState | None
    ) -> tuple[dict[str, Any], Sequence[Pending]]:
        """Let the graph go on; its last values, and the questions at which it stopped."""
        run, within = self._run, self._within
        context = RunContext(
            run_id=run.id,
            thread_id=run.thread_id,
            ledger=written,
            path=run.path,
            started_by=run.started_by,
            given=run.context or {},
            cancel=self._cancel,
            keyring=self._keyring,
            clock=self._clock,
            began_at=datetime.fromisoformat(run.created_at).timestamp(),
            children=self._children,
            gate=within.gate if within is not None else None,
            above=within.permission if within is not None else None,
            budgets=within.budgets if within is not None else None,
        )
        config: RunnableConfig = {
            "configurable": {"thread_id": run.thread_id, RUN_KEY: context, FENCE: written, OUTBOX: written},
            "recursion_limit": RECURSION_LIMIT,
        }
        saver = cast(SQLAlchemySaver, self._graph.checkpointer)
        state: dict[str, Any] = {}
        pending: list[Pending] = []
        try:
            # as `ainvoke` does it, but for the updates of each superstep, which nobody here reads
            async for values in self._graph.astream(
                first or await self._input(),
                config,
                stream_mode="values",
                output_keys=[one for one in READ_AT_THE_END if one in self._graph.channels],
                durability="sync",
                context=context_for(self._graph, context),
                control=self._control,
            ):
                pending += values.pop("__interrupt__", ())
                state = values
        finally:
            if self._children is not None:
                await self._children.ended()
            await saver.astore_held(config, written.left_over())
        return state, pending

    async def _input(self) -> Any:
        """What makes LangGraph go on from where the run stands: input, answers, or nothing."""
        run = self._run
        snapshot = await self._graph.aget_state({"configurable": {"thread_id": run.thread_id}})
        if snapshot.values.get("run_id") != run.id:
            return await self._database.aread(
                lambda connection: starts.first_input(connection, run, snapshot.values)
            )
        if not snapshot.interrupts:
            return None
        rows = await self._database.aread(lambda connection: family.read_interrupts(connection, run.id))
        given = answers_to(snapshot.interrupts, rows)
        # None: the graph asks again, and the run waits again
        return None if given is None else Command(resume=given)

    # -- how it ended

    async def _conclude(self, written: RunLog, state: Mapping[str, Any], pending: Sequence[Pending]) -> None:
        if pending:
            await self._suspend(written, pending, state.get("step", 0))
            return
        run, reason = self._run, StopReason(state["stop_reason"])
        event = RunEvent.CANCEL if reason is StopReason.CANCELLED else RunEvent.FINISH
        answer = str(state["messages"][-1].text)
        told = RunFinished(
            run_id=run.id,
            path=run.path,
            step=state.get("step", 0),
            status=RUN_MOVES[RunStatus.RUNNING][event].value,
            stop_reason=reason.value,
            answer=answer,
        )
        await written.leave(
            event,
            [told],
            active_ms=self._active_ms(),
            stop_reason=reason,
            answer=answer,
            before=self._close_below(event),
        )

    def _close_below(self, event: RunEvent) -> Callable[[Connection], object]:
        """Ends the runs of specialists that are left: nobody will go on with them."""
        closing = RunEvent.CANCEL if event is RunEvent.CANCEL else RunEvent.DISMISS
        if self._children is None:
            return lambda _: None
        return lambda one: close_below(one, self._run.id, closing, by=None, masker=self._masker)

    async def _suspend(self, written: RunLog, pending: Sequence[Pending], step: int) -> None:
        """The run waits. Our questions were stored before LangGraph stopped; those of others are stored here."""
        run = self._run
        ours = next((one.id for one in pending if is_ours(one) and asks_itself(one)), None)
        others = [custom(run, one, step, place) for place, one in enumerate(pending) if not is_ours(one)]
        stored = await self._database.aread(
            lambda connection: family.read_interrupts(connection, run.id, state=InterruptState.OPEN)
        )
        shown = {one.id: one.to_dict() for one in [*stored, *others]}
        told = LoopInterrupt(run_id=run.id, path=run.path, step=step, interrupts=tuple(shown.values()))
        await written.leave(
            RunEvent.ASK, [told], active_ms=self._active_ms(), langgraph_id=ours, questions=others
        )

    async def _ask_again(self, written: RunLog, error: Exception) -> bool:
        """A node did not take its answer, for reasons that its schema cannot say: it is asked again (C-45)."""
        run = self._run
        snapshot = await self._graph.aget_state({"configurable": {"thread_id": run.thread_id}})
        rows = await self._database.aread(lambda connection: journal.read_interrupts(connection, run.id))
        again = asked_again(snapshot.interrupts, rows, error)
        if not again:
            return False
        told = LoopInterrupt(
            run_id=run.id, path=run.path, step=again[0].step, interrupts=tuple(one.to_dict() for one in again)
        )
        await written.leave(RunEvent.ASK, [told], active_ms=self._active_ms(), questions=again)
        return True

    async def _fail(self, written: RunLog, error: Exception) -> None:
        run, kind = self._run, type(error).__name__
        stack = self._masker.text("".join(traceback.format_exception(error)))
        ids = {"run_id": run.id, "path": run.path, "step": written.step}
        log.error("run %s failed\n%s", run.id, stack, extra=ids)
        message = self._masker.text(str(error) if isinstance(error, AdjournError) else f"{kind}: {error}")
        told, kept = failure_of(run, written.step, kind, message)
        await written.leave(RunEvent.FAIL, [told], active_ms=self._active_ms(), error=kept)


def _stay_alive() -> None:
    """Take back the cancellation of the running task; it is raised again when the run has written its end."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()

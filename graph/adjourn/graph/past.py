"""Where a run stood: its checkpoints, each of which a fork can begin from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import AIMessage
from langgraph.types import StateSnapshot

from adjourn.checkpoints import journal
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import CheckpointNotFound, UsageError
from adjourn.checkpoints.forking import checkpoints_of
from adjourn.checkpoints.lifecycle import InterruptType
from adjourn.checkpoints.records import Interrupt, RunRow
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.graph.graph_parts import Graph
from adjourn.nodes.masking import Masker
from adjourn.nodes.questions import question_id

INTERRUPT = "__interrupt__"  # LangGraph's channel for what a task asks
SAID = 80  # characters that a description quotes: enough to recognise it, in one line of a terminal


@dataclass(frozen=True, slots=True)
class RunCheckpoint:
    """Where a run stood after one superstep.

    - `number`: LangGraph's count of supersteps on the thread, newest highest; `step`: model calls so far.
    - `ran`: the nodes that led here; `__start__` for the user's message, `fork` where a fork began.
    - `next`: the nodes that come next; empty: the run had ended.
    - `questions`: those that were open, as their rows stand now.
    - `description`: what had become of the calls of the step, else what was said, masked and cut.
    """

    id: str
    run_id: str
    number: int
    step: int
    ran: tuple[str, ...]
    next: tuple[str, ...]
    at: str
    questions: tuple[Interrupt, ...]
    description: str

    def to_dict(self) -> dict[str, Any]:
        """The checkpoint as JSON data."""
        return {
            "id": self.id,
            "run_id": self.run_id,
            "number": self.number,
            "step": self.step,
            "ran": list(self.ran),
            "next": list(self.next),
            "at": self.at,
            "questions": [one.id for one in self.questions],
            "description": self.description,
        }


@dataclass(frozen=True, slots=True)
class Past:
    """Reads the checkpoints of runs of one graph."""

    database: Database
    graph: Graph
    masker: Masker

    async def of(self, run: RunRow, *, limit: int | None, before: str | None) -> list[RunCheckpoint]:
        """The checkpoints of a run, newest first. `before`: only older ones than this checkpoint."""
        ids = await self._ids(run, limit=limit, before=before)
        rows = await self.database.aread(lambda connection: journal.read_interrupts(connection, run.id))
        asked = {one.id: one for one in rows}
        found: list[RunCheckpoint] = []
        snapshots = [await self._snapshot(run, one) for one in ids]
        for place, newer in enumerate(snapshots):
            older = newer.parent_config
            if place + 1 < len(snapshots):
                ran = snapshots[place + 1].next
            else:
                ran = (await self.graph.aget_state(older)).next if older is not None else ()
            pending = (
                await self._pending(newer) if any(one.type == InterruptType.CUSTOM for one in rows) else ()
            )
            found.append(self._checkpoint(run, newer, ran, pending, asked))
        return found

    async def _pending(self, snapshot: StateSnapshot) -> Sequence[str]:
        """LangGraph's ids of the interrupts that were pending there."""
        stored = await cast(SQLAlchemySaver, self.graph.checkpointer).aget_tuple(snapshot.config)
        writes = (stored.pending_writes or ()) if stored is not None else ()
        return [one.id for _, channel, value in writes if channel == INTERRUPT for one in value]

    async def to_fork(self, run: RunRow, named: str | int | None, *, anew: bool) -> str:
        """The id of the checkpoint that a fork begins from, by its id or number; None: the newest one.

        Raises `CheckpointNotFound`, and `UsageError` where nothing comes after it, unless a message starts it `anew`.
        """
        ids = await self._ids(run, limit=1 if named is None else None, before=None)
        fitting = (one for one, number in ids.items() if named is None or named in (one, number))
        checkpoint_id = next(fitting, None)
        if checkpoint_id is None:
            raise CheckpointNotFound(run.id, None if named is None else str(named))
        snapshot = await self._snapshot(run, checkpoint_id)
        if not snapshot.next and not anew:
            raise UsageError(
                f"checkpoint {checkpoint_id} is where run {run.id} ended, and nothing comes after it; "
                f"name an earlier one (`adjourn history {run.id}`), or give a message"
            )
        return checkpoint_id

    async def _ids(self, run: RunRow, *, limit: int | None, before: str | None) -> dict[str, int]:
        codec = cast(SQLAlchemySaver, self.graph.checkpointer).codec
        return await self.database.aread(
            lambda connection: checkpoints_of(
                connection, codec, run.thread_id, run.id, before=before, limit=limit
            )
        )

    async def _snapshot(self, run: RunRow, checkpoint_id: str) -> StateSnapshot:
        named = {"thread_id": run.thread_id, "checkpoint_id": checkpoint_id}
        return await self.graph.aget_state({"configurable": named})

    def _checkpoint(
        self,
        run: RunRow,
        snapshot: StateSnapshot,
        ran: Sequence[str],
        pending: Sequence[str],
        asked: Mapping[str, Interrupt],
    ) -> RunCheckpoint:
        state, metadata = snapshot.values, snapshot.metadata or {}
        source = metadata.get("source")
        configurable = snapshot.config.get("configurable", {})
        return RunCheckpoint(
            id=configurable["checkpoint_id"],
            run_id=run.id,
            number=metadata.get("step", 0),
            step=state.get("step", 0),
            ran=tuple(ran) if source in ("loop", "input") else (str(source),),
            next=tuple(snapshot.next),
            at=snapshot.created_at or "",
            questions=_open_at(run, state, pending, asked),
            description=self._description(run, state, tuple(ran)),
        )

    def _description(self, run: RunRow, state: Mapping[str, Any], ran: tuple[str, ...]) -> str:
        calls = state.get("calls", ())
        if calls:
            return ", ".join(f"{one['name']} {one['state']}" for one in calls)
        said = next((one for one in reversed(state.get("messages", ())) if isinstance(one, AIMessage)), None)
        text = run.input if said is None or "__start__" in ran else str(said.text)
        words = " ".join(self.masker.text(text).split())
        return words if len(words) <= SAID else f"{words[: SAID - 1]}…"


def _open_at(
    run: RunRow, state: Mapping[str, Any], pending: Sequence[str], asked: Mapping[str, Interrupt]
) -> tuple[Interrupt, ...]:
    """The questions that the run waited for, or was about to: ours, and those of nodes of somebody's own (`pending`)."""
    calls = state.get("calls", ()) if state.get("outcome") == "ask" else ()
    ours = [question_id(run.id, state.get("step", 0), one) for one in calls if "question" in one]
    newest = {one.langgraph_id: one for one in asked.values() if one.type == InterruptType.CUSTOM}
    theirs = [newest[one] for one in pending if one in newest]
    return (*(asked[one] for one in ours if one in asked), *theirs)

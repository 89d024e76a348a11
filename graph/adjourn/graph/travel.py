"""What `Runner` does with the past: list a run's checkpoints, fork from one, go on from a history alone."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from sqlalchemy import Connection

from adjourn.checkpoints import journal
from adjourn.checkpoints.codec import Codec
from adjourn.checkpoints.forking import seed_thread
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.graph import starts
from adjourn.graph.answering import Answering
from adjourn.graph.forks import Forker, Wanted
from adjourn.graph.histories import Given, begin_with
from adjourn.graph.past import Past, RunCheckpoint
from adjourn.graph.run import Run
from adjourn.graph.run_log import Listener
from adjourn.graph.starts import Begun

T = TypeVar("T")


class TimeTravel(Answering):
    """A part of `Runner`."""

    async def history(
        self, run_id: str, *, limit: int | None = 20, before: str | None = None
    ) -> Sequence[RunCheckpoint]:
        """The checkpoints of a run, newest first: where it stood after each superstep.

        `limit` None: all. `before`: only those older than this checkpoint, for the next page. Raises `RunNotFound`,
        `WrongGraph`.
        """
        run = await self._mine(run_id)
        return await Past(self.database, self.graph, self.masker).of(run, limit=limit, before=before)

    async def fork(
        self,
        run_id: str,
        checkpoint: str | int | None = None,
        *,
        message: str | None = None,
        thread_id: str | None = None,
        by: str | None = None,
        repeat_writes: bool = False,
        on_event: Listener | None = None,
    ) -> Run:
        """Begin a new run where another one stood at a checkpoint, and drive it (C-92).

        It has a thread of its own, copied up to there, and a ledger of its own; the other run is left as it is. What
        people answered before stands, except agreements: those were given to the other run, and are asked for again.
        The runs of specialists are not forked: one that had not brought its answer begins anew, as a run of the fork.

        - `checkpoint`: its id, or its number in the history; None: the newest.
        - `message`: starts the new run, and what was open at the checkpoint is closed; None: the run goes on as the
          other one could have.
        - `by`: who forks, and so who started the new run.

        A fork that would make a write again that the run has made since raises `WouldRepeat`, which names them,
        unless `repeat_writes`. Raises `RunNotFound`, `WrongGraph`, `CheckpointNotFound`, and `UsageError` for a thread
        that exists and for a checkpoint that nothing comes after. What raises has changed nothing.
        """
        original = await self._mine(run_id)
        past = Past(self.database, self.graph, self.masker)
        begins_at = await past.to_fork(original, checkpoint, anew=message is not None)
        run = self.new_row(
            original.input if message is None else message,
            thread_id=thread_id,
            by=by,
            priority=original.priority,
        )
        wanted = Wanted(original.id, begins_at, message, repeat_writes)
        forker = Forker(self._codec(), self.masker, self.keyring)

        def begin(connection: Connection) -> Begun:
            told = forker.store(connection, wanted, run)
            return Begun(journal.read_run(connection, run.id), told)

        made = await self._own(begin, on_event, short=False)
        if made.status == RunStatus.INTERRUPTED and not made.interrupts:
            # only specialists waited: new ones begin
            return await self.recover(made.id, by=by, on_event=on_event)
        return made

    async def run_from_history(
        self,
        messages: Sequence[Given],
        values: Mapping[str, Any] | str | None = None,
        *,
        thread_id: str | None = None,
        by: str | None = None,
        priority: int = 0,
        on_event: Listener | None = None,
    ) -> Run:
        """Go on without a stored run: from a history, and what a person submitted, alone (C-87).

        `messages`: LangChain's, or dicts in OpenAI's shape. `values`: field by field, or a text; None: the history ends
        with the user's message. A call that waited keeps its provisional observation, the values come as the user's
        words, and the model calls again under a new id, on a new thread with a new ledger. Nothing that the history
        tells is run again, and nothing of it is checked against a store: where the run is stored, `resume` it.

        A history with calls that lack their answer is mended (C-15). Raises `UsageError` for what is no history, and
        for a thread that exists.
        """
        run = self.new_row("history", thread_id=thread_id, by=by)
        history, words = begin_with(messages, values, run_id=run.id, tools=self.tools)
        run = self.new_row(words, thread_id=run.thread_id, by=by, run_id=run.id, priority=priority)

        def begin(connection: Connection) -> Begun:
            seed_thread(connection, self._codec(), run.thread_id, {"messages": history})
            told = starts.store(connection, run)
            return Begun(journal.read_run(connection, run.id), told)

        return await self._own(begin, on_event, short=False)

    def _codec(self) -> Codec:
        return cast(SQLAlchemySaver, self.graph.checkpointer).codec

    def history_sync(self, run_id: str, **settings: Any) -> Sequence[RunCheckpoint]:
        """`history`, for a script or a notebook cell."""
        return self._sync(self.history(run_id, **settings))

    def fork_sync(self, run_id: str, checkpoint: str | int | None = None, **settings: Any) -> Run:
        """`fork`, for a script or a notebook cell."""
        return self._sync(self.fork(run_id, checkpoint, **settings))

    def run_from_history_sync(
        self, messages: Sequence[Given], values: Mapping[str, Any] | str | None = None, **settings: Any
    ) -> Run:
        """`run_from_history`, for a script or a notebook cell."""
        return self._sync(self.run_from_history(messages, values, **settings))

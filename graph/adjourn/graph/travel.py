"""How a run goes on from the past: from a checkpoint of another one, or from a history alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from adjourn.checkpoints import journal
from adjourn.checkpoints.forking import seed_thread
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.graph import answering, starts
from adjourn.graph.behalf import Behalf
from adjourn.graph.bound_graph import BoundGraph
from adjourn.graph.forks import Forker, Wanted
from adjourn.graph.histories import Given, begin_with
from adjourn.graph.owning import Owner
from adjourn.graph.past import Past
from adjourn.graph.run import Run
from adjourn.graph.said import Message, Said, read_said
from adjourn.graph.starts import Begun


def past_of(bound: BoundGraph) -> Past:
    """What reads the checkpoints of this graph's runs."""
    return Past(bound.database, bound.graph, bound.masker)


async def fork(
    owner: Owner,
    run_id: str,
    checkpoint: str | int | None,
    behalf: Behalf,
    *,
    message: Said | None,
    thread_id: str | None,
    repeat_writes: bool,
) -> Run:
    """See `Runner.fork`."""
    bound = owner.bound
    original = await bound.row(run_id)
    begins_at = await past_of(bound).to_fork(original, checkpoint, anew=message is not None)
    said = None if message is None else read_said(message)
    run = bound.new_row(
        said or Message(original.input),
        thread_id=thread_id,
        by=behalf.by,
        priority=original.priority,
        context=original.context,
    )
    if said is None:
        run = replace(run, attached=original.attached)
    wanted = Wanted(original.id, begins_at, said, repeat_writes)
    forker = Forker(bound.saver.codec, bound.masker, bound.keyring)

    def begin(connection: Connection) -> Begun:
        told = forker.store(connection, wanted, run)
        return Begun(journal.read_run(connection, run.id), told)

    made = await owner.own(begin, behalf, short=False)
    # where only specialists waited, new ones begin
    if made.status == RunStatus.INTERRUPTED and not made.interrupts:
        return await answering.recover(owner, made.id, behalf, here=None)
    return made


async def run_from_history(
    owner: Owner,
    messages: Sequence[Given],
    values: Mapping[str, Any] | str | None,
    behalf: Behalf,
    *,
    thread_id: str | None,
    priority: int,
    context: Mapping[str, Any] | None,
) -> Run:
    """See `Runner.run_from_history`."""
    bound = owner.bound
    run = bound.new_row(Message("history"), thread_id=thread_id, by=behalf.by, context=context)
    history, said = begin_with(messages, values, run_id=run.id, tools=bound.tools)
    run = bound.new_row(
        said, thread_id=run.thread_id, by=behalf.by, run_id=run.id, priority=priority, context=context
    )

    def begin(connection: Connection) -> Begun:
        seed_thread(connection, bound.saver.codec, run.thread_id, {"messages": history})
        told = starts.store(connection, run, blocks=said.blocks)
        return Begun(journal.read_run(connection, run.id), told)

    return await owner.own(begin, behalf, short=False)

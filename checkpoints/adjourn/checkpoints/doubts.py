"""Which writes on a thread are in doubt: begun by an owner that died, and nobody knows whether they happened."""

from sqlalchemy import ClauseElement, Connection, bindparam, or_, select

from adjourn.checkpoints.compiled import Statement, word
from adjourn.checkpoints.lifecycle import CallState, Effect
from adjourn.checkpoints.run_schema import calls, runs


def doubtful_digests(connection: Connection, thread_id: str) -> set[str]:
    """The digests of the writes on a thread whose outcome is unknown, and that did not succeed since.

    What is unknown on the thread that it was forked from is unknown here as well: the world is the same. So it is with
    those of the runs that worked for runs on it.
    """
    written = [
        row for one in _lineage(connection, thread_id) for row in _writes.rows(connection, {"of_thread": one})
    ]
    outcomes = {digest: outcome for digest, outcome, _ in sorted(written, key=lambda row: row[2] or "")}
    return {digest for digest, last in outcomes.items() if last == CallState.UNKNOWN}


def _writes_on_thread() -> ClauseElement:
    known = select(runs.c.id).where(runs.c.thread_id == bindparam("of_thread")).cte("known", recursive=True)
    known = known.union_all(select(runs.c.id).join(known, runs.c.parent_run_id == known.c.id))
    return (
        select(calls.c.digest, calls.c.outcome, calls.c.ended_at)
        .join(known, known.c.id == calls.c.run_id)
        .where(
            or_(*(calls.c.outcome == word(one) for one in (CallState.UNKNOWN, CallState.OK))),
            calls.c.effect == word(Effect.WRITE),
            calls.c.digest.is_not(None),
        )
    )


_writes = Statement(lambda _: _writes_on_thread())


def _lineage(connection: Connection, thread_id: str) -> list[str]:
    """A thread, the one that it was forked from, the one that this was forked from, and so on."""
    line = [thread_id]
    while (older := _original.value(connection, {"of_thread": line[-1]})) is not None:
        line.append(older)
    return line


def _original_of() -> ClauseElement:
    fork, original = runs.alias("fork"), runs.alias("original")
    joined = select(original.c.thread_id).join(fork, fork.c.forked_from == original.c.id)
    return joined.where(fork.c.thread_id == bindparam("of_thread")).limit(1)


_original = Statement(lambda _: _original_of())

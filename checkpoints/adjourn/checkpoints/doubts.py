"""Which writes on a thread are in doubt: begun by an owner that died, and nobody knows whether they happened."""

from typing import Any

from sqlalchemy import ClauseElement, Connection, bindparam, or_, select

from adjourn.checkpoints.compiled import Asked, Statement, word
from adjourn.checkpoints.lifecycle import CallState, Effect
from adjourn.checkpoints.run_schema import calls, runs


def doubtful_digests(connection: Connection, thread_id: str) -> Asked[set[str]]:
    """The digests of the writes on a thread whose outcome is unknown, and that did not succeed since.

    Writes of the thread that it was forked from count as well, since the world is the same, and so do those of runs that
    worked for runs on it. Threads further back are read when the result is called.
    """
    asked = _ask(connection, thread_id)

    def doubtful() -> set[str]:
        written, older = asked()
        while older is not None:
            some, older = _ask(connection, older)()
            written += some
        outcomes = {
            one["digest"]: one["outcome"] for one in sorted(written, key=lambda one: one["ended_at"] or "")
        }
        return {digest for digest, last in outcomes.items() if last == CallState.UNKNOWN}

    return doubtful


def _ask(connection: Connection, thread_id: str) -> Asked[tuple[list[dict[str, Any]], str | None]]:
    """The writes on a thread, and the thread that it was forked from; None: it was not forked."""
    writes = _writes.ask(connection, {"of_thread": thread_id})
    original = _original.ask(connection, {"of_thread": thread_id})

    def found() -> tuple[list[dict[str, Any]], str | None]:
        older = original()
        return writes(), older[0]["thread_id"] if older else None

    return found


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


def _original_of() -> ClauseElement:
    fork, original = runs.alias("fork"), runs.alias("original")
    joined = select(original.c.thread_id).join(fork, fork.c.forked_from == original.c.id)
    return joined.where(fork.c.thread_id == bindparam("of_thread")).limit(1)


_original = Statement(lambda _: _original_of())

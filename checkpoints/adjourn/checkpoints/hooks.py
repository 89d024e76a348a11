"""What rides on the saver's transactions, and what may refuse them.

Found in `configurable`: whoever owns a run puts a fence and an outbox there. Other people's graphs have neither.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from langchain_core.runnables import RunnableConfig
from sqlalchemy.engine import Connection

from adjourn.checkpoints.compiled import Check
from adjourn.checkpoints.thread_memory import ThreadMemory

FENCE = "__adjourn_fence"  # keys of `configurable`: the double underscore keeps them out of the metadata
OUTBOX = "__adjourn_outbox"

Held = Callable[[Connection, ThreadMemory], Check]
"""What a task wrote, ready to be stored in somebody's transaction."""


class Fence(Protocol):
    """Says whether the caller still owns the run; found in `configurable["__adjourn_fence"]`."""

    def check(self, connection: Connection) -> None:
        """Called first in the transaction of each put_writes, and of each put without an outbox. Raises `LeaseLost`:
        all rolls back.

        Ask by `Statement`: on PostgreSQL the transaction is a pipeline, in which SQLAlchemy's own results are empty.
        """


class Ride(Protocol):
    """What rides on one put: it was cut from what waits when the put's transaction began."""

    @property
    def held(self) -> Sequence[Held]:
        """What tasks wrote, stored along with the checkpoint."""
        ...

    def check(self) -> None:
        """Called before all other checks, when everything was sent. Raises for a stale owner."""
        ...

    def write(self, connection: Connection) -> Sequence[Check]:
        """Write the rows, after the checkpoint's. By `Statement`: they are sent without waiting (`in_one_go`)."""
        ...

    def stored(self) -> None:
        """Called after COMMIT on the put's thread, before anything else of the conversation is stored: what rode waits no
        more."""
        ...

    def committed(self) -> None:
        """Called once, after `stored`: by `put` on its thread, by `aput` on the event loop's."""
        ...


class Outbox(Protocol):
    """Rows that ride on a put; found in `configurable["__adjourn_outbox"]`. It is the put's fence as well.

    Without holding, a task's writes may be stored before the checkpoint that they lead to. A process that dies
    between the two leaves writes that LangGraph applies without running the task again, and the rows that
    the task gave to the outbox are never written. Held writes are stored with the put, or not at all.
    """

    frozen: bool
    """Whether nobody changes a message of the state in place, or such a change need not be stored. The saver then does
    not compare all of them with what it stored, which takes a millisecond of 400 messages."""

    def hold(self, writes: Held) -> bool:
        """Keep a task's writes for the next put. False: they are stored at once."""
        ...

    def open(self, connection: Connection) -> Ride:
        """Called first in the put's transaction, in place of the fence's `check`: it refuses as that does.

        Rows whose new values the ride's own rows need are changed here. Called again when a first attempt
        was rolled back because another process wrote to the thread.
        """
        ...


def hooks_of(config: RunnableConfig) -> tuple[Fence | None, Outbox | None]:
    """The fence and the outbox that a config carries."""
    named = config.get("configurable", {})
    return named.get(FENCE), named.get(OUTBOX)

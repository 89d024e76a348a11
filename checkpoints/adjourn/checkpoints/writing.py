"""Writing transactions on threads: behind the fence, with the thread's memory, tried again where another process
was in the way. What rides on a put is stored in its transaction.
"""

from collections.abc import Callable, Sequence

from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from adjourn.checkpoints import thread_ops
from adjourn.checkpoints.codec import Codec
from adjourn.checkpoints.compiled import Check, in_one_go, met_nothing
from adjourn.checkpoints.database import Database, was_given_up
from adjourn.checkpoints.hooks import Fence, Held, Outbox, Ride
from adjourn.checkpoints.put_rows import CheckpointPut
from adjourn.checkpoints.riding import arrive
from adjourn.checkpoints.short_writes import NotNow
from adjourn.checkpoints.thread_memory import Memories, ThreadMemory
from adjourn.checkpoints.thread_rows import StaleMemory

ATTEMPTS = 5  # at one transaction, when another process wrote to the thread at the same moment

Send = Callable[[Connection], Sequence[Check]]
Then = Callable[[Connection], None]


class Writer:
    """Runs the transactions of one saver. Safe to use from many threads."""

    def __init__(self, database: Database, codec: Codec, memories: Memories) -> None:
        self._database = database
        self._codec = codec
        self._memories = memories

    def put(self, put: CheckpointPut, fence: Fence | None, outbox: Outbox | None) -> Ride | None:
        """Store a checkpoint, and what waits for it: writes that ride, and what the outbox brings, which is given back.

        Riders that cannot be stored do the checkpoint no harm: they are their owners' to store.
        """
        memory = self._memories.of(put.where.thread_id)
        riders = memory.riders.board()
        if not riders:
            return self._put(put, fence, outbox, memory, ())
        try:
            ride = self._put(put, fence, outbox, memory, [rider.work for rider in riders])
        except NotNow:
            memory.riders.wait_again(riders)
            raise
        except BaseException as error:
            arrive(riders, stored=False)
            if not isinstance(error, Exception):
                raise
        else:
            arrive(riders, stored=True)
            return ride
        return self._put(put, fence, outbox, memory, ())

    def _put(
        self,
        put: CheckpointPut,
        fence: Fence | None,
        outbox: Outbox | None,
        memory: ThreadMemory,
        ridden: Sequence[Held],
    ) -> Ride | None:
        ride: Ride | None = None

        def send(connection: Connection) -> list[Check]:
            nonlocal ride
            checks: list[Check] = []
            held = ridden
            if outbox is not None:
                ride = outbox.open(connection)
                checks.append(ride.check)
                held = (*ridden, *ride.held)
            elif fence is not None:
                fence.check(connection)
            for writes in held:
                checks.append(writes(connection, memory))
            checks.append(put.send(connection, memory, self._codec))
            if ride is not None:
                checks += ride.write(connection)
            return checks

        def stored() -> None:
            if ride is not None:
                ride.stored()

        self._transact(put.where.thread_id, memory, send, stored)
        return ride

    def writes(self, fence: Fence | None, thread_id: str, writes: Sequence[Held]) -> None:
        """Store what tasks wrote."""
        memory = self._memories.of(thread_id)

        def send(connection: Connection) -> list[Check]:
            if fence is not None:
                fence.check(connection)
            return [held(connection, memory) for held in writes]

        self._transact(thread_id, memory, send)

    def _transact(
        self, thread_id: str, memory: ThreadMemory, send: Send, stored: Callable[[], None] = lambda: None
    ) -> None:
        """Run one writing transaction with the thread's memory; `stored` is called behind its COMMIT.

        The memory is dropped with the transaction, so it never knows what was not committed. When another
        process wrote to the thread in the meantime, the work is done again with what is stored now.
        """
        hopes = True  # that all is there which must be; else once more, to find out what is not
        for attempt in range(1, ATTEMPTS + 1):

            def work(connection: Connection, hopes: bool = hopes) -> None:
                if not hopes:  # one after the other, or among many writers none would come through
                    thread_ops.hold(connection, thread_id)
                memory.texts = {}
                try:
                    with in_one_go(connection, ends=hopes):
                        checks = send(connection)
                finally:
                    memory.texts = None
                for check in checks:
                    check()

            self._database.take(memory.lock)
            try:
                self._database.write_once(work)
            except NotNow:
                raise
            except BaseException as error:
                memory.forget()
                if attempt == ATTEMPTS or not _is_passing(error):
                    raise
                hopes = False
            else:
                return stored()
            finally:
                memory.lock.release()
        return None

    def change_threads(self, thread_ids: Sequence[str], work: Then) -> None:
        """Run `work` once per thread, whose memory is void afterwards."""
        for thread_id in thread_ids:
            memory = self._memories.of(str(thread_id))
            with memory.lock:
                memory.forget()
                self._database.write(work)


def _is_passing(error: BaseException) -> bool:
    """Whether another process was in the way, so that a second attempt may succeed."""
    return isinstance(error, IntegrityError | StaleMemory) or was_given_up(error) or met_nothing(error)

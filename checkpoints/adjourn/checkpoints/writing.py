"""Writing transactions on threads: behind the fence, with the thread's memory, tried again where another process
was in the way. What rides on a put is stored in its transaction.
"""

from collections.abc import Callable, Sequence

from langchain_core.runnables import RunnableConfig
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from adjourn.checkpoints import thread_ops
from adjourn.checkpoints.codec import Codec
from adjourn.checkpoints.compiled import Check, in_one_go, met_nothing
from adjourn.checkpoints.database import Database, was_given_up
from adjourn.checkpoints.hooks import Fence, Held, Ride, fence_of, outbox_of
from adjourn.checkpoints.put_rows import CheckpointPut
from adjourn.checkpoints.riding import arrive
from adjourn.checkpoints.short_writes import NotNow
from adjourn.checkpoints.thread_memory import Memories, ThreadMemory
from adjourn.checkpoints.thread_rows import StaleMemory

ATTEMPTS = 5  # at one transaction, when another process wrote to the thread at the same moment

Send = Callable[[Connection, ThreadMemory], Sequence[Check]]
Then = Callable[[Connection], None]


class Writer:
    """Runs the transactions of one saver. Safe to use from many threads."""

    def __init__(self, database: Database, codec: Codec, memories: Memories) -> None:
        self._database = database
        self._codec = codec
        self._memories = memories

    def put(self, config: RunnableConfig, put: CheckpointPut) -> Ride | None:
        """Store a checkpoint, and what waits for it: writes that ride, and what the outbox brings, which is given back.

        Riders that cannot be stored do the checkpoint no harm: they are their owners' to store.
        """
        riders = self._memories.of(put.where.thread_id).riders.board()
        if not riders:
            return self._put(config, put, ())
        try:
            ride = self._put(config, put, [rider.work for rider in riders])
        except NotNow:
            self._memories.of(put.where.thread_id).riders.wait_again(riders)
            raise
        except BaseException as error:
            arrive(riders, stored=False)
            if not isinstance(error, Exception):
                raise
        else:
            arrive(riders, stored=True)
            return ride
        return self._put(config, put, ())

    def _put(self, config: RunnableConfig, put: CheckpointPut, ridden: Sequence[Held]) -> Ride | None:
        fence, outbox = fence_of(config), outbox_of(config)
        ride: Ride | None = None

        def send(connection: Connection, memory: ThreadMemory) -> list[Check]:
            nonlocal ride
            if outbox is None:
                _check(fence, connection)
            else:
                ride = outbox.open(connection)
            brought = () if ride is None else ride.held
            checks = [] if ride is None else [ride.check]
            checks += [held(connection, memory) for held in (*ridden, *brought)]
            checks.append(put.send(connection, memory, self._codec))
            if ride is not None:
                checks += ride.write(connection)
            return checks

        def stored() -> None:
            if ride is not None:
                ride.stored()

        self._transact(put.where.thread_id, send, stored)
        return ride

    def writes(self, config: RunnableConfig, thread_id: str, writes: Sequence[Held]) -> None:
        """Store what tasks wrote."""

        fence = fence_of(config)

        def send(connection: Connection, memory: ThreadMemory) -> list[Check]:
            _check(fence, connection)
            return [held(connection, memory) for held in writes]

        self._transact(thread_id, send)

    def _transact(self, thread_id: str, send: Send, stored: Callable[[], None] = lambda: None) -> None:
        """Run one writing transaction with the thread's memory; `stored` is called behind its COMMIT.

        The memory is dropped with the transaction, so it never knows what was not committed. When another
        process wrote to the thread in the meantime, the work is done again with what is stored now.
        """
        hopes = True  # that all is there which must be; else once more, to find out what is not
        for attempt in range(1, ATTEMPTS + 1):
            memory = self._memories.of(thread_id)
            with self._database.holding(memory.lock):

                def work(connection: Connection, memory: ThreadMemory = memory, hopes: bool = hopes) -> None:
                    if not hopes:  # one after the other, or among many writers none would come through
                        thread_ops.hold(connection, thread_id)
                    memory.texts = {}
                    try:
                        with in_one_go(connection, ends=hopes):
                            checks = send(connection, memory)
                    finally:
                        memory.texts = None
                    for check in checks:
                        check()

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
        return None

    def change_threads(self, thread_ids: Sequence[str], work: Then) -> None:
        """Run `work` once per thread, whose memory is void afterwards."""
        for thread_id in thread_ids:
            memory = self._memories.of(str(thread_id))
            with memory.lock:
                memory.forget()
                self._database.write(work)


def _check(fence: Fence | None, connection: Connection) -> None:
    if fence is not None:
        fence.check(connection)


def _is_passing(error: BaseException) -> bool:
    """Whether another process was in the way, so that a second attempt may succeed."""
    return isinstance(error, IntegrityError | StaleMemory) or was_given_up(error) or met_nothing(error)

"""The rows of `threads` and `namespaces`: found, or made in the transaction that needs them first."""

from typing import Any

from sqlalchemy.engine import Connection, CursorResult

from adjourn.checkpoints import statements
from adjourn.checkpoints.database import now
from adjourn.checkpoints.placing import continue_numbers
from adjourn.checkpoints.schema import namespaces, threads
from adjourn.checkpoints.thread_memory import ThreadMemory


class StaleMemory(Exception):
    """The thread's rows were taken away by somebody else: what is remembered of them is void."""


def know_thread(connection: Connection, memory: ThreadMemory, thread: int, generation: int) -> None:
    """Let the memory be about this thread row, as it is now."""
    if memory.thread == thread and memory.generation == generation:
        return
    memory.forget()
    memory.thread, memory.generation = thread, generation
    memory.namespaces = dict(statements.find_namespaces.rows(connection, {"thread": thread}))
    continue_numbers(connection, memory, thread)


def know_namespace(connection: Connection, memory: ThreadMemory, thread_id: str, ns: str) -> tuple[int, int]:
    """The ids of a thread's and a namespace's row; both are made when they are missing.

    Raises `IntegrityError` when another process makes them at the same moment.
    """
    if memory.thread is None:
        found = statements.find_thread.first(connection, {"thread_id": thread_id})
        thread, generation = found or (_make_thread(connection, thread_id), 0)
        know_thread(connection, memory, thread, generation)
    thread = memory.known_thread()
    if ns not in memory.namespaces:
        made = connection.execute(namespaces.insert().values(thread=thread, ns=ns))
        memory.namespaces[ns] = made_id(made)
    return thread, memory.namespaces[ns]


def _make_thread(connection: Connection, thread_id: str) -> int:
    moment = now()
    row = {"thread_id": thread_id, "generation": 0, "created_at": moment, "updated_at": moment}
    return made_id(connection.execute(threads.insert().values(row)))


def made_id(result: CursorResult[Any]) -> int:
    """The id that an INSERT of one row gave it."""
    key = result.inserted_primary_key
    if key is None:
        raise AssertionError("an INSERT of one row gives its key")
    return int(key[0])

"""The rows of `threads` and `namespaces`: found, or made in the transaction that needs them first."""

from typing import Any

from sqlalchemy.engine import Connection, CursorResult

from adjourn.checkpoints import statements
from adjourn.checkpoints.database import now
from adjourn.checkpoints.placing import continue_numbers
from adjourn.checkpoints.thread_memory import ThreadMemory


class StaleMemory(Exception):
    """The thread's rows were taken away by somebody else: what is remembered of them is void."""


def know_thread(connection: Connection, memory: ThreadMemory, thread: int, generation: int) -> None:
    """Let the memory be about this thread row, as it is now."""
    if memory.thread == thread and memory.generation == generation:
        return
    memory.forget()
    memory.thread, memory.generation = thread, generation
    memory.namespaces = _namespaces(connection, thread)
    continue_numbers(connection, memory, thread)


def know_namespace(connection: Connection, memory: ThreadMemory, thread_id: str, ns: str) -> tuple[int, int]:
    """The ids of a thread's and a namespace's row; both are made when they are missing.

    Raises `IntegrityError` when another process makes them at the same moment.
    """
    if memory.thread is None:
        thread, generation = _find_thread(connection, thread_id) or _make_thread(connection, thread_id)
        know_thread(connection, memory, thread, generation)
    thread = memory.known_thread()
    if ns not in memory.namespaces:
        statements.insert_namespace.change(connection, {"thread": thread, "ns": ns})
        memory.namespaces = _namespaces(connection, thread)
    return thread, memory.namespaces[ns]


def _find_thread(connection: Connection, thread_id: str) -> tuple[int, int] | None:
    found = statements.find_thread.first(connection, {"thread_id": thread_id})
    return (found[0], found[1]) if found else None


def _make_thread(connection: Connection, thread_id: str) -> tuple[int, int]:
    # RETURNING and lastrowid are not portable: the new row is looked up by its unique key
    statements.insert_thread.change(connection, {"thread_id": thread_id, "moment": now()})
    made = _find_thread(connection, thread_id)
    if made is None:
        raise AssertionError("a row that was just inserted is there")
    return made


def _namespaces(connection: Connection, thread: int) -> dict[str, int]:
    return dict(statements.find_namespaces.rows(connection, {"thread": thread}))


def made_id(result: CursorResult[Any]) -> int:
    """The id that an INSERT of one row gave it."""
    key = result.inserted_primary_key
    if key is None:
        raise AssertionError("an INSERT of one row gives its key")
    return int(key[0])

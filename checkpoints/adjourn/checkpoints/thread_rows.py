"""The rows of `threads` and `namespaces`: found, or made in the transaction that needs them first."""

import time

from sqlalchemy.engine import Connection

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
        found = statements.find_thread.first(connection, {"thread_id": thread_id})
        if found:
            know_thread(connection, memory, thread=found[0], generation=found[1])
        else:
            _make_thread(connection, memory, thread_id)
    thread = memory.known_thread()
    namespace = memory.namespaces.get(ns)
    if namespace is None:
        namespace = statements.insert_namespace.insert_one(connection, {"thread": thread, "ns": ns})
        memory.namespaces[ns] = namespace
    return thread, namespace


def _make_thread(connection: Connection, memory: ThreadMemory, thread_id: str) -> None:
    values = {"thread_id": thread_id, "moment": now()}
    memory.forget()
    memory.thread = statements.insert_thread.insert_one(connection, values)  # nothing is numbered in it yet
    memory.touched_at = time.monotonic()


def _namespaces(connection: Connection, thread: int) -> dict[str, int]:
    return dict(statements.find_namespaces.rows(connection, {"thread": thread}))

"""The two sides of the benchmark: the official savers and this store, on the same graph and settings."""

import random
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import psycopg
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.saver import SQLAlchemySaver


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


FIRST: Any = {"messages": [HumanMessage("go", id="h")]}


def chat(steps: int, size: int) -> StateGraph[Any, Any, Any, Any]:
    """A graph of `steps` supersteps, each of which appends a message of `size` bytes."""

    def say(state: State) -> dict[str, Any]:
        number = len(state["messages"])
        text = random.Random(number).randbytes(size // 2).hex()  # PostgreSQL would compress a repeated letter
        return {"messages": [AIMessage(content=text, id=f"m{number}")]}

    def more(state: State) -> str:
        return "say" if len(state["messages"]) <= steps else END

    graph = StateGraph(State)
    graph.add_node("say", say)
    graph.add_edge(START, "say")
    graph.add_conditional_edges("say", more)
    return graph


@dataclass(frozen=True, slots=True)
class Side:
    """One saver over one database: opened for sync callers, for async callers, and its size in bytes."""

    opened: Callable[[], AbstractContextManager[Any]]
    aopened: Callable[[], AbstractAsyncContextManager[Any]]
    size: Callable[[], int]


def their_sqlite(path: Path, synchronous: str) -> Side:
    """SqliteSaver and AsyncSqliteSaver over a file, with this `synchronous`."""

    @contextmanager
    def opened() -> Iterator[Any]:
        with SqliteSaver.from_conn_string(str(path)) as saver:
            saver.setup()
            saver.conn.execute(f"PRAGMA synchronous={synchronous}")
            yield saver

    @asynccontextmanager
    async def aopened() -> AsyncIterator[Any]:
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            await saver.setup()
            await saver.conn.execute(f"PRAGMA synchronous={synchronous}")
            yield saver

    return Side(opened, aopened, lambda: file_bytes(path))


def in_memory() -> Side:
    """InMemorySaver: nothing is written down."""

    @contextmanager
    def opened() -> Iterator[Any]:
        yield InMemorySaver()

    @asynccontextmanager
    async def aopened() -> AsyncIterator[Any]:
        yield InMemorySaver()

    return Side(opened, aopened, lambda: 0)


def our_sqlite(path: Path, synchronous: str) -> Side:
    """This store over a file, with this `synchronous`."""
    return _ours(f"sqlite:///{path}", synchronous, lambda: file_bytes(path))


def their_postgres(url: str) -> Side:
    """PostgresSaver and AsyncPostgresSaver over a schema."""

    @contextmanager
    def opened() -> Iterator[Any]:
        with PostgresSaver.from_conn_string(url) as saver:
            saver.setup()
            yield saver

    @asynccontextmanager
    async def aopened() -> AsyncIterator[Any]:
        async with AsyncPostgresSaver.from_conn_string(url) as saver:
            await saver.setup()
            yield saver

    return Side(opened, aopened, lambda: schema_bytes(url))


def our_postgres(url: str) -> Side:
    """This store over a schema."""
    return _ours(url, "NORMAL", lambda: schema_bytes(url))


def _ours(url: str, synchronous: str, size: Callable[[], int]) -> Side:
    @contextmanager
    def opened() -> Iterator[Any]:
        database = Database(url, synchronous=synchronous)
        database.setup()
        try:
            yield SQLAlchemySaver(database)
        finally:
            database.close()

    @asynccontextmanager
    async def aopened() -> AsyncIterator[Any]:
        with opened() as saver:
            yield saver

    return Side(opened, aopened, size)


def file_bytes(path: Path) -> int:
    """Size of a closed SQLite file."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.stat().st_size


def schema_bytes(url: str) -> int:
    """Size of the tables and indexes of a schema, without what the server has not cleaned up yet."""
    query = (
        "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
        "WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM")
        row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0

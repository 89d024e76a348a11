"""Two doorbells on PostgreSQL: one for workers, one for those who follow runs that another process drives.

`ring` sends a NOTIFY in the caller's transaction, so that it is heard if, and only when, the run that is left to workers
is really there. It carries nothing: who hears it looks at the table of runs, as everybody does from time to time anyhow.

`tell` names runs that have new events, in a transaction of its own, after those that store them: a NOTIFY takes a lock
of the whole database until its transaction is on the disk, and the events of all runs would be stored one after the other.

A bell that is not heard (another database, a pooler between transactions, a connection that was lost) costs time and
nothing else.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import LiteralString

from sqlalchemy import Connection, text

from adjourn.checkpoints.database import Database

log = logging.getLogger("adjourn.worker")

# of a whole database: stores in two schemas of it hear each other's, and look in vain
RUNS = "adjourn_runs"
EVENTS = "adjourn_events"
AGAIN_S = 5.0  # before a lost connection is tried again: those who wait look by themselves meanwhile

_ring = text(f"NOTIFY {RUNS}")
# not on the disk before it is heard: what it tells of is there, and a bell that a crash swallows is looked for
_tell = text(
    f"SELECT pg_notify('{EVENTS}', run) FROM set_config('synchronous_commit', 'off', true), "
    "unnest(CAST(:runs AS text[])) AS run"
)


def has_bells(database: Database) -> bool:
    """Whether there are any on this database: on PostgreSQL."""
    return database.engine.driver == "psycopg"


def ring(connection: Connection) -> None:
    """Wake workers when the caller's transaction is committed; on PostgreSQL only, elsewhere it does nothing."""
    if connection.dialect.name == "postgresql":
        connection.execute(_ring)


def tell(connection: Connection, run_ids: Collection[str]) -> None:
    """Wake those who follow these runs; in a transaction that does nothing else, on PostgreSQL."""
    connection.execute(_tell, {"runs": list(run_ids)})


async def listen(database: Database, heard: Callable[[], object]) -> None:
    """Call `heard` whenever `ring` was called, until cancelled; returns at once where there is no bell."""
    await _listen(database, RUNS, lambda _: heard())


async def listen_for_events(database: Database, heard: Callable[[str], object]) -> None:
    """Call `heard` with the id of each run that `tell` names, until cancelled; returns at once where there is no bell.

    It is called with an empty text when it begins to listen, after a lost connection too: any run may have new events.
    """
    await _listen(database, EVENTS, heard)


async def _listen(database: Database, channel: LiteralString, heard: Callable[[str], object]) -> None:
    while has_bells(database):
        try:
            await _listen_once(database, channel, heard)
        except Exception as error:  # a database that is away for a moment
            log.warning("the database's wake-ups cannot be heard: %s", error)
        await asyncio.sleep(AGAIN_S)


async def _listen_once(database: Database, channel: LiteralString, heard: Callable[[str], object]) -> None:
    import psycopg

    words, settings = database.engine.dialect.create_connect_args(database.engine.url)
    async with await psycopg.AsyncConnection.connect(*words, **settings, autocommit=True) as connection:
        await connection.execute(f"LISTEN {channel}")
        heard("")  # what was rung before it listened
        async for told in connection.notifies():
            heard(told.payload)

"""A doorbell for workers: on PostgreSQL, the commit that leaves a run to others wakes those who wait for one.

`ring` sends a NOTIFY in the caller's transaction, so that it is heard if, and only when, the run is really there. It
carries nothing: who hears it looks at the table of runs, as everybody does from time to time anyhow. A bell that is
not heard (another database, a pooler between transactions, a connection that was lost) costs time and nothing else.
"""

import asyncio
import logging
from collections.abc import Callable

from sqlalchemy import Connection, text

from adjourn.checkpoints.database import Database

log = logging.getLogger("adjourn.worker")

CHANNEL = (
    "adjourn_runs"  # of a whole database: stores in two schemas of it hear each other's, and look in vain
)
AGAIN_S = 5.0  # before a lost connection is tried again: those who wait look by themselves meanwhile

_ring = text(f"NOTIFY {CHANNEL}")


def ring(connection: Connection) -> None:
    """Wake who listens when the caller's transaction is committed; on PostgreSQL only, elsewhere it does nothing."""
    if connection.dialect.name == "postgresql":
        connection.execute(_ring)


async def listen(database: Database, heard: Callable[[], object]) -> None:
    """Call `heard` at each ring until cancelled; returns at once where there is no bell."""
    if database.engine.driver != "psycopg":
        return
    while True:
        try:
            await _listen(database, heard)
        except Exception as error:  # a database that is away for a moment
            log.warning("the database's wake-ups cannot be heard: %s", error)
        await asyncio.sleep(AGAIN_S)


async def _listen(database: Database, heard: Callable[[], object]) -> None:
    import psycopg

    words, settings = database.engine.dialect.create_connect_args(database.url)
    async with await psycopg.AsyncConnection.connect(*words, **settings, autocommit=True) as connection:
        await connection.execute(f"LISTEN {CHANNEL}")
        heard()  # what was rung before it listened
        async for _ in connection.notifies():
            heard()

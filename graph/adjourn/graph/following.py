"""The events of a run as they are stored, from whatever process drives it: for listeners elsewhere.

The database is asked again and again, with pauses that grow while nothing happens: a notification would need
another way for each engine, and SQLite has none between processes. Who follows holds no connection in a pause.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial

from sqlalchemy import Connection

from adjourn.checkpoints import event_rows
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.events import Event
from adjourn.checkpoints.lifecycle import RunStatus

# A person sees no delay, and a step at work seldom stores more than twenty facts a second.
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 0.5  # a model call takes seconds: two small reads a second are nothing to any engine
GROWTH = 1.5
PAGE = 500  # events read at once: a run of any length is followed in bounded memory

Pause = Callable[[float], Awaitable[object]]
"""Waits for so many seconds, or less when it knows that something happened."""


async def follow(
    database: Database, run_id: str, *, after: int = 0, pause: Pause = asyncio.sleep
) -> AsyncGenerator[Event]:
    """The stored events of a run with a number above `after`, in order and each once, as they are committed.

    Ends when the run waits for people, has ended or has failed, and all that was stored until then was given; so
    it ends at once for a run that does not work. Called again with the last number, after the run went on, it
    misses nothing. `text_delta` is not stored and does not come. A run whose owner died is followed until somebody
    takes it over and ends it. `pause` is called between two reads.

    Raises `RunNotFound`, before the first event or when the run is removed meanwhile, and what the database raises.
    """
    wait_s = FIRST_PAUSE_S
    while True:
        events, works = await database.aread(partial(read_page, run_id=run_id, after=after))
        for event in events:
            yield event
            after = event.number or after
        if len(events) == PAGE:
            continue
        if not works:
            return
        if events:
            wait_s = FIRST_PAUSE_S
        await pause(wait_s)
        wait_s = longer(wait_s)


def longer(pause_s: float) -> float:
    """The pause after this one, when nothing happened."""
    return min(pause_s * GROWTH, LONGEST_PAUSE_S)


def read_page(connection: Connection, *, run_id: str, after: int) -> tuple[list[Event], bool]:
    """The next page, and whether the run works.

    In one transaction: the last events of a run are stored together with its status, so a run that does not
    work any more has told all.
    """
    status, last = event_rows.read_progress(connection, run_id)
    events = event_rows.read(connection, run_id, after=after, limit=PAGE) if last > after else []
    return events, status == RunStatus.RUNNING

"""`adjourn events --follow`: a run while it happens, from the database, whatever process drives it."""

import asyncio
import time
from contextlib import aclosing, suppress

from adjourn.checkpoints import journal
from adjourn.checkpoints.database import Database, now
from adjourn.checkpoints.events import LoopInterrupt
from adjourn.graph.cli.listing import show_event
from adjourn.graph.cli.screen import Screen
from adjourn.graph.cli.settings import Settings
from adjourn.graph.cli.stores import opened
from adjourn.graph.following import follow
from adjourn.graph.reading import find_run_id
from adjourn.graph.waking import Ear

LOOK_S = 2.0  # how often a silent run's lease is looked at


def follow_events(settings: Settings, beginning: str, *, after: int) -> int:
    """Print each event when it is stored, until the run waits or ends, or the reader leaves.

    Raises `RunNotFound`, `UsageError`; Ctrl-C ends it and leaves the run alone.
    """
    screen = Screen(settings)
    with opened(settings.store) as database:
        run_id = database.read(lambda connection: find_run_id(connection, beginning))
        asyncio.run(_Watch(screen, settings, database, run_id).show(after))
    return 0


class _Watch:
    """One run on the screen."""

    def __init__(self, screen: Screen, settings: Settings, database: Database, run_id: str) -> None:
        self._screen = screen
        self._settings = settings
        self._database = database
        self._run_id = run_id
        self._looked = time.monotonic()
        self._is_told = False  # that nobody drives the run
        self._news = asyncio.Event()

    async def show(self, after: int) -> None:
        last = None
        following = follow(self._database, self._run_id, after=after, pause=self._pause)
        with Ear(self._database, self._heard).open():
            async with aclosing(following) as events:
                async for event in events:
                    show_event(self._screen, event)
                    self._is_told, last = False, event
                    if self._screen.reader_left:
                        return
        if isinstance(last, LoopInterrupt):
            self._hint("follow.waits", "show")

    def _heard(self, run_id: str) -> None:
        if run_id in ("", self._run_id):
            self._news.set()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()
        if self._is_told or time.monotonic() - self._looked < LOOK_S:
            return
        self._looked = time.monotonic()
        run = await self._database.aread(lambda connection: journal.read_run(connection, self._run_id))
        if run.lease_until is not None and run.lease_until < now():
            self._is_told = True
            self._hint("follow.silent", "recover", since=run.lease_until)

    def _hint(self, text: str, command: str, **values: object) -> None:
        """What a person may do now, in words; JSON stays the events alone."""
        if not self._screen.json:
            self._screen.line((self._screen.say(text, **values), "yellow"))
            self._screen.line((self._settings.command(command, self._run_id), "bold"), indent=2)

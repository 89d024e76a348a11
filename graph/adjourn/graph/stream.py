"""Events to listeners, live and from the database, as one sequence.

No stored event is lost: a listener that lags has a bounded memory, and reads from the database what did not fit
into it. `text_delta` is not stored. It reaches listeners of the process that drives the run, and a slow one misses
some; the `message` that follows holds the whole text.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from adjourn.checkpoints import event_rows
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.events import Event, LoopInterrupt, RunFailed, RunFinished, TextDelta
from adjourn.graph import following
from adjourn.graph.behalf import OnBegun
from adjourn.graph.run import Run
from adjourn.graph.run_log import Listener
from adjourn.graph.waking import Ear

Driving = Callable[[Listener, OnBegun], Coroutine[Any, Any, Run]]
"""Drives a run for a listener, and says when it has begun."""

log = logging.getLogger("adjourn.run")

# Events that a listener may lag behind before the rest is read from the database: some hundred kilobytes.
ROOM = 512
_LAST = (LoopInterrupt, RunFinished, RunFailed)  # after these a run does not work


@dataclass(frozen=True, slots=True)
class Heard:
    """An event as it was told. `behind`: the number of the last stored event before a delta; None: not known."""

    event: Event
    behind: int | None = None


class Mailbox:
    """What one listener has not read yet: at most `ROOM` events. Put from any thread, read on one event loop.

    When it is full, deltas go first; then everything goes, and the reader sees by the numbers what it missed.
    `first` and `last` are the numbers of the stored events that were put, by run.
    """

    def __init__(self) -> None:
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.closed = False
        self._items: deque[Heard] = deque()
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()

    def put(self, event: Event, behind: int | None = None) -> None:
        """Take an event. Never waits, whatever the reader does."""
        with self._lock:
            if len(self._items) >= ROOM:
                self._make_room()
            if event.number is not None:
                self.first.setdefault(event.run_id, event.number)
                self.last[event.run_id] = event.number
            elif behind is None:
                behind = self.last.get(event.run_id)
            self._items.append(Heard(event, behind))
        self.nudge()

    def _make_room(self) -> None:
        stored = [one for one in self._items if one.event.stored]
        self._items.clear()
        if len(stored) < ROOM:
            self._items.extend(stored)

    def close(self) -> None:
        """Nothing more will be put."""
        self.closed = True
        self.nudge()

    def nudge(self) -> None:
        """Let the reader look."""
        try:
            self._loop.call_soon_threadsafe(self._wake.set)
        except RuntimeError:  # the reader's event loop has ended, and the reader with it
            self.closed = True

    async def wait(self, timeout_s: float | None = None) -> None:
        """Return when there is something to take, when it was closed, or after `timeout_s`; None: no limit."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            pass

    def take(self) -> list[Heard]:
        """Everything that is there, oldest first."""
        self._wake.clear()
        with self._lock:
            items = list(self._items)
            self._items.clear()
        return items


@dataclass(slots=True)
class _Told:
    """How far a run that this process drives has told its story: the last number, and the text since then."""

    last: int
    since: list[TextDelta] = field(default_factory=list)


class Broadcast:
    """The events of the runs that this process drives, to everybody in it who listens.

    `elsewhere` is called with the run of each event that is stored, for those who listen in other processes.
    """

    def __init__(self) -> None:
        self.elsewhere: Callable[[str], object] | None = None
        self._lock = threading.Lock()
        self._told: dict[str, _Told] = {}
        self._boxes: dict[str, set[Mailbox]] = {}

    def begin(self, run_id: str, last: int) -> None:
        """This process drives the run from now on; `last` is the number of its last event."""
        with self._lock:
            self._told[run_id] = _Told(last)

    def end(self, run_id: str) -> None:
        """This process does not drive the run any more."""
        with self._lock:
            self._told.pop(run_id, None)
        self.nudge(run_id)

    def drives(self, run_id: str) -> bool:
        """Whether this process drives the run."""
        with self._lock:
            return run_id in self._told

    def nudge(self, run_id: str) -> None:
        """Let those who follow the run look at the database; an empty text: those who follow any."""
        with self._lock:
            runs = [run_id] if run_id else list(self._boxes)
            boxes = [box for one in runs for box in self._boxes.get(one, ())]
        for box in boxes:
            box.nudge()

    def tell(self, event: Event) -> None:
        """Hand an event on. It was committed before, unless it is a delta."""
        with self._lock:
            told = self._told.get(event.run_id)
            behind = told.last if told is not None else None
            if told is not None and event.number is not None:
                told.last = event.number
                told.since.clear()
            elif told is not None and isinstance(event, TextDelta):
                told.since.append(event)
            boxes = list(self._boxes.get(event.run_id, ()))
            for box in boxes:  # in the lock: two events of a run reach a listener in their order
                box.put(event, behind)
        if self.elsewhere is not None and event.number is not None:
            self.elsewhere(event.run_id)

    @contextmanager
    def listening(self, run_id: str) -> Iterator[Mailbox]:
        """A mailbox for the run's events while inside; it begins with the text that the model is saying now."""
        box = Mailbox()
        with self._lock:
            self._boxes.setdefault(run_id, set()).add(box)
            told = self._told.get(run_id)
            if told is not None and told.since:
                said = "".join(one.text for one in told.since)
                box.put(replace(told.since[-1], text=said), told.last)
        try:
            yield box
        finally:
            with self._lock:
                self._boxes[run_id].discard(box)
                if not self._boxes[run_id]:
                    del self._boxes[run_id]


async def follow_live(
    database: Database, run_id: str, broadcast: Broadcast, ear: Ear, *, after: int = 0
) -> AsyncGenerator[Event]:
    """`following.follow`, with each event at once, and with deltas, where this process drives the run; elsewhere
    `ear` shortens its pauses.

    Ends as `follow` does. Raises `RunNotFound`.
    """
    with broadcast.listening(run_id) as box, ExitStack() as listening:
        heard: deque[Heard] = deque()
        has_ear = False
        pause_s = following.FIRST_PAUSE_S
        while True:
            events, works = await database.aread(partial(following.read_page, run_id=run_id, after=after))
            for event in events:
                yield event
                after = event.number or after
            if len(events) == following.PAGE:
                continue
            if not works:
                return
            if not has_ear and not broadcast.drives(run_id):
                has_ear = True
                listening.enter_context(ear.open())
            quiet = False
            while not quiet:  # while what comes next, or came before, is heard, the database is not asked
                if not heard:
                    await box.wait(pause_s)
                    heard.extend(box.take())
                quiet = True
                while heard and (place := _place(heard[0], after)) <= 0:
                    event = heard.popleft().event
                    if place < 0:  # it was read before it was heard; an old owner's delta says nothing
                        quiet = quiet and event.number is None
                        continue
                    quiet = False
                    yield event
                    after = event.number or after
                    if isinstance(event, _LAST):
                        return
                pause_s = following.longer(pause_s) if quiet else following.FIRST_PAUSE_S


def _place(one: Heard, after: int) -> int:
    """Where an event stands against the number `after`: 0: it comes next; below 0: it is past; above: some are missing."""
    before = one.behind if one.event.number is None else one.event.number - 1
    return 0 if before is None else before - after


async def while_driven(
    database: Database,
    drive: Driving,
    left: set[asyncio.Task[Run]],
    follow: Callable[[str], AsyncGenerator[Event]],
) -> AsyncGenerator[Event]:
    """Drive a run, and give each event when it happens; `follow` gives those of one that was begun before. Raises what
    `drive` raises.

    A run whose listener leaves is driven on, and its task is in `left` until it ends. When the listener is cancelled, the
    run is too.
    """
    box, begun = Mailbox(), asyncio.Event()
    gone = False

    def hear(event: Event) -> None:
        if not gone:
            box.put(event)

    def forget(task: asyncio.Task[Run]) -> None:
        left.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.info("a run whose listener had left ended with %r", task.exception())

    task: asyncio.Task[Run] = asyncio.create_task(drive(hear, lambda _: begun.set()))
    task.add_done_callback(lambda _: box.close())
    try:
        async for event in read_out(database, box):
            yield event
        run = task.result()
        if not begun.is_set():
            async for event in follow(run.id):
                yield event
    except asyncio.CancelledError:  # Ctrl-C, or a task that was stopped: the run ends first
        task.cancel()
        await asyncio.wait({task})
        raise
    finally:
        gone = True
        left.add(task)
        task.add_done_callback(forget)


async def read_out(database: Database, box: Mailbox) -> AsyncGenerator[Event]:
    """Each event that is put into a mailbox until it is closed, in order; what it had no room for is read."""
    at: dict[str, int] = {}
    closed = False
    while not closed:
        await box.wait()
        closed = box.closed  # asked before taking: what was put until then is taken
        for one in box.take():
            event, run_id = one.event, one.event.run_id
            reached = at.get(run_id, box.first.get(run_id, 0) - 1)
            if _place(one, reached) > 0:
                upto = one.behind if event.number is None else event.number - 1
                async for missed in _between(database, run_id, reached, upto or 0):
                    yield missed
                    at[run_id] = reached = missed.number or 0
            if _place(one, reached) == 0:
                yield event
                if event.number is not None:
                    at[run_id] = event.number
    for run_id, last in box.last.items():
        async for missed in _between(database, run_id, at.get(run_id, box.first[run_id] - 1), last):
            yield missed


async def _between(database: Database, run_id: str, after: int, upto: int) -> AsyncGenerator[Event]:
    """The stored events of a run with numbers above `after`, up to `upto`."""
    while after < upto:
        limit = min(upto - after, following.PAGE)
        events = await database.aread(partial(event_rows.read, run_id=run_id, after=after, limit=limit))
        for event in events:
            yield event
        if not events:  # the run was removed meanwhile
            return
        after = events[-1].number or upto

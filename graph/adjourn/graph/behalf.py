"""On whose behalf a run is driven, and what they hear of it. What fails in their functions does the run no harm."""

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.events import Event
from adjourn.checkpoints.records import RunRow
from adjourn.graph.run_log import Listener

OnBegun = Callable[[RunRow], None]
log = logging.getLogger("adjourn.run")


@dataclass(frozen=True, slots=True)
class Behalf:
    """A person, what is called with each event, and what is called once with the run's row, when its beginning is stored.

    Raises `UsageError` for an `on_event` that is a coroutine function.
    """

    by: str | None = None
    on_event: Listener | None = None
    on_begun: OnBegun | None = None

    def __post_init__(self) -> None:
        if inspect.iscoroutinefunction(self.on_event):
            raise UsageError(
                "a listener is a plain function that is called with each event, not a coroutine function"
            )

    def hear(self, event: Event) -> None:
        """Tell them of an event. What they raise is logged."""
        if self.on_event is None:
            return
        try:
            self.on_event(event)
        except Exception:
            log.exception("a listener failed on %s of run %s", event.word, event.run_id)

    def begun(self, run: RunRow) -> None:
        """Tell them that the run has begun. What they raise is logged: somebody has to drive it."""
        if self.on_begun is None:
            return
        try:
            self.on_begun(run)
        except Exception:
            log.exception("`on_begun` failed on run %s", run.id)

"""What a tool may know about the call that it serves (C-31), and a prompt about its run."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What the functions of a graph that make its prompt and choose its model are told of the run, before each model call.

    - `step`: the number of the model call, from 1. `language`: that of the run's message.
    - `path`: the specialists from the top, joined by `/`; empty: nobody's.
    - `context`: what was given to `Runner.start(context=...)`, of a specialist what the run at the top was given.
    """

    run_id: str
    thread_id: str
    step: int
    language: str
    path: str = ""
    started_by: str | None = None
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Injected into a tool that has a parameter of this type; the model never sees that parameter.

    - `idempotency_key`: the same for each attempt of the call, also after a crash and in another process.
    - `arguments`: the call's, as JSON data.
    - `context`: what was given to `Runner.start(context=...)`, the same in each process; empty where nothing was.
    - `deadline`: on the clock of `time.monotonic()`; None: no limit.
    - `approved_by`: who agreed to this call; None: nobody was asked, or whoever agreed gave no name (see `approved`).
    - `cancelled`: set when the run is cancelled; a synchronous tool that works long should look at it.
    """

    run_id: str
    thread_id: str
    step: int
    call_id: str
    tool: str
    idempotency_key: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    attempt: int = 1
    deadline: float | None = None
    started_by: str | None = None
    approved_by: str | None = None
    approved: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    report: Callable[[str, float | None], None] | None = field(default=None, repr=False)
    # drives the runs of specialists: for the runtime's own `delegate`
    children: Any = field(default=None, repr=False)

    def progress(self, message: str, share: float | None = None) -> None:
        """Tell whoever watches the run how far the call is; `share` is from 0 to 1. The model is not told.

        From any thread, as often as you like: at most one a second is stored and sent, as `tool_progress`, and of those
        between the newest. It never raises and never waits.
        """
        if self.report is not None:
            self.report(message, share)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline, never below 0; None: no limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


@dataclass(frozen=True, slots=True)
class Happened:
    """What a tool's `verify` returns when the write did happen; `result` is what the tool would have returned.

    `verify` returns False when it did not happen, and None when it cannot tell. False counts when no attempt of the
    call goes on any more: a thread that was given up may still do it.
    """

    result: Any = None

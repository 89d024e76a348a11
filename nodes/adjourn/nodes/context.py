"""What a tool may know about the call that it serves (C-31)."""

import threading
import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Injected into a tool that has a parameter of this type; the model never sees that parameter.

    `idempotency_key` is the same for each attempt of the call, also after a crash and in another process.
    `deadline` is on the clock of `time.monotonic()`; None: no limit. `cancelled` is set when the run is
    cancelled: a synchronous tool that works long should look at it. `approved_by` is None unless a person
    agreed to this call.
    """

    run_id: str
    thread_id: str
    step: int
    call_id: str
    tool: str
    idempotency_key: str
    attempt: int = 1
    deadline: float | None = None
    started_by: str | None = None
    approved_by: str | None = None
    approved: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline, never below 0; None: no limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

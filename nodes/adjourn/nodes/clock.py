"""How long a run has worked: the time in which it has an owner, without the time in which it waits. Pure."""

import time


class Clock:
    """Goes on from what earlier owners worked, in milliseconds.

    What an owner that died had worked is known up to its last renewal of the lease (a third of the lease) or its
    last checkpoint, whichever was later; the rest of its time is not counted.
    """

    def __init__(self, worked_ms: int = 0) -> None:
        self._before_ms = worked_ms
        self._began = time.monotonic()

    def worked_ms(self) -> int:
        """Milliseconds worked until now."""
        return self._before_ms + round((time.monotonic() - self._began) * 1000)

    def at_least(self, worked_ms: int) -> None:
        """Take note of a count that is kept elsewhere: the larger one holds."""
        self._before_ms += max(0, worked_ms - self.worked_ms())

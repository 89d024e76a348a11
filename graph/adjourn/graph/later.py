"""Runs that could not be taken up: left alone for a while, so that they keep no other out."""

import logging
import time

from adjourn.checkpoints.errors import NotResumable, RunBusy


class Later:
    """Which runs are not to be tried again yet: `again_s` seconds after they could not be taken up."""

    def __init__(self, again_s: float, log: logging.Logger) -> None:
        self._again_s = again_s
        self._log = log
        self._until: dict[str, float] = {}

    def runs(self) -> list[str]:
        """Those that are left alone now."""
        at = time.monotonic()
        self._until = {run_id: moment for run_id, moment in self._until.items() if moment > at}
        return list(self._until)

    def put_off(self, run_id: str, error: BaseException) -> None:
        """Leave a run alone for this error, and say so; unless somebody else was first, or it has just ended."""
        if not isinstance(error, RunBusy | NotResumable):
            self._until[run_id] = time.monotonic() + self._again_s
            self._log.warning("run %s could not be taken over: %s: %s", run_id, type(error).__name__, error)

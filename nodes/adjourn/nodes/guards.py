"""Limits. Pure."""

from dataclasses import dataclass

from adjourn.checkpoints.errors import UsageError


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a run may go. None means no limit where it is allowed.

    - `max_steps`: model calls of a run (C-53).
    - `max_parallel`: reads that run at the same time (C-21).
    - `max_calls_per_step`: calls above it are answered `too_many_calls` (C-24).
    - `max_writes_per_step`: writes above it are answered `skipped_write_limit` (C-24).
    - `max_result_chars_per_step`: characters that a step's observations may have together (C-74).
    - `cancel_grace_s`: how long a cancel waits for a write that has started (C-61).
    - `skip_after_failure`: after a write that failed, the step's later writes do not run (C-24).
    """

    max_steps: int = 12
    max_parallel: int = 8
    max_calls_per_step: int = 32
    max_writes_per_step: int | None = None
    max_result_chars_per_step: int = 24_000
    cancel_grace_s: float = 5.0
    skip_after_failure: bool = True

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_parallel", "max_calls_per_step", "max_result_chars_per_step"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise UsageError(f"{name} is a whole number from 1, not {value!r}")
        if self.max_writes_per_step is not None and self.max_writes_per_step < 0:
            raise UsageError(
                f"max_writes_per_step is a whole number from 0, or None, not {self.max_writes_per_step!r}"
            )

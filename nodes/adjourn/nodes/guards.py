"""How far a run may go, and which limit stops it. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.lifecycle import StopReason

COUNTDOWN = 3  # steps: from here on the model is told how many are left (C-57)
SENT_BACK = 2  # answers without evidence that are sent back; the next one ends the run (C-56)
REFUSED = 1  # turns in a row that may not stand in the history; the next one ends the run (C-9)


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a run may go. None means no limit where it is allowed.

    - `max_steps`: model calls of a run (C-53).
    - `max_active_s`: seconds in which the run works, without those in which it waits for people; what runs when they
      are over is stopped. Five minutes: longer than a person watches, and too short for a forgotten loop to cost much.
    - `max_wall_s`: seconds since the run began, waiting included.
    - `max_fails_in_row`: steps in a row in which calls ran and all failed.
    - `max_identical_calls`: how often the same call may be asked for, the first time included, while nothing was
      written since; also how often the first call of a cycle may come (C-54). From 2.
    - `breaker`: failures in a row after which a tool is switched off for the rest of the run (C-55).
    - `max_total_tokens`, `max_cost`: what the run may spend together with its children; looked at before each model
      call, theirs included. `max_cost` is in the currency of the price table.
    - `max_parallel`: reads that run at the same time (C-21).
    - `max_calls_per_step`: calls above it are answered `too_many_calls` (C-24).
    - `max_writes_per_step`: writes above it are answered `skipped_write_limit` (C-24).
    - `max_result_chars_per_step`: characters that a step's observations may have together (C-74). 24,000: three results
      at their own limit, about 6,000 tokens.
    - `cancel_grace_s`: how long a cancel, or the end of the run's time, waits for a write that has started (C-61).
    - `skip_after_failure`: after a write that failed, the step's later writes do not run (C-24).
    """

    max_steps: int = 12
    max_active_s: float | None = 300.0
    max_wall_s: float | None = None
    max_fails_in_row: int | None = 3
    max_identical_calls: int | None = 3
    breaker: int | None = 3
    max_total_tokens: int | None = None
    max_cost: float | None = None
    max_parallel: int = 8
    max_calls_per_step: int = 32
    max_writes_per_step: int | None = None
    max_result_chars_per_step: int = 24_000
    cancel_grace_s: float = 5.0
    skip_after_failure: bool = True

    def __post_init__(self) -> None:
        for names, least, may_be_none in _WHOLE:
            for name in names:
                value = getattr(self, name)
                if value is None and may_be_none:
                    continue
                if not isinstance(value, int) or isinstance(value, bool) or value < least:
                    none = ", or None" if may_be_none else ""
                    raise UsageError(f"{name} is a whole number from {least}{none}, not {value!r}")
        for name in ("max_active_s", "max_wall_s", "max_cost"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and value > 0):
                raise UsageError(f"{name} is a number above 0, or None, not {value!r}")
        if not (_is_number(self.cancel_grace_s) and self.cancel_grace_s >= 0):
            raise UsageError(f"cancel_grace_s is a number from 0, not {self.cancel_grace_s!r}")

    def counts_children(self) -> bool:
        """Whether what child runs spend matters."""
        return self.max_total_tokens is not None or self.max_cost is not None

    def left_s(self, active_s: float, wall_s: float) -> float | None:
        """Seconds until the first of the two time limits of a run that has worked, and is, so old; None: it has none."""
        active = None if self.max_active_s is None else self.max_active_s - active_s
        wall = None if self.max_wall_s is None else self.max_wall_s - wall_s
        return active if wall is None else wall if active is None else min(active, wall)

    def is_spent(self, tokens: int, cost: float) -> bool:
        """Whether a run that has spent so much may spend no more."""
        return _reached(tokens, self.max_total_tokens) or _reached(cost, self.max_cost)


_WHOLE = (
    (("max_steps", "max_parallel", "max_calls_per_step", "max_result_chars_per_step"), 1, False),
    (("max_fails_in_row", "breaker", "max_total_tokens"), 1, True),
    (("max_identical_calls",), 2, True),
    (("max_writes_per_step",), 0, True),
)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands against its limits. `tokens` and `cost` are those of its children too."""

    steps: int
    active_s: float = 0.0
    wall_s: float = 0.0
    tokens: int = 0
    cost: float = 0.0
    spent_above: bool = False  # a run above has spent what it may, together with this one
    looped: bool = False
    fails_in_row: int = 0
    sent_back: int = 0
    protocol_errors: int = 0


def _reached(value: float, limit: float | None) -> bool:
    return limit is not None and value >= limit


# Where several apply, the first one counts (C-52). A cancel comes before all of them: it is a signal, no limit.
STOPS: Mapping[StopReason, Callable[[Standing, Limits], bool]] = {
    StopReason.TIMEOUT: lambda at, limits: _reached(0.0, limits.left_s(at.active_s, at.wall_s)),
    StopReason.BUDGET_SPENT: lambda at, limits: at.spent_above or limits.is_spent(at.tokens, at.cost),
    StopReason.LOOP_DETECTED: lambda at, _: at.looped,
    StopReason.TOO_MANY_FAILS: lambda at, limits: _reached(at.fails_in_row, limits.max_fails_in_row),
    StopReason.NO_EVIDENCE: lambda at, _: at.sent_back > SENT_BACK,
    StopReason.PROTOCOL_ERROR: lambda at, _: at.protocol_errors > REFUSED,
    StopReason.MAX_STEPS: lambda at, limits: at.steps >= limits.max_steps,
}


def stop_reason(standing: Standing, limits: Limits) -> StopReason | None:
    """Why the run must stop before its next model call; None: it may go on."""
    return next((reason for reason, applies in STOPS.items() if applies(standing, limits)), None)


def steps_left(steps: int, limits: Limits) -> int | None:
    """How many steps are left, when the model is to be told (C-57); None while there are many."""
    left = limits.max_steps - steps
    return left if 0 < left <= COUNTDOWN else None

"""How a run stands against its limits now, from its counters, its clock, and what its children spent."""

import time

from adjourn.nodes.counters import Counters
from adjourn.nodes.guards import Limits, Standing
from adjourn.nodes.run_context import RunContext
from adjourn.nodes.spending import Spent


async def standing_of(counters: Counters, steps: int, run: RunContext, limits: Limits) -> Standing:
    """How the run stands now. What its children spent is read only where a limit counts it."""
    below = await run.ledger.spent_below() if limits.counts_children() else Spent()
    return Standing(
        steps=steps,
        active_s=run.clock.worked_ms() / 1000,
        wall_s=wall_s(counters, run),
        tokens=counters["input_tokens"] + counters["output_tokens"] + below.tokens,
        cost=counters["cost"] + below.cost,
        spent_above=run.budgets is not None and await run.budgets.are_spent(),
        looped=counters["looped"],
        fails_in_row=counters["fails_in_row"],
        sent_back=counters["sent_back"],
        protocol_errors=counters["protocol_errors"],
    )


def left_s(counters: Counters, run: RunContext, limits: Limits) -> float | None:
    """Seconds until the run's time is over; None: it has no end."""
    return limits.left_s(run.clock.worked_ms() / 1000, wall_s(counters, run))


def wall_s(counters: Counters, run: RunContext) -> float:
    """Seconds since the run began, by the clock on the wall."""
    began_at = run.began_at if run.began_at is not None else counters["began_at"]
    return 0.0 if began_at is None else time.time() - began_at

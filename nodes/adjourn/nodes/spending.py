"""What a run costs: tokens as the provider counts them, money by the user's price table. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from adjourn.checkpoints.errors import UsageError
from adjourn.nodes.assembly import Usage
from adjourn.nodes.counters import Counters
from adjourn.nodes.guards import Limits

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens cost, in any currency, the same for all models.

    `cached` is the price of input that the provider had computed before, `cache_write` of input that it keeps for
    later; None: the price of input. Reasoning is paid for as output.
    """

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None

    def of(self, usage: Usage) -> float:
        """What these tokens cost."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        written = min(usage.cache_write_tokens, usage.input_tokens - cached)
        parts = (
            (usage.input_tokens - cached - written, self.input),
            (cached, self.input if self.cached is None else self.cached),
            (written, self.input if self.cache_write is None else self.cache_write),
            (usage.output_tokens, self.output),
        )
        return sum(tokens * rate for tokens, rate in parts) / MILLION


Prices = Mapping[str, Price]
"""By the name of a model: the one that its provider answers with, or the one that it was asked for by."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What some runs spent together."""

    tokens: int = 0
    cost: float = 0.0


def cost_of(usage: Usage | None, names: Iterable[str | None], prices: Prices) -> float:
    """What a turn cost; `names` are those of its model, the most exact first. 0 without usage or price."""
    if usage is None:
        return 0.0
    return next((prices[one].of(usage) for one in names if one is not None and one in prices), 0.0)


def spend(counters: Counters, usage: Usage | None, cost: float) -> None:
    """Count a turn."""
    if usage is not None:
        counters["input_tokens"] += usage.input_tokens
        counters["output_tokens"] += usage.output_tokens
    counters["cost"] += cost


def check_prices(limits: Limits, models: Iterable[str], prices: Prices) -> None:
    """Raises `UsageError` when `max_cost` is set and a model has no price: it would cost nothing."""
    unpriced = [one for one in models if one not in prices]
    if limits.max_cost is not None and unpriced:
        raise UsageError(f"max_cost needs the prices of the models; there is none for {', '.join(unpriced)}")

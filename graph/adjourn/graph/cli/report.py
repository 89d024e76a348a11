"""`adjourn metrics`: what many runs have in common. It reads the database and needs no app."""

from collections.abc import Sequence

from sqlalchemy import Connection

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.metrics import (
    Metrics,
    ModelFigures,
    QuestionFigures,
    RunFigures,
    Scope,
    ToolFigures,
    graphs,
    read_metrics,
)
from adjourn.graph.captions import word
from adjourn.graph.cli.screen import Screen
from adjourn.graph.cli.settings import Settings
from adjourn.graph.cli.stores import read
from adjourn.graph.cli.times import begun_after

NOTHING = "-"  # in a cell: there was nothing to count
# the columns of a table that are left out on a narrow terminal, the first ones first
SPARE = {"metrics.tool_head": (6, 5, 2, 7), "metrics.model_head": (5, 6, 4)}


def show_metrics(settings: Settings, *, since: str | None, graph: str | None, tool: str | None) -> int:
    """Print the report over the runs that were begun after `since` (`7d`, or a date), of a graph, with a tool.

    Raises `UsageError` for a `since` that is neither, and for a graph of which there is no run among those of others.
    """
    scope = Scope(since=None if since is None else begun_after(since), graph=graph, tool=tool)
    metrics = read(settings.store, lambda connection: _read(connection, scope))
    screen = Screen(settings)
    if settings.json:
        screen.data(metrics.to_dict())
    elif metrics.runs.runs == 0:
        screen.line(screen.say("no_runs"))
    else:
        Report(screen).show(metrics)
    return 0


def _read(connection: Connection, scope: Scope) -> Metrics:
    metrics = read_metrics(connection, scope)
    if scope.graph is not None and metrics.runs.runs == 0:
        known = graphs(connection)
        if known and scope.graph not in known:
            raise UsageError(
                f"--graph {scope.graph!r} has no run in this store; those with runs are {', '.join(known)}"
            )
    return metrics


class Report:
    """Prints one report, from its totals to its tables."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def show(self, metrics: Metrics) -> None:
        """Print all of it."""
        self._totals(metrics.runs)
        self._questions(metrics.questions)
        runs = metrics.runs.runs
        reasons = [
            (word(name, self._screen.words), str(count), share(count / runs))
            for name, count in metrics.stop_reasons.items()
        ]
        self._table("metrics.stop_head", reasons)
        self._table("metrics.tool_head", [_tool(one) for one in metrics.tools])
        self._table("metrics.model_head", [_model(one) for one in metrics.models])

    def _totals(self, runs: RunFigures) -> None:
        say = self._screen.say
        counted = say("metrics.runs", runs=runs.runs, ended=runs.ended)
        self._screen.line((counted, "bold"))
        if runs.steps_per_run is not None:
            seconds = f"{(runs.active_ms_per_run or 0) / 1000:.1f}"
            self._screen.line(say("metrics.each", steps=f"{runs.steps_per_run:.2f}", seconds=seconds))
        tokens = say("tokens", input=f"{runs.input_tokens:,}", output=f"{runs.output_tokens:,}")
        self._screen.line(tokens + (f"  {say('cost', cost=f'{runs.cost:.4f}')}" if runs.cost else ""))

    def _questions(self, asked: QuestionFigures) -> None:
        if not asked.asked:
            return
        given, carried = share(asked.answered_share), share(asked.carried_share)
        numbers = {
            "asked": asked.asked,
            "open": asked.open,
            "answered": asked.answered,
            "carried": asked.carried,
        }
        self._screen.line(self._screen.say("metrics.questions", **numbers, given=given, through=carried))

    def _table(self, head: str, rows: Sequence[Sequence[str]]) -> None:
        if rows:
            self._screen.line("")
            self._screen.table(self._screen.say(head).split("|"), rows, spare=SPARE.get(head, ()))


def _tool(one: ToolFigures) -> Sequence[str]:
    counts = (str(one.calls), str(one.ran), str(one.failed), share(one.failure_rate))
    return (
        one.tool,
        *counts,
        *(duration(ms) for ms in (one.mean_ms, one.p50_ms, one.p95_ms, one.slowest_ms)),
    )


def _model(one: ModelFigures) -> Sequence[str]:
    cost = f"{one.cost:.4f}" if one.cost else NOTHING
    counts = (str(one.steps), f"{one.input_tokens:,}", f"{one.output_tokens:,}", cost)
    return (one.model, *counts, duration(one.p50_ms), duration(one.p95_ms))


def share(part: float | None) -> str:
    """`0.256` as `25.6 %`."""
    return NOTHING if part is None else f"{part * 100:.1f} %"


def duration(ms: float | None) -> str:
    """Milliseconds as a table shows them: `12 ms`, `3.1 s`."""
    if ms is None:
        return NOTHING
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"

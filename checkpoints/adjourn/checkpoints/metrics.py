"""Reports over many runs (C-70): how they ended, how far they went, which tools fail or are slow, what they cost.

One SQL for every engine, one scan for each table, all in the caller's transaction. The same numbers, for all runs,
are in the views `v_metrics`, `v_stop_reasons`, `v_tools` and `v_models`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    Subquery,
    case,
    cast,
    func,
    select,
)

from adjourn.checkpoints.lifecycle import CallState, InterruptState, RunStatus, StopReason
from adjourn.checkpoints.run_schema import calls, interrupts, runs, steps

ENDED = (RunStatus.FINISHED.value, RunStatus.CANCELLED.value)
BROKEN = (CallState.FAILED.value, CallState.UNKNOWN.value)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which runs count: begun at or after `since` (a stored time), of one graph, with a call of one tool.

    With `tool`, calls and questions are those of that tool only. None: no such limit.
    """

    since: str | None = None
    graph: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class RunFigures:
    """`steps_per_run` is over runs that have ended; None: none has. `active_ms_per_run` too: time worked, not waited."""

    runs: int
    ended: int
    steps_per_run: float | None
    active_ms_per_run: float | None
    input_tokens: int
    output_tokens: int
    cost: float


@dataclass(frozen=True, slots=True)
class QuestionFigures:
    """`carried` were answered in a run that then came to its answer. Shares are of all that were asked; None: none was."""

    asked: int
    open: int
    answered: int
    carried: int
    answered_share: float | None
    carried_share: float | None


@dataclass(frozen=True, slots=True)
class ToolFigures:
    """`failed` counts calls that failed or whose outcome is unknown, `failure_rate` their share of those that ran.

    Half of the calls took at most `p50_ms`, 95 of 100 at most `p95_ms`. None: nothing ran.
    """

    tool: str
    calls: int
    ran: int
    failed: int
    failure_rate: float | None
    mean_ms: float | None
    p50_ms: int | None
    p95_ms: int | None
    slowest_ms: int | None


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """Model calls that brought a turn; times are from the request to the end signal.

    `cached_tokens` are part of the input. `cost` is in the unit of the app's prices.
    """

    model: str
    steps: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float
    p50_ms: int | None
    p95_ms: int | None


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a report holds. `stop_reasons`: `ask_user` while a run waits, else the status where there is no reason yet."""

    scope: Scope
    runs: RunFigures
    questions: QuestionFigures
    stop_reasons: Mapping[str, int]
    tools: Sequence[ToolFigures]
    models: Sequence[ModelFigures]

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON data."""
        return asdict(self)


def graphs(connection: Connection) -> list[str]:
    """The names of the graphs that have runs, in order."""
    return list(connection.execute(select(runs.c.graph).distinct().order_by(runs.c.graph)).scalars())


def read_metrics(connection: Connection, scope: Scope | None = None) -> Metrics:
    """The report; `scope` None: over everything that is stored. Tools and models come slowest first."""
    scope = scope or Scope()
    figures, reasons = _runs(connection, scope)
    return Metrics(
        scope,
        figures,
        _questions(connection, scope),
        reasons,
        _tools(connection, scope),
        _models(connection, scope),
    )


# -- which rows count


def _in_scope(scope: Scope) -> list[ColumnElement[bool]]:
    tests: list[ColumnElement[bool]] = []
    if scope.since is not None:
        tests.append(runs.c.created_at >= scope.since)
    if scope.graph is not None:
        tests.append(runs.c.graph == scope.graph)
    if scope.tool is not None:
        # not EXISTS: asked run by run, SQLite would go through all calls of the tool for each
        tests.append(runs.c.id.in_(select(calls.c.run_id).where(calls.c.tool == scope.tool)))
    return tests


def _of_runs(run_id: ColumnElement[str], scope: Scope) -> list[ColumnElement[bool]]:
    """The tests whether a row belongs to a run in scope; none when every run is in scope."""
    tests = _in_scope(scope)
    return [run_id.in_(select(runs.c.id).where(*tests))] if tests else []


# -- figures


def _runs(connection: Connection, scope: Scope) -> tuple[RunFigures, dict[str, int]]:
    """The figures, and the reasons why runs stopped, most of them first. Grouped apart: an index has the statuses in order,
    and only runs with a reason have to be sorted."""
    sums = [
        func.coalesce(func.sum(one), 0)
        for one in (runs.c.steps, runs.c.active_ms, runs.c.input_tokens, runs.c.output_tokens, runs.c.cost)
    ]
    by_status = select(runs.c.status, func.count(), func.count(runs.c.stop_reason), *sums)
    rows: Sequence[Any] = connection.execute(by_status.where(*_in_scope(scope)).group_by(runs.c.status)).all()
    by_reason = select(runs.c.stop_reason, func.count()).where(
        runs.c.stop_reason.is_not(None), *_in_scope(scope)
    )
    stopped = connection.execute(by_reason.group_by(runs.c.stop_reason))
    reasons = {str(reason): int(count) for reason, count in stopped}
    for status, count, with_reason, *_ in rows:
        if count > with_reason:
            shown = "ask_user" if status == RunStatus.INTERRUPTED else status
            reasons[shown] = reasons.get(shown, 0) + int(count - with_reason)
    ended = [row for row in rows if row[0] in ENDED]
    count = sum(int(row[1]) for row in ended)
    figures = RunFigures(
        runs=sum(reasons.values()),
        ended=count,
        steps_per_run=_rounded(sum(row[3] for row in ended) / count, 2) if count else None,
        active_ms_per_run=_rounded(sum(row[4] for row in ended) / count, 1) if count else None,
        input_tokens=sum(int(row[5]) for row in rows),
        output_tokens=sum(int(row[6]) for row in rows),
        cost=round(sum(float(row[7]) for row in rows), 6),
    )
    return figures, dict(sorted(reasons.items(), key=lambda one: (-one[1], one[0])))


def _questions(connection: Connection, scope: Scope) -> QuestionFigures:
    """Counted by state from an index alone; only what was answered is looked up in its run."""
    tests = [] if scope.tool is None else [interrupts.c.tool == scope.tool]
    by_state = (
        select(interrupts.c.state, func.count())
        .where(*tests, *_of_runs(interrupts.c.run_id, scope))
        .group_by(interrupts.c.state)
    )
    states = {state: int(count) for state, count in connection.execute(by_state)}
    asked, given = sum(states.values()), states.get(InterruptState.ANSWERED, 0)
    carried_to_the_end = (
        select(func.count())
        .select_from(interrupts)
        .join(runs, runs.c.id == interrupts.c.run_id)
        .where(*tests, *_in_scope(scope))
        .where(interrupts.c.state == InterruptState.ANSWERED.value)
        .where(runs.c.stop_reason == StopReason.ANSWERED.value)
    )
    carried = int(connection.execute(carried_to_the_end).scalar_one()) if given else 0
    shares = _share(given, asked), _share(carried, asked)
    return QuestionFigures(asked, states.get(InterruptState.OPEN, 0), given, carried, *shares)


def _tools(connection: Connection, scope: Scope) -> list[ToolFigures]:
    tests = _of_runs(calls.c.run_id, Scope(scope.since, scope.graph))
    if scope.tool is not None:
        tests.append(calls.c.tool == scope.tool)
    started = case((calls.c.started_at.is_not(None), 1), else_=0).label("started")
    broken = case((calls.c.outcome.in_(BROKEN), 1), else_=0).label("broken")
    ranked = _ranked(select(calls.c.tool, started, broken).where(*tests), calls.c.tool, calls.c.took_ms)
    query = select(
        ranked.c.tool,
        func.count(),
        func.sum(ranked.c.started),
        func.sum(ranked.c.broken),
        func.avg(ranked.c.ms),
        *_percentiles(ranked),
        func.max(ranked.c.ms),
    ).group_by(ranked.c.tool)
    found = [_tool(row) for row in connection.execute(query)]
    return sorted(found, key=lambda one: (-(one.p95_ms or -1), one.tool))


def _tool(row: Any) -> ToolFigures:
    tool, count, ran, failed, mean, p50, p95, slowest = row
    return ToolFigures(
        tool=tool,
        calls=int(count),
        ran=int(ran),
        failed=int(failed),
        failure_rate=_share(int(failed), int(ran)),
        mean_ms=_rounded(mean, 1),
        p50_ms=p50,
        p95_ms=p95,
        slowest_ms=slowest,
    )


def _models(connection: Connection, scope: Scope) -> list[ModelFigures]:
    spent = (steps.c.input_tokens, steps.c.cached_tokens, steps.c.output_tokens, steps.c.cost)
    rows = select(steps.c.model, *spent).where(*_of_runs(steps.c.run_id, scope))
    ranked = _ranked(rows, steps.c.model, steps.c.latency_ms)
    query = select(
        ranked.c.model,
        func.count(),
        *(func.coalesce(func.sum(ranked.c[one.name]), 0) for one in spent),
        *_percentiles(ranked),
    ).group_by(ranked.c.model)
    found = [_model(row) for row in connection.execute(query)]
    return sorted(found, key=lambda one: (-(one.p95_ms or -1), one.model))


def _model(row: Any) -> ModelFigures:
    model, count, read, cached, written, cost, p50, p95 = row
    tokens = (int(read), int(cached), int(written))
    return ModelFigures(model, int(count), *tokens, round(float(cost), 6), p50, p95)


def _ranked(rows: Select[*tuple[Any, ...]], group: ColumnElement[Any], took: ColumnElement[Any]) -> Subquery:
    """The rows with their time, its place among the times of its group, and how many of these there are."""
    untimed = case((took.is_(None), 1), else_=0)
    place = func.row_number().over(partition_by=[group, untimed], order_by=took)
    timed = func.count(took).over(partition_by=group)
    return rows.add_columns(took.label("ms"), place.label("place"), timed.label("timed")).subquery()


def _percentiles(ranked: Subquery) -> list[ColumnElement[int]]:
    """The smallest time that half, and 95 of 100, of a group do not exceed. No function for this exists on all engines."""
    return [
        cast(func.min(case((ranked.c.place * 100 >= ranked.c.timed * share, ranked.c.ms))), Integer)
        for share in (50, 95)
    ]


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _rounded(value: Any, digits: int) -> float | None:
    return None if value is None else round(float(value), digits)

"""A run as bars over time: model calls, tool calls, and people who were waited for.

A run may work for seconds and wait for days. Stretches in which nothing worked are folded to a fixed width, so that
the work stays readable; each fold says how long it really was.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from adjourn.checkpoints.lifecycle import CallState, InterruptState, RunStatus
from adjourn.checkpoints.records import CallRow, Interrupt, StepRow
from adjourn.graph.run import Run

FOLD = 0.15  # of the time worked: what nothing worked in is drawn no wider than this
SHORTEST_FOLD_MS = 1_000  # a pause that nobody notices is no fold
TICKS = 6  # marks on the axis, at most about so many


class Kind(StrEnum):
    """What a bar shows; a picture gives each its own colour."""

    MODEL = "model"
    CALL = "call"
    WAIT = "wait"  # a person was asked


@dataclass(frozen=True, slots=True)
class Bar:
    """Milliseconds since the run began. `is_open`: it goes on."""

    kind: Kind
    begin_ms: float
    end_ms: float
    is_open: bool = False

    @property
    def took_ms(self) -> float:
        return self.end_ms - self.begin_ms


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a model call, or a tool call with the people who were asked about it.

    `state` is the call's word, or `ok` for a model call. `anchor` names the row within the page of the run. `batch`
    None: a model call. `joined`: it ran together with the row so many above; 0: with none. `depth` counts the
    specialists that the row is inside of; `step` is that of the run at the top.
    """

    step: int
    name: str
    anchor: str
    bars: tuple[Bar, ...]
    state: str = "ok"
    batch: int | None = None
    joined: int = 0
    depth: int = 0

    @property
    def worked_ms(self) -> float | None:
        """Milliseconds that its model or tool took; None: it did not run."""
        spans = [one.took_ms for one in self.bars if one.kind is not Kind.WAIT]
        return sum(spans) if spans else None

    @property
    def waited_ms(self) -> float | None:
        """Milliseconds in which people were waited for; None: nobody was asked."""
        spans = [one.took_ms for one in self.bars if one.kind is Kind.WAIT]
        return sum(spans) if spans else None


@dataclass(frozen=True, slots=True)
class Fold:
    """A stretch in which nothing worked, drawn shorter than it was."""

    begin_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """All rows, in order of steps. `began` is the moment at 0 ms; `knots` are (ms, place) with places from 0 to 1."""

    began: datetime
    rows: tuple[Row, ...]
    folds: tuple[Fold, ...]
    knots: tuple[tuple[float, float], ...]

    @property
    def end_ms(self) -> float:
        return self.knots[-1][0]

    def place(self, ms: float) -> float:
        """Where a moment is drawn, from 0 at the left to 1 at the right."""
        at = max(1, min(bisect_right(self.knots, (ms, 2.0)), len(self.knots) - 1))
        (left, from_), (right, to) = self.knots[at - 1], self.knots[at]
        return from_ + (to - from_) * min(1.0, max(0.0, (ms - left) / (right - left)))

    def ticks(self) -> list[float]:
        """Moments for marks on the axis, in ms: the start of each stretch of work, and round times after it."""
        drawn = self.end_ms - sum(one.end_ms - one.begin_ms for one in self.folds)
        step = _round_up(drawn / TICKS)
        marks: list[float] = []
        for begin, end in self._stretches():
            count = int((end - begin) / step)
            marks += [begin + step * number for number in range(count + 1)]
        return marks

    def _stretches(self) -> Iterable[tuple[float, float]]:
        begin = 0.0
        for fold in self.folds:
            yield begin, fold.begin_ms
            begin = fold.end_ms
        yield begin, self.end_ms


_ROUND = (1, 2, 5)


def _round_up(ms: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 1.0
    while power * 10 < ms:
        power *= 10
    return next((one * power for one in _ROUND if one * power >= ms), power * 10)


def timeline(run: Run, at: str) -> Timeline:
    """The timeline of a run as it stood when it was read; `at` (a stored time) is where open bars end."""
    clock = _Clock(run.row.created_at, at)
    rows = tuple(_rows(run, clock))
    bars = [bar for row in rows for bar in row.bars]
    last = [clock.ms(run.row.ended_at)] if run.row.ended_at else []
    end = max([1.0, *last, *(bar.end_ms for bar in bars)])
    folds = _folds(bars, end)
    return Timeline(clock.began, rows, folds, _knots(folds, end))


class _Clock:
    """Stored times as milliseconds since the run began."""

    def __init__(self, began: str, at: str) -> None:
        self.began = datetime.fromisoformat(began)
        self.now_ms = self.ms(at)

    def ms(self, time: str) -> float:
        """Never before the beginning: the clocks of two hosts may differ."""
        return max(0.0, (datetime.fromisoformat(time) - self.began).total_seconds() * 1000)

    def bar(self, kind: Kind, began: str, ended: str | None) -> Bar:
        begin = self.ms(began)
        end = self.now_ms if ended is None else self.ms(ended)
        return Bar(kind, begin, max(begin, end), is_open=ended is None)


def anchor_of(run: Run, depth: int, rest: str) -> str:
    """The anchor of a part of a run within a page; in the run at the top it goes without the run's id."""
    return f"{run.id}-{rest}" if depth else rest


def _rows(run: Run, clock: _Clock, depth: int = 0) -> Iterable[Row]:
    asked: dict[tuple[int, str], list[Interrupt]] = {}
    for question in run.questions:
        asked.setdefault((question.step, question.call_id), []).append(question)
    known: Mapping[int, StepRow] = {one.step: one for one in run.steps}
    for child in run.children_of_nodes:
        yield _node_row(run, child, clock, depth)
        yield from (replace(one, step=0) for one in _rows(child, clock, depth + 1))
    for step in sorted({*known, *(one.step for one in run.calls), *(one[0] for one in asked)}):
        if step in known:
            spoke = clock.bar(Kind.MODEL, known[step].started_at, known[step].ended_at)
            yield Row(step, known[step].model, anchor_of(run, depth, f"s{step}"), (spoke,), depth=depth)
        batch, since = None, 0  # of the call before, and how many rows came since
        for call in (one for one in run.calls if one.step == step):
            row = _call_row(run, call, asked.pop((step, call.call_id), ()), clock, depth)
            yield replace(row, joined=since if batch == call.batch else 0)
            inner = [replace(one, step=step) for one in _inner(run, call, clock, depth + 1)]
            yield from inner
            batch, since = call.batch, len(inner) + 1
        for one in [key for key in asked if key[0] == step]:  # questions of a node of one's own
            waits = tuple(_waits(asked.pop(one), clock))
            anchor = anchor_of(run, depth, f"s{step}-q")
            yield Row(step, "interrupt", anchor, waits, state=_wait_state(waits), depth=depth)


def _node_row(run: Run, child: Run, clock: _Clock, depth: int) -> Row:
    """A node of one's own that a run worked for."""
    spent = clock.bar(Kind.CALL, child.row.created_at, child.row.ended_at)
    name = child.row.path.rpartition("/")[2]
    state = _OF_RUN.get(child.status, CallState.STARTED).value
    return Row(0, name, anchor_of(run, depth, child.id), (spent,), state=state, depth=depth)


_OF_RUN: Mapping[str, CallState] = {  # what a call would be in which such a run worked
    RunStatus.FINISHED: CallState.OK,
    RunStatus.INTERRUPTED: CallState.WAITING,
    RunStatus.CANCELLED: CallState.CANCELLED,
    RunStatus.FAILED: CallState.FAILED,
}


def _inner(run: Run, call: CallRow, clock: _Clock, depth: int) -> Iterable[Row]:
    for child in run.children_of(call):
        yield from _rows(child, clock, depth)


def _call_row(run: Run, call: CallRow, asked: Sequence[Interrupt], clock: _Clock, depth: int) -> Row:
    bars = list(_waits(asked, clock))
    if call.started_at is not None and call.outcome != CallState.WAITING:
        bars.append(clock.bar(Kind.CALL, call.started_at, call.ended_at))
    to = [one.row.path.rpartition("/")[2] for one in run.children_of(call)]
    return Row(
        step=call.step,
        name=" → ".join([call.tool, *to]),
        anchor=anchor_of(run, depth, f"s{call.step}-c{call.position}"),
        bars=tuple(sorted(bars, key=lambda one: one.begin_ms)),
        state=call.outcome,
        batch=call.batch,
        depth=depth,
    )


def _waits(asked: Iterable[Interrupt], clock: _Clock) -> Iterable[Bar]:
    for one in asked:
        ended = one.closed_at if one.state != InterruptState.OPEN else None
        yield clock.bar(Kind.WAIT, one.created_at, ended)


def _wait_state(waits: Sequence[Bar]) -> str:
    return "waiting" if any(one.is_open for one in waits) else "ok"


def _folds(bars: Iterable[Bar], end: float) -> tuple[Fold, ...]:
    """What lies between work and is wider than it may be drawn."""
    work = sorted((one.begin_ms, one.end_ms) for one in bars if one.kind is not Kind.WAIT)
    gaps: list[tuple[float, float]] = []
    worked, reached = 0.0, 0.0
    for begin, stop in work:
        if begin > reached:
            gaps.append((reached, begin))
        worked += max(0.0, stop - max(begin, reached))
        reached = max(reached, stop)
    gaps.append((reached, end))
    widest = max(SHORTEST_FOLD_MS, worked * FOLD)
    return tuple(Fold(*gap) for gap in gaps if work and gap[1] - gap[0] > widest)


def _knots(folds: Sequence[Fold], end: float) -> tuple[tuple[float, float], ...]:
    """(ms, place) at each end of each fold: between two of them time runs evenly."""
    open_ms = end - sum(one.end_ms - one.begin_ms for one in folds)
    width = max(open_ms * FOLD, 1.0)
    whole = open_ms + width * len(folds)
    knots, drawn, reached = [(0.0, 0.0)], 0.0, 0.0
    for fold in folds:
        drawn += fold.begin_ms - reached
        if fold.begin_ms > reached:
            knots.append((fold.begin_ms, drawn / whole))
        drawn += width
        knots.append((fold.end_ms, drawn / whole))
        reached = fold.end_ms
    if end > reached:
        knots.append((end, 1.0))
    return tuple(knots)

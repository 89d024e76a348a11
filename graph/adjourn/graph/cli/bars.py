"""`adjourn show --timeline`: a run as bars over time on a terminal, and in a pipe without colours."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from rich.cells import set_cell_size

from adjourn.checkpoints.lifecycle import CallState
from adjourn.graph.captions import caption, length
from adjourn.graph.cli.screen import Part, Screen, clean, short
from adjourn.graph.picture import told_of
from adjourn.graph.timeline import Bar, Kind, Row, Timeline

NAME = 24  # columns of a row's name
TOLD = 30  # columns for what became of it
NARROWEST, WIDEST = 20, 100  # columns of the bars
PIPE = 100  # columns in all, where there is no terminal that has a width

# Without colours the characters alone tell what is what.
_LOOKS = {Kind.MODEL: ("▒", "blue"), Kind.CALL: ("█", "green"), Kind.WAIT: ("░", "yellow")}
_STYLES = {CallState.OK: "green", CallState.WAITING: "yellow", CallState.STARTED: "cyan"}
FOLD = "┊"


def show_bars(screen: Screen, made: Timeline) -> None:
    """Print the timeline: an axis, then each step's model call and calls, those that ran together joined."""
    width = screen.width if screen.is_terminal else PIPE
    columns = max(NARROWEST, min(WIDEST, width - NAME - TOLD - 4))
    if not made.rows:
        screen.line(caption("timeline.empty", screen.language))
        return
    for line in _axes(made, columns):
        screen.line((f"{' ' * (NAME + 3)}{line}", "dim"), cut=True)
    step, joints = None, _joints(made)
    for row, joint in zip(made.rows, joints, strict=True):
        if row.step != step:
            screen.line((caption("step", screen.language, step=row.step), "bold"))
            step = row.step
        screen.line(*_row(screen, made, row, joint, columns), cut=True)
    screen.line(*_legend(screen))


def _column(made: Timeline, ms: float, columns: int) -> int:
    return min(columns - 1, int(made.place(ms) * columns))


def _axes(made: Timeline, columns: int) -> Iterator[str]:
    """How long each fold really was, and below it the time at both ends."""
    if made.folds:
        folds = [(one.begin_ms, f"⋯{length(one.end_ms - one.begin_ms)}⋯") for one in made.folds]
        yield _marked(made, folds, columns)
    ends = [(0.0, made.began.strftime("%H:%M:%S")), (made.end_ms, f"+{length(made.end_ms)}")]
    yield _marked(made, ends, columns)


def _marked(made: Timeline, marks: Sequence[tuple[float, str]], columns: int) -> str:
    line, free = [" "] * (columns + TOLD), 0
    for ms, words in marks:
        at = _column(made, ms, columns)
        if at >= free and at + len(words) <= len(line):
            line[at : at + len(words)] = words
            free = at + len(words) + 1
    return "".join(line).rstrip()


def _joints(made: Timeline) -> list[str]:
    """What stands before each row: a bracket around those that ran together."""
    up = {place for place, row in enumerate(made.rows) if row.joined}
    down = {place - made.rows[place].joined for place in up}
    beside = {one for place in up for one in range(place - made.rows[place].joined + 1, place)}
    signs = {(False, False): " ", (False, True): "┌", (True, True): "├", (True, False): "└"}
    joints = [signs[place in up, place in down] for place in range(len(made.rows))]
    return ["│" if sign == " " and place in beside else sign for place, sign in enumerate(joints)]


def _row(screen: Screen, made: Timeline, row: Row, joint: str, columns: int) -> Sequence[Part]:
    indent = "  " * row.depth
    name = indent + clean(short(row.name, NAME - len(indent)))
    parts: list[Part] = [(f"{joint} ", "dim"), f"{set_cell_size(name, NAME)} "]
    parts += _plot(made, row, columns)
    style = "dim" if row.batch is None else _STYLES.get(CallState(row.state), "red")
    return [*parts, (f"  {told_of(row, screen.language)}", style)]


def _plot(made: Timeline, row: Row, columns: int) -> list[Part]:
    """One row's bars, as runs of one character each."""
    cells = [(" ", "")] * columns
    for fold in made.folds:
        for at in {_column(made, fold.begin_ms, columns), _column(made, fold.end_ms, columns)}:
            cells[at] = (FOLD, "dim")
    for bar in row.bars:
        left = _column(made, bar.begin_ms, columns)
        right = max(left + 1, _column(made, bar.end_ms, columns))
        cells[left:right] = [_look(bar, row)] * (right - left)
    same = groupby(cells, key=itemgetter(1))
    return [("".join(character for character, _ in group), style) for style, group in same]


def _look(bar: Bar, row: Row) -> tuple[str, str]:
    character, style = _LOOKS[bar.kind]
    broken = bar.kind is Kind.CALL and row.state not in (CallState.OK, CallState.STARTED)
    return (character, "red" if broken else style)


def _legend(screen: Screen) -> list[Part]:
    keys = ((Kind.MODEL, "model"), (Kind.CALL, "call"), (Kind.WAIT, "wait"))
    parts: list[Part] = []
    for kind, key in keys:
        character, style = _LOOKS[kind]
        parts += [(character * 2, style), (f" {caption(f'legend.{key}', screen.language)}   ", "dim")]
    return [*parts, (f"{FOLD} {FOLD}", "dim"), (f" {caption('legend.fold', screen.language)}", "dim")]

"""A timeline as one SVG: for the page that `show --html` writes, and for a run in a notebook.

It carries its colours in attributes and takes text colour from around it, so that it is readable on light and dark
ground wherever it is pasted; a page's own style sheet may say other colours by class. Nothing in it is loaded.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from html import escape

from adjourn.checkpoints.lifecycle import CallState
from adjourn.graph.captions import caption, length
from adjourn.graph.timeline import Bar, Kind, Row, Timeline

WIDTH = 980
NAME_X, PLOT_X, PLOT_END, TOLD_X = 26, 214, 790, 804
TOP, ROW, HEAD, BAR = 40, 24, 24, 13  # heights: axis, row, a step's head, bar
NAME_CHARACTERS, INDENT = 26, 14  # a specialist's rows stand further in
NARROWEST = 2.5  # a bar of a millisecond is still seen
CHARACTER = 6.4  # width of one, about, at the size of the axis

OK, FAILED, WAITING, OTHER = "ok", "failed", "waiting", "other"
COLOURS = {"model": "#6e7fd8", OK: "#2f9e5a", FAILED: "#d64550", WAITING: "#c98a00", OTHER: "#8a919c"}
_TONES = {
    CallState.OK: OK,
    CallState.FAILED: FAILED,
    CallState.INVALID: FAILED,
    CallState.UNKNOWN: FAILED,
    CallState.WAITING: WAITING,
    CallState.STARTED: WAITING,
}

# What would move text about or cannot stand in a page; U+FFFD shows that something was there.
_UNSHOWABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def safe(words: object) -> str:
    """Any text as it may stand in HTML, in an element or in a quoted attribute."""
    return escape(_UNSHOWABLE.sub("\ufffd", str(words)))


def svg(made: Timeline, run_id: str, language: str, *, links: bool = False) -> str:
    """The picture. `links`: each row leads to the element of the page that its `anchor` names."""
    lines = list(_laid_out(made))
    height = lines[-1][1] + ROW if lines else TOP + ROW
    alt = caption(
        "timeline.alt",
        language,
        run=run_id,
        rows=len(made.rows),
        length=length(made.end_ms),
        folds=len(made.folds),
    )
    parts = [
        f'<svg class="adj-timeline" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" style="max-width:100%;height:auto" role="{"group" if links else "img"}" '
        f'aria-label="{safe(alt)}" font-family="system-ui,sans-serif" font-size="13" fill="currentColor">',
        *_axis(made, height),
    ]
    step = None
    for row, y in lines:
        if row.step != step:
            parts.append(_head(row.step, y - HEAD, language))
            step = row.step
        parts.append(_row(made, row, y, language, links=links))
    if not lines:
        parts.append(f'<text x="{NAME_X}" y="{TOP + 16}">{safe(caption("timeline.empty", language))}</text>')
    return "".join([*parts, "</svg>"])


def _laid_out(made: Timeline) -> Iterator[tuple[Row, int]]:
    """Each row with its top."""
    y, step = TOP, None
    for row in made.rows:
        if row.step != step:
            y, step = y + HEAD, row.step
        yield row, y
        y += ROW


def _x(made: Timeline, ms: float) -> float:
    return PLOT_X + made.place(ms) * (PLOT_END - PLOT_X)


def _axis(made: Timeline, height: int) -> Iterator[str]:
    for fold in made.folds:
        yield _fold(
            _x(made, fold.begin_ms), _x(made, fold.end_ms), height, length(fold.end_ms - fold.begin_ms)
        )
    begins = {0.0, *(one.end_ms for one in made.folds)}
    start, free_from = 0.0, 0.0
    for tick in made.ticks():
        x = _x(made, tick)
        start = tick if tick in begins else start
        words = _clock(made, tick) if tick in begins else f"+{length(tick - start)}"
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height}" stroke="currentColor" stroke-opacity=".13"/>'
        if x >= free_from and x + len(words) * CHARACTER < WIDTH:
            yield f'<text x="{x:.1f}" y="{TOP - 10}" font-size="11" opacity=".75">{safe(words)}</text>'
            free_from = x + (len(words) + 2) * CHARACTER


def _clock(made: Timeline, ms: float) -> str:
    moment = made.began + timedelta(milliseconds=ms)
    day = "" if moment.date() == made.began.date() else f"{moment:%m-%d} "
    return f"{day}{moment:%H:%M:%S}"


def _fold(left: float, right: float, height: int, words: str) -> str:
    """A stretch without work: a pale band with its true length above it."""
    middle = (left + right) / 2
    return (
        f'<rect class="adj-fold" x="{left:.1f}" y="{TOP - 6}" width="{max(right - left, 1):.1f}" '
        f'height="{height - TOP + 6}" fill="currentColor" fill-opacity=".06"/>'
        f'<text x="{middle:.1f}" y="14" font-size="11" text-anchor="middle" opacity=".75">⋯ {safe(words)} ⋯</text>'
    )


def _head(step: int, y: int, language: str) -> str:
    return (
        f'<line x1="0" x2="{WIDTH}" y1="{y + 4}" y2="{y + 4}" stroke="currentColor" stroke-opacity=".2"/>'
        f'<text x="0" y="{y + 18}" font-size="11" font-weight="600" opacity=".75">'
        f"{safe(caption('step', language, step=step))}</text>"
    )


def _row(made: Timeline, row: Row, y: int, language: str, *, links: bool) -> str:
    x, most = NAME_X + INDENT * row.depth, NAME_CHARACTERS - 2 * row.depth
    name = row.name if len(row.name) <= most else f"{row.name[: most - 1]}…"
    told = told_of(row, language)
    weight = ' font-weight="600"' if row.batch is not None else ' opacity=".85"'
    parts = [
        f"<title>{safe(f'{row.name}: {told}')}</title>",
        f'<rect x="0" y="{y}" width="{WIDTH}" height="{ROW}" fill="transparent"/>',
        _bracket(x, y, row.joined) if row.joined else "",
        f'<text x="{x}" y="{y + 16}"{weight}>{safe(name)}</text>',
        *(_bar(made, bar, row, y) for bar in row.bars),
        f'<text class="adj-{_tone(row)}" x="{TOLD_X}" y="{y + 16}" font-size="12" fill="{COLOURS[_tone(row)]}">{safe(told)}</text>',
    ]
    body = "".join(parts)
    if not links:
        return f"<g>{body}</g>"
    label = safe(f"{caption('step', language, step=row.step)}, {row.name}: {told}")
    return f'<a href="#{safe(row.anchor)}" aria-label="{label}">{body}</a>'


def _bracket(x: int, y: int, rows: int) -> str:
    """Joins a row with the one so many above it: they ran together."""
    down = ROW * rows
    path = f"M{x - 4} {y + ROW // 2 - down}h-5v{down}h5"
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity=".45"/>'


def _bar(made: Timeline, bar: Bar, row: Row, y: int) -> str:
    left, right = _x(made, bar.begin_ms), _x(made, bar.end_ms)
    width, top = max(right - left, NARROWEST), y + (ROW - BAR) // 2
    place = f'x="{left:.1f}" y="{top}" width="{width:.1f}" height="{BAR}" rx="3"'
    if bar.kind is Kind.WAIT:
        colour = COLOURS[WAITING]
        return f'<rect class="adj-wait" {place} fill="{colour}" fill-opacity=".28" stroke="{colour}" stroke-dasharray="4 3"/>'
    tone = "model" if bar.kind is Kind.MODEL else _tone(row)
    return f'<rect class="adj-{tone}" {place} fill="{COLOURS[tone]}"/>'


def _tone(row: Row) -> str:
    return _TONES.get(CallState(row.state), OTHER) if row.batch is not None or row.state != OK else OTHER


def told_of(row: Row, language: str) -> str:
    """What became of a row: its state, and how long it worked and waited."""
    worked, waited = row.worked_ms, row.waited_ms
    parts = [row.state] if row.batch is not None else []
    if worked is not None:
        parts.append(length(worked))
    if waited is not None:
        parts.append(caption("waited", language, time=length(waited)))
    if any(one.is_open for one in row.bars):
        parts.append(caption("goes_on", language))
    return " · ".join(parts)


def legend(language: str) -> str:
    """What the colours mean, as a list."""
    tones = (("model", "model"), (OK, "call"), (FAILED, "failed"), ("wait", "wait"), ("fold", "fold"))
    items = "".join(
        f'<li><span class="swatch {tone}" aria-hidden="true"></span>{safe(caption(f"legend.{key}", language))}</li>'
        for tone, key in tones
    )
    return f'<ul class="legend">{items}</ul>'

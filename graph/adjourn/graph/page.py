"""One run as one HTML page that can be sent to somebody: it loads nothing, runs nothing, and escapes everything."""

import json
from collections.abc import Iterator
from typing import Any

from adjourn.checkpoints.lifecycle import CallState, RunStatus
from adjourn.checkpoints.records import AuditRow, CallRow, Interrupt, StepRow
from adjourn.graph.captions import caption, length, moment
from adjourn.graph.picture import legend, safe, svg
from adjourn.graph.run import Run, observation
from adjourn.graph.timeline import anchor_of, timeline
from adjourn.graph.why import why

LONG = 300  # characters: what is longer is folded away under its first line
LINE = 110  # characters: data that is no longer stands on one line
MOST = 20_000  # characters of one value on the page; the database has all of it


def run_page(run: Run, language: str, at: str) -> str:
    """The page, in `"en"` or `"zh"`; `at` is the stored time that it tells of."""
    made = timeline(run, at)
    title = f"{run.id} {run.status}"
    figure = svg(made, run.id, language, links=True)
    label = safe(caption("timeline", language))
    return "".join(
        [
            f'<!doctype html>\n<html lang="{"zh-CN" if language == "zh" else "en"}"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            # said again for the reader's browser: whatever slipped in would neither run nor load
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{safe(title)}</title><style>{_STYLE}</style></head><body>",
            f'<a class="skip" href="#steps">{safe(caption("page.skip", language))}</a>',
            _header(run, language, at),
            "<main>",
            f'<h2>{label}</h2><div class="figure" role="region" tabindex="0" aria-label="{label}">{figure}</div>',
            legend(language),
            f'<h2 id="steps">{safe(caption("page.steps", language))}</h2>',
            *_steps(run, language, 0),
            _words("page.answer", run.answer, language),
            _audit(run.audit, language),
            "</main>",
            f"<footer>{safe(caption('page.made', language, at=moment(at)))}</footer></body></html>\n",
        ]
    )


def _header(run: Run, language: str, at: str) -> str:
    row = run.row
    facts = {
        "page.thread": row.thread_id,
        "page.graph": row.graph,
        "page.started_by": row.started_by,
        "page.began": moment(row.created_at),
        "page.ended": moment(row.ended_at or ""),
        "page.worked": length(row.active_ms),
        "page.tokens": f"{row.input_tokens:,} + {row.output_tokens:,}",
        "page.cost": f"{row.cost:g}" if row.cost else None,
        "page.path": row.path,
    }
    told = "".join(
        f"<div><dt>{safe(caption(key, language))}</dt><dd>{safe(value)}</dd></div>"
        for key, value in facts.items()
        if value
    )
    given = json.dumps(row.context, ensure_ascii=False) if row.context else None
    return (
        f'<header><p class="status {safe(run.status)}">{safe(run.status_noting(language=language))}</p>'
        f"<h1>{safe(run.id)}</h1><p class=why>{safe(why(run, language, at))}</p><dl>{told}</dl>"
        f"{_words('page.input', row.input, language)}"
        f"{_words('page.context', given, language)}</header>"
    )


def _words(key: str, words: str | None, language: str) -> str:
    if not words:
        return ""
    return f"<section><h2>{safe(caption(key, language))}</h2><div class=words>{safe(words[:MOST])}</div></section>"


def _steps(run: Run, language: str, depth: int) -> Iterator[str]:
    """The steps of a run; `depth` counts the specialists that it is inside of."""
    known = {one.step: one for one in run.steps}
    asked = {(one.step, one.call_id) for one in run.calls}
    of_nodes = run.children_of_nodes
    numbers = {*known, *(one.step for one in run.calls), *(one.step for one in run.questions)}
    for step in sorted(numbers | ({0} if of_nodes else set())):
        calls = [_call(run, one, language, depth) for one in run.calls if one.step == step]
        others = [one for one in run.questions if one.step == step and (one.step, one.call_id) not in asked]
        loose = "".join(_question(one, language) for one in others)
        inner = "".join(
            f'<article id="{safe(anchor_of(run, depth, one.id))}">{_child(one, language, depth + 1)}</article>'
            for one in (of_nodes if step == 0 else ())
        )
        yield (
            f"<section class=step>{_step_head(run, step, known.get(step), language, depth)}{''.join(calls)}{inner}"
            + (
                f'<article id="{safe(anchor_of(run, depth, f"s{step}-q"))}">{loose}</article>'
                if loose
                else ""
            )
            + "</section>"
        )


def _step_head(run: Run, step: int, row: StepRow | None, language: str, depth: int) -> str:
    told = ""
    if row is not None:
        tokens = ""
        if row.input_tokens is not None:
            tokens = f" · {row.input_tokens:,} + {row.output_tokens or 0:,} {caption('page.token', language)}"
        told = f" <span class=dim>{safe(f'{row.model} · {length(row.latency_ms)}{tokens}')}</span>"
    whose = f"{run.row.path} · " if depth else ""
    anchor = safe(anchor_of(run, depth, f"s{step}"))
    return f'<h3 id="{anchor}">{safe(whose + caption("step", language, step=step))}{told}</h3>'


def _call(run: Run, call: CallRow, language: str, depth: int) -> str:
    took = None if call.took_ms is None else length(call.took_ms)
    attempts = caption("page.attempts", language, attempts=call.attempts) if call.attempts > 1 else None
    told = " · ".join(one for one in (call.outcome, call.error_code, took, attempts) if one)
    arguments: Any = call.raw if call.arguments is None else call.arguments
    kept = call.error or {}
    error = f"{kept.get('class', '')}: {kept.get('text', '')}" if kept else None
    parts = [
        f'<article id="{safe(anchor_of(run, depth, f"s{call.step}-c{call.position}"))}"><h4>{safe(call.tool)} '
        f'<span class="pill {_tone(call)}">{safe(told)}</span> <span class=dim>{safe(call.call_id)}</span></h4>',
        _value("page.arguments", arguments, language),
        _value("page.result", observation(call), language),
        _value("page.error", error, language),
        *(
            _question(one, language)
            for one in run.questions
            if (one.step, one.call_id) == (call.step, call.call_id)
        ),
        *(_child(one, language, depth + 1) for one in run.children_of(call)),
    ]
    return "".join([*parts, "</article>"])


def _child(run: Run, language: str, depth: int) -> str:
    """The run of a specialist, inside the call that it worked for."""
    head = f"<b>{safe(f'{run.row.path}: {run.status_noting(language=language)}')}</b> <span class=dim>{safe(run.id)}</span>"
    return f"<div class=inner><p>{head}</p>{''.join(_steps(run, language, depth))}</div>"


_BAD = frozenset({CallState.FAILED, CallState.INVALID, CallState.UNKNOWN})


def _tone(call: CallRow) -> str:
    if call.outcome == CallState.OK:
        return "ok"
    return "failed" if call.outcome in _BAD else "other"


def _question(one: Interrupt, language: str) -> str:
    by = one.agreed or caption("no_name", language)
    settled = (
        f"{one.state} · {by} · {moment(one.closed_at)}" if one.closed_at else caption("page.open", language)
    )
    return (
        f'<div class=question><p><b>{safe(one.type)}</b> {safe(one.asked)} <span class="pill waiting">{safe(settled)}</span>'
        f" <span class=dim>{safe(one.id)}</span></p>{_value('page.answered', one.shown_answer, language)}</div>"
    )


def _value(key: str, value: Any, language: str) -> str:
    """A value under its name; a long one is opened by its reader."""
    if value is None or value in ({}, ""):
        return ""
    words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) and len(words) > LINE:
        words = json.dumps(value, ensure_ascii=False, indent=1)
    if len(words) > MOST:
        words = f"{words[:MOST]}\n{caption('page.cut', language, count=len(words) - MOST)}"
    name = safe(caption(key, language))
    if len(words) <= LONG:
        return f"<div class=value><span class=name>{name}</span><pre>{safe(words)}</pre></div>"
    count = safe(caption("page.characters", language, count=len(words)))
    return f"<details class=value><summary><span class=name>{name}</span> {count}</summary><pre>{safe(words)}</pre></details>"


def _audit(rows: "list[AuditRow] | tuple[AuditRow, ...] | Any", language: str) -> str:
    if not rows:
        return ""
    head = "".join(
        f"<th scope=col>{safe(caption(f'page.audit.{name}', language))}</th>"
        for name in ("at", "action", "by")
    )
    body = "".join(
        f"<tr><td>{safe(moment(one.at))}</td><td>{safe(one.action)} <span class=dim>{safe(one.interrupt_id or '')}</span></td>"
        f"<td>{safe(one.by or '-')}</td></tr>"
        for one in rows
    )
    return f"<section><h2>{safe(caption('page.audit', language))}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></section>"


_STATUS = {
    RunStatus.FINISHED: "--ok",
    RunStatus.INTERRUPTED: "--waiting",
    RunStatus.FAILED: "--failed",
    RunStatus.CANCELLED: "--dim",
    RunStatus.RUNNING: "--model",
}

_STYLE = (
    """
:root{--ground:#fbfbfd;--card:#fff;--ink:#1d2129;--dim:#5c6470;--line:#e2e5ea;--link:#3450b4;
--model:#5767c9;--ok:#1f7f45;--failed:#c22f3d;--waiting:#8f6400;--code:#f3f4f8}
@media (prefers-color-scheme:dark){:root{--ground:#14161b;--card:#1c1f26;--ink:#e6e8ec;--dim:#9aa3b0;--line:#30353f;
--link:#9db1ff;--model:#98a6f5;--ok:#5fcf8c;--failed:#ff8088;--waiting:#e9b949;--code:#14161b}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1080px;padding:1.5rem clamp(.75rem,3vw,2rem);background:var(--ground);color:var(--ink);
font:15px/1.55 system-ui,-apple-system,"Segoe UI","Noto Sans","Noto Sans CJK SC","Microsoft YaHei",sans-serif}
h1{font-size:1.35rem;margin:.2rem 0 .4rem;font-family:ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}
h2{font-size:1rem;margin:1.8rem 0 .6rem}h3{font-size:.95rem;margin:0 0 .5rem}h4{font-size:.92rem;margin:0 0 .3rem}
.dim{color:var(--dim);font-weight:400;font-size:.85em;overflow-wrap:anywhere}
.status{display:inline-block;margin:0;padding:.1rem .7rem;border-radius:99px;border:1px solid currentColor;font-size:.85rem;font-weight:600}
.why{font-size:1.05rem;margin:.3rem 0 .9rem;overflow-wrap:anywhere}
dl{display:flex;flex-wrap:wrap;gap:.5rem 2rem;margin:0}dt{font-size:.75rem;color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
.words{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.8rem 1rem}
.figure{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:1rem}
.adj-timeline{min-width:860px;display:block}
.adj-timeline a:hover rect:first-of-type,.adj-timeline a:focus rect:first-of-type{fill:var(--code)}
rect.adj-model{fill:var(--model)}rect.adj-ok{fill:var(--ok)}rect.adj-failed{fill:var(--failed)}
rect.adj-wait{fill:var(--waiting);stroke:var(--waiting)}
text.adj-ok{fill:var(--ok)}text.adj-failed{fill:var(--failed)}text.adj-waiting{fill:var(--waiting)}text.adj-other{fill:var(--dim)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;margin:.6rem 0 0;padding:0;font-size:.82rem;color:var(--dim)}
.swatch{display:inline-block;width:1.1rem;height:.7rem;border-radius:3px;margin-right:.4rem;vertical-align:-.05rem}
.swatch.model{background:var(--model)}.swatch.ok{background:var(--ok)}.swatch.failed{background:var(--failed)}
.swatch.wait{border:1px dashed var(--waiting);background:color-mix(in srgb,var(--waiting) 28%,transparent)}
.swatch.fold{background:color-mix(in srgb,var(--ink) 10%,transparent)}
.step{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.9rem 1rem;margin:0 0 .8rem}
article{border-top:1px solid var(--line);padding:.7rem 0 .2rem;margin-top:.6rem}
article:target,h3:target{outline:2px solid var(--link);outline-offset:6px;border-radius:2px}
.pill{font-size:.8em;font-weight:600}.pill.ok{color:var(--ok)}.pill.failed{color:var(--failed)}.pill.waiting{color:var(--waiting)}.pill.other{color:var(--dim)}
.question{border-left:3px solid var(--waiting);padding-left:.8rem;margin:.6rem 0}.question p{margin:0 0 .3rem}
.inner{border-left:3px solid var(--model);padding-left:.8rem;margin:.6rem 0}.inner p{margin:0 0 .4rem}
.value{margin:.3rem 0}.value .name{font-size:.75rem;color:var(--dim)}
summary{cursor:pointer;font-size:.85rem;color:var(--link)}
pre{margin:.15rem 0 0;padding:.5rem .7rem;background:var(--code);border-radius:6px;white-space:pre-wrap;overflow-wrap:anywhere;
font:12.5px/1.5 ui-monospace,Menlo,Consolas,monospace}
table{border-collapse:collapse;width:100%;font-size:.88rem}th{text-align:left;font-size:.75rem;color:var(--dim);font-weight:400}
td,th{padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
a{color:var(--link)}a:focus-visible,summary:focus-visible,[tabindex]:focus-visible{outline:2px solid var(--link);outline-offset:2px}
.adj-timeline a{color:inherit;text-decoration:none}
.skip{position:absolute;left:-99rem}.skip:focus{position:static}
footer{margin-top:2rem;color:var(--dim);font-size:.8rem}
@media print{.figure{overflow:visible}.adj-timeline{min-width:0}details{display:block}}
""".replace("\n", "")
    + "".join(f".status.{status.value}{{color:var({colour})}}" for status, colour in _STATUS.items())
)

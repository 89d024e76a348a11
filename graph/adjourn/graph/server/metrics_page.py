"""`/metrics`: how the store stands, in the text format that Prometheus reads."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from adjourn.checkpoints.store_figures import read_store_figures, read_totals
from adjourn.graph.server.desk import desk_of

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Gauges, though most only grow: what is pruned is not counted any more, and each server of a store tells the same.
_PLAIN = {
    "working": "Runs that an owner with a lease drives now.",
    "queued": "Runs that wait for somebody to drive them.",
    "queued_s": "Seconds that the longest of these has waited.",
    "dead": "Runs that lost their owner and were not taken over yet.",
    "questions": "Open questions to people.",
    "overdue": "Open questions whose time has passed.",
    "steps": "Model calls of all runs that are kept.",
    "input_tokens": "Tokens sent to models by all runs that are kept.",
    "output_tokens": "Tokens that models gave to all runs that are kept.",
    "cost": "What these cost by the app's price table.",
}
_NAMES = {"queued_s": "queued_seconds"}  # Prometheus writes units out


async def metrics(request: Request) -> Response:
    """How the store stands, for Prometheus: the same from each server of a store, and needed from one."""
    desk = desk_of(request)
    text = await desk.runner.database.aread(partial(as_text, graph=desk.runner.name))
    return Response(text, media_type=MEDIA_TYPE)


def as_text(connection: Connection, graph: str | None = None) -> str:
    """The figures of a store, or of one graph in it, in Prometheus's text format, version 0.0.4."""
    return "".join(f"{line}\n" for line in _lines(connection, graph))


def _lines(connection: Connection, graph: str | None) -> Iterator[str]:
    now, totals = read_store_figures(connection, graph), read_totals(connection, graph)
    yield from _labelled("runs", "Runs, by status.", "status", now.runs)
    yield from _labelled("calls", "Tool calls, by outcome.", "outcome", totals.calls)
    figures = asdict(now) | asdict(totals)
    for field, text in _PLAIN.items():
        name = f"adjourn_{_NAMES.get(field, field)}"
        yield from (f"# HELP {name} {text}", f"# TYPE {name} gauge", f"{name} {figures[field]}")


def _labelled(name: str, text: str, label: str, values: Mapping[str, int]) -> Iterator[str]:
    yield from (f"# HELP adjourn_{name} {text}", f"# TYPE adjourn_{name} gauge")
    # words of closed lists: nothing in them needs to be escaped
    yield from (f'adjourn_{name}{{{label}="{word}"}} {number}' for word, number in values.items())

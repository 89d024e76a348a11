"""The stand-in's answer, made of nothing but what the tools brought."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from adjourn.graph.demo.exchange import Exchange, Result
from adjourn.graph.demo.phrases import Language, phrase
from adjourn.graph.demo.sentence import speaks_chinese

MAX_STEPS_SHOWN = 8
MAX_PATTERNS_SHOWN = 3
MAX_LATEST_SHOWN = 3
LINE = 160  # characters of a log line in an answer

RESTART_WORDS = re.compile(r"重启|\brestart", re.IGNORECASE)


def answer(exchange: Exchange, language: Language) -> str:
    """What was found and done in this exchange, in lines; empty when there was nothing."""
    parts = [*_restart(exchange, language), *_logs(exchange, language)]
    parts += [
        *_resources(exchange, language),
        *_documents(exchange, language),
        *_failures(exchange, language),
    ]
    return "\n".join(parts)


def source_of(data: Mapping[str, Any]) -> str:
    """What a log is called: its file, or its service and environment."""
    return str(data["file"]) if "file" in data else f"{data.get('service_id')} ({data.get('environment')})"


def logs_of(exchange: Exchange) -> Mapping[str, Any] | None:
    """What `query_logs` brought in this exchange; None: nothing that can be read."""
    found = exchange.newest("query_logs")
    return (
        found.data
        if found and found.ok and isinstance(found.data, Mapping) and "errors" in found.data
        else None
    )


def documents_of(exchange: Exchange, language: Language) -> list[Mapping[str, Any]]:
    """What `search_docs` brought in this exchange: those in the user's language first, then best first."""
    found = exchange.newest("search_docs")
    if found is None or not found.ok or not isinstance(found.data, list):
        return []
    hits = [hit for hit in found.data if isinstance(hit, Mapping) and "title" in hit]
    return sorted(hits, key=lambda hit: speaks_chinese(str(hit["title"])) != (language == "zh"))


def _restart(exchange: Exchange, language: Language) -> Iterator[str]:
    done = exchange.newest("restart_service")
    if done is None:
        return
    if done.ok and isinstance(done.data, Mapping):
        keys = ("service_id", "environment", "restarts")
        yield phrase("restart.done", language, **{key: done.data.get(key, "?") for key in keys})
        return
    declined = done.code == "user_declined"
    key = "restart.declined" if declined else "restart.not_done"
    yield phrase(key, language, message=_first_sentence(done.message))
    if declined and documents_of(exchange, language):
        yield phrase("restart.manual", language)


def _first_sentence(message: str) -> str:
    # what follows is for a model: what to try next, and what not
    return re.split(r"(?<=[.。])\s*(?=\S)", message, maxsplit=1)[0]


def _logs(exchange: Exchange, language: Language) -> Iterator[str]:
    data = logs_of(exchange)
    if data is None:
        return
    source = source_of(data)
    if not data["lines"]:
        yield phrase("logs.empty", language, source=source)
        return
    key = "logs.window" if data.get("from") else "logs.untimed"
    values = {"start": _clock(data.get("from")), "end": _clock(data.get("to"))}
    yield phrase(key, language, source=source, lines=data["lines"], errors=data["errors"], **values)
    yield from _errors(data, language) if data["errors"] else _latest(data, language)


def _errors(data: Mapping[str, Any], language: Language) -> Iterator[str]:
    first, last = data["first_error"], data["last_error"]
    if first["time"]:
        yield phrase("logs.span", language, first=_clock(first["time"]), last=_clock(last["time"]))
    for pattern in data["patterns"][:MAX_PATTERNS_SHOWN]:
        yield phrase("logs.pattern", language, count=pattern["count"], message=pattern["message"][:LINE])
    if data["changes_before_first_error"]:
        yield phrase("logs.changes", language)
        yield from (f"- {change[:LINE]}" for change in data["changes_before_first_error"])


def _latest(data: Mapping[str, Any], language: Language) -> Iterator[str]:
    yield phrase("logs.latest", language)
    yield from (f"- {line.splitlines()[0][:LINE]}" for line in data["latest"][-MAX_LATEST_SHOWN:] if line)


def _resources(exchange: Exchange, language: Language) -> Iterator[str]:
    found = exchange.newest("search_resource")
    if found is None or not found.ok:
        return
    rows = [row for row in found.data or [] if isinstance(row, Mapping)]
    if not rows:
        yield phrase("resources.none", language)
    for row in rows:
        shown = {key: row.get(key) or "-" for key in ("id", "name", "owner")}
        lists = {key: ", ".join(row.get(key) or ["-"]) for key in ("envs", "depends_on")}
        yield phrase("resources.row", language, **shown, **lists)


def _documents(exchange: Exchange, language: Language) -> Iterator[str]:
    searched = exchange.newest("search_docs")
    if searched is None or not searched.ok:
        return
    hits = documents_of(exchange, language)
    if not hits:
        yield phrase("docs.none", language, query=searched.arguments.get("query", ""))
        return
    best = hits[0]
    if best.get("steps") and (logs_of(exchange) is not None or _is_the_steps(best)):
        yield from _steps(best, language)
    else:
        yield from _excerpt(best, language)
    if len(hits) > 1:
        titles = "、" if language == "zh" else ", "
        yield phrase("docs.more", language, titles=titles.join(str(hit["title"]) for hit in hits[1:]))


def _steps(hit: Mapping[str, Any], language: Language) -> Iterator[str]:
    yield phrase("docs.steps", language, title=hit["title"])
    yield from (f"{number}. {step}" for number, step in enumerate(hit["steps"][:MAX_STEPS_SHOWN], 1))


def _excerpt(hit: Mapping[str, Any], language: Language) -> Iterator[str]:
    section = "" if hit.get("section") in (None, "", hit["title"]) else f" {hit['section']}"
    yield phrase("docs.excerpt", language, title=hit["title"], section=section)
    yield str(hit.get("excerpt", "")).strip()
    if hit.get("steps"):
        yield from _steps(hit, language)


def _is_the_steps(hit: Mapping[str, Any]) -> bool:
    return str(hit["steps"][0]) in str(hit.get("excerpt", ""))


def _failures(exchange: Exchange, language: Language) -> Iterator[str]:
    for result in exchange.results:
        if not result.ok and result.tool != "restart_service":
            yield _failure(result, language)


def _failure(result: Result, language: Language) -> str:
    key = "waits" if result.code == "awaiting_user" else "failed"
    return phrase(key, language, tool=result.tool, message=result.message)


def _clock(time: object) -> str:
    # 2026-03-18T20:09:48+08:00 -> 03-18 20:09:48: the zone is the log's own
    return str(time)[5:19].replace("T", " ")

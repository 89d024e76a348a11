"""What the stand-in does next: a handful of rules from a history and the tools on offer to one turn. Pure.

It takes values from three places only: the user's sentence, the choices in a tool's schema, and results that
tools brought on this thread. A value that is in none of them is left out, and the runtime asks a person.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from adjourn.graph.demo import flow_turns, sentence, team_turns
from adjourn.graph.demo.answer import RESTART_WORDS, answer, documents_of, logs_of
from adjourn.graph.demo.exchange import Exchange, read_exchange
from adjourn.graph.demo.phrases import Language, phrase
from adjourn.graph.demo.sentence import Wishes, wishes_of

MANY_ERRORS = 20  # below that, a restart is not worth an interruption of the service

Properties = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call that the stand-in makes."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """Text, then calls; without calls the text is the answer."""

    text: str
    calls: tuple[PlannedCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a rule looks at. `offered` maps each tool to the properties of its parameters."""

    exchange: Exchange
    offered: Mapping[str, Properties]
    text: str
    wishes: Wishes
    language: Language

    def say(self, key: str, **values: object) -> str:
        """A phrase in the user's language."""
        return phrase(key, self.language, **values)

    def can_call(self, tool: str) -> bool:
        """Whether the tool is on offer and was not called in this exchange; no rule calls a tool twice."""
        return tool in self.offered and self.exchange.newest(tool) is None


def decide(messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]]) -> Turn:
    """The next turn. `tools` are in OpenAI's form, as `bind_tools` makes them."""
    exchange = read_exchange(messages)
    text = sentence.whole_sentence(exchange)
    language: Language = "zh" if sentence.speaks_chinese(text) else "en"
    at = Situation(exchange, _offered(tools), text, wishes_of(text), language)
    turn = _in_flow(at) or _as_supervisor(at) or (_next(at) if exchange.results else _opening(at))
    if exchange.is_first:
        return Turn(at.say("stand_in") + turn.text, turn.calls)
    return turn


def known_values(at: Situation) -> dict[str, Any]:
    """Service, environment, file as the sentence names them, else as results on this thread showed them."""
    schema: dict[str, Any] = {**at.offered.get("restart_service", {}), **at.offered.get("query_logs", {})}
    named = {
        "service_id": sentence.named_value(at.text, _choices(schema.get("service_id"))),
        "environment": sentence.named_environment(at.text, _choices(schema.get("environment"))),
        "file": sentence.named_file(at.text, _choices(schema.get("file"))),
    }
    found = {name: value for name, value in named.items() if value is not None}
    return {name: value for name, value in {**_seen(at), **found}.items() if name in schema}


def _in_flow(at: Situation) -> Turn | None:
    if not flow_turns.is_flow(at.exchange, tuple(at.offered)):
        return None
    planned = flow_turns.flow_call(at.exchange, tuple(at.offered), at.text)
    if planned is None:
        return Turn(flow_turns.told(at.exchange, at.language))
    return Turn("", (PlannedCall(*planned),))


def _as_supervisor(at: Situation) -> Turn | None:
    answers = team_turns.answers(at.exchange)
    if answers:
        return Turn("\n\n".join(answers))
    if team_turns.DELEGATE not in at.offered:
        return None
    calls = [PlannedCall(team_turns.DELEGATE, one) for one in team_turns.tasks(at.text)]
    return Turn(at.say("start.team"), tuple(calls))


def _opening(at: Situation) -> Turn:
    if not at.offered:
        return Turn(at.say("no_tools"))
    if at.wishes.greeting and not at.wishes.logs:
        key = "greeting_files" if "search_resource" not in at.offered else "greeting"
        return Turn(at.say(key, tools=", ".join(at.offered)))
    if at.wishes.restart and not at.wishes.logs and at.can_call("restart_service"):
        return _wanted_restart(at)
    if at.wishes.resources and at.can_call("search_resource"):
        return Turn(at.say("start.resources"), (_resource_call(at),))
    return _looking(at)


def _looking(at: Situation) -> Turn:
    named = {"service_id", "file"} & {name for name in known_values(at) if name not in _seen(at)}
    logs = (at.wishes.logs or (bool(named) and not at.wishes.docs)) and at.can_call("query_logs")
    docs = (at.wishes.docs or not logs) and at.can_call("search_docs")
    calls = [_logs_call(at)] if logs else []
    calls += [_docs_call(at)] if docs else []
    key = "start.logs_docs" if logs and docs else "start.logs" if logs else "start.docs"
    return Turn(at.say(key), tuple(calls)) if calls else Turn(at.say("no_tools"))


def _next(at: Situation) -> Turn:
    logs = logs_of(at.exchange)
    wants_restart = at.wishes.restart and not at.wishes.logs
    if wants_restart and at.exchange.newest("search_resource") and at.can_call("restart_service"):
        return _wanted_restart(at)
    if logs and logs["errors"] and at.can_call("search_docs") and not at.wishes.no_docs:
        pattern = sentence.pattern_topic(str(logs["patterns"][0]["message"]))
        query = " ".join(filter(None, (logs.get("service_id"), pattern)))
        call = PlannedCall("search_docs", {"query": query, "top_k": 5})
        return Turn(at.say("next.docs", errors=logs["errors"]), (call,))
    return _advised_restart(at) or Turn(answer(at.exchange, at.language) or at.say("no_tools"))


def _advised_restart(at: Situation) -> Turn | None:
    """A restart that the best document advises for a service whose log is full of errors; else None."""
    logs, hits = logs_of(at.exchange), documents_of(at.exchange, at.language)
    if not logs or not hits or logs["errors"] < MANY_ERRORS or "service_id" not in logs:
        return None
    if (
        at.wishes.no_restart
        or _was_proposed(at)
        or not at.can_call("restart_service")
        or _is_about_another(hits[0], str(logs["service_id"]), at)
    ):
        return None
    steps = [str(step) for step in hits[0].get("steps") or []]
    number = next((number for number, step in enumerate(steps, 1) if RESTART_WORDS.search(step)), None)
    if number is None:
        return None
    values = {"service_id": logs["service_id"], "environment": logs["environment"]}
    text = at.say("next.restart", errors=logs["errors"], title=hits[0]["title"], number=number, **values)
    return Turn(text, (PlannedCall("restart_service", values),))


def _was_proposed(at: Situation) -> bool:
    # whoever has said yes or no on this thread is not asked again, unless they bring it up
    return any(result.tool == "restart_service" for result in at.exchange.before)


def _is_about_another(hit: Mapping[str, Any], service_id: str, at: Situation) -> bool:
    told = " ".join(str(hit.get(part, "")) for part in ("title", "path", "excerpt"))
    others = [one for one in _choices(at.offered["restart_service"].get("service_id")) if one != service_id]
    return service_id not in told and any(other in told for other in others)


def _wanted_restart(at: Situation) -> Turn:
    values = {
        name: value for name, value in known_values(at).items() if name in ("service_id", "environment")
    }
    if len(values) == 2:
        return Turn(at.say("start.restart", **values), (PlannedCall("restart_service", values),))
    if at.can_call("search_resource"):
        return Turn(at.say("start.resources"), (_resource_call(at),))
    told = answer(at.exchange, at.language)
    return Turn("\n".join(filter(None, (told, at.say("resources.which")))))


def _logs_call(at: Situation) -> PlannedCall:
    arguments = {name: value for name, value in known_values(at).items() if name in at.offered["query_logs"]}
    minutes = sentence.minutes_in(at.text)
    return PlannedCall("query_logs", {**arguments, **({"minutes": minutes} if minutes else {})})


def _docs_call(at: Situation) -> PlannedCall:
    return PlannedCall("search_docs", {"query": sentence.topic(at.text, at.exchange.earlier)})


def _resource_call(at: Situation) -> PlannedCall:
    listing = not at.wishes.restart and sentence.wants_everything(at.text)
    arguments: dict[str, Any] = {"query": "" if listing else at.text.strip()}
    if sentence.wants_databases(at.text):
        arguments["kind"] = "db"
    return PlannedCall("search_resource", arguments)


def _seen(at: Situation) -> dict[str, Any]:
    """Values that results on this thread showed; the newest counts."""
    seen: dict[str, Any] = {}
    for result in (*at.exchange.before, *at.exchange.results):
        if not result.ok:
            continue
        if isinstance(result.data, Mapping):
            seen |= {
                name: result.data[name]
                for name in ("service_id", "environment", "file")
                if name in result.data
            }
        elif result.tool == "search_resource" and isinstance(result.data, list):
            seen |= _only_service(result.data)
    return seen


def _only_service(rows: Sequence[Any]) -> dict[str, Any]:
    services = [row for row in rows if isinstance(row, Mapping) and row.get("kind") == "service"]
    return {"service_id": services[0]["id"]} if len(services) == 1 else {}


def _offered(tools: Sequence[Mapping[str, Any]]) -> dict[str, Properties]:
    functions = [tool["function"] for tool in tools if "function" in tool]
    return {one["name"]: one.get("parameters", {}).get("properties", {}) for one in functions}


def _choices(schema: Any) -> tuple[str, ...]:
    if not isinstance(schema, Mapping):
        return ()
    if "const" in schema:
        return (str(schema["const"]),)
    return tuple(str(value) for value in schema.get("enum", ()))

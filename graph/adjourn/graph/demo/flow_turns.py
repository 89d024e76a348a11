"""What the stand-in does in the steps of the demo's flow: it calls the one tool that it is shown. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from adjourn.graph.demo import sentence
from adjourn.graph.demo.exchange import Exchange
from adjourn.graph.demo.phrases import Language, phrase

ENVIRONMENTS = ("prod", "staging")  # the first one is meant where the sentence names none
_OF_THE_FLOW = ("check_quota", "create_database")


def is_flow(exchange: Exchange, offered: Sequence[str]) -> bool:
    """Whether this is a step of the flow: one of its tools is on offer alone, or was used before."""
    alone = len(offered) == 1 and offered[0] in (*_OF_THE_FLOW, "search_resource")
    return alone or any(exchange.newest(name) is not None for name in _OF_THE_FLOW)


def flow_call(exchange: Exchange, offered: Sequence[str], text: str) -> tuple[str, dict[str, Any]] | None:
    """The call of the tool on offer; None when none is: then the user is told what was done."""
    if not offered:
        return None
    environment = sentence.named_environment(text, ENVIRONMENTS) or ENVIRONMENTS[0]
    service = {"service_id": _service(exchange)}
    arguments: Mapping[str, dict[str, Any]] = {
        "search_resource": {"query": text.strip(), "kind": "service"},
        "check_quota": service,
        "create_database": {**service, "environment": environment},
    }
    return offered[0], arguments.get(offered[0], {})


def _service(exchange: Exchange) -> str:
    result = exchange.newest("search_resource")
    rows = result.data if result is not None and isinstance(result.data, list) else []
    return str(rows[0]["id"]) if rows else ""


def told(exchange: Exchange, language: Language) -> str:
    """What the user is told at the end."""
    created = exchange.newest("create_database")
    data = created.data if created is not None and isinstance(created.data, dict) else {}
    return phrase(
        "flow.created", language, **{"database": "?", "service_id": "?", "environment": "?", **data}
    )

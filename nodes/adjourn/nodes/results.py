"""What a tool returned: the model's part, and people's part where they differ (C-32). Pure."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adjourn.nodes.attachments import detached
from adjourn.nodes.merging import merge
from adjourn.nodes.observations import plain, success, with_attached
from adjourn.nodes.tool import Tool

PEOPLE_LIMIT = 32_000  # characters that people are shown: a long page, and four times what a model may see

_SAME = object()


@dataclass(frozen=True, slots=True)
class Told:
    """What a tool returns to tell the model one thing and people another.

    People's part goes to the `tool_result` event and the `calls` row, masked like everything else; the model's
    part is its observation. Evidence, records to merge and what is told to the model again are of the model's part.
    """

    for_model: Any
    for_people: Any


@dataclass(frozen=True, slots=True)
class Shaped:
    """A result as it is told. `shown` is None where people see what the model sees."""

    observation: str
    shown: Any = None


def shaped(
    tool: Tool, result: Any, *, language: str, note: dict[str, Any] | None, mask: Callable[[Any], Any]
) -> Shaped:
    """What the model and people are told of a result: merged, reduced to the declared fields, masked, cut."""
    told, people = (result.for_model, result.for_people) if isinstance(result, Told) else (result, _SAME)
    told, blocks = detached(told)
    people = people if people is _SAME else detached(people)[0]
    if tool.merge_by or tool.model_fields is not None:
        told = plain(told)
    if tool.merge_by:
        told = merge(told, tool.merge_by, rank=tool.rank_by)
    fewer = told if tool.model_fields is None else _only(told, tool.model_fields)
    if people is _SAME and fewer != told:
        people = told
    observation = success(fewer, limit=tool.result_limit, language=language, note=note, mask=mask)
    observation = with_attached(observation, blocks)
    return Shaped(observation, None if people is _SAME else _shown(people, language, mask))


def _only(value: Any, names: tuple[str, ...]) -> Any:
    """A record, or each record of a list, with these fields alone, in their declared order."""
    if isinstance(value, list):
        return [_only(one, names) for one in value]
    return {name: value[name] for name in names if name in value} if isinstance(value, dict) else value


def _shown(value: Any, language: str, mask: Callable[[Any], Any]) -> Any:
    told = json.loads(success(value, limit=PEOPLE_LIMIT, language=language, mask=mask))
    return {"data": told["data"], "cut": told["cut"]} if "cut" in told else told["data"]

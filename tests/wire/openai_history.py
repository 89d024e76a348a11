"""Whether OpenAI's chat API would take a history, and what it says if not, in its own words."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: {}"
)


def refusal(messages: Sequence[dict[str, Any]]) -> tuple[str, str] | None:
    """(message, param) of the 400 that the API answers; None for a legal history.

    As the real one, it does not ask in which order the answers of one turn stand.
    """
    return next(_problems(messages), None)


def _problems(messages: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    open_ids: list[str] = []
    asked: list[str] = []
    at = 0
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            id_ = message.get("tool_call_id")
            if id_ in open_ids:
                open_ids.remove(id_)
            elif id_ in asked:
                yield (
                    f"Duplicate value for 'tool_call_id' of '{id_}' in messages[{place}].",
                    f"messages.[{place}]",
                )
            else:
                yield _ORPHAN, f"messages.[{place}].role"
            continue
        if open_ids:
            yield _UNANSWERED.format(", ".join(open_ids)), f"messages.[{at}].role"
        open_ids, asked, at = [], [], place
        if message["role"] == "assistant":
            yield from _calls(place, message)
            asked = [call["id"] for call in message.get("tool_calls") or ()]
            open_ids = list(asked)
    if open_ids:
        yield _UNANSWERED.format(", ".join(open_ids)), f"messages.[{at}].role"


def _calls(place: int, message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    calls = message.get("tool_calls")
    where = f"messages[{place}].tool_calls"
    if calls is None:
        if message.get("content") is None and "function_call" not in message:
            yield "Invalid value for 'content': expected a string, got null.", f"messages.[{place}].content"
        return
    if not calls:
        yield (
            f"Invalid '{where}': empty array. Expected an array with minimum length 1, "
            "but got an empty array instead.",
            where,
        )
    ids = [call.get("id") for call in calls]
    for number, call in enumerate(calls):
        if ids.count(call.get("id")) > 1:
            yield f"Duplicate value for 'id' of '{call['id']}' in {where}.", f"{where}[{number}].id"
        yield from _call(f"{where}[{number}]", call)


def _call(where: str, call: dict[str, Any]) -> Iterator[tuple[str, str]]:
    function = call["function"]
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(call.get("id"), str):
        yield f"Invalid type for '{where}.id': expected a string, but got null instead.", f"{where}.id"
    if call.get("type") != "function":
        yield f"Missing required parameter: '{where}.type'.", f"{where}.type"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield (
            f"Invalid '{where}.function.name': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            f"{where}.function.name",
        )
    elif len(name) > 64:
        yield (
            f"Invalid '{where}.function.name': string too long. Expected a string with maximum length 64, "
            f"but got a string with length {len(name)} instead.",
            f"{where}.function.name",
        )
    if not isinstance(arguments, str):
        yield (
            f"Invalid type for '{where}.function.arguments': expected a string, but got an object instead.",
            f"{where}.function.arguments",
        )

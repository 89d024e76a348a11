"""A history that somebody brings: what is taken of it, and what the run that goes on from it begins with (C-87). Pure.

Nothing but the messages is known: no ledger, no plan, no question. So nothing of it is run again: a call that waited
keeps its provisional observation, what a person submits comes as the user's words, and the model calls anew.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.lifecycle import Effect, ErrorCode
from adjourn.graph.said import Message, read_said
from adjourn.nodes.assembly import AssembledCall, Turn, parse_arguments
from adjourn.nodes.history import healed
from adjourn.nodes.observations import failure, status_of
from adjourn.nodes.stored_form import assistant_message, sent_calls
from adjourn.nodes.texts import language_of, say
from adjourn.nodes.tool import Tool

Given = BaseMessage | Mapping[str, Any]
"""A LangChain message, or a message in OpenAI's shape."""


def begin_with(
    messages: Sequence[Given],
    values: Mapping[str, Any] | str | None,
    *,
    run_id: str,
    tools: Mapping[str, Tool],
) -> tuple[list[AnyMessage], Message]:
    """The history as it is stored, legal and with ids of our own, and what the user says behind it.

    That is the submitted `values`, one a line, else the user's message at the end of the history. System
    messages are left out: the graph has its own. Raises `UsageError` for what is no history, in one sentence.
    """
    history = _kept(messages)
    said = Message(_words(values))
    if not said.text:
        if not isinstance(history[-1], HumanMessage):
            raise UsageError(
                "the history does not end with a user's message, and no values were submitted; give either"
            )
        said = read_said(history[-1])
        history.pop()
    language = language_of(said.text)

    def missing(_call_id: str, name: str) -> str:
        tool = tools.get(name)
        is_read = tool is not None and tool.effect == Effect.READ
        code = ErrorCode.CANCELLED if is_read else ErrorCode.OUTCOME_UNKNOWN
        return failure(code, say(code.value, language, tool=name))

    legal = healed(history, missing)
    numbered = [one.model_copy(update={"id": f"{run_id}.h{place}"}) for place, one in enumerate(legal)]
    return numbered, said


def _kept(messages: Sequence[Given]) -> list[AnyMessage]:
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise UsageError(f"a history is a list of messages, not {type(messages).__name__}")
    found = [_message(place, one) for place, one in enumerate(messages, 1)]
    history: list[AnyMessage] = [one for one in found if not isinstance(one, SystemMessage)]
    if not history:
        raise UsageError("the history holds no message of a user, an assistant or a tool")
    names: dict[str, str] = {}
    for place, one in enumerate(history):
        if isinstance(one, AIMessage):
            names |= {str(call["id"]): call["function"]["name"] for call in sent_calls(one)}
        elif isinstance(one, ToolMessage):  # OpenAI's shape has no name, nor whether it went well
            status = one.status if one.status == "error" else status_of(one.text)
            named = {"name": one.name or names.get(one.tool_call_id), "status": status}
            history[place] = one.model_copy(update=named)
    return history


def _message(place: int, given: Given) -> AnyMessage:
    if isinstance(given, Mapping):
        given = _of_openai(place, given)
    if isinstance(given, BaseMessageChunk):
        given = message_chunk_to_message(given)
    if isinstance(given, AIMessage):
        ids = [call["id"] for call in sent_calls(given)]
        if None in ids or "" in ids or len(set(ids)) < len(ids):
            raise UsageError(
                f"message {place} of the history: each of its tool calls needs an id of its own, not {ids}"
            )
    if isinstance(given, AIMessage | HumanMessage | ToolMessage | SystemMessage):
        return given
    raise UsageError(
        f"message {place} of the history is {type(given).__name__}, which is no message of a chat"
    )


def _of_openai(place: int, given: Mapping[str, Any]) -> AnyMessage:
    role, content = given.get("role"), given.get("content")
    if content is not None and not isinstance(content, str | list):
        raise UsageError(
            f"message {place} of the history: content is a text or a list, not {type(content).__name__}"
        )
    match role:
        case "assistant":
            return _assistant(place, given, content or "")
        case "tool":
            call_id = given.get("tool_call_id")
            if not isinstance(call_id, str):
                raise UsageError(f"message {place} of the history answers no call: it has no tool_call_id")
            return ToolMessage(content or "", tool_call_id=call_id, name=given.get("name"))
        case "system" | "developer":
            return SystemMessage(content or "")
        case "user":
            return HumanMessage(content or "")
    raise UsageError(
        f"message {place} of the history has the role {role!r}; it is user, assistant, tool or system"
    )


def _assistant(place: int, given: Mapping[str, Any], content: Any) -> AIMessage:
    try:
        calls = tuple(
            _call(
                position, str(one["function"]["name"]), one.get("id"), one["function"].get("arguments") or ""
            )
            for position, one in enumerate(given.get("tool_calls") or ())
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise UsageError(
            f"message {place} of the history: a tool call is "
            '{"id": ..., "function": {"name": ..., "arguments": "..."}}'
        ) from error
    return assistant_message(Turn(calls=calls), "").model_copy(update={"content": content})


def _call(position: int, name: str, call_id: str | None, arguments: Any) -> AssembledCall:
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    parsed, error = parse_arguments(raw)
    return AssembledCall(position=position, id=call_id, name=name, raw=raw, arguments=parsed, error=error)


def _words(values: Mapping[str, Any] | str | None) -> str:
    """Submitted values as a user would write them."""
    if values is None or isinstance(values, str):
        return values or ""
    try:
        return "\n".join(
            f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
            for name, value in values.items()
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the submitted values are no JSON data: {error}") from error

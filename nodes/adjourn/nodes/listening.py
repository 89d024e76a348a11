"""A copy of a langchain-openai chat model that passes on everything its server sends.

langchain-openai drops the refusals and the reasoning of a stream, an end signal that comes without a delta, the raw
argument text of a whole answer, and what compatible servers want back; and it fails on arguments that come as an object.
The methods that are overridden here have private names: no other file knows names that are private to
langchain-openai, and tests in `tests/wire` hold them to what a server sends.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType, NoneType
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import ToolCallChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import Runnable

from adjourn.nodes.assembly import canonical
from adjourn.nodes.kept import call_extras

__all__ = ["SEND_BACK", "SENT_CALLS", "SENT_FIELDS", "asks_responses", "listening"]

SENT_FIELDS: Final = "sent_fields"
"""Key of `additional_kwargs`: what a server sent with a message and may want back, by the server's own names."""

SENT_CALLS: Final = "sent_calls"
"""Key of `additional_kwargs`: the same for each call of a chunk, by its place in it."""

SEND_BACK: Final = "send_back"
"""Key of `additional_kwargs` of a message in a request: `{"fields": ..., "calls": {id: ...}}` that go out with it."""


def listening(model: BaseChatModel) -> BaseChatModel:
    """A copy of `model` that drops nothing; models of other packages are returned as they are.

    The copy shares the original's clients and settings, and is an instance of its class.
    """
    update = _blocks_as_sent(model)
    if not _is_openai(model):
        return model.model_copy(update=update) if update else model
    twin = model.model_copy(update=update)
    object.__setattr__(twin, "__class__", _listening_class(type(model)))
    return twin


def _blocks_as_sent(model: BaseChatModel) -> dict[str, Any]:
    """Settings with which a package does not rewrite the blocks of its provider in a form of LangChain's own."""
    packages = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    rewrites = packages & {"langchain_openai", "langchain_anthropic"} and model.output_version is not None
    return {"output_version": None} if rewrites else {}


def asks_responses(model: Runnable[Any, Any], bound: Mapping[str, Any] = MappingProxyType({})) -> bool:
    """Whether a model of langchain-openai will use the Responses API: it decides by settings, tools and name."""
    openai: Any = model
    return bool(
        openai._use_responses_api({"tools": [{"type": "function"}], **openai._default_params, **bound})
    )


def _is_openai(model: BaseChatModel) -> bool:
    return any(kind.__module__.startswith("langchain_openai.") for kind in type(model).__mro__)


@cache
def _listening_class(kind: type[Any]) -> type[Any]:
    """`kind` with the methods that read what a server sent, and the one that writes a request. All names are private."""
    converts = next(one for one in kind.__mro__ if "_convert_chunk_to_generation_chunk" in vars(one))
    quick = converts.__module__.startswith("langchain_openai.")  # else somebody's own way of reading a chunk

    def _convert_chunk_to_generation_chunk(
        self: Any,
        chunk: dict[str, Any],
        default_chunk_class: type,
        base_generation_info: dict[str, Any] | None,
    ) -> Any:
        for choice in chunk.get("choices") or ():
            choice["delta"] = _plain_calls(choice.get("delta") or {})
        if quick and not base_generation_info and self.output_version != "v1":
            plain = _plain_chunk(chunk)
            if plain is not None:
                return plain
        made = kind._convert_chunk_to_generation_chunk(self, chunk, default_chunk_class, base_generation_info)
        if made is not None:
            for choice in (chunk.get("choices") or ())[:1]:
                _keep_said(choice["delta"], made.message.additional_kwargs)
        return made

    def _create_chat_result(self: Any, response: Any, generation_info: dict[str, Any] | None = None) -> Any:
        plain = response if isinstance(response, dict) else response.model_dump(warnings=False)
        choices = plain.get("choices") or ()
        called = any((choice.get("message") or {}).get("tool_calls") for choice in choices)
        for choice in choices:
            choice["message"] = _plain_calls(choice.get("message") or {})
        result = kind._create_chat_result(self, plain if called else response, generation_info)
        for choice, generation in zip(choices, result.generations, strict=True):
            if calls := choice["message"].get("tool_calls"):
                generation.message.additional_kwargs["tool_calls"] = calls
            _keep_said(choice["message"], generation.message.additional_kwargs)
        return result

    def _get_request_payload(
        self: Any, input_: Any, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = kind._get_request_payload(self, input_, stop=stop, **kwargs)
        if "messages" in payload:
            messages = self._convert_input(input_).to_messages()
            for message, plain in zip(messages, payload["messages"], strict=True):
                _send_back(message.additional_kwargs.get(SEND_BACK), plain)
        return payload

    methods = (_convert_chunk_to_generation_chunk, _create_chat_result, _get_request_payload)
    namespace = {method.__name__: method for method in methods}
    return type(kind.__name__, (kind,), {**namespace, "__module__": kind.__module__})


_USUAL: Final = frozenset({"content", "tool_calls"})
_USUAL_OF_A_CALL: Final = frozenset({"index", "id", "type", "function"})
_INDEX: Final = (int, NoneType)
_NAME: Final = (str, NoneType)
_NOTHING: Final = AIMessageChunk(content="")
_NOTHING_MADE: Final = ChatGenerationChunk(message=_NOTHING)


def _plain_chunk(chunk: Mapping[str, Any]) -> ChatGenerationChunk | None:
    """What langchain-openai makes of a piece of text or of calls and nothing else; None for any other chunk.

    A stream consists of thousands of these, and LangChain checks each as if it came from a stranger and tries
    to parse each piece of an argument as JSON. Here they are copies of one that was checked.
    """
    choices = chunk.get("choices") or []
    if len(choices) != 1 or chunk.get("usage"):
        return None
    choice = choices[0]
    delta, text = choice["delta"], choice["delta"].get("content") or ""
    unusual = any(value is not None and key not in _USUAL for key, value in delta.items())
    if unusual or choice.get("finish_reason") or choice.get("logprobs") or not isinstance(text, str):
        return None
    calls = delta.get("tool_calls") or ()
    if any(not _USUAL_OF_A_CALL.issuperset(call) for call in calls):
        return None
    pieces = [
        ToolCallChunk(
            name=call["function"].get("name"),
            args=call["function"].get("arguments"),
            id=call["id"],
            index=call["index"],
            type="tool_call_chunk",
        )
        for call in calls
    ]
    if not all(isinstance(one["index"], _INDEX) and isinstance(one["name"], _NAME) for one in pieces):
        return None
    message = _NOTHING.model_copy(
        update={
            "content": text,
            "tool_call_chunks": pieces,
            "response_metadata": {"model_provider": "openai"},
            "additional_kwargs": {},
            "tool_calls": [],
            "invalid_tool_calls": [],
        }
    )
    return _NOTHING_MADE.model_copy(update={"message": message, "text": text})


def _plain_calls(message: dict[str, Any]) -> dict[str, Any]:
    """A delta or message whose calls have the types that langchain-openai expects."""
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [_plain_call(call) for call in calls]} if calls else message


def _plain_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        function = {**function, "arguments": canonical(arguments)}
    id_ = call.get("id") or function.get("id")  # llama.cpp sent it there
    return {"index": None, **call, "id": id_ if id_ is None else str(id_), "function": function}


_REASONING: Final = ("reasoning_content", "reasoning")  # DeepSeek, Qwen; OpenRouter, vLLM


def _keep_said(message: Mapping[str, Any], kept: dict[str, Any]) -> None:
    """Keep what langchain-openai drops: to be read, and to be sent back where a server wants that."""
    if (refusal := message.get("refusal")) and isinstance(refusal, str):
        kept.setdefault("refusal", refusal)
    fields: dict[str, Any] = {key: message[key] for key in _REASONING if isinstance(message.get(key), str)}
    if reasoning := next(filter(None, fields.values()), None):
        kept.setdefault("reasoning_content", reasoning)
    if isinstance(details := message.get("reasoning_details"), list):  # OpenRouter
        fields["reasoning_details"] = details
    if fields:
        kept[SENT_FIELDS] = fields
    extras = {
        str(place): extra
        for place, call in enumerate(message.get("tool_calls") or ())
        if (extra := call_extras(call))
    }
    if extras:
        kept[SENT_CALLS] = extras


def _send_back(back: Mapping[str, Any] | None, message: dict[str, Any]) -> None:
    """Put into a message of a request what its server sent with it."""
    if not back:
        return
    message.update(back["fields"])
    for call in message.get("tool_calls") or ():
        call.update(back["calls"].get(call["id"], {}))

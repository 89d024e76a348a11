"""A copy of a langchain-openai chat model that passes on everything its server sends.

langchain-openai drops refusals and reasoning of a stream, an end signal that comes without a delta, and the raw
argument text of a whole answer, and it fails on arguments that come as an object. Both methods that are
overridden here have private names: this file is the only one that knows names that are private to
langchain-openai, and tests in `tests/wire` hold them to what a server sends.
"""

import asyncio
import weakref
from collections.abc import Mapping
from functools import cache
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

from adjourn.nodes.assembly import canonical

__all__ = ["asks_responses", "listening", "on_this_loop"]


def listening(model: BaseChatModel) -> BaseChatModel:
    """A copy of `model` that drops nothing; models of other packages are returned as they are.

    The copy shares the original's clients and settings, and is an instance of its class.
    """
    if not _is_openai(model):
        return model
    twin = model.model_copy()
    object.__setattr__(twin, "__class__", _listening_class(type(model)))
    return twin


def asks_responses(model: Runnable[Any, Any]) -> bool:
    """Whether a model of langchain-openai will use the Responses API (it decides by settings and name)."""
    openai: Any = model
    return bool(openai._use_responses_api({**openai._default_params, "tools": [{"type": "function"}]}))


def on_this_loop(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """`model`, or a copy with connections of its own where its connections belong to another event loop.

    langchain-openai shares one pool of connections among all models of a process, and a connection is bound
    to the loop that opened it: a script that calls `asyncio.run` twice, or mixes it with the `_sync` twins,
    would meet "Event loop is closed". A client that the user gave is left alone.
    """
    if not isinstance(model, BaseChatModel) or not _is_openai(model):
        return model
    openai: Any = model
    if openai.http_async_client is not None or openai.root_async_client is None:
        return model
    loop = asyncio.get_running_loop()
    if _HOME.setdefault(openai.root_async_client._client, weakref.ref(loop))() is loop:
        return model
    clients = _CLIENTS.setdefault(loop, weakref.WeakKeyDictionary())
    client = clients.get(openai.root_async_client)
    if client is None:
        from openai import DefaultAsyncHttpxClient  # not at the top: other models' users need not load it

        client = openai.root_async_client.copy(http_client=DefaultAsyncHttpxClient())
        clients[openai.root_async_client] = client
    return model.model_copy(update={"root_async_client": client, "async_client": client.chat.completions})


# The loop on which a pool of connections was used first, and what other loops have in its place.
_HOME: weakref.WeakKeyDictionary[Any, weakref.ref[asyncio.AbstractEventLoop]] = weakref.WeakKeyDictionary()
_CLIENTS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.WeakKeyDictionary[Any, Any]] = (
    weakref.WeakKeyDictionary()
)


def _is_openai(model: BaseChatModel) -> bool:
    return any(kind.__module__.startswith("langchain_openai.") for kind in type(model).__mro__)


@cache
def _listening_class(kind: type[Any]) -> type[Any]:
    """`kind` with the two methods that read what a server sent; both names are private to langchain-openai."""

    def _convert_chunk_to_generation_chunk(
        self: Any,
        chunk: dict[str, Any],
        default_chunk_class: type,
        base_generation_info: dict[str, Any] | None,
    ) -> Any:
        for choice in chunk.get("choices") or ():
            choice["delta"] = _plain_calls(choice.get("delta") or {})
        made = kind._convert_chunk_to_generation_chunk(self, chunk, default_chunk_class, base_generation_info)
        if made is not None:
            for choice in (chunk.get("choices") or ())[:1]:
                _keep_said(choice["delta"], made.message.additional_kwargs)
        return made

    def _create_chat_result(self: Any, response: Any, generation_info: dict[str, Any] | None = None) -> Any:
        plain = response if isinstance(response, dict) else response.model_dump(warnings=False)
        choices = plain.get("choices") or ()
        if not any((choice.get("message") or {}).get("tool_calls") for choice in choices):
            return kind._create_chat_result(self, response, generation_info)
        for choice in choices:
            choice["message"] = _plain_calls(choice["message"])
        result = kind._create_chat_result(self, plain, generation_info)
        for choice, generation in zip(choices, result.generations, strict=True):
            if calls := choice["message"].get("tool_calls"):
                generation.message.additional_kwargs["tool_calls"] = calls
            _keep_said(choice["message"], generation.message.additional_kwargs)
        return result

    methods = (_convert_chunk_to_generation_chunk, _create_chat_result)
    namespace = {method.__name__: method for method in methods}
    return type(kind.__name__, (kind,), {**namespace, "__module__": kind.__module__})


def _plain_calls(message: dict[str, Any]) -> dict[str, Any]:
    """A delta or message whose calls have the types that langchain-openai expects."""
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [_plain_call(call) for call in calls]} if calls else message


def _plain_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        function = {**function, "arguments": canonical(arguments)}
    id_ = call.get("id")
    return {"index": None, **call, "id": id_ if id_ is None else str(id_), "function": function}


def _keep_said(message: Mapping[str, Any], kept: dict[str, Any]) -> None:
    reasoning = message.get("reasoning_content") or message.get("reasoning")  # DeepSeek; OpenRouter, vLLM
    for key, text in (("refusal", message.get("refusal")), ("reasoning_content", reasoning)):
        if text and isinstance(text, str):
            kept.setdefault(key, text)

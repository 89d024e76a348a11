"""Connections that belong to the running event loop.

langchain-openai and langchain-anthropic share one pool of connections among all models of a process, and a connection is
bound to the loop that opened it: a script that calls `asyncio.run` twice, or mixes it with the `_sync` twins, would meet
"Event loop is closed".
"""

import asyncio
import weakref
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

__all__ = ["on_this_loop"]


def on_this_loop(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """`model`, or a copy with connections of its own where its connections belong to another event loop.

    A client that the user gave is left alone.
    """
    if not isinstance(model, BaseChatModel):
        return model
    packages = (kind.__module__.partition(".")[0] for kind in type(model).__mro__)
    here = next((_HERE[package] for package in packages if package in _HERE), None)
    used: Runnable[Any, Any] = model if here is None else here(model)
    return used


def _openai(model: Any) -> Any:
    if (
        model.http_async_client is not None
        or model.root_async_client is None
        or _is_home(model.root_async_client)
    ):
        return model
    from openai import DefaultAsyncHttpxClient  # not at the top: other models' users need not load it

    client = _own(model.root_async_client, DefaultAsyncHttpxClient)
    return model.model_copy(update={"root_async_client": client, "async_client": client.chat.completions})


def _anthropic(model: Any) -> Any:
    client = model._async_client  # a cached property, private to langchain-anthropic
    if _is_home(client):
        return model
    from anthropic import DefaultAsyncHttpxClient

    proxy = model.anthropic_proxy
    twin = model.model_copy()
    twin.__dict__["_async_client"] = _own(client, lambda: DefaultAsyncHttpxClient(proxy=proxy or None))
    return twin


_HERE: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {"langchain_openai": _openai, "langchain_anthropic": _anthropic}
)

# The loop on which a pool of connections was used first, and what other loops have in its place.
_HOME: weakref.WeakKeyDictionary[Any, weakref.ref[asyncio.AbstractEventLoop]] = weakref.WeakKeyDictionary()
_CLIENTS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.WeakKeyDictionary[Any, Any]] = (
    weakref.WeakKeyDictionary()
)


def _is_home(client: Any) -> bool:
    """Whether the client's connections belong to the running loop; they do if nobody used them before."""
    loop = asyncio.get_running_loop()
    return _HOME.setdefault(client._client, weakref.ref(loop))() is loop


def _own(client: Any, pool: Callable[[], Any]) -> Any:
    """The client that stands in for `client` on the running loop."""
    clients = _CLIENTS.setdefault(asyncio.get_running_loop(), weakref.WeakKeyDictionary())
    own = clients.get(client)
    if own is None:
        own = clients[client] = client.copy(http_client=pool())
    return own

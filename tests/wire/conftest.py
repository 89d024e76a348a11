"""The fixtures of the wire tests: a server on loopback, and real clients for it."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from wire.openai_server import OpenAIServer

Chat = Callable[..., ChatOpenAI]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A server without replies: a test appends to `server.replies`."""
    with OpenAIServer() as running:
        yield running


@pytest.fixture
async def chat(server: OpenAIServer) -> AsyncIterator[Chat]:
    """Makes real clients for the server; their connections are closed when the test ends."""
    made: list[ChatOpenAI] = []

    def make(**settings: Any) -> ChatOpenAI:
        defaults = {"base_url": server.url, "api_key": "x", "model": "scripted-1", "max_retries": 0}
        made.append(ChatOpenAI(**{**defaults, **settings}))
        return made[-1]

    yield make
    for model in made:
        await model.root_async_client.close()
        model.root_client.close()

"""The fixtures of the wire tests: a server on loopback, and real clients for it."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from runs.shop import Shop
from wire.anthropic_server import AnthropicServer
from wire.openai_server import OpenAIServer

from adjourn.graph import Limits, Runner, build_react

Chat = Callable[..., ChatOpenAI]
Claude = Callable[..., ChatAnthropic]


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


@pytest.fixture
def anthropic() -> Iterator[AnthropicServer]:
    """A server of Anthropic's API without replies: a test appends to `anthropic.replies`."""
    with AnthropicServer() as running:
        yield running


@pytest.fixture
async def claude(anthropic: AnthropicServer) -> AsyncIterator[Claude]:
    """Makes real clients for that server; their connections are closed when the test ends."""
    made: list[ChatAnthropic] = []

    def make(**settings: Any) -> ChatAnthropic:
        defaults = {"base_url": anthropic.url, "api_key": "x", "model": "claude-scripted", "max_retries": 0}
        made.append(ChatAnthropic(**{**defaults, **settings}))
        return made[-1]

    yield make
    for model in made:
        await model._async_client.close()
        model._client.close()


class Wire:
    """Runners over one store whose model is a real client of one server."""

    def __init__(self, server: OpenAIServer, url: str) -> None:
        self.server = server
        self.url = url
        self.made: list[tuple[Runner, ChatOpenAI]] = []

    def runner(self, shop: Shop) -> Runner:
        """A runner as another process would make it."""
        model = ChatOpenAI(base_url=self.server.url, api_key="x", model="scripted-1", max_retries=0)
        graph = build_react(model, shop.tools(), limits=Limits(max_steps=8), system_prompt="You help.")
        runner = Runner(graph, self.url)
        self.made.append((runner, model))
        return runner


@pytest.fixture
async def wire(server: OpenAIServer, tmp_path: Path) -> AsyncIterator[Wire]:
    """Runners on the wire; their connections are closed when the test ends."""
    one = Wire(server, f"sqlite:///{tmp_path / 'adjourn.db'}")
    yield one
    for runner, model in one.made:
        runner.close()
        await model.root_async_client.close()
        model.root_client.close()

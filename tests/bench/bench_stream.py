"""What it costs to take a long stream from the socket to the state, beside the bare openai client on the same stream.

    python tests/bench/bench_stream.py [FRAGMENTS ...]

One call whose argument comes in so many fragments is streamed by a server on loopback, a process of its own, and is read
by the openai client alone, by langchain-openai, and by `ModelNode` over langchain-openai. CPU time of this process, the
best of `ROUNDS`; each round asks all of them.
"""

import asyncio
import subprocess
import sys
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import openai
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from adjourn.nodes import tool
from adjourn.nodes.model import ModelNode

SIZES = (12_800, 51_200)
ROUNDS = 3
KINDS = ("a call", "text")
FRAGMENT_LENGTH = 5


@tool(effect="read")
def save(text: str) -> str:
    """Save a text."""
    return text


@contextmanager
def serving() -> Iterator[str]:
    """The address of the server, in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("stream_server.py"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


# Those that read


async def by_openai(url: str, name: str) -> int:
    """The bare client, which joins what it is interested in."""
    async with openai.AsyncOpenAI(base_url=url, api_key="x") as client:
        stream = await client.chat.completions.create(
            model=name, messages=[{"role": "user", "content": "x"}], stream=True
        )
        pieces = []
        async for chunk in stream:
            for choice in chunk.choices:
                pieces.append(choice.delta.content or "")
                pieces += [
                    call.function.arguments or "" for call in choice.delta.tool_calls or () if call.function
                ]
        return len("".join(pieces))


@asynccontextmanager
async def chat(url: str, name: str) -> AsyncIterator[ChatOpenAI]:
    """langchain-openai on the server's model of this name."""
    client = openai.DefaultAsyncHttpxClient()  # its own: langchain-openai's outlives the event loop
    try:
        yield ChatOpenAI(base_url=url, api_key="x", model=name, http_async_client=client)
    finally:
        await client.aclose()


async def by_langchain(url: str, name: str) -> int:
    """langchain-openai, its chunks thrown away."""
    async with chat(url, name) as model:
        return sum([len(str(chunk.content)) async for chunk in model.astream([HumanMessage("x")])])


async def by_model_node(url: str, name: str) -> int:
    """From the socket to the state: the plan of a step, or its message."""
    async with chat(url, name) as model:
        node = ModelNode(model, [save])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # nodes without a ledger say so
            state = await node(
                {"messages": [HumanMessage("x", id="1")]}, {"configurable": {"thread_id": "t"}}
            )
        calls = state.get("calls") or [{"arguments": {"text": str(state["messages"][-1].content)}}]
        return len(str(calls[0]["arguments"]["text"]))


READERS: dict[str, Callable[[str, str], Awaitable[int]]] = {
    "openai": by_openai,
    "langchain-openai": by_langchain,
    "ModelNode": by_model_node,
}


@dataclass
class Figures:
    """CPU seconds by reader and number of fragments, the best round."""

    seconds: dict[tuple[str, int], float] = field(default_factory=dict)

    def ratio(self, reader: str, fragments: int) -> float:
        """How many times the bare client's."""
        return self.seconds[reader, fragments] / self.seconds["openai", fragments]

    def growth(self, reader: str, fewer: int, more: int) -> float:
        """How many times more it costs to take `more` fragments."""
        return self.seconds[reader, more] / self.seconds[reader, fewer]


def measured(
    kind: str, sizes: tuple[int, ...], rounds: int = ROUNDS, readers: Collection[str] = tuple(READERS)
) -> Figures:
    """Ask the readers for streams of all sizes."""
    figures = Figures()
    with serving() as url:
        for reader in map(READERS.__getitem__, readers):
            asyncio.run(_read(reader, url, f"{kind}/50"))  # imports, caches
        for _ in range(rounds):
            for size in sizes:
                for name in readers:
                    before = time.process_time()
                    asyncio.run(_read(READERS[name], url, f"{kind}/{size}"))
                    took = time.process_time() - before
                    best = figures.seconds.get((name, size), took)
                    figures.seconds[name, size] = min(best, took)
    return figures


async def _read(reader: Callable[[str, str], Awaitable[int]], url: str, name: str) -> None:
    length = await reader(url, name)
    if reader is not by_langchain:
        assert length >= FRAGMENT_LENGTH * int(name.partition("/")[2])


def main() -> None:
    """Print a table for each kind of stream."""
    sizes = tuple(int(one) for one in sys.argv[1:]) or SIZES
    for kind in KINDS:
        figures = measured(kind, sizes)
        print(f"\n{kind}, CPU seconds (times the openai client's)")
        print(f"{'fragments':>20}", *(f"{size:>16,}" for size in sizes))
        for name in READERS:
            cells = (
                f"{figures.seconds[name, size]:8.2f} ({figures.ratio(name, size):4.2f})" for size in sizes
            )
            print(f"{name:>20}", *(f"{cell:>16}" for cell in cells))


if __name__ == "__main__":
    main()

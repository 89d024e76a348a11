"""A model that says what it was told to say: for tests, docs and notebooks, without a key or a network.

    model = ScriptedModel(turns=[
        says("Let me look.", call("search_docs", {"query": "5xx"})),
        "Roll back first.",
    ])

It goes through the same code as a real model, streams down to single fragments, records every request, and
fails loudly on a request that a provider would refuse.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from adjourn.nodes.assembly import Assembler, Fragment, canonical
from adjourn.nodes.providers import PROVIDERS
from adjourn.nodes.stored_form import assistant_message, call_ids
from adjourn.nodes.wire_in import read

__all__ = [
    "Fails",
    "Says",
    "ScriptedCall",
    "ScriptedModel",
    "ScriptedTurn",
    "call",
    "ends",
    "illegal",
    "says",
]

AUTO: Final = "auto"
"""End as a provider would: `tool_calls` if the turn holds calls, else `stop`."""


class Gate(Protocol):
    """What a turn can wait for, such as an `asyncio.Event`."""

    async def wait(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A call of a scripted turn. `fragments` are the pieces in which its argument text is streamed."""

    name: str
    fragments: tuple[str, ...] = ()
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Says:
    """A turn of text deltas, then calls. `delay_s` passes before the first chunk, `each_s` before each.

    `finish` is the provider's word for the end; None: the stream ends without one. `usage` is (input
    tokens, output tokens). `gate` is waited for before the first chunk; None: no gate.
    """

    deltas: tuple[str, ...] = ()
    calls: tuple[ScriptedCall, ...] = ()
    finish: str | None = AUTO
    reasoning: str = ""
    refusal: str = ""
    usage: tuple[int, int] | None = None
    delay_s: float = 0.0
    each_s: float = 0.0
    gate: Gate | None = None


@dataclass(frozen=True, slots=True)
class Fails:
    """A turn that raises `error` after it said `deltas`."""

    error: Exception
    deltas: tuple[str, ...] = ()


Chunk = str | Fragment | tuple[Fragment, ...] | AIMessageChunk
"""One chunk, down to the wire: a text delta, one fragment, several in one chunk, or LangChain's own."""

ScriptedTurn = str | Says | Fails | Exception | AIMessage | Sequence[Chunk]
"""What `turns` may hold. A list of chunks is sent as it stands: end it with `ends(...)`, or break it off."""


def call(
    name: str, arguments: Mapping[str, Any] | str | Sequence[str] | None = None, *, id: str | None = AUTO
) -> ScriptedCall:
    """A call with arguments as an object, as raw text (also text that does not parse), or as text pieces.

    The id is `call_1`, `call_2` ... by place in the turn unless given; None sends none.
    """
    if arguments is None or isinstance(arguments, Mapping):
        return ScriptedCall(name, (canonical(dict(arguments or {})),), id)
    return ScriptedCall(name, (arguments,) if isinstance(arguments, str) else tuple(arguments), id)


def says(
    text: str | Sequence[str] = "",
    *calls: ScriptedCall,
    finish: str | None = AUTO,
    reasoning: str = "",
    refusal: str = "",
    usage: tuple[int, int] | None = None,
    delay_s: float = 0.0,
    each_s: float = 0.0,
    gate: Gate | None = None,
) -> Says:
    """A turn that says `text` (a list: one delta each) and then makes `calls`. The rest is as in `Says`."""
    deltas = ((text,) if text else ()) if isinstance(text, str) else tuple(text)
    return Says(deltas, calls, finish, reasoning, refusal, usage, delay_s, each_s, gate)


def ends(finish: str, usage: tuple[int, int] | None = None) -> AIMessageChunk:
    """The last chunk of a list of chunks: the provider's end signal."""
    return _chunk(finish=finish, usage=usage)


class ScriptedModel(BaseChatModel):
    """Plays `turns`, one per request.

    Which turn: the number of requests that this instance has seen; with `by_history=True` the number of
    assistant messages in the request, so that another process goes on where this one stopped. With
    `check=True` every request must be legal (each call answered exactly once, in order, before the next
    message of another kind), else the request raises AssertionError and is listed in `violations`.
    LangChain's `disable_streaming=True` makes it a model that does not stream.
    """

    turns: list[Any]
    by_history: bool = False
    check: bool = True

    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _settings: list[dict[str, Any]] = PrivateAttr(default_factory=list)
    _violations: list[str] = PrivateAttr(default_factory=list)

    @property
    def requests(self) -> list[list[BaseMessage]]:
        """The messages of each request, oldest request first."""
        return self._requests

    @property
    def settings(self) -> list[dict[str, Any]]:
        """What each request had beside its messages: `tools`, `tool_choice`, `stop` and others."""
        return self._settings

    @property
    def offered(self) -> list[list[str]]:
        """The names of the tools that each request offered."""
        return [[tool["function"]["name"] for tool in one.get("tools") or ()] for one in self._settings]

    @property
    def violations(self) -> list[str]:
        """What was wrong with requests, whatever became of the errors that they raised."""
        return self._violations

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with tools, as OpenAI's would have them. They are recorded, and decide nothing."""
        offered = [convert_to_openai_tool(tool) for tool in tools]
        chosen = {} if tool_choice is None else {"tool_choice": tool_choice}
        return self.bind(tools=offered, **chosen, **kwargs)

    def _next(self, messages: list[BaseMessage], settings: dict[str, Any]) -> "_Playback":
        number = _assistants(messages) if self.by_history else len(self._requests)
        self._requests.append(list(messages))
        self._settings.append({key: value for key, value in settings.items() if value is not None})
        if self.check and (problem := illegal(messages)) is not None:
            self._violations.append(f"request {len(self._requests)}: {problem}")
            raise AssertionError(self._violations[-1])
        if number >= len(self.turns):
            raise AssertionError(_run_out(len(self.turns), number, messages))
        return _playback(self.turns[number])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        playback = self._next(messages, {"stop": stop, **kwargs})
        if playback.gate is not None:
            raise TypeError("a turn with a gate can be played to async callers only")
        time.sleep(playback.delay_s)
        for chunk in playback.chunks:
            time.sleep(playback.each_s)
            yield ChatGenerationChunk(message=chunk)
        if playback.error is not None:
            raise playback.error

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        playback = self._next(messages, {"stop": stop, **kwargs})
        if playback.gate is not None:
            await playback.gate.wait()
        await asyncio.sleep(playback.delay_s)
        for chunk in playback.chunks:
            await asyncio.sleep(playback.each_s)
            yield ChatGenerationChunk(message=chunk)
        if playback.error is not None:
            raise playback.error

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _whole([made.message for made in self._stream(messages, stop, **kwargs)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _whole([made.message async for made in self._astream(messages, stop, **kwargs)])


def illegal(messages: Sequence[BaseMessage]) -> str | None:
    """Why a provider would refuse this history, None if it would not.

    Deliberately not the check that the nodes use: a test that asks the code under test proves nothing.
    """
    open_ids: list[str] = []
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if not open_ids:
                return f"message {place} answers {message.tool_call_id!r}, but no call waits for an answer"
            if message.tool_call_id != open_ids[0]:
                return f"message {place} answers {message.tool_call_id!r}, but {open_ids[0]!r} comes first"
            open_ids.pop(0)
        elif open_ids:
            return f"message {place} ({message.type}) comes while {open_ids} have no answer"
        elif isinstance(message, AIMessage):
            open_ids = call_ids(message)
            if len(set(open_ids)) < len(open_ids) or "None" in open_ids:
                return f"message {place} holds calls with the ids {open_ids}"
    return f"the calls {open_ids} have no answer" if open_ids else None


@dataclass(frozen=True, slots=True)
class _Playback:
    """A turn made ready: chunks of its own, since LangChain writes into the chunks it is given."""

    chunks: list[AIMessageChunk] = field(default_factory=list)
    delay_s: float = 0.0
    each_s: float = 0.0
    gate: Gate | None = None
    error: Exception | None = None


def _playback(turn: ScriptedTurn) -> _Playback:
    match turn:
        case str():
            return _playback(says(turn))
        case Says():
            return _Playback(list(_said(turn)), turn.delay_s, turn.each_s, turn.gate)
        case Fails():
            return _Playback([_chunk(delta) for delta in turn.deltas], error=turn.error)
        case Exception():
            return _Playback(error=turn)
        case AIMessage():
            return _Playback([_from_message(turn)])
        case _:
            return _Playback([_from_item(item) for item in turn])


def _said(turn: Says) -> Iterator[AIMessageChunk]:
    if turn.reasoning:
        yield _chunk(extras={"reasoning_content": turn.reasoning})
    for delta in turn.deltas:
        yield _chunk(delta)
    if turn.refusal:
        yield _chunk(extras={"refusal": turn.refusal})
    for index, one in enumerate(turn.calls):
        id_ = f"call_{index + 1}" if one.id == AUTO else one.id
        yield _chunk(fragments=(Fragment(index, id_, one.name, ""),))
        for text in one.fragments:
            yield _chunk(fragments=(Fragment(index, arguments=text),))
    natural = "tool_calls" if turn.calls else "stop"
    yield _chunk(finish=natural if turn.finish == AUTO else turn.finish, usage=turn.usage)


def _from_item(item: Chunk) -> AIMessageChunk:
    if isinstance(item, AIMessageChunk):
        return item.model_copy()
    if isinstance(item, str):
        return _chunk(item)
    return _chunk(fragments=(item,) if isinstance(item, Fragment) else item)


def _from_message(message: AIMessage) -> AIMessageChunk:
    if isinstance(message, AIMessageChunk):
        return message.model_copy()
    piece = read(message, PROVIDERS["adjourn"])
    extras = {"reasoning_content": piece.reasoning, "refusal": piece.refusal}
    kept = {key: text for key, text in extras.items() if text}
    usage = (piece.usage.input_tokens, piece.usage.output_tokens) if piece.usage else None
    return _chunk(piece.text, piece.fragments, piece.finish, usage, kept)


def _chunk(
    text: str = "",
    fragments: Sequence[Fragment] = (),
    finish: str | None = None,
    usage: tuple[int, int] | None = None,
    extras: dict[str, Any] | None = None,
) -> AIMessageChunk:
    made = AIMessageChunk(content=text, additional_kwargs=extras or {})
    made.tool_call_chunks = [
        tool_call_chunk(
            name=one.name,
            args=canonical(one.arguments) if isinstance(one.arguments, dict) else one.arguments,
            id=one.id,
            index=one.index,
        )
        for one in fragments
    ]
    if finish is not None:
        made.response_metadata = {"finish_reason": finish, "model_name": "scripted"}
    if usage is not None:
        read_, wrote = usage
        made.usage_metadata = {"input_tokens": read_, "output_tokens": wrote, "total_tokens": read_ + wrote}
    return made


def _whole(chunks: Sequence[BaseMessage]) -> ChatResult:
    assembler = Assembler()
    for chunk in chunks:
        assembler.feed(read(chunk, PROVIDERS["adjourn"]))
    message = assistant_message(assembler.finish(), "")
    message.id = None  # LangChain gives it one
    return ChatResult(generations=[ChatGeneration(message=message)])


def _assistants(messages: Sequence[BaseMessage]) -> int:
    return sum(isinstance(message, AIMessage) for message in messages)


def _run_out(turns: int, number: int, messages: Sequence[BaseMessage]) -> str:
    last = f"{messages[-1].type}: {messages[-1].text[:200]!r}" if messages else "nothing"
    return f"the script has {turns} turns, but turn {number + 1} was asked for; the request ended with {last}"

"""The model of the demo when there is no key: rules in place of a language model, and it says so.

It streams as an OpenAI-style API does through LangChain, so that everything behind it is what a real model
meets: text in small pieces, then each call as a fragment with index, id and name and fragments of its
argument text, then the end signal, then the usage.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from adjourn.graph.demo.decide import PlannedCall, Turn, decide

NAME = "adjourn-stand-in"
PIECE = 4  # characters: about what a provider sends at once
CHARACTERS_PER_TOKEN = 3  # a guess between Chinese and English, so that token counts are not all zero


class StandInModel(BaseChatModel):
    """A chat model that follows `decide`'s rules. It needs no network and no key, and keeps no state.

    `delay_s`: seconds between two pieces of a stream, for people who want to watch; 0: none.
    """

    delay_s: float = 0.0

    @property
    def _llm_type(self) -> str:
        return NAME

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"model": NAME}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """As every LangChain chat model; `tool_choice="none"` switches the tools off."""
        return self.bind(
            tools=[convert_to_openai_tool(tool) for tool in tools], tool_choice=tool_choice, **kwargs
        )

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in stream_of(_turn(messages, kwargs), messages):
            if run_manager:
                run_manager.on_llm_new_token(str(chunk.message.content), chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in stream_of(_turn(messages, kwargs), messages):
            await asyncio.sleep(self.delay_s)  # also with 0: a cancel must get in between two pieces
            yield chunk

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return generate_from_stream(stream_of(_turn(messages, kwargs), messages))


def stream_of(turn: Turn, messages: Sequence[BaseMessage]) -> Iterator[ChatGenerationChunk]:
    """The chunks of a turn, in a provider's order. `messages` are counted as its input."""
    for piece in _pieces(turn.text):
        yield _chunk(AIMessageChunk(content=piece))
    for index, call in enumerate(turn.calls):
        yield from _call_chunks(index, call)
    finish = "tool_calls" if turn.calls else "stop"
    yield _chunk(AIMessageChunk(content=""), {"finish_reason": finish, "model_name": NAME})
    yield _chunk(AIMessageChunk(content="", usage_metadata=_usage(turn, messages)))


def _turn(messages: list[BaseMessage], bound: Mapping[str, Any]) -> Turn:
    off = bound.get("tool_choice") == "none"
    return decide(messages, () if off else bound.get("tools") or ())


def _call_chunks(index: int, call: PlannedCall) -> Iterator[ChatGenerationChunk]:
    first = tool_call_chunk(name=call.name, args="", id=f"call_{uuid.uuid4().hex[:24]}", index=index)
    yield _chunk(AIMessageChunk(content="", tool_call_chunks=[first]))
    for piece in _pieces(json.dumps(call.arguments, ensure_ascii=False)):
        part = tool_call_chunk(name=None, args=piece, id=None, index=index)
        yield _chunk(AIMessageChunk(content="", tool_call_chunks=[part]))


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def _chunk(message: AIMessageChunk, info: dict[str, Any] | None = None) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=message, generation_info=info)


def _usage(turn: Turn, messages: Sequence[BaseMessage]) -> UsageMetadata:
    read = sum(len(str(message.text)) for message in messages) // CHARACTERS_PER_TOKEN
    written = len(turn.text) + sum(len(call.name) + len(json.dumps(call.arguments)) for call in turn.calls)
    spoken = max(1, written // CHARACTERS_PER_TOKEN)
    return UsageMetadata(input_tokens=read, output_tokens=spoken, total_tokens=read + spoken)

"""A turn from a real client, read as the model node reads it."""

from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import Runnable

from adjourn.nodes.assembly import Turn
from adjourn.nodes.listening import listening
from adjourn.nodes.providers import provider_of, unbound
from adjourn.nodes.wire_in import read
from adjourn.nodes.wire_out import request_messages


async def stream(model: Runnable[Any, Any], *messages: BaseMessage) -> tuple[Turn, list[str]]:
    """One turn of a model, bound to tools or not, and the text deltas in the order they came."""
    provider = provider_of(model)
    assembler = provider.assembler()
    history = list(messages) or [HumanMessage("hi")]
    inner: Any = unbound(model)
    heard = listening(inner)
    asked = heard if inner is model else model.model_copy(update={"bound": heard})  # type: ignore[attr-defined]
    deltas = []
    async for chunk in asked.astream(request_messages(history, model)):
        deltas.append(assembler.feed(read(chunk, provider)))
    return assembler.finish(), [delta for delta in deltas if delta]


def called(turn: Turn) -> list[tuple[str | None, str, str, Any]]:
    """The calls of a turn: id, name, text, arguments."""
    return [(call.id, call.name, call.raw, call.arguments) for call in turn.calls]

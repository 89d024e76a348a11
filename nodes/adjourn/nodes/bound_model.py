"""A chat model with its tools, and what is known about its provider."""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.prompt_values import ChatPromptValue
from langchain_core.runnables import Runnable, RunnableBinding

from adjourn.checkpoints.errors import UsageError
from adjourn.nodes.connections import on_this_loop
from adjourn.nodes.listening import listening
from adjourn.nodes.providers import Provider, provider_of, unbound
from adjourn.nodes.tool import Tool


@dataclass(frozen=True, slots=True)
class BoundModel:
    """A model that can be asked. `quiet` is the same with its tools switched off."""

    name: str
    provider: Provider
    runnable: Runnable[Any, Any]
    quiet: Runnable[Any, Any]

    @classmethod
    def of(
        cls,
        model: BaseChatModel,
        tools: Collection[Tool],
        *,
        forced: bool = False,
        provider_tools: Iterable[Mapping[str, Any]] = (),
    ) -> "BoundModel":
        """`model`, told of `tools`, and of those of `provider_tools` that its own provider runs.

        `forced`: the first of `tools` must be called.
        """
        heard, provider = listening(model), provider_of(model)
        bound: Runnable[Any, Any] = heard
        quiet: Runnable[Any, Any] = heard
        own = [dict(one) for one in provider_tools if provider.runs(one)]
        told = [*(one.for_model for one in tools), *own]
        off: Any = None if provider.tools_off is None else dict(provider.tools_off)
        if told:
            try:
                bound = heard.bind_tools(told, tool_choice=next(iter(tools)).name if forced else None)
            except NotImplementedError as error:
                kind = type(model).__name__
                raise UsageError(
                    f"{kind} has no `bind_tools`, so it cannot be told of tools; in tests ScriptedModel can"
                ) from error
        if told and (off or own):  # a tool of the provider's own may decide which API is asked
            quiet = heard.bind_tools(told, tool_choice=off or "none")
        return cls(model_name(model), provider_of(bound), bound, quiet)

    def stream(self, messages: list[Any], *, tools_off: bool) -> AsyncIterator[Any]:
        """The model's chunks for a request, over connections of the running event loop."""
        bound = self.quiet if tools_off else self.runnable
        inner = unbound(bound)
        own = on_this_loop(inner)
        given = _as_prompt(messages) if type(own).astream is _ASTREAM else messages
        if (
            isinstance(bound, RunnableBinding)
            and type(bound).astream is _PASSED_ON
            and bound.bound is inner
            and not (bound.config or bound.config_factories)
        ):
            # what it does, but for merging the ambient config into one that says nothing: a tenth of a small call
            return own.astream(given, **bound.kwargs)
        if own is inner:
            return bound.astream(given)
        if isinstance(bound, RunnableBinding):
            return bound.model_copy(update={"bound": own}).astream(given)
        return own.astream(given)


_ASTREAM = BaseChatModel.astream
_PASSED_ON = RunnableBinding.astream


def _as_prompt(messages: list[Any]) -> ChatPromptValue:
    """What `BaseChatModel.astream` makes of a list, but for looking whether each member is a message: they all are."""
    return ChatPromptValue.model_construct(messages=messages)


def model_name(model: BaseChatModel) -> str:
    """How a model is called in tables, in a price table and in errors."""
    for attribute in ("model_name", "model"):
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(model).__name__

"""What one model call sends: the prompt, as much of the history as its budget holds, and what the runtime says now."""

import functools
import inspect
from collections.abc import Callable, Sequence

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from adjourn.checkpoints.errors import UsageError
from adjourn.nodes.context import RunInfo
from adjourn.nodes.tokens import counter_for
from adjourn.nodes.trimming import trimmed

Prompt = str | SystemMessage | Callable[[RunInfo], str | SystemMessage | None]
"""A system prompt, or a function that makes it before each model call. What the function raises fails the run, which can
be resumed."""


class Requests:
    """Makes the requests for one model."""

    def __init__(self, model: str, system_prompt: Prompt | None, max_history_tokens: int | None) -> None:
        self._made: Callable[[RunInfo], Sequence[SystemMessage]]
        if callable(system_prompt):
            _check_plain("system_prompt", system_prompt)
            self._made = functools.partial(_made, system_prompt)
        else:
            fixed = _prompt(system_prompt)
            self._made = lambda _: fixed
        self._budget = max_history_tokens
        self._count = counter_for(model) if max_history_tokens is not None else None

    def of(self, history: Sequence[AnyMessage], notes: Sequence[str], info: RunInfo) -> list[AnyMessage]:
        """The prompt, the history held within its budget (C-76), and `notes` behind it.

        They are marked as coming from the runtime, stand after the tool results, and are in the request only (C-88).
        """
        messages: list[AnyMessage] = [*self._made(info), *history]
        if self._budget is not None and self._count is not None:
            messages = trimmed(messages, self._budget, self._count, info.language)
        return [*messages, HumanMessage(f"[runtime] {' '.join(notes)}")] if notes else messages


def _made(make: Callable[[RunInfo], str | SystemMessage | None], info: RunInfo) -> list[SystemMessage]:
    return _prompt(make(info))


def _check_plain(what: str, function: Callable[..., object]) -> None:
    """Raises `UsageError` for a coroutine function: a prompt is made of what is known, and nothing is waited for."""
    if inspect.iscoroutinefunction(function):
        raise UsageError(
            f"{what} is a plain function, not a coroutine function; read what it needs before the run"
        )


def _prompt(given: str | SystemMessage | None) -> list[SystemMessage]:
    """What stands before each history. Raises `UsageError` for what is no prompt."""
    if isinstance(given, SystemMessage):
        return [given]
    if given is not None and not isinstance(given, str):
        raise UsageError(
            f"system_prompt is a text, a SystemMessage or a function that gives one, not {type(given).__name__}"
        )
    return [SystemMessage(given)] if given else []

"""What one model call sends: the prompt, as much of the history as its budget holds, and what the runtime says now."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from adjourn.checkpoints.errors import UsageError
from adjourn.nodes.tokens import counter_for
from adjourn.nodes.trimming import trimmed


class Requests:
    """Makes the requests for one model."""

    def __init__(
        self, model: str, system_prompt: str | SystemMessage | None, max_history_tokens: int | None
    ) -> None:
        self._prompt = _prompt(system_prompt)
        self._budget = max_history_tokens
        self._count = counter_for(model) if max_history_tokens is not None else None

    def of(self, history: Sequence[AnyMessage], notes: Sequence[str], language: str) -> list[AnyMessage]:
        """The history held within its budget (C-76), and `notes` behind it.

        They are marked as coming from the runtime, stand after the tool results, and are in the request only (C-88).
        """
        messages: list[AnyMessage] = [*self._prompt, *history]
        if self._budget is not None and self._count is not None:
            messages = trimmed(messages, self._budget, self._count, language)
        return [*messages, HumanMessage(f"[runtime] {' '.join(notes)}")] if notes else messages


def _prompt(given: str | SystemMessage | None) -> list[SystemMessage]:
    """What stands before each history. Raises `UsageError` for what is no prompt."""
    if isinstance(given, SystemMessage):
        return [given]
    if given is not None and not isinstance(given, str):
        raise UsageError(f"system_prompt is a text or a SystemMessage, not {type(given).__name__}")
    return [SystemMessage(given)] if given else []

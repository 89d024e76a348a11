"""What one model call sends: the prompt, as much of the history as its budget holds, and what the runtime says now."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from adjourn.nodes.tokens import counter_for
from adjourn.nodes.trimming import trimmed


class Requests:
    """Makes the requests for one model."""

    def __init__(self, model: str, system_prompt: str | None, max_history_tokens: int | None) -> None:
        self._prompt = [SystemMessage(system_prompt)] if system_prompt else []
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

"""Is this history legal? If not, make it so. Pure.

Legal (C-15): every call of an assistant message is answered by exactly one tool message, in request order,
before the next message that is none; and no tool message stands without its call. Providers answer 400 to
anything else, for ever, so each request is checked, however its history came about.
"""

import operator
from collections.abc import Callable, Iterator, Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from adjourn.nodes.observations import content_of, status_of
from adjourn.nodes.stored_form import call_ids, sent_calls

Missing = Callable[[str, str], str]
"""(call id, tool name) -> the observation of a call that was never answered, as JSON text."""


def is_legal(messages: Sequence[AnyMessage]) -> bool:
    """Whether a provider would take this history."""
    expected: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not expected or expected.pop(0) != message.tool_call_id:
                return False
        elif expected:
            return False
        elif isinstance(message, AIMessage):
            expected = call_ids(message)
    return not expected


class Checked:
    """`is_legal` for a history that grows: messages that were found legal are not looked at again.

    As long as it is the same objects: whoever changes a stored message gives a new one.
    """

    def __init__(self) -> None:
        self._legal: Sequence[AnyMessage] = ()

    def are(self, messages: Sequence[AnyMessage]) -> bool:
        """Whether a provider would take these messages."""
        goes_on = len(messages) >= len(self._legal) and all(map(operator.is_, messages, self._legal))
        known = len(self._legal) if goes_on else 0  # a legal history leaves no call open to what follows
        legal = is_legal(messages[known:])
        self._legal = [*messages] if legal else ()
        return legal


def healed(messages: Sequence[AnyMessage], missing: Missing) -> list[AnyMessage]:
    """The history with each call answered once and in order, and no answer without a call.

    Answers that are there are kept wherever they stood before the next assistant message; the others are
    made from `missing`. Everything else stays as it is. Gives a new list; a legal history comes back equal.
    """
    result: list[AnyMessage] = []
    for message, answers in _turns(messages):
        result.append(message)
        if isinstance(message, AIMessage):
            result.extend(_answers(message, answers, missing))
    return result


def _turns(messages: Sequence[AnyMessage]) -> Iterator[tuple[AnyMessage, dict[str, ToolMessage]]]:
    """Each message that is no answer, with the answers that stand before the next assistant message."""
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue
        answers: dict[str, ToolMessage] = {}
        if isinstance(message, AIMessage):
            for later in messages[place + 1 :]:
                if isinstance(later, AIMessage):
                    break
                if isinstance(later, ToolMessage):
                    answers.setdefault(later.tool_call_id, later)
        yield message, answers


def _answers(message: AIMessage, answers: dict[str, ToolMessage], missing: Missing) -> Iterator[ToolMessage]:
    for position, call in enumerate(sent_calls(message)):
        call_id, name = str(call["id"]), str(call["function"]["name"])
        if call_id in answers:
            yield answers[call_id]
        else:
            observation = missing(call_id, name)
            yield ToolMessage(
                content=content_of(observation),
                tool_call_id=call_id,
                name=name,
                status=status_of(observation),
                id=f"{message.id}.{position}",
            )

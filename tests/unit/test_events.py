"""Events: one class per fact, a stored word, and back again (C-63, C-65)."""

import json
from dataclasses import fields

import pytest

from adjourn.checkpoints import events
from adjourn.checkpoints.errors import StoredDataError
from adjourn.checkpoints.events import EVENTS, event_from_row

EXAMPLES = [
    events.RunStarted(run_id="r", thread_id="t", graph="g", input="hi", started_by="li"),
    events.StepStarted(run_id="r", step=1),
    events.TextDelta(run_id="r", step=1, text="a"),
    events.TextDiscarded(run_id="r", step=1, attempt=2, reason="ConnectionError"),
    events.Message(run_id="r", step=1, message_id="m", text="字", calls=2),
    events.ToolCall(run_id="r", step=1, call_id="c", name="n", arguments={"a": [1]}),
    events.ToolProgress(run_id="r", step=1, call_id="c", name="n", part=2, message="half", share=0.5),
    events.ToolResult(run_id="r", step=1, call_id="c", name="n", outcome="ok", data=[{"x": None}], took_ms=3),
    events.LoopInterrupt(run_id="r", step=1, interrupts=({"id": "int_1"}, {"id": "int_2"})),
    events.InterruptAnswered(
        run_id="r", step=1, interrupt_id="int_1", call_id="c", state="answered", by="li"
    ),
    events.RunFinished(run_id="r", step=2, status="finished", stop_reason="answered", answer="ok"),
    events.RunFailed(run_id="r", step=2, error="ModelFailed", message="no key"),
]


def test_c63_every_event_has_its_word_and_an_example():
    assert [type(one).word for one in EXAMPLES] == list(EVENTS)
    assert list(EVENTS) == [
        "run_started",
        "step_started",
        "text_delta",
        "text_discarded",
        "message",
        "tool_call",
        "tool_progress",
        "tool_result",
        "loop_interrupt",
        "interrupt_answered",
        "run_finished",
        "run_failed",
    ]


def test_c66_text_delta_alone_is_not_stored():
    assert [word for word, kind in EVENTS.items() if not kind.stored] == ["text_delta"]


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda one: one.word)
def test_an_event_comes_back_from_its_row(event):
    numbered = event.numbered(7)
    data = json.loads(json.dumps(numbered.own()))
    again = event_from_row("r", 7, word=event.word, step=event.step, path=event.path, data=data)
    assert again == numbered
    assert numbered.to_dict() | {"type": event.word, "number": 7} == numbered.to_dict()


def test_keys_tell_facts_apart():
    assert len({event.key for event in EXAMPLES}) == len(EXAMPLES)
    first, second = EXAMPLES[7], events.ToolResult(run_id="r", step=2, call_id="c", name="n", outcome="ok")
    assert first.key != second.key  # an id that returns in a later step is another call


@pytest.mark.parametrize(
    ("word", "data"),
    [("nothing", {}), ("message", {}), ("message", {"text": "x", "odd": 1, "message_id": "m"})],
)
def test_a_row_that_tells_no_event_names_itself(word, data):
    with pytest.raises(StoredDataError, match=r"events \(r, 3\)"):
        event_from_row("r", 3, word=word, step=0, path="", data=data)


def test_no_own_field_hides_a_method():
    methods = {name for name in dir(events.Event) if callable(getattr(events.Event, name))}
    for kind in EVENTS.values():
        assert not methods & {one.name for one in fields(kind)}

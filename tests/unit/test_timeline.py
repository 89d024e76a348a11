"""A run as bars over time, as a picture, as a page: from rows alone."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from adjourn.checkpoints.database import format_time
from adjourn.checkpoints.lifecycle import InterruptState, RunStatus, StopReason
from adjourn.checkpoints.records import AuditRow, CallRow, Interrupt, RunRow, StepRow
from adjourn.graph.captions import CAPTIONS, caption, length, word
from adjourn.graph.cli.bars import show_bars
from adjourn.graph.cli.screen import Screen
from adjourn.graph.cli.settings import Settings
from adjourn.graph.page import MOST, run_page
from adjourn.graph.picture import COLOURS, safe, svg
from adjourn.graph.run import Run
from adjourn.graph.timeline import Kind, Timeline, timeline
from adjourn.graph.why import why

BEGAN = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
DAY = 86_400_000
NASTY = "</script><img src=x onerror=alert(1)>\u202e\x00'\"&"


def at(ms: float) -> str:
    return format_time(BEGAN + timedelta(milliseconds=ms))


def step_row(step: int, begin: float, end: float, model: str = "gpt-5") -> StepRow:
    times = {"started_at": at(begin), "ended_at": at(end), "latency_ms": round(end - begin)}
    return StepRow(
        run_id="run_1",
        step=step,
        model=model,
        message_id="m",
        input_tokens=10,
        output_tokens=2,
        calls=1,
        **times,
    )


def call_row(step: int, position: int, begin: float | None, end: float | None, **more: Any) -> CallRow:
    row: dict[str, Any] = {
        "run_id": "run_1",
        "step": step,
        "call_id": f"c{step}{position}",
        "batch": 0,
        "position": position,
        "tool": "search",
        "effect": "read",
        "arguments": {"q": "x"},
        "outcome": "ok",
        "planned_at": at(0),
        "started_at": None if begin is None else at(begin),
        "ended_at": None if end is None else at(end),
        "took_ms": None if begin is None or end is None else round(end - begin),
    }
    return CallRow(**{**row, **more})


def question(call: CallRow, begin: float, end: float | None) -> Interrupt:
    return Interrupt(
        id="int_1",
        run_id="run_1",
        step=call.step,
        call_id=call.call_id,
        position=0,
        type="confirm_risky",
        tool=call.tool,
        arguments={},
        reason="Really?",
        payload={},
        response_schema={},
        state="open" if end is None else "answered",
        answered_by="li",
        created_at=at(begin),
        closed_at=None if end is None else at(end),
    )


def run_of(
    steps: Sequence[StepRow] = (),
    calls: Sequence[CallRow] = (),
    questions: Sequence[Interrupt] = (),
    /,
    **row: Any,
) -> Run:
    values: dict[str, Any] = {
        "id": "run_1",
        "thread_id": "t",
        "graph": "ops",
        "signature": "s",
        "input": "look",
        "status": "finished",
        "stop_reason": "answered",
        "created_at": at(0),
        "updated_at": at(0),
    }
    audit = [AuditRow(action="started", interrupt_id=None, by="wang", at=at(0))]
    return Run(RunRow(**{**values, **row}), steps, calls, questions, audit)


@pytest.fixture
def waited() -> Run:
    """One second of work, two days for a person, one second of work."""
    asked = call_row(1, 1, 2 * DAY + 500, 2 * DAY + 1_000, tool="restart", batch=1)
    calls = [call_row(1, 0, 600, 900), asked]
    steps = [step_row(1, 100, 600), step_row(2, 2 * DAY + 1_000, 2 * DAY + 1_500)]
    return run_of(steps, calls, [question(asked, 900, 2 * DAY + 500)], ended_at=at(2 * DAY + 1_500))


def test_bars_of_models_calls_and_people(waited: Run) -> None:
    made = timeline(waited, at(3 * DAY))
    assert [(row.step, row.name, [bar.kind for bar in row.bars]) for row in made.rows] == [
        (1, "gpt-5", [Kind.MODEL]),
        (1, "search", [Kind.CALL]),
        (1, "restart", [Kind.WAIT, Kind.CALL]),
        (2, "gpt-5", [Kind.MODEL]),
    ]
    restart = made.rows[2]
    assert (restart.worked_ms, restart.waited_ms) == (500, 2 * DAY - 400)
    assert made.end_ms == 2 * DAY + 1_500


def test_two_days_of_waiting_leave_the_work_readable(waited: Run) -> None:
    made = timeline(waited, at(3 * DAY))
    (fold,) = made.folds
    assert (fold.begin_ms, fold.end_ms) == (900, 2 * DAY + 500)
    assert 0.1 < made.place(fold.end_ms) - made.place(fold.begin_ms) < 0.2
    assert made.place(600) - made.place(100) == pytest.approx(
        made.place(2 * DAY + 1_500) - made.place(2 * DAY + 1_000)
    )
    assert all(not fold.begin_ms < tick < fold.end_ms for tick in made.ticks())


def test_calls_of_one_batch_are_joined_and_those_of_the_next_are_not() -> None:
    calls = [call_row(1, 0, 0, 9), call_row(1, 1, 0, 5), call_row(1, 2, 9, 20, batch=1)]
    made = timeline(run_of([], calls), at(20))
    assert [row.joined for row in made.rows] == [False, True, False]


def test_what_is_open_goes_on_until_now_and_what_never_ran_has_no_bar() -> None:
    started = call_row(1, 0, 100, None, outcome="started")
    skipped = call_row(1, 1, None, 50, outcome="skipped")
    asked = call_row(1, 2, None, None, outcome="waiting")
    run = run_of(
        [], [started, skipped, asked], [question(asked, 50, None)], status="running", stop_reason=None
    )
    rows = timeline(run, at(400)).rows
    assert [(bar.end_ms, bar.is_open) for bar in rows[0].bars] == [(400, True)]
    assert rows[1].bars == ()
    assert [(bar.kind, bar.end_ms, bar.is_open) for bar in rows[2].bars] == [(Kind.WAIT, 400, True)]


def test_a_question_of_a_node_of_one_s_own_has_its_row() -> None:
    loose = question(call_row(1, 0, None, None, call_id=""), 10, 90)
    made = timeline(run_of([step_row(1, 0, 10)], [], [loose]), at(90))
    assert [(row.name, row.waited_ms) for row in made.rows] == [("gpt-5", None), ("interrupt", 80)]


def test_clocks_of_two_hosts_may_differ() -> None:
    made = timeline(run_of([step_row(1, -500, -100)], [call_row(1, 0, 50, 20)], ended_at=at(-5)), at(-9))
    assert all(0 <= bar.begin_ms <= bar.end_ms for row in made.rows for bar in row.bars)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)), max_size=12), st.integers(0, 10**9))
def test_time_runs_from_left_to_right(spans: list[tuple[int, int]], end: int) -> None:
    steps = [step_row(number, begin, begin + took) for number, (begin, took) in enumerate(spans, 1)]
    made = timeline(run_of(steps, ended_at=at(end)), at(0))
    moments = sorted({0.0, made.end_ms, *(bar.begin_ms for row in made.rows for bar in row.bars)})
    places = [made.place(ms) for ms in moments]
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0.0, pytest.approx(1.0))
    assert len(made.ticks()) < 30 + len(made.folds)
    assert all(0 <= tick <= made.end_ms for tick in made.ticks())


# -- the picture and the page


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_picture_is_well_formed_and_says_what_it_shows(waited: Run, language: str) -> None:
    drawn = svg(timeline(waited, at(0)), waited.id, language)
    root = ElementTree.fromstring(drawn)
    assert root.get("role") == "img"
    assert "run_1" in (root.get("aria-label") or "")
    assert caption("waited", language, time="1 d 23 h") in drawn
    assert COLOURS["waiting"] in drawn
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|url\(|<script|<image|href", drawn)


def test_rows_of_a_page_s_picture_lead_to_what_they_are_about(waited: Run) -> None:
    page = run_page(waited, "en", at(0))
    targets = set(re.findall(r'<a href="#([^"]+)" aria-label="step', page))
    assert targets == {"s1", "s1-c0", "s1-c1", "s2"}
    for target in targets:
        assert f'id="{target}"' in page


class Elements(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_page_loads_nothing_and_whatever_stands_in_a_run_stays_text(language: str) -> None:
    call = call_row(
        1, 0, 0, 5, tool=NASTY, call_id=NASTY, arguments={NASTY: NASTY}, shown=NASTY, outcome="failed"
    )
    broken = call_row(1, 1, None, 1, arguments=None, raw=NASTY, error={"class": NASTY, "text": NASTY})
    asked = question(call, 0, 3)
    run = run_of(
        [step_row(1, 0, 1, model=NASTY)],
        [call, broken],
        [asked],
        input=NASTY,
        answer=NASTY,
        started_by=NASTY,
        thread_id=NASTY,
        graph=NASTY,
        id=NASTY,
    )
    page = run_page(run, language, at(9))
    elements = Elements()
    elements.feed(page)
    names = {tag for tag, _ in elements.found}
    assert not names & {"script", "img", "image", "iframe", "link", "object", "embed", "form", "base", "use"}
    for _, attributes in elements.found:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in page
    assert "@import" not in page
    assert "\u202e" not in page
    assert "\x00" not in page
    assert "default-src 'none'" in page
    assert f'<html lang="{"zh-CN" if language == "zh" else "en"}">' in page
    shown = svg(timeline(run, at(9)), run.id, language, links=True)
    ElementTree.fromstring(shown)


def test_a_long_value_is_cut_and_says_so() -> None:
    page = run_page(run_of([], [call_row(1, 0, 0, 5, shown="x" * (MOST + 7))]), "en", at(9))
    assert "7 more characters are in the database" in page
    assert f"<pre>{'x' * MOST}\n" in page
    assert "<details" in page


def test_a_run_that_has_done_nothing_yet_is_shown_too() -> None:
    run = run_of(status="running", stop_reason=None)
    assert "Nothing has happened yet." in run_page(run, "en", at(5))
    assert timeline(run, at(5)).rows == ()


def test_text_that_no_page_can_hold() -> None:
    assert safe("a\x00b\u2028\ud800<&\"'") == "a\ufffdb\ufffd\ufffd&lt;&amp;&quot;&#x27;"
    run_page(run_of(answer="half \ud83d"), "en", at(0)).encode()


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 ms"),
        (312.4, "312 ms"),
        (1_250, "1.25 s"),
        (20_000, "20 s"),
        (250_000, "4 min 10 s"),
        (2 * DAY + 3 * 3_600_000, "2 d 3 h"),
    ],
)
def test_how_long_it_took(ms: float, words: str) -> None:
    assert length(ms) == words


def test_every_caption_is_there_in_both_languages_with_the_same_values() -> None:
    for key, texts in CAPTIONS.items():
        assert set(texts) == {"en", "zh"}, key
        assert set(re.findall(r"{(\w+)", texts["en"])) == set(re.findall(r"{(\w+)", texts["zh"])), key


@pytest.mark.parametrize("stored", [*RunStatus, *StopReason, *InterruptState, "ask_user"])
def test_each_state_and_stop_reason_has_a_chinese_word_and_is_itself_in_english(stored: str) -> None:
    assert word(stored, "en") == stored
    assert not word(stored, "zh").isascii()


# -- why


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("reason", list(StopReason))
def test_c52_every_stop_reason_has_a_sentence(reason: StopReason, language: str) -> None:
    calls = [
        call_row(1, 0, 0, 5, digest="a", outcome="failed", error_code="timeout"),
        call_row(2, 0, 5, 9, digest="a", outcome="failed", error_code="timeout"),
    ]
    status = "cancelled" if reason is StopReason.CANCELLED else "finished"
    run = run_of(
        [], calls, stop_reason=reason.value, status=status, steps=2, ended_at=at(250_000), active_ms=1_500
    )
    told = why(run, language, at(0))
    assert not re.search(r"[{}]|None", told.replace('{"q": "x"}', ""))
    assert (
        told
        == {
            **dict.fromkeys(StopReason, told),
            StopReason.TIMEOUT: caption("why.timeout", language, active="1.5", wall="4 min 10 s"),
            StopReason.TOO_MANY_FAILS: caption(
                "why.too_many_fails", language, steps=2, calls="search (timeout) ×2"
            ),
            StopReason.LOOP_DETECTED: caption("why.loop_detected", language, calls='search {"q": "x"} ×2'),
        }[reason]
    )


def test_a_success_ends_the_row_of_failures() -> None:
    calls = [
        call_row(1, 0, 0, 5, outcome="failed", error_code="timeout"),
        call_row(2, 0, 5, 9),
        call_row(3, 0, 9, 12, outcome="failed", error_code="tool_error"),
        call_row(3, 1, None, 12, outcome="skipped"),
    ]
    told = why(run_of([], calls, stop_reason="too_many_fails"), "en", at(0))
    assert told == "Every call failed, 1 step in a row: search (tool_error)."


def test_what_a_run_that_goes_on_is_doing() -> None:
    working = {"status": "running", "stop_reason": None, "lease_owner": "host:7"}
    assert why(run_of(**working, lease_until=at(9)), "en", at(5)) == "It is at work, driven by host:7."
    assert "nobody has driven it since 2026-11-30 10:00:03Z" in why(
        run_of(**working, lease_until=at(3_000)), "en", at(5_000)
    )
    failed = run_of(status="failed", stop_reason=None, error={"class": "ModelFailed", "message": "no key"})
    assert why(failed, "en", at(0)) == "It gave up and can be resumed: ModelFailed: no key"


# -- on a terminal


def bars(made: Timeline, capsys: pytest.CaptureFixture[str], language: str = "en") -> list[str]:
    show_bars(Screen(Settings(language=language)), made)
    return capsys.readouterr().out.splitlines()


def test_bars_in_a_pipe_tell_by_their_characters(waited: Run, capsys: pytest.CaptureFixture[str]) -> None:
    lines = bars(timeline(waited, at(0)), capsys)
    assert "⋯1 d 23 h⋯" in lines[0]
    assert lines[1].split() == ["10:00:00", "+2", "d"]
    by_name = {line.split()[0]: line for line in lines}
    assert "▒" in by_name["gpt-5"]
    assert "█" in by_name["search"]
    assert re.search(r"░+█+", by_name["restart"])
    assert by_name["restart"].endswith("ok · 500 ms · waited 1 d 23 h")
    assert all(len(line) <= 100 for line in lines)
    assert "等待人工" in bars(timeline(waited, at(0)), capsys, "zh")[-1]


def test_bars_join_what_ran_together(capsys: pytest.CaptureFixture[str]) -> None:
    calls = [call_row(1, number, 0, 5, tool=f"t{number}") for number in range(3)]
    lines = bars(timeline(run_of([], calls), at(9)), capsys)
    assert [line[0] for line in lines if " t" in line[:4]] == ["┌", "├", "└"]


def test_names_of_any_script_keep_the_bars_in_line(capsys: pytest.CaptureFixture[str]) -> None:
    calls = [
        call_row(1, 0, 0, 5, tool="查询日志"),
        call_row(1, 1, 0, 5, tool="search"),
        call_row(1, 2, 0, 5, tool="长" * 40),
    ]
    lines = [line for line in bars(timeline(run_of([], calls), at(9)), capsys) if "ok" in line]
    assert len({cell_len(line.split("█")[0]) for line in lines}) == 1

"""Several processes want one run at the same moment (C-46, C-47): one wins, and nothing is done twice.

`ADJOURN_RACES` is how many rounds each race has [4]; `ADJOURN_WAITING` how many runs wait for four processes [16].
`make scale` gives them 500 and 1,000.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from store.engines import SHARED, Engines
from store.processes import PROCESSES
from store.race_app import app, racer, run_id, worker

from adjourn.graph import Run, Runner

ROUNDS = int(os.environ.get("ADJOURN_RACES", "4"))
WAITING = int(os.environ.get("ADJOURN_WAITING", "16"))
LOST = {"AlreadyAnswered", "RunBusy"}
LIMIT_S = 60 + 2 * ROUNDS


class Course:
    """One database, and the processes that race in it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.effects = folder / "effects"

    def race(self, roles: Sequence[str], **settings: Any) -> list[list[str]]:
        """What each process found in each round: a status or the name of an error. `roles`: one for each process."""
        with self.runner(**settings) as runner:
            for number in range(ROUNDS):
                run = runner.start_sync("go", run_id=run_id(number), thread_id=f"t{number}")
                assert run.status == "interrupted"
        barrier = PROCESSES.Barrier(len(roles))
        outs = [self.folder / f"out-{place}" for place in range(len(roles))]
        started = [
            PROCESSES.Process(
                target=racer,
                args=(self.url, str(self.effects), settings, role, place, ROUNDS, barrier, str(outs[place])),
            )
            for place, role in enumerate(roles)
        ]
        began = time.monotonic()
        found = _told(started, outs)
        took = time.monotonic() - began
        print(f"\n{' / '.join(roles)}: {ROUNDS} rounds in {took:.1f} s: {Counter(chain(*found))}")
        assert [len(one) for one in found] == [ROUNDS] * len(roles), [one[-1] for one in found]
        return [list(one) for one in zip(*found, strict=True)]

    def runner(self, **settings: Any) -> Runner:
        return app(self.url, self.effects, **settings)

    def sent(self) -> int:
        """How often a write was really made."""
        return len(self.effects.read_text().splitlines()) if self.effects.exists() else 0

    def runs(self, **settings: Any) -> list[Run]:
        """The runs of the rounds, as they stand; each has told its story without gap or twin."""
        with self.runner(**settings) as runner:
            found = [runner.get_sync(run_id(number)) for number in range(ROUNDS)]
            for run in found:
                told = [event.number for event in runner.events_sync(run.id)]
                assert told == list(range(1, len(told) + 1))
            return found


def _told(processes: Sequence[Any], outs: Sequence[Path]) -> list[Any]:
    for process in processes:
        process.start()
    end = time.monotonic() + LIMIT_S + WAITING
    for process in processes:
        process.join(max(0.1, end - time.monotonic()))
    for process in processes:
        if process.is_alive():
            process.kill()
            process.join()
    return [json.loads(one.read_text()) if one.exists() else ["came to no end"] for one in outs]


@pytest.fixture(params=SHARED)
def course(request: pytest.FixtureRequest, servers: Engines, tmp_path: Path) -> Iterator[Course]:
    yield Course(servers.empty(request.param, tmp_path), tmp_path)


@pytest.mark.timeout(4 * LIMIT_S)
def test_c47_n_processes_answer_one_run_and_one_wins(course: Course) -> None:
    for round_ in course.race(["answer"] * 4):
        assert round_.count("finished") == 1, round_
        assert set(round_) - {"finished"} <= LOST, round_
    assert course.sent() == ROUNDS
    assert {one.status for one in course.runs()} == {"finished"}


@pytest.mark.timeout(4 * LIMIT_S)
def test_c46_two_questions_of_one_run_are_answered_by_two_processes_at_once(course: Course) -> None:
    for round_ in course.race(["answer one"] * 2, questions=2):
        assert set(round_) <= {"finished", "interrupted", "running"}, round_
        assert round_.count("finished") >= 1, round_
    assert course.sent() == 2 * ROUNDS
    for run in course.runs(questions=2):
        assert (run.status, [one.answered_by for one in run.questions]) == ("finished", ["p0", "p1"])


@pytest.mark.timeout(4 * LIMIT_S)
def test_c47_an_answer_against_a_cancel(course: Course) -> None:
    rounds = course.race(["answer", "cancel"])
    runs = course.runs()
    for (answered, cancelled), run in zip(rounds, runs, strict=True):
        assert answered in {"finished", "cancelled", *LOST, "NotResumable"}, answered
        assert cancelled in {"cancelled", "finished"}, cancelled
        assert run.status in {"cancelled", "finished"}
        assert {one.state for one in run.questions} <= {"answered", "cancelled"}
        assert all(one.result is not None for one in run.calls)
    assert course.sent() == sum(one.calls[0].outcome == "ok" for one in runs)


@pytest.mark.timeout(4 * LIMIT_S)
def test_c50_an_answer_against_a_plain_message(course: Course) -> None:
    rounds = course.race(["answer", "message"])
    runs = course.runs()
    for (answered, said), run in zip(rounds, runs, strict=True):
        if run.stop_reason == "dismissed":
            assert (answered in {*LOST, "NotResumable"}, said) == (True, "finished"), (answered, said)
            assert [one.state for one in run.questions] == ["dismissed"]
        else:
            assert (run.stop_reason, answered) == ("answered", "finished"), (answered, said)
            assert said in {"finished", "RunBusy"}  # after the run had ended, or while it worked
    assert course.sent() == sum(one.stop_reason == "answered" for one in runs)


@pytest.mark.timeout(4 * LIMIT_S)
def test_c90_an_answer_against_recoveries_with_a_lease_that_is_over_at_once(course: Course) -> None:
    rounds = course.race(["answer", "recover", "recover"], lease_s=-1.0)
    runs = course.runs(lease_s=-1.0)
    for (answered, *recovered), run in zip(rounds, runs, strict=True):
        assert answered in {"finished", "interrupted", "LeaseLost", "running"}, answered
        assert set(recovered) <= {"finished", "interrupted", "running", *LOST, "NotResumable", "LeaseLost"}
        # a write that another owner had begun is asked about, never made again
        assert run.status == "finished" or [one.type for one in run.interrupts] == ["outcome_unknown"], run
    assert course.sent() <= ROUNDS
    assert sum(one.status == "finished" for one in runs) <= course.sent()


@pytest.mark.timeout(6 * (60 + WAITING))
def test_c43_four_processes_resume_all_that_waits_each_once(course: Course) -> None:
    began = time.monotonic()
    with course.runner() as runner:
        for number in range(WAITING):
            runner.start_sync("go", run_id=run_id(number), thread_id=f"t{number}")
    started = time.monotonic() - began
    outs = [course.folder / f"worker-{place}" for place in range(4)]
    given = [(course.url, str(course.effects), 12 * place, str(out)) for place, out in enumerate(outs)]
    began = time.monotonic()
    found = _told([PROCESSES.Process(target=worker, args=one) for one in given], outs)
    took = time.monotonic() - began
    assert all(isinstance(one, dict) and one["errors"] == [] for one in found), found
    print(f"\n{WAITING} runs begun in {started:.1f} s, resumed by 4 processes in {took:.1f} s: {found}")
    assert sum(one["finished"] for one in found) == WAITING
    assert course.sent() == WAITING
    with course.runner() as runner:
        assert {one.status for one in runner.list_sync(limit=None)} == {"finished"}

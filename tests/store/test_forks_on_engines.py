"""Forks and histories on every engine: copies of rows, and what a transaction holds."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from runs.shop import LIMITS, Shop

from adjourn.checkpoints.errors import WouldRepeat
from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel, approve
from adjourn.nodes.scripted import call, says

RESTART = call("restart_service", {"service_id": "svc-pay-001", "environment": "prod"}, id="r")
TURNS = [
    says(
        "看看 🙂 \0",
        call("search_docs", {"query": "a"}, id="a"),
        call("publish_release", {"service_id": "s", "version": "1"}, id="b"),
        RESTART,
    ),
    "done",
]


@pytest.fixture
def runner(url: str) -> Iterator[Runner]:
    with Runner(build_react(_model(TURNS), Shop().tools(), limits=LIMITS), url) as made:
        yield made


def _model(turns: Sequence[Any]) -> ScriptedModel:
    return ScriptedModel(turns=list(turns), by_history=True)


def test_c92_a_run_is_forked_from_each_of_its_checkpoints(runner: Runner) -> None:
    first = runner.start_sync("earlier", thread_id="t")
    runner.cancel_sync(first.id)
    run = runner.start_sync("go", thread_id="ops")
    done = runner.resume_sync(run.id, {run.interrupts[0].id: approve()})
    assert done.status == "finished"
    for place, one in enumerate(runner.history_sync(run.id)):
        if not one.next:
            continue
        fork = runner.fork_sync(run.id, one.id, repeat_writes=True, thread_id=f"fork-{place}")
        if fork.interrupts:
            fork = runner.resume_sync(fork.id, {fork.interrupts[0].id: approve()})
        assert (fork.status, fork.answer, fork.row.forked_at) == ("finished", "done", one.id), one
    assert runner.get_sync(run.id).row == done.row


def test_c92_a_repeat_is_said_first_and_a_message_needs_none(runner: Runner) -> None:
    run = runner.start_sync("go", thread_id="ops")
    beginning = runner.history_sync(run.id)[-1]
    with pytest.raises(WouldRepeat, match="publish_release"):
        runner.fork_sync(run.id, beginning.id)
    fork = runner.fork_sync(run.id, message="好", thread_id="new")
    assert (fork.status, fork.answer) == ("finished", "done")


def test_c87_a_history_is_gone_on_from(runner: Runner) -> None:
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "which one?"}]
    run = runner.run_from_history_sync(said, {"environment": "prod 🙂"})
    assert (run.status, run.answer) == ("finished", "done")

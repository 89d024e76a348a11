"""Expiry, approvals and waiting in line, on each database that several processes reach."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import update
from store.test_runs_on_engines import at_once

from adjourn.checkpoints import journal, settling
from adjourn.checkpoints.database import format_time
from adjourn.checkpoints.errors import AlreadyAnswered, Expired, NotAllowed, NotResumable, RunBusy
from adjourn.checkpoints.run_schema import interrupts
from adjourn.graph import Run, Runner, build_react
from adjourn.graph.expiring import sweep
from adjourn.nodes import Approvers, ScriptedModel, Tool, approve, tool
from adjourn.nodes.scripted import call, says

HOUR_S = 3600
Office = Callable[..., Runner]


def payer(ran: list[int]) -> Tool:
    @tool(
        effect="write",
        confirm="Pay {amount}?",
        expires_in_s=HOUR_S,
        approvers=Approvers(2, of=("li", "wang", "赵")),
    )
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    return pay


@pytest.fixture
def office(shared_url: str) -> Iterator[Office]:
    """Makes runners as other processes would: only the database is shared."""
    made: list[Runner] = []

    def runner(ran: list[int], *, tools: Any = None, turns: Any = None, **settings: Any) -> Runner:
        model = ScriptedModel(
            turns=turns or [says("", call("pay", {"amount": 5}, id="p")), "done", "more"], by_history=True
        )
        made.append(Runner(build_react(model, tools or [payer(ran)]), shared_url, **settings))
        return made[-1]

    yield runner
    for one in made:
        one.close()


def expires(runner: Runner, seconds: float) -> None:
    """Let every question expire so many seconds from now."""
    at = format_time(datetime.now(UTC) + timedelta(seconds=seconds))
    runner.database.write(lambda connection: connection.execute(update(interrupts).values(expires_at=at)))


def test_c40_what_is_overdue_is_found_closed_once_and_let_go_on_by_one(office: Office) -> None:
    ran: list[int] = []
    runners = [office(ran) for _ in range(3)]
    ids = [runners[0].start_sync("go", thread_id=f"t{number}").id for number in range(4)]
    read = runners[0].database.read
    assert read(settling.overdue_runs) == []
    assert set(read(partial(settling.next_expiries, run_ids=ids))) == set(ids)
    expires(runners[0], -1)
    assert sorted(read(settling.overdue_runs)) == sorted(ids)
    assert len(read(partial(settling.overdue_runs, limit=3))) == 3
    at_once(partial(sweep, one.database) for one in runners)
    assert read(settling.overdue_runs) == []
    assert sorted(runners[1].expire_sync()) == sorted(ids)
    for run_id in ids:
        events = runners[0].events_sync(run_id)
        assert [one.word for one in events].count("interrupt_answered") == 1
        assert [one.number for one in events] == list(range(1, len(events) + 1))
    found = at_once(partial(one.recover_sync, ids[0]) for one in runners)
    assert sum(isinstance(one, Run) and one.status == "finished" for one in found) == 1, found
    assert all(isinstance(one, Run | RunBusy | NotResumable) for one in found), found
    assert [one.outcome for one in runners[0].get_sync(ids[0]).calls] == ["expired"]
    assert ran == []


def test_c49_of_an_answer_and_an_expiry_at_the_same_moment_one_wins(office: Office) -> None:
    ran: list[int] = []
    person, looker = office(ran), office(ran)
    for number in range(6):
        run = person.start_sync("go", thread_id=f"t{number}")
        answers = {run.interrupts[0].id: approve()}
        person.resume_sync(run.id, answers, by="li")
        before = len(ran)
        expires(person, 0.002 * number)
        found = at_once(
            [
                partial(person.resume_sync, run.id, answers, by="wang"),
                partial(sweep, looker.database),
                partial(looker.get_sync, run.id),
            ]
        )
        assert isinstance(found[0], Run | Expired | RunBusy), found
        if looker.get_sync(run.id).interrupts:
            expires(person, -1)
        (question,) = looker.get_sync(run.id).questions
        assert (len(ran) - before) == (question.state == "answered"), (question.state, found)
        events = looker.events_sync(run.id)
        closed = [one.state for one in events if one.word == "interrupt_answered"]  # type: ignore[attr-defined]
        assert closed == ["open", question.state]
        assert [one.number for one in events] == list(range(1, len(events) + 1))


def test_c51_several_people_at_once_each_counts_once(office: Office) -> None:
    ran: list[int] = []
    runners = [office(ran) for _ in range(4)]
    people = ("li", "wang", "li", "mallory")
    for number in range(4):
        run = runners[0].start_sync("go", thread_id=f"t{number}")
        answers = {run.interrupts[0].id: approve()}
        found = at_once(
            partial(one.resume_sync, run.id, answers, by=by) for one, by in zip(runners, people, strict=True)
        )
        assert isinstance(found[3], NotAllowed | AlreadyAnswered), found  # it may be over when she comes
        after = runners[0].get_sync(run.id)
        assert (after.status, len(ran)) == ("finished", number + 1), found
        assert sorted(one["by"] for one in after.questions[0].approvals["given"]) == ["li", "wang"]  # type: ignore[index]
        assert sum(isinstance(one, AlreadyAnswered | RunBusy) for one in found[:3]) == 1, found
    with_chinese = runners[0].start_sync("go", thread_id="zh")
    runners[1].resume_sync(with_chinese.id, {with_chinese.interrupts[0].id: approve()}, by="赵")
    assert runners[2].get_sync(with_chinese.id).interrupts[0].approvals["given"][0]["by"] == "赵"  # type: ignore[index]


def test_c86_a_message_waits_for_the_run_of_another_process(office: Office) -> None:
    entered, opened = threading.Event(), threading.Event()

    @tool(effect="read", timeout_s=None)
    def hold() -> str:
        """Hold."""
        entered.set()
        opened.wait(60)
        return "held"

    turns = [says("", call("hold", {}, id="h")), "one", "two", "three"]
    owner = office([], tools=[hold], turns=turns)
    waiting = [office([], tools=[hold], turns=turns, busy="wait") for _ in range(2)]
    ended: list[Any] = []
    threads = [
        threading.Thread(target=lambda one=one: ended.append(one.start_sync("go", thread_id="t")))
        for one in (owner, *waiting)
    ]
    threads[0].start()
    assert entered.wait(60)
    for one in threads[1:]:
        one.start()
    assert len(owner.database.read(lambda c: journal.list_runs(c, thread_id="t"))) == 1
    opened.set()
    for one in threads:
        one.join(60)
    assert [one.status for one in ended] == ["finished"] * 3

"""Whole runs on every engine: the fences, claims and counts that rest on what a transaction sees."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from runs import crash_app
from runs.shop import LIMITS, Shop
from store.processes import PROCESSES

from adjourn.checkpoints import event_rows, journal, leases
from adjourn.checkpoints.errors import AlreadyAnswered, LeaseLost, NotResumable, RunBusy
from adjourn.checkpoints.events import Event, StepStarted
from adjourn.checkpoints.lifecycle import RunEvent
from adjourn.graph import Run, Runner, Specialist, build_react, build_supervisor, starts
from adjourn.nodes import ScriptedModel, ToolContext, approve, tool
from adjourn.nodes.scripted import call, says

RESTART = says("", call("restart_service", {"service_id": "svc-pay-001", "environment": "prod"}, id="r1"))
Office = Callable[..., Runner]


@pytest.fixture
def office(shared_url: str) -> Iterator[Office]:
    """Makes runners as other processes would: only the database is shared."""
    made: list[Runner] = []

    def runner(turns: Sequence[Any], shop: Shop | None = None, **settings: Any) -> Runner:
        model = ScriptedModel(turns=list(turns), by_history=True)
        graph = build_react(model, (shop or Shop()).tools(), limits=LIMITS)
        made.append(Runner(graph, shared_url, **settings))
        return made[-1]

    yield runner
    for one in made:
        one.close()


def at_once(works: Iterable[Callable[[], Any]]) -> list[Any]:
    """What each gives or raises, all begun at the same moment, each in a thread of its own."""
    works = list(works)
    barrier, found = threading.Barrier(len(works)), [None] * len(works)

    def body(place: int) -> None:
        barrier.wait()
        try:
            found[place] = works[place]()
        except Exception as error:
            found[place] = error  # type: ignore[call-overload]

    threads = [threading.Thread(target=body, args=(place,)) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def numbers(runner: Runner, run: Run) -> list[int | None]:
    return [event.number for event in runner.events_sync(run.id)]


def test_a_run_stops_and_goes_on_elsewhere(office: Office) -> None:
    shop = Shop()
    first = office([RESTART, "done"], shop)
    run = first.start_sync("重启支付服务 🙂", thread_id="ops", by="wang")
    assert run.status == "interrupted"
    second = office([RESTART, "done", "again"], shop)
    (question,) = second.get_sync(run.id).interrupts
    done = second.resume_sync(run.id, {question.id: approve()}, by="li")
    assert (done.status, done.answer, shop.count("restart_service")) == ("finished", "done", 1)
    assert done.row.input == "重启支付服务 🙂"
    told = numbers(first, run)
    assert told == list(range(1, len(told) + 1))
    again = second.start_sync("and now?", thread_id="ops")
    assert again.status == "finished"


def test_two_answers_at_once_one_wins(office: Office) -> None:
    shop = Shop()
    one, other = office([RESTART, "done"], shop), office([RESTART, "done"], shop)
    for number in range(1, 5):
        run = one.start_sync("restart", thread_id=f"t{number}")
        answer = {run.interrupts[0].id: approve()}
        found = at_once(partial(runner.resume_sync, run.id, answer) for runner in (one, other))
        assert sum(isinstance(result, Run) and result.status == "finished" for result in found) == 1, found
        assert sum(isinstance(result, AlreadyAnswered | RunBusy) for result in found) == 1, found
        assert shop.count("restart_service") == number
        told = numbers(one, run)
        assert told == list(range(1, len(told) + 1))


def test_two_messages_at_once_start_one_run(office: Office) -> None:
    slow = Shop(delays={"search_docs": 0.3})
    turns = [says("", call("search_docs", {"query": "x"}, id="s")), "done"]
    runners = [office(turns, slow) for _ in range(3)]
    for number in range(3):
        found = at_once(partial(one.start_sync, "go", thread_id=f"t{number}") for one in runners)
        assert sum(isinstance(result, Run) and result.status == "finished" for result in found) == 1, found
        assert sum(isinstance(result, RunBusy) for result in found) == 2, found


def test_two_messages_at_once_pass_over_a_waiting_run_once(office: Office) -> None:
    runners = [office([RESTART, "another way", "done"]) for _ in range(2)]
    waiting = runners[0].start_sync("restart", thread_id="t")
    found = at_once(partial(one.start_sync, "wait", thread_id="t") for one in runners)
    finished = [result for result in found if isinstance(result, Run)]
    assert finished, found
    assert all(isinstance(result, Run | RunBusy) for result in found), found
    before = runners[0].get_sync(waiting.id)
    assert (before.status, before.stop_reason) == ("finished", "dismissed")
    assert [one.state for one in before.questions] == ["dismissed"]
    told = numbers(runners[0], waiting)
    assert told == list(range(1, len(told) + 1))


def test_cancel_of_a_waiting_run_against_its_answer(office: Office) -> None:
    shop = Shop()
    one, other = office([RESTART, "done"], shop), office([RESTART, "done"], shop)
    for number in range(3):
        run = one.start_sync("restart", thread_id=f"t{number}")
        answer = {run.interrupts[0].id: approve()}
        at_once([partial(one.resume_sync, run.id, answer), partial(other.cancel_sync, run.id)])
        after = one.get_sync(run.id)
        assert after.status in ("cancelled", "finished")
        assert {question.state for question in after.questions} <= {"answered", "cancelled"}
        told = numbers(one, run)
        assert told == list(range(1, len(told) + 1))


def test_a_cancel_reaches_the_owner_in_another_process(office: Office) -> None:
    shop = Shop(delays={"search_docs": 0.9})
    turns = [says("", call("search_docs", {"query": "x"}, id=f"s{n}")) for n in range(8)]
    owner, other = office(turns, shop), office(turns, shop)
    found: list[Any] = []

    def drive() -> None:
        found.append(owner.start_sync("go", run_id="run_c", thread_id="t"))

    thread = threading.Thread(target=drive)
    thread.start()
    while not other.database.read(lambda c: journal.find_run_ids(c, "run_c")):
        time.sleep(0.02)
    cancelled = other.cancel_sync("run_c", by="li")
    thread.join(30)
    assert (cancelled.status, found[0].status) == ("cancelled", "cancelled")


def test_a_dead_owners_run_is_recovered_by_one(office: Office) -> None:
    runners = [office(["hello"]) for _ in range(3)]
    lost = starts.new_run(
        "go",
        thread_id="t",
        by=None,
        run_id="run_d",
        graph=runners[0].name,
        signature="s",
        owner="dead",
        lease_s=-1,
    )
    runners[0].database.write(lambda c: starts.store(c, lost))
    found = at_once(partial(one.recover_sync, "run_d") for one in runners)
    assert sum(isinstance(result, Run) for result in found) == 1, found
    assert all(isinstance(result, Run | RunBusy | NotResumable) for result in found), found
    with pytest.raises(LeaseLost):
        runners[0].database.write(lambda c: leases.hold(c, "run_d", 1))


def test_one_of_many_claims_wins_and_events_are_numbered_without_gap_or_twin(office: Office) -> None:
    runner = office(["hello"])
    lost = starts.new_run(
        "go", thread_id="t", by=None, run_id="run_e", graph="g", signature="s", owner="dead", lease_s=-1
    )
    runner.database.write(lambda c: starts.store(c, lost))

    def claim() -> int:
        return runner.database.write(
            lambda c: leases.claim(c, "run_e", RunEvent.RECOVER, owner="new", lease_s=30)
        )

    found = at_once([claim] * 6)
    assert sorted(str(one) for one in found if isinstance(one, int)) == ["2"], found
    assert sum(isinstance(one, RunBusy) for one in found) == 5, found

    def tell(place: int) -> None:
        for number in range(10):
            fact = StepStarted(run_id="run_e", step=100 * (place + 1) + number)
            runner.database.write(partial(event_rows.append, run_id="run_e", facts=[fact], fence=2))

    assert at_once(partial(tell, place) for place in range(4)) == [None] * 4
    stored = runner.database.read(lambda c: event_rows.read(c, "run_e"))
    assert [event.number for event in stored] == list(range(1, 43))


def test_a_killed_owners_write_is_not_run_again_a_person_is_asked(shared_url: str, tmp_path: Path) -> None:
    effects, out = tmp_path / "effects", tmp_path / "out"
    hold, inside = effects.with_suffix(".hold-pay"), effects.with_suffix(".in-pay")

    def process(*command: str) -> Any:
        given = (str(out), shared_url, str(effects), "pay", *command)
        started = PROCESSES.Process(target=crash_app.child, args=given)
        started.start()
        return started

    hold.touch()
    owner = process("start", "run_k")
    while not inside.exists():
        assert owner.is_alive()
        time.sleep(0.01)
    owner.kill()
    owner.join()
    hold.unlink()
    time.sleep(crash_app.LEASE_S * 1.2)
    process("recover", "run_k").join(60)
    (question,) = json.loads(out.read_text())["interrupts"]
    process("resume", "run_k", json.dumps({question: {"action": "happened", "result": "paid"}})).join(60)
    assert json.loads(out.read_text())["status"] == "finished"
    assert effects.read_text().splitlines() == ["look a", "pay b"]


def test_call_ids_of_any_length_and_form(office: Office) -> None:
    ids = ["c" * 300, "支付", "nul \0", "c" * 299]
    turn = says("", *(call("search_docs", {"query": f"q{n} \0"}, id=one) for n, one in enumerate(ids)))
    runner = office([turn, "done"])
    run = runner.start_sync("go \0", by="x")
    assert (run.status, [one.outcome for one in run.calls]) == ("finished", ["ok"] * 4), run.row.error


def test_ids_that_differ_by_a_blank_at_the_end_are_two(office: Office) -> None:
    """MariaDB compares so that they would be one: one conversation read the other, and two such calls failed their run."""
    turn = says("", *(call("search_docs", {"query": f"q{n}"}, id=one) for n, one in enumerate(("c", "c "))))
    runner = office([turn, "done"])
    ends = [runner.start_sync(one, thread_id=one, run_id=f"run_{one}") for one in ("t", "t ")]
    assert [[one.status, *(call.outcome for call in one.calls)] for one in ends] == [
        ["finished", "ok", "ok"]
    ] * 2
    for run in ends:
        state = runner.graph.get_state({"configurable": {"thread_id": run.row.thread_id}}).values
        assert [one.text for one in state["messages"] if one.type == "human"] == [run.row.input]
        assert runner.get_sync(run.id).id == run.id


IDS = {"long": "c" * 300, "Chinese": "支付", "nul": "nul \0", "half a character": "half \ud800"}


@pytest.mark.parametrize("call_id", IDS.values(), ids=IDS)
def test_c33_a_write_is_made_whatever_the_ids_of_its_call_and_its_run_are(
    shared_url: str, call_id: str
) -> None:
    """Its idempotency key holds both: where it was longer than its column, no run could make a write."""
    keys = []

    @tool(effect="write", idempotent=True, retries=1)
    async def pay(context: ToolContext) -> str:
        """Pay."""
        keys.append(context.idempotency_key)
        if len(keys) == 1:
            raise ConnectionRefusedError
        return "paid"

    with Runner(
        build_react(ScriptedModel(turns=[says("", call("pay", {}, id=call_id)), "done"]), [pay]), shared_url
    ) as runner:
        run = runner.start_sync("go", run_id="r" * 255)
    assert (run.status, [one.outcome for one in run.calls]) == ("finished", ["ok"]), run.row.error
    assert keys == [run.calls[0].idempotency_key] * 2


@pytest.mark.parametrize("call_id", IDS.values(), ids=IDS)
def test_c81_a_specialist_works_whatever_the_ids_of_the_call_and_the_run_above_are(
    shared_url: str, call_id: str
) -> None:
    helper = Specialist(name="helper", about="helps", model=ScriptedModel(turns=["helped"]))
    turn = says("", call("delegate", {"specialist": "helper", "task": "help"}, id=call_id))
    with Runner(build_supervisor(ScriptedModel(turns=[turn, "done"]), [helper]), shared_url) as runner:
        run = runner.start_sync("go", run_id="r" * 255)
    assert [one.outcome for one in run.calls] == ["ok"], run.calls
    assert [one.answer for one in run.children_of(run.calls[0])] == ["helped"]


def test_c38_what_is_asked_may_hold_what_a_column_does_not_take(shared_url: str) -> None:
    """As arguments may, which a sentence of agreement is filled with; the run failed on PostgreSQL, and at each retry again."""

    @tool(effect="write", confirm="Pay {whom}?")
    async def pay(whom: str) -> str:
        """Pay."""
        return whom

    @tool(effect="write", confirm=lambda _: "half \ud800")
    async def send() -> str:
        """Send."""
        return "sent"

    turns = [says("", call("pay", {"whom": "a\0b"}), call("send", {})), "done"]
    with Runner(build_react(ScriptedModel(turns=turns), [pay, send]), shared_url) as runner:
        run = runner.start_sync("go")
        assert [one.reason for one in run.interrupts] == ["Pay a\ufffdb?", "half ?"], run.row.error
        done = runner.resume_sync(run.id, {one.id: approve() for one in run.interrupts}, by="li")
        assert [one.outcome for one in done.calls] == ["ok", "ok"], done.row.error


def test_c37_what_a_node_of_one_s_own_asks_may_hold_what_a_column_does_not_take(shared_url: str) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("ask", lambda _: {"messages": [AIMessage("heard " + interrupt("Go\0?"))]})
    graph.add_edge(START, "ask")
    with Runner(graph.compile(), shared_url) as runner:
        run = runner.start_sync("go")
        (question,) = run.interrupts
        assert question.reason == "Go\ufffd?"
        assert runner.resume_sync(run.id, {question.id: "yes"}, by="li").answer == "heard yes"


def test_a_run_that_goes_on_elsewhere_has_its_context_on_every_engine(shared_url: str) -> None:
    @tool(effect="write", confirm=True)
    def whose(run: ToolContext) -> dict[str, Any]:
        """Say whose it is."""
        return dict(run.context)

    given = {"tenant": "Ärzte 医院 \U0001f600", "limits": {"refund": 50.5}, "tags": ["a", None, True]}
    model = ScriptedModel(turns=[says("", call("whose", {}, id="w")), "done"], by_history=True)
    graph = build_react(model, [whose])
    with Runner(graph, shared_url, detached=True) as front:
        accepted = front.start_sync("go", context=given)
    with Runner(graph, shared_url) as runner:
        asked = runner.recover_sync(accepted.id)
        done = runner.resume_sync(asked.id, {asked.interrupts[0].id: approve()})
    assert json.loads(done.calls[0].result or "")["data"] == given


def test_one_start_that_is_sent_by_several_at_once_is_one_run_on_every_engine(
    office: Office, shared_url: str
) -> None:
    runners = [office([RESTART, "done"]) for _ in range(4)]
    runs = at_once([partial(one.start_sync, "restart", run_id="job-7", by="wang") for one in runners])
    assert {getattr(one, "id", one) for one in runs} == {"job-7"}
    assert [one.action for one in runners[0].get_sync("job-7").audit].count("started") == 1


def test_progress_is_stored_between_a_call_and_its_result_on_every_engine(shared_url: str) -> None:
    told = threading.Event()

    @tool(effect="write", timeout_s=20)
    def long(run: ToolContext) -> str:
        """Take long."""
        run.progress("half", 0.5)
        told.wait(20)
        return "done"

    def hear(event: Event) -> None:
        if event.word == "tool_progress":
            told.set()

    model = ScriptedModel(turns=[says("", call("long", {}, id="c")), "done"], by_history=True)
    with Runner(build_react(model, [long]), shared_url) as runner:
        run = runner.start_sync("go", on_event=hear)
        words = [one.word for one in runner.events_sync(run.id)]
        row = runner.get_sync(run.id).row
    assert words[words.index("tool_call") :][:3] == ["tool_call", "tool_progress", "tool_result"]
    assert (run.answer, row.last_event - row.claimed_event) == ("done", len(words) - 1)


def test_an_image_of_a_message_is_there_for_whoever_begins_the_run_on_every_engine(shared_url: str) -> None:
    image = {"type": "image", "base64": "QUJD" * 50_000, "mime_type": "image/png"}
    said = [{"type": "text", "text": "Was ist das? 图"}, image]
    model = ScriptedModel(turns=["a cat", "still a cat"], by_history=True)
    with Runner(build_react(model, ()), shared_url, detached=True) as front:
        accepted = front.start_sync(said, thread_id="t", run_id="job")
        assert front.start_sync(said, thread_id="t", run_id="job").id == accepted.id
    with Runner(build_react(model, ()), shared_url) as runner:
        assert runner.recover_sync(accepted.id).answer == "a cat"
        assert runner.start_sync("Sure?", thread_id="t").answer == "still a cat"
    assert [one[0].content for one in model.requests] == [said, said]

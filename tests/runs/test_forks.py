"""A run begins where another one stood (C-92): its own thread, its own ledger, and no write repeated unsaid."""

import asyncio
import threading
from functools import partial

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.types import interrupt
from runs import crash_app
from runs.crash import RUN
from runs.flow_app import LIMITS, TURNS, World, open_database
from runs.shop import Shop
from runs.test_own_graphs import own_graph
from runs.test_supervisor import hand, team

from adjourn.checkpoints.errors import CheckpointNotFound, NotResumable, UsageError, WouldRepeat
from adjourn.graph import Limits, Runner, build_serial
from adjourn.graph.drive import Drive
from adjourn.graph.forks import Forker
from adjourn.nodes import ScriptedModel, approve, edit, reject, tool
from adjourn.nodes.history import is_legal
from adjourn.nodes.scripted import Fails, call, says

assert team  # the fixture

RESTART = {"service_id": "svc-pay-001", "environment": "prod"}
PLAN = [
    says(
        "looking",
        call("search_docs", {"query": "a"}, id="a"),
        call("publish_release", {"service_id": "s", "version": "1"}, id="b"),
        call("search_docs", {"query": "c"}, id="c"),
    ),
    "done",
]
ASKS = [
    says("", call("search_docs", {"query": "a"}, id="a"), call("restart_service", RESTART, id="r")),
    "done",
]


def at(history, **facts):
    """The newest checkpoint of a history of which all this is so."""
    return next(one for one in history if all(getattr(one, name) == value for name, value in facts.items()))


async def messages_of(runner, run):
    state = await runner.graph.aget_state({"configurable": {"thread_id": run.thread_id}})
    return state.values["messages"]


def test_c92_a_history_tells_where_the_run_stood_after_each_superstep(house):
    runner = house.runner(PLAN)
    run = runner.start_sync("publish it", thread_id="t")
    found = runner.history_sync(run.id)
    assert [(one.ran, one.next, one.step) for one in found] == [
        (("finish",), (), 2),
        (("model",), ("finish",), 2),
        (("tools",), ("model",), 1),
        (("tools",), ("tools",), 1),
        (("tools",), ("tools",), 1),
        (("model",), ("tools",), 1),
        (("__start__",), ("model",), 0),
    ]
    assert [one.description for one in found][::-1][:4] == [
        "publish it",
        "search_docs planned, publish_release planned, search_docs planned",
        "search_docs ok, publish_release planned, search_docs planned",
        "search_docs ok, publish_release ok, search_docs planned",
    ]
    assert found[0].description == "done"
    assert [one.number for one in found] == sorted((one.number for one in found), reverse=True)
    assert found[0].at > found[-1].at
    pages = [runner.history_sync(run.id, limit=3)]
    while pages[-1]:
        pages.append(runner.history_sync(run.id, limit=3, before=pages[-1][-1].id))
    assert [one for page in pages for one in page] == list(found)


def test_c92_a_history_is_of_one_run_of_its_thread(house):
    runner = house.runner(["one", "two", "three"])
    runs = [runner.start_sync(f"message {number}", thread_id="t") for number in range(3)]
    for run, answer in zip(runs, ("one", "two", "three"), strict=True):
        found = runner.history_sync(run.id)
        assert {one.run_id for one in found} == {run.id}
        assert (found[0].description, found[-1].ran) == (answer, ("__start__",))
        assert found[-1].description == run.row.input


def test_c92_a_fork_from_the_middle_of_a_plan_says_which_write_it_would_repeat(house, rows):
    shop = Shop()
    runner = house.runner(PLAN, shop)
    run = runner.start_sync("publish it", thread_id="t", by="wang")
    before = at(
        runner.history_sync(run.id),
        description="search_docs ok, publish_release planned, search_docs planned",
    )
    with pytest.raises(WouldRepeat, match=r"publish_release \(ok, call b of step 1\)") as refused:
        runner.fork_sync(run.id, before.id)
    assert refused.value.calls == ("publish_release (ok, call b of step 1)",)
    assert len(rows("SELECT * FROM runs")) == len(rows("SELECT * FROM threads")) == 1
    fork = runner.fork_sync(run.id, before.number, repeat_writes=True, by="li", on_event=house.hear)
    assert (fork.status, fork.answer) == ("finished", "done")
    assert shop.count("publish_release") == 2
    assert [one[1] for one in shop.ran] == [
        "a",
        "1",
        "c",
        "1",
        "c",
    ]  # what was in the checkpoint is not run again
    assert (fork.row.forked_from, fork.row.forked_at, fork.row.started_by) == (run.id, before.id, "li")
    assert fork.thread_id != run.thread_id
    assert [(one.call_id, one.outcome) for one in fork.calls] == [("a", "ok"), ("b", "ok"), ("c", "ok")]
    keys = {
        one["run_id"]: one["idempotency_key"]
        for one in rows("SELECT * FROM calls WHERE tool = 'publish_release'")
    }
    assert keys == {run.id: f"{run.id}:1:b", fork.id: f"{fork.id}:1:b"}
    audit = rows(
        "SELECT run_id, action, \"by\", data FROM audit WHERE action IN ('forked', 'started') ORDER BY id"
    )
    assert [(one["run_id"], one["action"], one["by"]) for one in audit] == [
        (run.id, "started", "wang"),
        (fork.id, "started", "li"),
        (run.id, "forked", "li"),
    ]
    assert "publish_release (ok" in audit[2]["data"]
    house.check([fork.id])
    assert house.words()[:2] == ["run_started", "step_started"]


def test_c92_the_run_that_was_forked_is_left_as_it_is(house, rows):
    runner = house.runner(ASKS)
    run = runner.start_sync("restart", thread_id="t")
    tables = ("runs", "calls", "interrupts", "events")
    before = {one: rows(f"SELECT * FROM {one}") for one in tables}
    fork = runner.fork_sync(run.id)
    for one in tables:
        mine = [
            row
            for row in rows(f"SELECT * FROM {one}")
            if fork.id not in (row.get("run_id"), row["id"] if one == "runs" else "")
        ]
        assert mine == before[one]


def test_c92_a_waiting_run_is_forked_and_both_are_answered_apart(house):
    shop = Shop()
    runner = house.runner(ASKS, shop)
    run = runner.start_sync("restart", thread_id="t")
    (asked,) = runner.history_sync(run.id)[0].questions
    assert asked.id == run.interrupts[0].id
    fork = runner.fork_sync(run.id, on_event=house.hear)
    (mine,), (theirs,) = fork.interrupts, run.interrupts
    assert fork.status == "interrupted"
    assert mine.id != theirs.id
    assert (mine.tool, mine.reason, mine.response_schema) == (
        theirs.tool,
        theirs.reason,
        theirs.response_schema,
    )
    assert house.words() == ["run_started", "step_started", "loop_interrupt"]
    done = runner.resume_sync(fork.id, {mine.id: reject("not here")})
    assert (done.status, shop.count("restart_service")) == ("finished", 0)
    assert [(one.call_id, one.outcome) for one in done.calls] == [("a", "ok"), ("r", "declined")]
    other = runner.resume_sync(run.id, {theirs.id: approve()})
    assert (other.status, shop.count("restart_service"), shop.count("search_docs")) == ("finished", 1, 1)


def test_c92_a_fork_from_before_the_question_asks_it_anew(house):
    runner = house.runner(ASKS)
    run = runner.start_sync("restart", thread_id="t")
    before = at(runner.history_sync(run.id), ran=("model",))
    fork = runner.fork_sync(run.id, before.id)
    assert fork.status == "interrupted"
    assert fork.interrupts[0].id != run.interrupts[0].id
    assert runner.resume_sync(fork.id, {fork.interrupts[0].id: approve()}).status == "finished"
    assert runner.get_sync(run.id).status == "interrupted"


def test_c92_an_agreement_was_given_to_one_run_a_fork_asks_again(house):
    shop = Shop()
    runner = house.runner(ASKS, shop)
    run = runner.start_sync("restart", thread_id="t")
    staging = edit({**RESTART, "environment": "staging"})
    runner.resume_sync(run.id, {run.interrupts[0].id: staging}, by="wang")
    after = at(runner.history_sync(run.id), ran=("ask",))
    with pytest.raises(WouldRepeat, match="restart_service"):
        runner.fork_sync(run.id, after.id)
    fork = runner.fork_sync(run.id, after.id, repeat_writes=True)
    assert fork.status == "interrupted"
    assert fork.interrupts[0].arguments["environment"] == "staging"  # what was edited stands
    done = runner.resume_sync(fork.id, {fork.interrupts[0].id: approve()})
    assert (done.status, shop.count("restart_service")) == ("finished", 2)


def test_c92_values_that_a_person_gave_stand_in_the_fork(house):
    shop = Shop()
    turns = [says("", call("query_logs", {}, id="q")), "done"]
    runner = house.runner(turns, shop)
    run = runner.start_sync("logs", thread_id="t")
    values = {"environment": "prod", "service_id": "svc-pay-001"}
    runner.resume_sync(run.id, {run.interrupts[0].id: values})
    fork = runner.fork_sync(run.id, at(runner.history_sync(run.id), ran=("ask",)).id)
    assert (fork.status, [one[1] for one in shop.ran]) == ("finished", ["prod/svc-pay-001/30"] * 2)


def test_c92_what_a_person_rejected_stays_rejected_in_the_fork(house):
    shop = Shop()
    runner = house.runner(ASKS, shop)
    run = runner.start_sync("restart", thread_id="t")
    runner.resume_sync(run.id, {run.interrupts[0].id: reject("no")})
    fork = runner.fork_sync(run.id, at(runner.history_sync(run.id), ran=("ask",)).id)
    assert (fork.status, fork.calls[-1].outcome, shop.count("restart_service")) == ("finished", "declined", 0)


def test_c92_a_finished_run_is_forked_from_any_of_its_checkpoints(house):
    shop = Shop()
    runner = house.runner(PLAN, shop)
    run = runner.start_sync("publish it", thread_id="t")
    history = runner.history_sync(run.id)
    for one in history:
        if not one.next:
            with pytest.raises(UsageError, match="nothing comes after it"):
                runner.fork_sync(run.id, one.id)
            continue
        fork = runner.fork_sync(run.id, one.id, repeat_writes=True)
        assert (fork.status, fork.answer) == ("finished", "done"), one
        assert is_legal(asyncio.run(messages_of(runner, fork)))
    after = runner.get_sync(run.id)
    assert (after.row, after.calls, after.questions) == (run.row, run.calls, run.questions)


async def test_c92_a_failed_run_is_forked(house):
    turns = [says("", call("search_docs", {"query": "a"}, id="a")), Fails(ValueError("no such model"))]
    run = await house.runner(turns).start("go", thread_id="t")
    assert run.status == "failed"
    mended = house.runner([turns[0], "done"])
    fork = await mended.fork(run.id)
    assert (fork.status, fork.answer) == ("finished", "done")
    assert (await mended.resume(run.id)).status == "finished"


async def test_c92_a_running_run_is_forked_and_what_it_is_about_to_write_is_named(house):
    inside, go_on = asyncio.Event(), asyncio.Event()
    written = []

    @tool(effect="read")
    async def look(what: str) -> str:
        """Look."""
        if not go_on.is_set():
            inside.set()
            await go_on.wait()
        return what

    @tool(effect="write")
    async def pay(what: str) -> str:
        """Pay."""
        written.append(what)
        return what

    turns = [says("", call("look", {"what": "a"}, id="a"), call("pay", {"what": "b"}, id="b")), "done"]
    runner = house.runner(turns, tools=[look, pay])
    first = asyncio.create_task(runner.start("go", run_id="run_first"))
    await inside.wait()
    with pytest.raises(WouldRepeat, match=r"pay \(planned, call b of step 1\)"):
        await runner.fork("run_first")
    beginning = (await runner.history("run_first"))[-1]
    with pytest.raises(WouldRepeat):
        await runner.fork("run_first", beginning.id)
    go_on.set()
    fork = await runner.fork("run_first", repeat_writes=True)
    assert (fork.status, (await first).status) == ("finished", "finished")
    assert written == ["b", "b"]


async def test_c92_a_message_begins_the_fork_in_a_legal_history(house):
    shop = Shop()
    runner = house.runner([*ASKS[:1], "another way"], shop)
    run = await runner.start("restart", thread_id="t")
    fork = await runner.fork(run.id, message="不要重启，只看文档", by="li")
    assert (fork.status, fork.answer, fork.row.input) == ("finished", "another way", "不要重启，只看文档")
    said = await messages_of(runner, fork)
    assert is_legal(said)
    assert [type(one).__name__ for one in said] == [
        "HumanMessage",
        "AIMessage",
        "ToolMessage",
        "ToolMessage",
        "HumanMessage",
        "AIMessage",
    ]
    assert '"ok": true' in said[2].text.replace('"ok":true', '"ok": true')
    assert "user_dismissed" in said[3].text
    assert (await runner.get(run.id)).status == "interrupted"
    assert shop.count("restart_service") == 0


async def test_c92_a_message_after_a_write_tells_the_model_of_it(house):
    shop = Shop()
    runner = house.runner([*PLAN[:1], "done", "what else"], shop)
    run = await runner.start("publish", thread_id="t")
    history = await runner.history(run.id)
    middle = at(history, description="search_docs ok, publish_release planned, search_docs planned")
    fork = await runner.fork(run.id, middle.id, message="and now?")
    observation = next(
        one.text
        for one in await messages_of(runner, fork)
        if isinstance(one, ToolMessage) and one.tool_call_id == "b"
    )
    assert '"published"' in observation
    with pytest.raises(WouldRepeat):  # before the model asked for it, nothing tells of it
        await runner.fork(run.id, history[-1].id, message="and now?")
    last = await runner.fork(run.id, message="thanks")  # a message may begin after the end
    assert last.status == "finished"
    assert shop.count("publish_release") == 1


async def test_c92_a_fork_of_a_fork_and_a_message_to_it(house):
    runner = house.runner([*ASKS[:1], "other"])
    run = await runner.start("restart", thread_id="t")
    fork = await runner.fork(run.id, thread_id="fork")
    second = await runner.fork(fork.id, thread_id="second")
    assert (second.status, second.row.forked_from) == ("interrupted", fork.id)
    assert len({run.interrupts[0].id, fork.interrupts[0].id, second.interrupts[0].id}) == 3
    after = await runner.start("never mind", thread_id="second")
    assert (after.status, after.answer) == ("finished", "other")
    closed = await runner.get(second.id)
    assert (closed.stop_reason, closed.questions[0].state) == ("dismissed", "dismissed")
    said = await messages_of(runner, after)
    assert is_legal(said)
    assert [one.text for one in said if isinstance(one, HumanMessage)] == ["restart", "never mind"]


async def test_c92_what_cannot_be_forked_is_refused_and_changes_nothing(house, rows):
    runner = house.runner(["one", "two"])
    first = await runner.start("1", thread_id="t")
    second = await runner.start("2", thread_id="t")
    mine = (await runner.history(first.id))[-1]
    attempts = [
        (CheckpointNotFound, partial(runner.fork, first.id, "nonsense")),
        (CheckpointNotFound, partial(runner.fork, first.id, 99)),
        (CheckpointNotFound, partial(runner.fork, second.id, mine.id)),
        (UsageError, partial(runner.fork, first.id, mine.id, thread_id="t")),
        (UsageError, partial(runner.fork, first.id, mine.id, message=" ")),
        (UsageError, partial(runner.fork, first.id)),
    ]
    for error, attempt in attempts:
        with pytest.raises(error):
            await attempt()
    assert (len(rows("SELECT * FROM runs")), len(rows("SELECT * FROM threads"))) == (2, 1)


async def test_c92_two_forks_to_one_thread_are_one(house, rows):
    runner = house.runner(["one"])
    run = await runner.start("1", thread_id="t")
    mine = (await runner.history(run.id))[-1]
    found = await asyncio.gather(
        *(runner.fork(run.id, mine.id, thread_id="new") for _ in range(4)), return_exceptions=True
    )
    assert sum(isinstance(one, UsageError) for one in found) == 3, found
    assert len(rows("SELECT * FROM runs")) == 2


async def test_c92_a_fork_holds_its_messages_once_and_nothing_of_later(house, rows):
    runner = house.runner([f"answer {number}" for number in range(9)])
    for number in range(8):
        run = await runner.start(f"message {number}", thread_id="t", run_id=f"run_{number}")
    fork = await runner.fork("run_3", (await runner.history("run_3"))[1].id, thread_id="f")
    count = "SELECT count(*) AS n FROM messages m JOIN threads t ON t.id = m.thread WHERE t.thread_id = '{}'"
    assert rows(count.format("t"))[0]["n"] == 16
    # four messages with their answers, and once more the fork's own, which is named after it
    assert rows(count.format("f"))[0]["n"] == 9
    assert (fork.answer, run.answer) == ("answer 3", "answer 7")


async def test_c61_c92_a_write_in_doubt_stays_in_doubt_in_a_fork(house):
    @tool(effect="write")
    async def pay(what: str) -> str:
        """Pay."""
        raise ConnectionError("the line went dead")

    pays = says("", call("pay", {"what": "rent"}, id="p"))
    runner = house.runner([pays, "lost", says("", call("pay", {"what": "rent"}, id="p2")), "ok"], tools=[pay])
    run = await runner.start("pay the rent", thread_id="t")
    assert run.calls[0].outcome == "unknown"
    fork = await runner.fork(run.id, message="try again")
    assert (fork.status, fork.interrupts[0].type) == ("interrupted", "confirm_risky")


def test_c92_whether_a_lost_write_happened_is_asked_in_the_fork_too(crash):
    one = crash("pay")
    one.hold("pay")
    one.kill_in(one.start("start", RUN), "pay")
    one.wait_for_lease()
    asked = one.finish("recover", RUN)["interrupts"]
    with crash_app.runner(one.url, one.effects, "pay") as runner:
        fork = runner.fork_sync(RUN)
        assert ([fork.interrupts[0].type], fork.interrupts[0].id in asked) == (["outcome_unknown"], False)
        done = runner.resume_sync(fork.id, {fork.interrupts[0].id: {"action": "happened", "result": "paid"}})
        assert (done.status, one.did()) == ("finished", ["look a", "pay b"])
        with pytest.raises(WouldRepeat, match=r"pay \(waiting, call c2 of step 1\)"):
            runner.fork_sync(RUN, at(runner.history_sync(RUN), ran=("model",)).id)


@pytest.mark.in_process  # its caller is cancelled
async def test_c92_a_fork_whose_owner_dies_at_once_is_recovered_whole(house, monkeypatch):
    runner = house.runner(PLAN, lease_s=0.05)
    run = await runner.start("publish", thread_id="t")
    beginning = (await runner.history(run.id))[-1]

    async def dies(self):
        raise asyncio.CancelledError

    monkeypatch.setattr(Drive, "to_its_end", dies)
    with pytest.raises(asyncio.CancelledError):
        await runner.fork(run.id, beginning.id, repeat_writes=True, thread_id="f")
    monkeypatch.undo()
    (lost,) = await runner.list(statuses=["running"])
    await asyncio.sleep(0.1)
    done = await house.runner(PLAN).recover(lost.id)
    assert (done.status, done.answer, done.row.forked_from) == ("finished", "done", run.id)
    with pytest.raises(NotResumable):
        await runner.recover(lost.id)


async def test_c92_a_fork_that_is_cut_off_in_its_transaction_is_none(house, rows, monkeypatch):
    from adjourn.checkpoints import event_rows

    runner = house.runner(PLAN)
    run = await runner.start("publish", thread_id="t")
    beginning = (await runner.history(run.id))[-1]
    tables = ("runs", "calls", "events", "audit", "threads", "namespaces", "checkpoints", "messages")
    before = {one: rows(f"SELECT count(*) AS n FROM {one}") for one in tables}

    def breaks(*_, **__):
        raise RuntimeError("the last line of the transaction")

    monkeypatch.setattr(event_rows, "append", breaks)
    with pytest.raises(RuntimeError):
        await runner.fork(run.id, beginning.id, repeat_writes=True)
    assert {one: rows(f"SELECT count(*) AS n FROM {one}") for one in tables} == before


def test_c78_c92_a_flow_is_forked_in_each_of_its_steps(tmp_path, url, rows):
    world = World(tmp_path / "effects")
    graph = build_serial(ScriptedModel(turns=TURNS, by_history=True), open_database(world), limits=LIMITS)
    with Runner(graph, url) as runner:
        run = runner.start_sync("给支付服务开通一个生产数据库", thread_id="t")
        done = runner.resume_sync(run.id, {run.interrupts[0].id: approve()})
        assert (done.status, done.answer) == ("finished", "开通好了。")
        for one in runner.history_sync(run.id):
            if not one.next:
                continue
            fork = runner.fork_sync(run.id, one.id, repeat_writes=True)
            if fork.interrupts:
                fork = runner.resume_sync(fork.id, {fork.interrupts[0].id: approve()})
            assert (fork.status, fork.answer) == ("finished", "开通好了。"), one
            steps = f"SELECT step, status FROM flow_steps WHERE run_id = '{fork.id}' ORDER BY position"
            assert {row["status"] for row in rows(steps)} == {"done"}, (one, rows(steps))


async def test_c53_c92_a_fork_spends_anew(house):
    looks = [says("", call("search_docs", {"query": str(number)}, id=f"c{number}")) for number in range(3)]
    runner = house.runner([*looks, "done"], limits=Limits(max_total_tokens=10_000))
    run = await runner.start("go", thread_id="t")
    fork = await runner.fork(run.id, (await runner.history(run.id))[2].id)
    assert (fork.status, fork.row.steps) == ("finished", 4)
    assert fork.row.input_tokens < run.row.input_tokens or run.row.input_tokens == 0
    assert len(fork.steps) == 1


async def test_c37_c92_a_question_of_a_node_of_one_s_own_is_asked_in_the_fork_too(url):
    async def gate(state):
        return {"note": f"the gate said {interrupt('May I begin?')}"}

    with Runner(own_graph(gate, Shop(), ["done"]), url) as runner:
        run = await runner.start("go")
        (point,) = await runner.history(run.id)
        assert (point.next, [one.id for one in point.questions]) == (("gate",), [run.interrupts[0].id])
        fork = await runner.fork(run.id)
        assert (fork.status, fork.interrupts[0].reason) == ("interrupted", "May I begin?")
        assert fork.interrupts[0].id != run.interrupts[0].id
        done = await runner.resume(fork.id, {fork.interrupts[0].id: True})
        assert (done.status, (await runner.get(run.id)).status) == ("finished", "interrupted")
        later = next(one for one in await runner.history(done.id) if one.ran == ("gate",))
        again = await runner.fork(done.id, later.id)
        assert (again.status, list(again.questions)) == ("finished", [])


async def test_c81_c92_specialists_begin_anew_in_a_fork_and_their_writes_are_named(team):
    boss = [says("", hand("search", "find it")), "found"]
    search = [
        says("", call("note", {"what": "begun"}, id="n"), call("locate", {}, id="l")),
        "it is in Beijing",
    ]
    runner = team.runner(boss=boss, search=search)
    run = await runner.start("where is it?", thread_id="t")
    assert (run.status, [what for what, *_ in team.done]) == ("interrupted", ["note begun"])
    with pytest.raises(WouldRepeat, match=r"note \(ok, call n of step 1\)"):
        await runner.fork(run.id)
    for place in (0, 1):
        point = (await runner.history(run.id))[place]
        fork = await runner.fork(run.id, point.id, repeat_writes=True)
        assert fork.status == "interrupted", point
        assert fork.interrupts[0].id != run.interrupts[0].id
        done = await runner.resume(fork.id, {fork.interrupts[0].id: {"city": "Beijing"}})
        assert (done.status, done.answer) == ("finished", "found")
    assert [what for what, *_ in team.done].count("note begun") == 3
    last = await runner.resume(run.id, {run.interrupts[0].id: {"city": "Beijing"}})
    assert (last.status, last.answer) == ("finished", "found")
    await team.check_histories()


async def test_a_forks_copy_is_made_on_a_thread(house, monkeypatch):
    runner = house.runner([*PLAN, "again"])
    run = await runner.start("publish it", thread_id="t")
    threads = []
    store = Forker.store

    def watched(self, *told):
        threads.append(threading.get_ident())
        return store(self, *told)

    monkeypatch.setattr(Forker, "store", watched)
    forked = await runner.fork(run.id, message="otherwise", repeat_writes=True)
    assert forked.status == "finished"
    assert threads and threading.get_ident() not in threads

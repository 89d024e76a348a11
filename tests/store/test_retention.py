"""Old runs go, and everything of a person; what lives, waits or can be taken up again stays (C-93)."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from runs.shop import LIMITS, Shop
from store.stored_graphs import config, execute, put, scalar

from adjourn.checkpoints import journal, retention
from adjourn.checkpoints.database import Database, later, now
from adjourn.checkpoints.errors import RunBusy, UsageError
from adjourn.checkpoints.retention import Policy, Removed, forget, prune
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.checkpoints.schema import metadata
from adjourn.graph import Runner, build_react, starts
from adjourn.nodes import ScriptedModel, approve
from adjourn.nodes.scripted import Fails, call, says

RESTART = says("", call("restart_service", {"service_id": "svc-pay-001", "environment": "prod"}, id="r1"))
LONG_AGO = "2020-01-01T00:00:00.000000Z"
ALL = Policy("2099-01-01T00:00:00.000000Z")
Office = Callable[..., Runner]


@pytest.fixture
def office(database: Database) -> Iterator[Office]:
    made: list[Runner] = []

    def runner(*turns: Any) -> Runner:
        model = ScriptedModel(turns=list(turns), by_history=True)
        made.append(Runner(build_react(model, Shop().tools(), limits=LIMITS), database))
        return made[-1]

    yield runner
    for one in made:
        one.close()


@pytest.fixture
def looking(database: Database) -> SQLAlchemySaver:
    return SQLAlchemySaver(database)


def rows_left(saver: SQLAlchemySaver) -> dict[str, int]:
    tables = [table.name for table in metadata.sorted_tables if table.name != "schema_version"]
    counted = {table: scalar(saver, f"SELECT count(*) FROM {table}") for table in tables}
    return {table: count for table, count in counted.items() if count}


def age(saver: SQLAlchemySaver, *run_ids: str) -> None:
    """Let these runs have ended long ago, and their threads."""
    for run_id in run_ids:
        execute(
            saver,
            f"UPDATE runs SET created_at = '{LONG_AGO}', updated_at = '{LONG_AGO}' WHERE id = '{run_id}'",
        )


def run_ids(runner: Runner) -> Sequence[str]:
    return sorted(one.id for one in runner.list_sync(limit=None))


def test_nothing_is_left_of_an_old_thread(office: Office, looking: SQLAlchemySaver) -> None:
    runner = office("one", "two")
    runner.start_sync("go", thread_id="t")
    runner.start_sync("more", thread_id="t")
    put(looking, config("foreign"), {"messages": [HumanMessage("x", id="1")]})
    would = prune(runner.database, ALL, dry_run=True)
    assert would == Removed(threads=2, runs=2)
    assert len(run_ids(runner)) == 2
    assert prune(runner.database, ALL) == would
    assert rows_left(looking) == {}
    assert prune(runner.database, ALL) == Removed()


def test_what_is_young_lives_waits_or_has_failed_stays(office: Office, looking: SQLAlchemySaver) -> None:
    waiting = office(RESTART, "restarted")
    run = waiting.start_sync("restart", thread_id="waits", run_id="run_waits")
    office(Fails(ValueError("away"))).start_sync("go", thread_id="fails", run_id="run_failed")
    working = starts.new_run(
        "go", thread_id="works", by=None, run_id="run_works", graph="g", signature="s", owner="o", lease_s=99
    )
    waiting.database.write(lambda c: starts.store(c, working))
    assert prune(waiting.database, ALL) == Removed()
    assert prune(waiting.database, Policy(LONG_AGO)) == Removed()
    assert waiting.resume_sync(run.id, {run.interrupts[0].id: approve()}).status == "finished"
    failing = replace(ALL, failed=True)
    assert prune(waiting.database, failing) == Removed(threads=2, runs=2)
    assert scalar(looking, "SELECT count(*) FROM runs WHERE id = 'run_works'") == 1


def test_a_run_of_a_shortened_thread_resumes_and_knows_its_conversation(
    office: Office, looking: SQLAlchemySaver
) -> None:
    runner = office("one", "two", RESTART, "restarted")
    for number in range(2):
        runner.start_sync(f"message {number}", thread_id="t", run_id=f"run_{number}")
    age(looking, "run_0", "run_1")
    waiting = runner.start_sync("restart", thread_id="t", run_id="run_2")
    assert prune(runner.database, Policy(waiting.row.created_at)) == Removed()  # it waits: all stays
    runner.resume_sync(waiting.id, {waiting.interrupts[0].id: approve()})
    checkpoints = scalar(looking, "SELECT count(*) FROM checkpoints")
    policy = Policy("2021-01-01T00:00:00.000000Z")
    assert prune(runner.database, policy) == Removed(runs=2, shortened=1)
    assert run_ids(runner) == ["run_2"]
    assert scalar(looking, "SELECT count(*) FROM checkpoints") <= checkpoints
    said = scalar(looking, "SELECT count(*) FROM v_messages WHERE thread_id = 't'")
    assert said == 2 + 2 + 4
    more = office("one", "two", RESTART, "restarted", "and on")
    assert more.start_sync("on", thread_id="t").answer == "and on"


def test_keep_last_keeps_the_newest_runs_of_each_thread(office: Office, looking: SQLAlchemySaver) -> None:
    runner = office("one", "two", "three")
    for number in range(3):
        runner.start_sync(f"message {number}", thread_id="t", run_id=f"run_{number}")
    where = config("foreign")
    for version in range(1, 5):
        where = put(looking, where, {"n": version}, version)
    before = scalar(looking, "SELECT count(*) FROM checkpoints")
    assert prune(runner.database, replace(ALL, keep_last=2)) == Removed(runs=1, shortened=2)
    assert run_ids(runner) == ["run_1", "run_2"]
    assert [one.metadata["step"] for one in looking.list(config("foreign"))] == [4, 3]
    assert scalar(looking, "SELECT count(*) FROM checkpoints") < before - 2


def test_a_thread_of_ones_own_graph_that_waits_stays(looking: SQLAlchemySaver) -> None:
    where = put(looking, config("asks"), {"n": 1})
    looking.put_writes(where, [("__interrupt__", "?")], "task")
    put(looking, config("done"), {"n": 1})
    assert prune(looking.database, ALL) == Removed(threads=1)
    assert looking.get_tuple(config("asks")) is not None


def specialist(runner: Runner, run_id: str, parent: str, status: str = "finished") -> None:
    row = starts.new_run(
        "sub",
        thread_id=f"{parent}/{run_id}",
        by=None,
        run_id=run_id,
        graph="g",
        signature="s",
        owner="o",
        lease_s=1,
    )
    at = now()
    ended = replace(row, parent_run_id=parent, status=status, lease_owner=None, ended_at=at)
    runner.database.write(lambda c: journal.insert_run(c, ended))


def test_specialists_go_with_the_run_that_they_worked_for(office: Office, looking: SQLAlchemySaver) -> None:
    runner = office(RESTART, "restarted")
    run = runner.start_sync("restart", thread_id="t", run_id="run_main")
    specialist(runner, "run_sub", "run_main")
    specialist(runner, "run_subsub", "run_sub")
    put(looking, config("run_main/run_sub"), {"n": 1})
    assert prune(runner.database, ALL) == Removed()
    runner.resume_sync(run.id, {run.interrupts[0].id: approve()})
    assert prune(runner.database, ALL) == Removed(threads=1, runs=3)
    assert rows_left(looking) == {}


def test_forgetting_a_thread_leaves_nothing_of_it_and_all_of_others(
    office: Office, looking: SQLAlchemySaver
) -> None:
    runner = office(RESTART, "restarted")
    for name in ("mine", "theirs"):
        runner.start_sync(f"secret of {name}", thread_id=name, run_id=f"run_{name}", by=name)
    specialist(runner, "run_sub", "run_mine")
    assert forget(runner.database, "mine") == Removed(threads=1, runs=2)
    for table in ("steps", "calls", "interrupts", "audit", "events"):
        assert scalar(looking, f"SELECT count(*) FROM {table} WHERE run_id <> 'run_theirs'") == 0, table
        assert scalar(looking, f"SELECT count(*) FROM {table}") > 0, table
    assert [one.id for one in runner.list_sync()] == ["run_theirs"]
    left = runner.get_sync("run_theirs")
    assert runner.resume_sync(left.id, {left.interrupts[0].id: approve()}).status == "finished"
    with pytest.raises(UsageError, match="no thread 'mine'"):
        forget(runner.database, "mine")


def test_a_run_that_is_driven_is_not_forgotten(office: Office) -> None:
    runner = office("x")
    for owner, lease_s in (("alive", 99), ("dead", -1)):
        row = starts.new_run(
            "go",
            thread_id=owner,
            by=None,
            run_id=f"run_{owner}",
            graph="g",
            signature="s",
            owner=owner,
            lease_s=lease_s,
        )
        runner.database.write(lambda c, row=row: starts.store(c, row))  # type: ignore[misc]
    with pytest.raises(RunBusy, match="alive"):
        forget(runner.database, "alive")
    assert forget(runner.database, "dead") == Removed(threads=1, runs=1)


def test_the_file_does_not_hold_what_was_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with SQLAlchemySaver(f"sqlite:///{path}") as saver:
        for name in ("mine", "theirs"):
            put(saver, config(name), {"messages": [HumanMessage(f"the secret of {name}" * 9, id=name)]})
        forget(saver.database, "mine")
    assert b"secret of mine" not in path.read_bytes()
    assert b"secret of theirs" in path.read_bytes()
    assert not path.with_name("a.db-wal").exists()


def test_c93_a_run_that_starts_on_an_old_thread_while_it_is_pruned_keeps_it(shared_url: str) -> None:
    model = ScriptedModel(turns=["one", "two"], by_history=True)
    with Runner(build_react(model, Shop().tools(), limits=LIMITS), shared_url) as runner:
        old = runner.start_sync("go", thread_id="t")
        looking = SQLAlchemySaver(runner.database)
        age(looking, old.id)
        pruned: list[Removed] = []
        pruning = threading.Thread(target=lambda: pruned.append(prune(other, ALL)))
        run = starts.new_run(
            "go on",
            thread_id="t",
            by=None,
            run_id=None,
            graph=runner.name,
            signature="s",
            owner="o",
            lease_s=30,
        )

        def start(connection: sa.Connection) -> None:
            starts.store(connection, run)
            pruning.start()
            pruning.join(0.3)  # it waits for us: or else it would take the thread away now

        with closing(Database(shared_url)) as other:
            runner.database.write(start)
            pruning.join()
        assert pruned == [Removed()]
        assert scalar(looking, "SELECT count(*) FROM runs") == 2
        assert looking.get_tuple(config("t")) is not None


def test_pruning_goes_in_batches(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjourn.checkpoints.retention.THREADS_AT_ONCE", 2)
    saver = SQLAlchemySaver(database)
    for number in range(5):
        put(saver, config(f"t{number}"), {"n": number})
    assert prune(database, ALL) == Removed(threads=5)
    count = database.read(
        lambda connection: connection.execute(sa.text("SELECT count(*) FROM threads")).scalar()
    )
    assert count == 0


def test_c93_a_conversation_without_runs_that_is_used_meanwhile_stays(
    database: Database, looking: SQLAlchemySaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        put(looking, config(name), {"a": 1})
    for name, year in (("one", 2019), ("two", 2020)):  # the older one is pruned first
        execute(
            looking, f"UPDATE threads SET updated_at = '{year}-01-01T00:00:00Z' WHERE thread_id = '{name}'"
        )
    monkeypatch.setattr("adjourn.checkpoints.retention.THREADS_AT_ONCE", 1)
    write = database.write

    def used(work: Any, **settings: Any) -> Any:
        removed = write(work, **settings)
        monkeypatch.setattr(database, "write", write)
        with SQLAlchemySaver(database.url.render_as_string(hide_password=False)) as another:
            put(another, config("two"), {"a": 2})
        return removed

    if database.in_memory:
        pytest.skip("nobody else uses it")
    monkeypatch.setattr(database, "write", used)
    assert prune(database, Policy(later(now(), -86_400))).threads == 1
    assert scalar(looking, "SELECT thread_id FROM threads") == "two"


def test_a_dry_run_holds_nothing_that_others_write(
    database: Database, looking: SQLAlchemySaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database.in_memory:
        pytest.skip("nobody else writes it")
    for name in ("one", "two"):
        put(looking, config(name), {"a": 1})
    runs_of = retention._runs_of

    def beside_a_writer(*given: Any, **settings: Any) -> Any:
        rows = runs_of(*given, **settings)
        with SQLAlchemySaver(database.url.render_as_string(hide_password=False)) as another:
            put(another, config("two"), {"a": 2})
        return rows

    monkeypatch.setattr(retention, "_runs_of", beside_a_writer)
    assert prune(database, ALL, dry_run=True).threads == 2


@pytest.mark.parametrize("how", [{"interrupt_before": ["n"]}, {"interrupt_after": ["n"]}])
def test_c93_a_conversation_without_runs_that_waits_before_a_node_stays(
    database: Database, looking: SQLAlchemySaver, how: Any
) -> None:
    graph = StateGraph(MessagesState).add_node("n", lambda _: {}).add_node("o", lambda _: {})
    graph.add_edge(START, "n").add_edge("n", "o")
    for name, settings in (("waits", how), ("over", {})):
        graph.compile(checkpointer=looking, **settings).invoke(
            {"messages": [HumanMessage("x")]}, config(name)
        )
    assert prune(database, ALL).threads == 1
    assert scalar(looking, "SELECT thread_id FROM threads") == "waits"


@pytest.mark.parametrize("at_the_end", [False, True])
def test_c93_a_conversation_without_runs_that_waits_before_a_node_behind_several_stays(
    database: Database, looking: SQLAlchemySaver, at_the_end: bool
) -> None:
    """What LangGraph keeps of such a node is there when it has run, too, and where not all came that it waits for."""

    def run(name: str, first: Sequence[str], **settings: Any) -> None:
        graph = StateGraph(MessagesState).add_node("last", lambda _: {}, defer=at_the_end)
        for node in ("one", "two"):
            graph.add_node(node, lambda _: {})
        graph.add_conditional_edges(START, lambda _: first, ["one", "two"])
        graph.add_edge(["one", "two"], "last")
        compiled = graph.compile(checkpointer=looking, **settings)
        compiled.invoke({"messages": [HumanMessage("x")]}, config(name))

    run("waits", ["one", "two"], interrupt_before=["last"])
    run("over", ["one", "two"])
    run("over without it", ["one"])
    assert prune(database, ALL).threads == 2
    assert scalar(looking, "SELECT thread_id FROM threads") == "waits"


@pytest.mark.parametrize("channel", ["start:n", "branch:m:route:n"])
def test_c93_a_conversation_that_an_older_langgraph_left_before_a_node_stays(
    database: Database, looking: SQLAlchemySaver, channel: str
) -> None:
    """It may have been imported; the LangGraph of now goes on with it."""
    put(looking, config(), {channel: {"messages": []}})
    assert prune(database, ALL).threads == 0

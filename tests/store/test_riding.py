"""A task's writes ride on the put that follows: stored together, or each by itself, and never lost."""

import asyncio
import threading
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from store.stored_graphs import checkpoint, config, put, scalar

from adjourn.checkpoints import riding
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import LeaseLost, UsageError
from adjourn.checkpoints.saver import SQLAlchemySaver

PATH = "~__pregel_pull, node"
STORED = "SELECT count(*) FROM checkpoint_writes"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes wait longer than any test takes: what is stored earlier was carried, or did not wait at all."""
    monkeypatch.setattr(riding, "PATIENCE_S", 60)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(riding, "PATIENCE_S", 0)


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    """A started thread, and what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, raised


def wait_for_rider(saver: SQLAlchemySaver, thread_id: str = "t") -> None:
    riders = saver._memories.of(thread_id).riders
    while not riders._waiting:
        pass  # the other thread is on its way to it


@pytest.mark.usefixtures("patient")
def test_f23_writes_wait_and_are_stored_with_the_put(shared_saver: SQLAlchemySaver) -> None:
    where = put(shared_saver, config(), {"a": 1})
    thread, raised = in_thread(lambda: shared_saver.put_writes(where, [("a", 2)], "task", PATH))
    wait_for_rider(shared_saver)
    assert scalar(shared_saver, STORED) == 0
    put(shared_saver, where, {"a": 2}, 2)
    assert scalar(shared_saver, STORED) == 1
    thread.join()
    assert raised == []
    assert shared_saver.get_tuple(where).pending_writes == [("task", "a", 2)]  # type: ignore[union-attr]


@pytest.mark.usefixtures("impatient")
def test_f23_writes_that_no_put_comes_for_are_stored_on_return(saver: SQLAlchemySaver) -> None:
    where = put(saver, config(), {"a": 1})
    for number in range(riding.MISSES + 2):
        saver.put_writes(where, [("a", number)], f"task{number}", PATH)
        assert scalar(saver, STORED) == number + 1


@pytest.mark.usefixtures("patient")
def test_where_no_put_comes_again_and_again_nothing_waits_any_more(
    saver: SQLAlchemySaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = put(saver, config(), {"a": 1})
    with monkeypatch.context() as impatient:
        impatient.setattr(riding, "PATIENCE_S", 0)
        for number in range(riding.MISSES):
            saver.put_writes(where, [("a", 1)], f"task{number}", PATH)
    saver.put_writes(where, [("a", 1)], "last", PATH)  # or it would wait for a minute
    assert scalar(saver, STORED) == riding.MISSES + 1


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("channel", ["__interrupt__", "__error__", "__resume__"])
def test_f23_questions_errors_and_answers_never_wait(saver: SQLAlchemySaver, channel: str) -> None:
    where = put(saver, config(), {"a": 1})
    saver.put_writes(where, [("a", 1), (channel, "x")], "task", PATH)
    assert scalar(saver, STORED) == 2


@pytest.mark.usefixtures("patient")
def test_writes_of_an_owner_never_ride_on_the_put_of_another(saver: SQLAlchemySaver) -> None:
    class Lost:
        def check(self, _connection: Any) -> None:
            raise LeaseLost("run_1", 3)

    where = put(saver, config(), {"a": 1})
    fenced = {"configurable": {**where["configurable"], "__adjourn_fence": Lost()}}
    with pytest.raises(LeaseLost):
        saver.put_writes(fenced, [("a", 1)], "task", PATH)
    put(saver, where, {"a": 2}, 2)
    assert scalar(saver, STORED) == 0


def nested() -> list[Any]:
    """Deeper than what can be stored."""
    value: list[Any] = []
    for _ in range(300):
        value = [value]
    return value


@pytest.mark.usefixtures("patient")
def test_writes_that_cannot_be_stored_do_the_checkpoint_no_harm(saver: SQLAlchemySaver) -> None:
    where = put(saver, config(), {"a": 1})
    thread, raised = in_thread(lambda: saver.put_writes(where, [("a", nested())], "task", PATH))
    wait_for_rider(saver)
    put(saver, where, {"a": 2}, 2)
    thread.join()
    assert [type(error) for error in raised] == [UsageError]
    assert scalar(saver, "SELECT count(*) FROM checkpoints") == 2


@pytest.mark.usefixtures("patient")
def test_a_put_that_fails_leaves_the_writes_to_their_owner(saver: SQLAlchemySaver) -> None:
    where = put(saver, config(), {"a": 1})
    thread, raised = in_thread(lambda: saver.put_writes(where, [("a", 2)], "task", PATH))
    wait_for_rider(saver)
    with pytest.raises(UsageError):
        put(saver, where, {"a": nested()}, 2)
    thread.join()
    assert raised == []
    assert scalar(saver, STORED) == 1
    assert scalar(saver, "SELECT count(*) FROM checkpoints") == 1


@pytest.mark.usefixtures("patient")
async def test_f23_async_writes_wait_and_are_stored_with_the_put(shared_saver: SQLAlchemySaver) -> None:
    first = await shared_saver.aput(config(), checkpoint({"a": 1}), {"source": "loop"}, {"a": 1})
    writing = asyncio.ensure_future(shared_saver.aput_writes(first, [("a", 2)], "task", PATH))
    await asyncio.sleep(0)
    assert not writing.done()
    await shared_saver.aput(first, checkpoint({"a": 2}), {"source": "loop"}, {"a": 2})
    await writing
    assert scalar(shared_saver, STORED) == 1


@pytest.mark.usefixtures("impatient")
async def test_async_writes_that_no_put_comes_for_are_stored_on_return(shared_saver: SQLAlchemySaver) -> None:
    first = await shared_saver.aput(config(), checkpoint({"a": 1}), {"source": "loop"}, {"a": 1})
    await shared_saver.aput_writes(first, [("a", 2)], "task", PATH)
    assert scalar(shared_saver, STORED) == 1


@pytest.mark.usefixtures("patient")
async def test_writes_whose_caller_is_cancelled_are_stored_all_the_same(file_url: str) -> None:
    with SQLAlchemySaver(file_url) as saver:
        first = await saver.aput(config(), checkpoint({"a": 1}), {"source": "loop"}, {"a": 1})
        writing = asyncio.ensure_future(saver.aput_writes(first, [("a", 2)], "task", PATH))
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
    with SQLAlchemySaver(file_url) as saver:  # the one before waited for what ran when it was closed
        assert scalar(saver, STORED) == 1


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def talk(steps: int) -> StateGraph[Any, Any, Any, Any]:
    def say(state: State) -> dict[str, Any]:
        number = len(state["messages"])
        return {"messages": [AIMessage("x", id=f"m{number}")]}

    graph = StateGraph(State)
    graph.add_node("say", say)
    graph.add_edge(START, "say")
    graph.add_conditional_edges("say", lambda state: "say" if len(state["messages"]) <= steps else END)
    return graph


@pytest.mark.parametrize("is_async", [False, True])
def test_f23_a_superstep_of_a_graph_is_one_transaction(
    file_url: str, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    begun: list[int] = []
    original = Database.write_once

    def counted(self: Database, *given: Any, **named: Any) -> Any:
        begun.append(1)
        return original(self, *given, **named)

    monkeypatch.setattr(Database, "write_once", counted)
    monkeypatch.setattr(riding, "PATIENCE_S", 1.0)  # the machine may be busy
    first: Any = {"messages": [HumanMessage("go", id="h")]}
    with SQLAlchemySaver(file_url) as saver:
        graph = talk(6).compile(checkpointer=saver)
        if is_async:
            asyncio.run(graph.ainvoke(first, config(), durability="sync"))
        else:
            graph.invoke(first, config(), durability="sync")
        stored = scalar(saver, "SELECT count(*) FROM checkpoints")
        assert stored == 6 + 2  # and the input's two
        assert len(begun) <= stored + 3  # of 15: a thread that comes late is stored by itself
        assert len(list(graph.get_state_history(config()))[1].tasks) == 1


def test_f23_a_sibling_of_a_question_keeps_its_result(saver: SQLAlchemySaver) -> None:
    ran: list[str] = []

    def ask(_state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(interrupt("?"), id="asked")]}

    def work(_state: State) -> dict[str, Any]:
        ran.append("work")
        return {"messages": [AIMessage("done", id="worked")]}

    graph = StateGraph(State)
    for name, node in (("ask", ask), ("work", work)):
        graph.add_node(name, node)
        graph.add_edge(START, name)
    compiled = graph.compile(checkpointer=saver)
    compiled.invoke({"messages": [HumanMessage("go", id="h")]}, config(), durability="sync")
    other = graph.compile(checkpointer=SQLAlchemySaver(saver.database))
    found = other.invoke(Command(resume="yes"), config(), durability="sync")
    assert ran == ["work"]
    assert {message.id for message in found["messages"]} == {"h", "asked", "worked"}


@pytest.mark.usefixtures("impatient")
async def test_writes_whose_caller_is_cancelled_as_its_patience_ends_are_stored_all_the_same(
    file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SQLAlchemySaver(file_url) as saver:
        first = await saver.aput(config(), checkpoint({"a": 1}), {"source": "loop"}, {"a": 1})
        writing = asyncio.ensure_future(saver.aput_writes(first, [("a", 2)], "task", PATH))
        settle = riding._settle

        def both(settled: Any) -> None:
            settle(settled)
            writing.cancel()

        monkeypatch.setattr(riding, "_settle", both)
        with pytest.raises(asyncio.CancelledError):
            await writing
    with SQLAlchemySaver(file_url) as saver:
        assert scalar(saver, STORED) == 1


async def test_writes_whose_caller_is_cancelled_and_whose_put_fails_are_stored_all_the_same(
    file_url: str,
) -> None:
    with SQLAlchemySaver(file_url) as saver:
        first = await saver.aput(config(), checkpoint({"a": 1}), {"source": "loop"}, {"a": 1})
        writing = asyncio.ensure_future(saver.aput_writes(first, [("a", 2)], "task", PATH))
        await asyncio.sleep(0)
        taken = saver._memories.of("t").riders.board()  # a put has them
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        riding.arrive(taken, stored=False)
    with SQLAlchemySaver(file_url) as saver:
        assert scalar(saver, STORED) == 1


@pytest.mark.usefixtures("patient")
def test_what_a_task_wrote_stays_what_it_wrote_when_a_reducer_adds_to_it_in_place(
    shared_saver: SQLAlchemySaver,
) -> None:
    """The checkpoint comes behind the reducer, and the writes ride on it."""
    where, value = put(shared_saver, config(), {"x": []}), {"x": ["l"]}
    thread, raised = in_thread(lambda: shared_saver.put_writes(where, [("x", value)], "task", PATH))
    wait_for_rider(shared_saver)
    value["x"].append("r")
    put(shared_saver, where, {"x": value}, 2)
    thread.join()
    found = shared_saver.get_tuple(where)
    assert (raised, found and found.pending_writes) == ([], [("task", "x", {"x": ["l"]})])


@pytest.mark.usefixtures("impatient")
def test_a_write_that_holds_itself_is_refused_in_words(saver: SQLAlchemySaver) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UsageError, match="holds itself"):
        saver.put_writes(put(saver, config(), {"a": 1}), [("a", loop)], "task", PATH)

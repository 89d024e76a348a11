"""Many threads, many processes, one database."""

import asyncio
import threading
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from store.engines import Engines
from store.processes import hold_two_talks, run_all
from store.stored_graphs import checkpoint, config, execute, put, scalar, values_of

from adjourn.checkpoints.saver import SQLAlchemySaver


def test_processes_on_their_own_threads_and_on_one_lose_and_mix_nothing(shared_url: str) -> None:
    run_all(hold_two_talks, [(shared_url, f"p{number}") for number in range(3)])
    with SQLAlchemySaver(shared_url) as saver:
        for number in range(6):
            name = f"p{number % 3}"
            where = config(name) if number < 3 else config("shared", ns=name)
            talk = values_of(saver, where)["messages"]
            assert [message.content for message in talk] == [f"{name} {step}" for step in range(12)]
            assert len(values_of(saver, where)["log"]) == 11
            found = list(saver.list(where))
            assert len(found) == 12
            assert all(one.pending_writes for one in found)


def test_threads_of_one_process(saver: SQLAlchemySaver) -> None:
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            where = config("t", ns=name)
            for step in range(15):
                where = put(
                    saver,
                    where,
                    {"messages": [HumanMessage(f"{name}{n}", id=f"{name}{n}") for n in range(step)]},
                    step + 1,
                )
                saver.put_writes(where, [("x", step)], f"task{step}")
                assert saver.get_tuple(where) is not None
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"n{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert scalar(saver, "SELECT count(*) FROM messages") == 6 * 14


async def test_a_hundred_threads_at_once_from_one_event_loop(shared_saver: SQLAlchemySaver) -> None:
    async def talk(name: str) -> None:
        where = config(name)
        for version in range(1, 4):
            state = checkpoint({"n": version}, version)
            where = await shared_saver.aput(where, state, {"source": "loop", "step": version}, {"n": version})
            await shared_saver.aput_writes(where, [("n", 1)], "task")

    await asyncio.gather(*(talk(f"t{number}") for number in range(100)))
    assert scalar(shared_saver, "SELECT count(*) FROM checkpoints") == 300


def test_writes_may_arrive_before_their_checkpoint(saver: SQLAlchemySaver) -> None:
    state = checkpoint({"a": 1})
    saver.put_writes(config(checkpoint_id=state["id"]), [("a", 2)], "task")
    assert saver.get_tuple(config()) is None
    saver.put(config(), state, {"source": "loop"}, {"a": 1})
    assert saver.get_tuple(config()).pending_writes == [("task", "a", 2)]  # type: ignore[union-attr]


def test_writes_come_in_the_order_of_path_task_and_position(saver: SQLAlchemySaver) -> None:
    where = put(saver, config(), {"a": 1})
    for task, path in (("z", "~1"), ("a", "~2"), ("b", "~1")):
        saver.put_writes(where, [("x", task), ("y", task), ("__error__", task)], task, path)
    writes = saver.get_tuple(config()).pending_writes  # type: ignore[union-attr]
    assert [write[:2] for write in writes or []] == [
        (task, channel) for task in ("b", "z", "a") for channel in ("__error__", "x", "y")
    ]


def test_ordinary_writes_stay_and_special_ones_are_replaced(saver: SQLAlchemySaver) -> None:
    where = put(saver, config(), {"a": 1})
    saver.put_writes(where, [("x", "first"), ("__interrupt__", "first")], "task")
    saver.put_writes(where, [("x", "second"), ("__interrupt__", "second")], "task")
    writes = saver.get_tuple(config()).pending_writes  # type: ignore[union-attr]
    assert writes == [("task", "__interrupt__", "second"), ("task", "x", "first")]


@pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
def test_a_connection_that_the_server_closed_is_replaced(
    engine: str, servers: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adjourn.checkpoints.servers.IDLE_S", 0.0)
    own, kill = {
        "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend({})"),
        "mariadb": ("SELECT connection_id()", "KILL {}"),
    }[engine]
    url = servers.empty(engine, tmp_path)
    with SQLAlchemySaver(url) as saver, SQLAlchemySaver(url) as other:
        number = scalar(saver, own)
        execute(other, kill.format(number))
        put(saver, config(), {"a": 1})
        assert values_of(saver, config()) == {"a": 1}
        assert scalar(saver, own) != number


def test_many_writers_of_one_thread_come_through_one_after_the_other(shared_url: str) -> None:
    writers, rounds = 10, 6
    # each knows as little of the others as a process
    savers = [SQLAlchemySaver(shared_url) for _ in range(writers)]
    errors: list[BaseException] = []
    together = threading.Barrier(writers)

    def work(number: int) -> None:
        try:
            savers[number].setup()
            talk: list[HumanMessage] = []
            for step in range(rounds):
                talk = [*talk, HumanMessage("x", id=f"{number} {step}")]
                together.wait(60)
                put(savers[number], config(), {"messages": talk, "note": f"{number} {step} " * 20}, step + 1)
        except BaseException as error:
            together.abort()
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    with SQLAlchemySaver(shared_url) as saver:
        assert len(list(saver.list(config()))) == writers * rounds
        assert scalar(saver, "SELECT count(*) FROM messages") == writers * rounds
    for one in savers:
        one.close()

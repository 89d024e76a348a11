"""Threads for synchronous tools."""

import os
import threading

import pytest

from adjourn.nodes.threads import Threads


def test_a_free_thread_is_used_again_and_one_at_work_is_not():
    threads, seen, gate = Threads(), [], threading.Event()
    done = [threading.Event() for _ in range(3)]

    def work(place: int, *, waits: bool = False) -> None:
        seen.append(threading.get_ident())
        if waits:
            gate.wait(10)
        done[place].set()

    threads.run(lambda: work(0, waits=True))
    while not seen:
        done[0].wait(0.01)
    threads.run(lambda: work(1))
    assert done[1].wait(10)
    assert len(set(seen)) == 2
    gate.set()
    assert done[0].wait(10)
    while len(threads._free) < 2:
        done[2].wait(0.01)
    threads.run(lambda: work(2))
    assert done[2].wait(10)
    assert len(set(seen)) == 2


def test_threads_are_daemons_and_go_after_a_while(monkeypatch):
    monkeypatch.setattr("adjourn.nodes.threads.KEPT_S", 0.05)
    threads, found = Threads(), []
    came = threading.Event()
    threads.run(lambda: (found.append(threading.current_thread()), came.set()))
    assert came.wait(10)
    assert found[0].daemon
    found[0].join(10)
    assert not found[0].is_alive() and threads._free == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_has_threads_of_its_own():
    """A free thread of the parent's would take the work and never do it."""
    threads, done = Threads(), threading.Event()
    threads.run(done.set)
    assert done.wait(10)
    while not threads._free:
        done.wait(0.01)
    child = os.fork()
    if child == 0:
        there = threading.Event()
        threads.run(there.set)
        os._exit(0 if there.wait(10) else 1)
    assert os.waitpid(child, 0)[1] == 0

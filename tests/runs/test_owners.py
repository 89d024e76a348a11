"""A write happens once, whoever dies (C-33 to C-36, C-90, C-91). Processes are really killed."""

import json
import os
import signal

import pytest
from runs.crash import RUN

from adjourn.checkpoints import leases
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import LeaseLost, NotResumable, RunBusy
from adjourn.checkpoints.lifecycle import RunEvent
from adjourn.graph import starts


def test_c35_a_write_that_was_started_is_not_run_again_a_person_is_asked(crash):
    one = crash("pay")
    one.hold("pay")
    one.kill_in(one.start("start", RUN), "pay")
    one.wait_for_lease()
    shown = one.finish("recover", RUN)
    assert shown["status"] == "interrupted"
    (question,) = shown["interrupts"]
    done = one.finish("resume", RUN, json.dumps({question: {"action": "happened", "result": "paid b"}}))
    assert (done["status"], done["answer"]) == ("finished", "all done")
    assert one.did() == ["look a", "pay b"]


def test_c35_it_did_not_happen_so_run_it(crash):
    one = crash("pay")
    one.hold("pay")
    one.kill_in(one.start("start", RUN), "pay")
    one.wait_for_lease()
    (question,) = one.finish("recover", RUN)["interrupts"]
    assert one.finish("resume", RUN, json.dumps({question: {"action": "run"}}))["status"] == "finished"
    assert one.did() == ["look a", "pay b", "pay b"]


def test_c35_killed_twice_in_the_same_write_asks_twice(crash):
    one = crash("pay")
    one.hold("pay")
    one.kill_in(one.start("start", RUN), "pay")
    one.wait_for_lease()
    (first,) = one.finish("recover", RUN)["interrupts"]
    one.effects.with_suffix(".in-pay").unlink()
    one.hold("pay")
    one.kill_in(one.start("resume", RUN, json.dumps({first: {"action": "run"}})), "pay")
    one.wait_for_lease()
    (second,) = one.finish("recover", RUN)["interrupts"]
    assert second != first
    assert one.finish("resume", RUN, json.dumps({second: {"action": "leave"}}))["status"] == "finished"
    assert one.did() == ["look a", "pay b", "pay b"]


def test_c35_an_idempotent_write_runs_again_under_its_key(crash):
    one = crash("put")
    one.hold("put")
    one.kill_in(one.start("start", RUN), "put")
    one.wait_for_lease()
    assert one.finish("recover", RUN)["status"] == "finished"
    assert one.did() == ["look a", "put b", "put b"]


def test_c34_a_result_that_was_recorded_is_used_after_a_crash(crash):
    one = crash("pay")
    one.hold("pay")
    one.kill_in(one.start("start", RUN), "pay")
    one.wait_for_lease()
    one.finish("recover", RUN)
    assert one.did().count("look a") == 1


def test_c36_killed_in_a_read_it_is_read_again(crash):
    one = crash("pay")
    one.hold("look")
    one.kill_in(one.start("start", RUN), "look")
    one.wait_for_lease()
    assert one.finish("recover", RUN)["status"] == "finished"
    assert one.did() == ["look a", "look a", "pay b"]


def test_c35_an_approved_write_that_was_killed_asks_what_became_of_it(crash):
    one = crash("send")
    (question,) = one.finish("start", RUN)["interrupts"]
    one.hold("send")
    one.kill_in(one.start("resume", RUN, json.dumps({question: {"action": "approve"}})), "send")
    one.wait_for_lease()
    shown = one.finish("recover", RUN)
    assert shown["status"] == "interrupted"
    assert shown["interrupts"] != [question]
    assert one.did() == ["look a", "send b"]


def test_c90_a_paused_owner_cannot_write_after_its_lease(crash):
    one = crash("pay")
    one.hold("look")
    process = one.start("start", RUN)
    one.wait_in(process, "look")
    one.freeze(process)
    one.effects.with_suffix(".hold-look").unlink()
    one.wait_for_lease()
    assert one.finish("recover", RUN)["status"] == "finished"
    before = one.did()
    os.kill(process.pid, signal.SIGCONT)
    process.join(30)
    assert not process.is_alive()
    assert not one.out.exists()
    assert one.did() == before == ["look a", "look a", "pay b"]


def test_c91_before_its_lease_nobody_takes_over(house):
    runner = house.runner(["x"])
    row = starts.new_run(
        "go", thread_id="t", by=None, run_id=RUN, graph="react", signature="s", owner="dead", lease_s=30
    )
    runner.database.write(lambda c: starts.store(c, row))
    with pytest.raises(RunBusy, match="dead"):
        runner.recover_sync(RUN)


def test_c91_a_run_that_died_before_its_first_checkpoint_starts_from_its_input(house):
    runner = house.runner(["hello"])
    row = starts.new_run(
        "go", thread_id="t", by=None, run_id=RUN, graph="react", signature="s", owner="dead", lease_s=-1
    )
    runner.database.write(lambda c: starts.store(c, row))
    run = runner.recover_sync(RUN, on_event=house.hear)
    assert (run.status, run.answer) == ("finished", "hello")
    with pytest.raises(NotResumable):
        runner.recover_sync(RUN)


def test_c90_the_fence_refuses_a_stale_owner(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'a.db'}")
    row = starts.new_run(
        "go", thread_id="t", by=None, run_id=RUN, graph="g", signature="s", owner="one", lease_s=-1
    )
    database.write(lambda c: starts.store(c, row))
    fence = database.write(lambda c: leases.claim(c, RUN, RunEvent.RECOVER, owner="two", lease_s=30))
    assert fence == 2
    with pytest.raises(LeaseLost):
        database.write(lambda c: leases.hold(c, RUN, 1))
    assert not database.write(lambda c: leases.renew(c, RUN, 1, lease_s=30, active_ms=0))
    assert database.write(lambda c: leases.renew(c, RUN, 2, lease_s=30, active_ms=0))
    with pytest.raises(RunBusy):
        database.write(lambda c: leases.claim(c, RUN, RunEvent.RECOVER, owner="three", lease_s=30))
    database.close()

"""Records of the standard library's `logging`: with ids as fields, and with nothing that anybody said."""

import logging

import pytest
from runs.shop import Shop

from adjourn.nodes import ScriptedModel, approve
from adjourn.nodes.scripted import Fails, call, says

PRIVATE = "支付密码 8848"
RESTART = call("restart_service", {"service_id": PRIVATE, "environment": "prod"}, id="r1")


@pytest.fixture(autouse=True)
def all_levels(caplog):
    caplog.set_level(logging.DEBUG, "adjourn")


def told(caplog, name: str) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == name]


async def test_each_fact_of_a_run_is_a_record_with_its_ids(house, caplog):
    runner = house.runner([says(PRIVATE, call("search_docs", {"query": PRIVATE}, id="s1"), RESTART), PRIVATE])
    run = await runner.start(PRIVATE, thread_id="t1", run_id="run_1")
    await runner.resume(run.id, {run.interrupts[0].id: approve()}, by="li")
    question = run.interrupts[0].id
    assert [one for one in told(caplog, "adjourn.run") if "lease" not in one] == [
        "run run_1: started on thread t1 of graph react",
        "run run_1: step 1: the model is asked",
        "run run_1: step 1: the model spoke, 2 calls",
        f"run run_1: waits for people: {question}",
        "run run_1: step 2: the model is asked",
        "run run_1: step 2: the model spoke, 0 calls",
        "run run_1: finished (answered) after 2 steps",
    ]
    calls = [one for one in caplog.records if one.name == "adjourn.call"]
    assert [one.getMessage().rsplit(", ", 1)[0] for one in calls] == [
        "run run_1: step 1: search_docs was asked for [s1]",
        "run run_1: step 1: restart_service was asked for [r1]",
        "run run_1: step 1: search_docs [s1] ok",
        f"run run_1: question {question} is answered",
        "run run_1: step 1: restart_service [r1] ok",
    ]
    for one in calls:
        assert (one.run_id, one.step) == ("run_1", 1)
        assert one.call_id in ("s1", "r1")
    assert calls[2].tool == "search_docs"
    assert "8848" not in caplog.text


async def test_c29_what_a_tool_raised_is_logged_masked_under_run_and_call(house, caplog):
    shop = Shop(fails={"search_docs": RuntimeError("down, call ops@corp.com")})
    await house.runner([says("", call("search_docs", {"query": "x"}, id="s1")), "end"], shop).start(
        "go", run_id="run_1"
    )
    (record,) = [one for one in caplog.records if "raised" in one.getMessage()]
    assert record.getMessage() == "call s1 of search_docs raised RuntimeError: down, call [email]"
    assert (record.run_id, record.step, record.call_id, record.tool) == ("run_1", 1, "s1", "search_docs")
    assert "ops@corp.com" not in caplog.text


async def test_a_failed_run_is_logged_once_with_a_masked_stack(house, caplog, rows):
    run = await house.runner([Fails(ValueError("no, ask ops@corp.com"))]).start("go", run_id="run_1")
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.name == "adjourn.run"
    assert record.getMessage().startswith("run run_1 failed\nTraceback")
    assert (record.run_id, record.exc_info) == ("run_1", None)
    assert "ops@corp.com" not in caplog.text
    assert "[email]" in run.error["message"]
    stored = rows("SELECT error FROM runs") + rows("SELECT data FROM events")
    assert "ops@corp.com" not in str(stored)


async def test_the_attempts_at_a_model_name_the_error_and_not_its_words(house, caplog):
    model = ScriptedModel(turns=[Fails(ConnectionError(PRIVATE)), "done"])
    assert (await house.runner(model).start("go", run_id="run_1")).status == "finished"
    (record,) = [one for one in caplog.records if one.name == "adjourn.model"]
    assert "attempt 1: ConnectionError" in record.getMessage()
    assert (record.run_id, record.step) == ("run_1", 1)
    assert "8848" not in caplog.text

"""The server over real HTTP: runs, answers, what is refused and how it says so."""

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest
from openapi_spec_validator import validate
from server import served_app
from server.conftest import JSON, frames, told, until
from sqlalchemy.exc import OperationalError

from adjourn.checkpoints import family, queue
from adjourn.checkpoints.errors import NotAllowed
from adjourn.checkpoints.lifecycle import StopReason
from adjourn.graph import Limits, Runner, build_react
from adjourn.graph.cli import main
from adjourn.graph.server import Bounds
from adjourn.graph.server.openapi import description
from adjourn.graph.worker import Worker
from adjourn.nodes import ScriptedModel
from adjourn.nodes.scripted import call, says

PROD = {"environment": "prod", "minutes": 5}


def problem(response, status, kind):
    """What a refusal says; it has the form of a problem."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert (body["status"], body["type"]) == (status, f"urn:adjourn:{kind}")
    assert "\n" not in body["detail"]
    return body


def test_c43_a_run_is_started_answered_and_ended_over_http(serve):
    served = serve()
    api = served.api()
    run = api.start()
    assert (run["status"], run["shown_reason"], run["started_by"]) == ("interrupted", "ask_user", "wang")
    run = api.answer(run, PROD)
    assert run["interrupts"][0]["reason"] == "Restart svc-pay-001 in prod?"
    run = api.answer(run, {"action": "approve"})
    assert (run["status"], run["stop_reason"], run["answer"]) == ("finished", "answered", "已处理。")
    assert [one["outcome"] for one in run["calls"]] == ["ok"] * 4
    assert api.get(f"/runs/{run['id']}").json() == run


def test_c43_a_run_of_a_script_is_answered_over_http_and_the_other_way_round(serve):
    served = serve()
    by_script = served.runner.start_sync("go", by="wang")
    over_http = served.api().answer(
        {"id": by_script.id, "interrupts": [by_script.interrupts[0].to_dict()]}, PROD
    )
    assert over_http["interrupts"][0]["type"] == "confirm_risky"
    done = served.runner.resume_sync(
        by_script.id, {over_http["interrupts"][0]["id"]: {"action": "approve"}}, by="li"
    )
    assert (done.status, done.answer) == ("finished", "已处理。")


def test_a_start_answers_before_the_run_has_ended(serve, tmp_path):
    served = serve(served_app.checks)
    (tmp_path / "hold-check").touch()
    api = served.api()
    response = api.post("/runs", json={"message": "go", "run_id": "run_mine"})
    assert (response.status_code, response.json()["status"]) == (201, "running")
    assert response.headers["location"] == "/runs/run_mine"
    (tmp_path / "hold-check").unlink()
    assert until(lambda: api.get("/runs/run_mine").json()["status"] == "finished")


def test_c57_each_way_to_stop_is_a_200(serve):
    turns = [says("", call("look", {"n": n}, id=f"c{n}")) for n in range(5)]

    def look(n: int) -> int:
        """Look."""
        return n

    served = serve(
        lambda: build_react(
            ScriptedModel(turns=turns, by_history=True), [look], limits=Limits(max_steps=2), name="shop"
        )
    )
    api = served.api()
    run = api.start()
    assert run["stop_reason"] == StopReason.MAX_STEPS
    assert api.get(f"/runs/{run['id']}").status_code == 200


def test_a_run_that_failed_is_shown_and_tried_again(serve):
    api = serve(served_app.broken).api()
    run = api.start()
    assert (run["status"], run["error"]["class"]) == ("failed", "ModelFailed")
    again = api.post(f"/runs/{run['id']}/retry", headers={"Prefer": "wait=30"})
    assert (again.status_code, again.json()["status"]) == (200, "failed")
    assert [one["type"] for one in api.stored(run["id"])].count("run_failed") == 2


def test_a_run_is_cancelled_while_it_works_and_while_it_waits(serve, tmp_path):
    api = serve(served_app.checks).api()
    (tmp_path / "hold-check").touch()
    run = api.start(wait_s=0)
    until((tmp_path / "in-check").exists)
    assert api.post(f"/runs/{run['id']}/cancel").json()["status"] == "cancelled"
    assert api.post(f"/runs/{run['id']}/cancel").json()["status"] == "cancelled"


def test_the_same_key_and_the_same_id_start_one_run(serve):
    api = serve(served_app.plain).api()
    first = api.post("/runs", json={"message": "go"}, headers={"Idempotency-Key": "k 1"})
    second = api.post("/runs", json={"message": "go"}, headers={"Idempotency-Key": "k 1"})
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    problem(api.post("/runs", json={"message": "no"}, headers={"Idempotency-Key": "k 1"}), 409, "id_was_used")
    mine = [api.post("/runs", json={"message": "go", "run_id": "run_x"}).status_code for _ in range(2)]
    assert mine == [201, 200]
    assert len(api.get("/runs").json()["runs"]) == 2


def test_two_starts_of_one_key_at_the_same_moment_are_one_run(serve):
    served = serve(served_app.plain)
    at_once = threading.Barrier(6)

    def start(_: int) -> str:
        with served.api() as api:
            at_once.wait()
            body = {"message": "go", "thread_id": "t1"}
            response = api.post("/runs", json=body, headers={"Idempotency-Key": "k"})
            assert response.status_code in (200, 201), response.text
            return str(response.json()["id"])

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(start, range(6)))) == 1
    assert len(served.api().get("/runs").json()["runs"]) == 1


def test_c45_a_wrong_answer_is_a_422_that_names_the_fields_and_changes_nothing(serve):
    api = serve().api()
    run = api.start()
    (question,) = run["interrupts"]
    wrong = {"answers": {question["id"]: {"environment": "moon", "minutes": 61}}}
    told_ = problem(api.post(f"/runs/{run['id']}/answers", json=wrong), 422, "invalid_answer")
    assert set(told_["problems"]) == {"environment", "minutes"}
    half = "\ud83d"
    for odd, status, kind in (
        ({half: {}}, 404, "interrupt_not_found"),
        ({question["id"]: {half: 1}}, 422, "invalid_answer"),
        ({question["id"]: {"environment": half}}, 422, "invalid_answer"),
        ({question["id"]: {"environment": json.loads("[" * 300 + "]" * 300)}}, 422, "invalid_answer"),
    ):
        body = json.dumps({"answers": odd}).encode()
        problem(api.post(f"/runs/{run['id']}/answers", content=body, headers=JSON), status, kind)
    assert api.get(f"/runs/{run['id']}").json()["interrupts"] == [question]


def test_c47_of_two_answers_the_second_is_a_409(serve):
    api = serve().api()
    run = api.start()
    api.answer(run, PROD)
    body = {"answers": {run["interrupts"][0]["id"]: PROD}}
    told_ = problem(api.post(f"/runs/{run['id']}/answers", json=body), 409, "already_answered")
    assert told_["by"] == "wang"


def test_a_detached_server_hands_runs_to_workers_in_the_order_of_their_priority(serve):
    served = serve(served_app.plain, runner={"detached": True})
    api = served.api()
    for message, priority in (("low", -5), ("plain", None), ("high", 1000)):
        given = {} if priority is None else {"priority": priority}
        run = api.start(message, wait_s=0, **given)
        assert (run["status"], run["priority"]) == ("running", priority or 0)
    waiting = served.runner.database.read(lambda c: queue.unowned(c, graph="shop"))
    assert [one.input for one in waiting] == ["high", "plain", "low"]
    assert [one["priority"] for one in api.get("/runs").json()["runs"]] == [1000, 0, -5]


def test_prefer_wait_waits_for_a_run_that_a_worker_drives(serve, tmp_path):
    desk = serve(served_app.build, runner={"detached": True})
    with worker(Runner(served_app.build(), f"sqlite:///{tmp_path / 'adjourn.db'}")):
        run = desk.api().start()
        assert run["status"] == "interrupted"
        run = desk.api().answer(run, {"environment": "prod"})
        assert (run["status"], run["interrupts"][0]["type"]) == ("interrupted", "confirm_risky")


def test_a_wait_that_is_no_number_is_none(serve):
    api = serve(served_app.plain).api()
    for prefer in ("wait=\u00b2", "wait=", "wait=-1", "wait=x", "wait"):
        headers = [*JSON.items(), ("Prefer", prefer.encode("latin-1"))]
        assert api.post("/runs", content=b'{"message": "go"}', headers=headers).status_code == 201, prefer


@contextmanager
def worker(runner: Runner) -> Iterator[None]:
    """While inside, a worker drives what there is."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    working = threading.Thread(target=loop.run_until_complete, args=(Worker(runner, poll_s=0.02).work(stop),))
    working.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        working.join(60)
        loop.close()
        runner.close()


def test_what_is_not_there_or_cannot_be_is_said_in_one_sentence(serve, tmp_path):
    api = serve(served_app.checks).api()
    problem(api.get("/runs/nope"), 404, "run_not_found")
    problem(api.get("/nothing"), 404, "not_found")
    problem(api.put("/runs"), 405, "refused")
    problem(api.post("/runs", content=b"{", headers=JSON), 400, "invalid_json")
    for odd in (b'{"message": NaN}', b'{"message": 1e999}', b"[" * 100_000, b"\xff", b'{"message": "\x00"}'):
        problem(api.post("/runs", content=odd, headers=JSON), 400, "invalid_json")
    problem(api.post("/runs", json=["x"]), 422, "invalid_request")
    problem(api.post("/runs"), 400, "no_body")
    problem(api.post("/runs", json={"message": ""}), 422, "invalid_request")
    problem(api.post("/runs", json={"message": "  "}), 422, "usage_error")
    problem(api.post("/runs", json={"message": "x", "run_id": "../x"}), 422, "invalid_request")
    assert "mesage" in problem(api.post("/runs", json={"mesage": "x"}), 422, "invalid_request")["problems"]
    for odd in (1001, -1001, 1.5, "1", True, None):
        refused = problem(api.post("/runs", json={"message": "x", "priority": odd}), 422, "invalid_request")
        assert list(refused["problems"]) == ["priority"]
    problem(api.get("/runs?status=odd"), 422, "invalid_request")
    problem(api.get("/runs?limit=0"), 422, "invalid_request")
    problem(api.get("/runs?limit=5&limit_=1"), 422, "invalid_request")
    (tmp_path / "hold-check").touch()
    run = api.start(wait_s=0, thread_id="t1")
    busy = problem(api.post("/runs", json={"message": "x", "thread_id": "t1"}), 409, "run_busy")
    assert socket.gethostname() not in json.dumps(busy)
    problem(api.get(f"/runs/{run['id']}/events", headers={"Last-Event-ID": "x"}), 400, "invalid_event_id")
    problem(api.get(f"/runs/{run['id']}/events?after={'9' * 30}"), 422, "invalid_request")
    problem(api.post(f"/runs/{run['id']}/retry"), 409, "run_busy")
    (tmp_path / "hold-check").unlink()
    until(lambda: api.get(f"/runs/{run['id']}").json()["status"] == "finished")
    problem(api.post(f"/runs/{run['id']}/retry"), 409, "not_resumable")


def test_text_that_is_no_text_is_refused_and_what_a_model_said_is_shown(serve):
    half = "\ud83d"
    served = serve(lambda: served_app.graph_of([f"a{half}b"], []))
    api = served.api()
    body = json.dumps({"message": f"x{half}"}).encode()
    assert api.post("/runs", content=body, headers=JSON).status_code in (400, 422)
    run = api.start()
    assert run["status"] == "finished"
    with api.stream("GET", f"/runs/{run['id']}/events") as response:
        assert [told(one)["type"] for one in frames(response) if "data" in one][-1] == "run_finished"


def test_an_error_that_nobody_expected_tells_nothing_of_the_inside(serve, monkeypatch):
    served = serve(served_app.plain)

    async def breaks(*_, **__):
        raise RuntimeError("secret at /srv/path")

    monkeypatch.setattr(served.runner, "get", breaks)
    told_ = problem(served.api().get("/runs/run_1"), 500, "internal_error")
    assert "secret" not in json.dumps(told_)


def test_while_the_database_is_away_a_request_is_a_503_and_may_be_sent_again(serve, monkeypatch):
    served = serve(served_app.plain)
    api = served.api()

    async def away(*_, **__):
        raise OperationalError("SELECT secret", {}, Exception("server closed the connection"))

    with monkeypatch.context() as patch:
        patch.setattr(served.runner.database, "aread", away)
        refused = api.get("/runs")
        assert "secret" not in json.dumps(problem(refused, 503, "store_error"))
    assert api.get("/runs").status_code == 200


def test_c85_who_admits_is_asked_before_a_run_is_stored(serve):
    def admit(person, message, thread_id):
        if "drop" in message:
            raise NotAllowed(person, "ask for that")

    api = serve(served_app.plain, admit=admit).api()
    problem(api.post("/runs", json={"message": "drop it"}), 403, "not_allowed")
    assert api.get("/runs").json()["runs"] == []
    assert api.start("go")["status"] == "finished"


def test_the_server_says_the_context_of_a_run_and_no_caller_does(serve):
    served = serve(served_app.plain, context=lambda person, thread_id: {"tenant": f"of {thread_id}"})
    api = served.api()
    run = api.start("go", thread_id="t7")
    assert served.runner.get_sync(run["id"]).context == {"tenant": "of t7"}
    assert "tenant" not in json.dumps(api.get(f"/runs/{run['id']}").json())
    refused = api.post("/runs", json={"message": "go", "context": {"tenant": "another"}})
    assert "context" in json.dumps(problem(refused, 422, "invalid_request"))


def test_a_message_may_hold_images_and_is_sent_again_like_any_other(serve):
    served = serve(served_app.plain)
    api = served.api()
    said = ["What is it?", {"type": "image", "url": "https://example.com/a.png"}]
    first = api.post("/runs", json={"message": said, "run_id": "job"})
    assert (first.status_code, first.json()["input"]) == (
        201,
        "What is it?\n[image: https://example.com/a.png]",
    )
    assert api.post("/runs", json={"message": said, "run_id": "job"}).status_code == 200
    other = [said[0], {"type": "image", "url": "https://example.com/b.png"}]
    problem(api.post("/runs", json={"message": other, "run_id": "job"}), 409, "id_was_used")
    problem(api.post("/runs", json={"message": [{"type": "tool_result"}]}), 422, "usage_error")


def test_lists_show_runs_newest_first_and_by_status(serve):
    api = serve().api()
    first, second = api.start("one"), api.start("two", thread_id="t2")
    assert [one["id"] for one in api.get("/runs").json()["runs"]] == [second["id"], first["id"]]
    assert [one["id"] for one in api.get("/runs?thread_id=t2").json()["runs"]] == [second["id"]]
    assert api.get("/runs?status=finished&status=failed").json()["runs"] == []
    assert len(api.get("/runs?status=interrupted&limit=1").json()["runs"]) == 1
    inbox = api.get("/inbox").json()["questions"]
    assert [one["run_id"] for one in inbox] == [first["id"], second["id"]]
    assert all(one["mine"] and one["may_answer"] for one in inbox)


def test_the_description_is_openapi_3_1(serve):
    described = serve(served_app.plain).api().get("/openapi.json").json()
    validate(described)
    assert described == json.loads(json.dumps(description()))
    assert described["openapi"].startswith("3.1")


SHAPES = {
    "GET /runs": "RunList",
    "GET /inbox": "Inbox",
    "GET /me": "Me",
    "GET /healthz": "Health",
    "GET /runs/{}": "RunShown",
    "GET /runs/nope": "Problem",
}


def test_answers_have_the_shape_that_the_description_says(serve):
    api = serve().api()
    run = api.start()
    schemas = description()["components"]

    def check(value, shape):
        jsonschema.validate(value, {"$ref": f"#/components/schemas/{shape}", "components": schemas})

    for request, shape in SHAPES.items():
        method, path = request.split()
        check(api.request(method, path.format(run["id"])).json(), shape)
    check(run, "RunShown")
    check({"events": api.stored(run["id"])}, "EventList")
    with pytest.raises(jsonschema.ValidationError):
        check({**run, "status": "odd"}, "RunShown")


def test_every_route_is_described_and_every_described_route_is_there(serve):
    api = serve(served_app.plain).api()
    for path, operations in description()["paths"].items():
        for method in operations:
            response = api.request(method.upper(), path.format(run_id="nope"))
            assert response.status_code not in (405, 500), (method, path)
            if response.status_code == 404:
                assert response.json()["type"] == "urn:adjourn:run_not_found"


def test_a_request_has_a_size_and_callers_have_a_rate(serve):
    served = serve(served_app.plain, bounds=Bounds(max_body_bytes=1000, per_second=1, burst=8))
    api = served.api()
    problem(api.post("/runs", json={"message": "x" * 2000}), 413, "too_large")

    def pieces():
        for _ in range(20):
            yield b'{"message": "' + b"x" * 100

    problem(api.post("/runs", content=pieces(), headers=JSON), 413, "too_large")
    statuses = [api.get("/me").status_code for _ in range(12)]
    assert statuses[0] == 200
    refused = api.get("/me")
    assert "again" in problem(refused, 429, "too_many_requests")["detail"]
    assert int(refused.headers["retry-after"]) >= 1


def test_health_and_the_page_need_nobody(serve):
    api = serve(served_app.plain).api()
    assert api.get("/healthz").json() == {"status": "ok"}
    page = api.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert api.get("/assets/main.js").headers["content-type"].split(";")[0] in (
        "text/javascript",
        "application/javascript",
    )
    problem(api.get("/assets/../app.py"), 404, "not_found")
    problem(api.get("/assets/%2e%2e/app.py"), 404, "not_found")


def test_c82_a_question_inside_a_specialist_is_shown_and_answered_at_the_run_above_it(serve):
    served = serve(served_app.team)
    api = served.api()
    run = api.start()
    (question,) = run["interrupts"]
    assert (run["status"], question["path"], question["tool"]) == ("interrupted", "operator", "restart")
    (asked,) = api.get("/inbox").json()["questions"]
    assert (asked["run_id"], asked["question"], asked["may_answer"]) == (run["id"], question, True)
    assert [one["id"] for one in api.get("/runs").json()["runs"]] == [run["id"]]
    done = api.answer(run, {"action": "approve"})
    assert (done["status"], done["answer"]) == ("finished", "the operator did it")
    below = served.runner.database.read(lambda connection: family.below(connection, run["id"]))
    assert [api.get(f"/runs/{one}").json()["started_by"] for one in below] == ["wang"]
    assert [one["type"] for one in api.stored(below[0])][-1] == "run_finished"


def test_without_its_packages_the_command_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "sse_starlette", None)
    assert main(["serve", "--app", "nothing.py:x"]) == 2
    assert "adjourn[server]" in capsys.readouterr().err


def test_a_port_that_is_taken_is_said_in_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(Path(served_app.__file__).read_text())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["serve", "--app", "app.py:plain", "--port", port]) == 2
    said = capsys.readouterr().err
    assert f"port {port}" in said
    assert len(said.splitlines()) == 1

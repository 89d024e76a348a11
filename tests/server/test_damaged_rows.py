"""A damaged row of the store is named by the lists, and everything else is shown, answered and driven as before."""

import json

import sqlalchemy as sa
from server import served_app
from server.conftest import until
from server.test_access import LI, TOKENS, WANG

from adjourn.graph.cli import main
from adjourn.graph.server import Access, inbox_routes

DAMAGE = "UPDATE runs SET input = '{' WHERE id = 'run_bad'"


def damage(served, statement=DAMAGE):
    served.runner.database.write(lambda connection: connection.execute(sa.text(statement)))


def test_lists_and_the_inbox_show_what_can_be_read_and_name_what_cannot(serve):
    served = serve()
    api = served.api()
    for one in ("run_a", "run_bad"):
        api.start(run_id=one)
    damage(served)
    for path, shown in (("/runs", "runs"), ("/inbox", "questions")):
        body = api.get(path).json()
        assert len(body[shown]) == 1
        (named,) = body["damaged"]
        assert named.startswith("runs run_bad: not JSON")
    assert api.answer(api.get("/runs/run_a").json(), {"environment": "prod", "minutes": 5})["interrupts"]


def test_c85_whose_a_damaged_row_is_nobody_knows_and_so_it_is_told_to_whoever_sees_all(serve):
    served = serve(access=Access(TOKENS))
    served.api(WANG).start(run_id="run_bad")
    damage(served)
    assert served.api(LI).get("/inbox").json() == {"questions": [], "damaged": []}
    assert served.api(LI).get("/runs").json() == {"runs": [], "damaged": []}
    assert len(served.api(WANG).get("/runs").json()["damaged"]) == 1


def test_the_page_shows_the_other_runs_and_names_the_damaged_one(serve, visit):
    served = serve()
    for one in ("run_a", "run_bad"):
        served.api().start("看看支付", run_id=one)
    damage(served)
    page = visit(served.url).open()
    page.wait_for_selector("#runs li a")
    assert page.locator("#runs li a").count() == 1
    assert "This cannot be read: runs run_bad" in page.locator("#runs").inner_text()


def test_a_full_inbox_asks_the_rule_of_the_application_no_further(serve, monkeypatch):
    monkeypatch.setattr(inbox_routes, "MOST_QUESTIONS", 2)
    asked = []

    def rule(question, person):
        asked.append(question.run_id)
        return question.run_id != "run_0"

    served = serve(access=Access(TOKENS), runner={"may_answer": rule})
    for number in range(6):
        served.api(WANG).start(run_id=f"run_{number}")
    asked.clear()
    shown = served.api(LI).get("/inbox").json()["questions"]
    assert [one["run_id"] for one in shown] == ["run_1", "run_2"]
    assert asked == ["run_0", "run_1", "run_2"]


def test_a_worker_of_the_server_takes_over_what_stands_beside_a_damaged_run(serve, tmp_path):
    served = serve(served_app.plain, sweep_s=0.05)
    insert = (
        "INSERT INTO runs (id, thread_id, graph, signature, status, input, created_at, updated_at, priority) "
        "VALUES ('{0}', '{0}', 'shop', 's', 'running', '{1}', "
        "'2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', {2})"
    )
    damage(served, insert.format("run_bad", "{", 1))
    damage(served, insert.format("run_a", '"go"', 0))
    until(lambda: served.api().get("/runs/run_a").json()["status"] == "finished")


def test_the_command_line_lists_the_others_names_it_and_ends_with_status_4(serve, tmp_path, capsys):
    served = serve()
    for one in ("run_a", "run_bad"):
        served.api().start(run_id=one)
    damage(served)
    store = ["--store", f"sqlite:///{tmp_path / 'adjourn.db'}"]
    assert main(["runs", *store]) == 4
    told = capsys.readouterr()
    assert "run_a" in told.out
    assert "run_bad" not in told.out
    assert told.err.startswith("adjourn: runs run_bad: not JSON")
    assert main(["runs", *store, "--json"]) == 4
    told = capsys.readouterr()
    assert [one["id"] for one in json.loads(told.out)] == ["run_a"]
    facts = json.loads(told.err)
    assert (facts["error"], facts["table"], facts["key"]) == ("StoredDataError", "runs", "run_bad")
    assert main(["doctor", *store]) == 0
    assert main(["show", "run_bad", *store]) == 4

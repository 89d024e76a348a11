"""Who may come in, what they see, and which requests of other people's pages are refused (C-85)."""

import json
from contextlib import asynccontextmanager

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from server import served_app
from server.conftest import Api, until
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.graph import Runner
from adjourn.graph.cli import main
from adjourn.graph.server import Access, inbox_routes, make_app, read_tokens
from adjourn.graph.server.access import access_for, digest, is_loopback, tokens_of_file
from adjourn.graph.server.entrance import check_length
from adjourn.graph.server.problems import Refused

WANG, LI, ZHAO = "wang-token-0123456789", "li-token-0123456789", "zhao-token-0123456789"
TOKENS = {digest(WANG): "wang", digest(LI): "li", digest(ZHAO): "zhao"}
PROD = {"environment": "prod", "minutes": 5}


def people(served) -> tuple[Api, Api, Api]:
    return served.api(WANG), served.api(LI), served.api(ZHAO)


def test_c85_without_a_token_or_with_a_wrong_one_nobody_comes_in(serve):
    served = serve(access=Access(TOKENS))
    for token in (None, "wrong-token-0123456789", WANG[:-1], ""):
        refused = served.api(token).get("/runs")
        assert (refused.status_code, refused.json()["type"]) == (401, "urn:adjourn:unauthorized")
        assert refused.headers["www-authenticate"] == "Bearer"
    assert served.api().get("/runs", headers={"Authorization": f"Basic {WANG}"}).status_code == 401
    assert served.api().get("/runs", headers={"Authorization": f"bearer {WANG}"}).status_code == 200
    assert served.api(WANG).get("/me").json() == {"person": "wang", "sees_all": False, "graph": "shop"}


def test_c85_wrong_tokens_have_a_rate_and_right_ones_are_not_held_up(serve):
    served = serve(access=Access(TOKENS))
    wrong = served.api("wrong-token-0123456789")
    assert 429 in [wrong.get("/me").status_code for _ in range(20)]
    assert served.api(WANG).get("/me").status_code == 200


def test_c85_each_caller_sees_and_stops_their_own_runs_alone(serve):
    served = serve(access=Access(TOKENS))
    wang, li, _ = people(served)
    run = wang.start()
    path = f"/runs/{run['id']}"
    assert [one["id"] for one in wang.get("/runs").json()["runs"]] == [run["id"]]
    assert li.get("/runs").json()["runs"] == []
    missing = {one: li.get(f"{path}{one}") for one in ("", "/events")}
    missing |= {one: li.post(f"{path}{one}") for one in ("/cancel", "/retry")}
    for response in missing.values():  # the same as for a run that is not there
        assert response.status_code == 404
        assert response.json()["detail"] == li.get("/runs/nope").json()["detail"].replace("nope", run["id"])
    taken = li.post("/runs", json={"message": "x", "run_id": run["id"]})
    assert taken.status_code == 409
    assert wang.get(path).json()["status"] == "interrupted"


def test_c85_a_caller_cannot_go_on_with_somebody_elses_conversation(serve):
    served = serve(served_app.plain, access=Access(TOKENS))
    wang, li, _ = people(served)
    run = wang.start(thread_id="t1")
    refused = li.post("/runs", json={"message": "what did wang say?", "thread_id": "t1"})
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:adjourn:not_allowed")
    assert run["thread_id"] == "t1"
    assert len(served.runner.list_sync(thread_id="t1")) == 1


def test_c85_a_caller_sees_and_answers_the_questions_that_they_may_answer(serve):
    def rule(question, person):
        return person in ({"wang"} if question.tool == "query_logs" else {"li"})

    served = serve(access=Access(TOKENS), runner={"may_answer": rule})
    wang, li, zhao = people(served)
    run = wang.answer(wang.start(), PROD)
    (question,) = run["interrupts"]
    (asked,) = li.get("/inbox").json()["questions"]
    assert (asked["question"], asked["mine"], asked["may_answer"]) == (question, False, True)
    (seen,) = wang.get("/inbox").json()["questions"]  # the run is wang's, the answer is not
    assert (seen["mine"], seen["may_answer"]) == (True, False)
    assert zhao.get("/inbox").json()["questions"] == []
    answers = {"answers": {question["id"]: {"action": "approve"}}}
    assert zhao.post(f"/runs/{run['id']}/answers", json=answers).status_code == 404
    assert wang.post(f"/runs/{run['id']}/answers", json=answers).status_code == 403
    taken = li.post(f"/runs/{run['id']}/answers", json=answers, headers={"Prefer": "wait=30"})
    assert taken.json() == {"run_id": run["id"], "run_status": "finished", "answered": [question["id"]]}
    assert li.get(f"/runs/{run['id']}").status_code == 404
    assert wang.get(f"/runs/{run['id']}").json()["answer"] == "已处理。"


def test_c85_two_of_three_agree_each_by_their_own_token(serve):
    served = serve(served_app.approvals, access=Access(TOKENS))
    wang, li, zhao = people(served)
    run = wang.start()
    answers = {"answers": {run["interrupts"][0]["id"]: {"action": "approve"}}}
    assert li.post(f"/runs/{run['id']}/answers", json=answers).status_code == 200
    assert li.post(f"/runs/{run['id']}/answers", json=answers).status_code == 409
    (still,) = zhao.get("/inbox").json()["questions"]
    assert [one["by"] for one in still["question"]["approvals"]["given"]] == ["li"]
    assert zhao.post(f"/runs/{run['id']}/answers", json=answers).status_code == 200
    assert until(lambda: wang.get(f"/runs/{run['id']}").json()["status"] == "finished")


def test_c85_keys_of_two_callers_do_not_meet(serve):
    served = serve(served_app.plain, access=Access(TOKENS))
    wang, li, _ = people(served)
    ids = {
        one.post("/runs", json={"message": "go"}, headers={"Idempotency-Key": "k"}).json()["id"]
        for one in (wang, li)
    }
    assert len(ids) == 2


def test_c85_a_name_that_was_bound_to_loopback_is_refused(serve):
    api = serve(served_app.plain).api()
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.evil:8321"):
        refused = api.get("/runs", headers={"Host": host})
        assert refused.status_code in (400, 421), host
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:8321", "[::1]:8321"):
        assert api.get("/runs", headers={"Host": host}).status_code == 200


def test_a_length_that_is_no_number_is_refused():
    for length in ("\u00b2", "-1", "x", "", "1001"):  # a square is a digit, and no number
        with pytest.raises(Refused) as refused:
            check_length(length, 1000)
        assert refused.value.status == 413
    check_length("1000", 1000)


def test_c85_a_page_of_another_site_cannot_start_a_run(serve):
    served = serve(served_app.plain)
    api = served.api()
    body = {"message": "go"}
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://a]b"},
        {"Origin": served.url.replace("127.0.0.1", "localhost")},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        refused = api.post("/runs", json=body, headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:adjourn:foreign_origin"), headers
    plain = api.post("/runs", content=json.dumps(body), headers={"Content-Type": "text/plain"})
    assert plain.status_code == 415
    assert api.get("/runs").json()["runs"] == []
    own = api.post("/runs", json=body, headers={"Origin": served.url, "Sec-Fetch-Site": "same-origin"})
    assert own.status_code == 201
    assert "access-control-allow-origin" not in own.headers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_c85_where_others_can_reach_it_the_server_refuses_to_start_without_tokens(
    host, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ADJOURN_TOKENS", raising=False)
    assert main(["serve", "--host", host, "--app", "nothing.py:x"]) == 2
    assert "tokens" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_which_hosts_are_loopback():
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "localhost.example", "")))


def test_access_for_a_host():
    assert "127.0.0.2" in access_for("127.0.0.2", tokens={}, person="wang").hosts
    assert access_for("0.0.0.0", tokens=TOKENS, person=None).hosts == frozenset()
    named = access_for("0.0.0.0", tokens=TOKENS, person=None, names=("ops.example",))
    assert named.hosts == {"ops.example"}


def test_tokens_are_read_from_lines_or_as_digests(tmp_path):
    text = f"# people\nwang: {WANG}\nli : sha256:{digest(LI)}  # on call\n\n"
    assert read_tokens(text, "x") == {digest(WANG): "wang", digest(LI): "li"}
    assert read_tokens(f"wang: {WANG}, li: {LI}", "x") == {digest(WANG): "wang", digest(LI): "li"}
    file = tmp_path / "tokens"
    file.write_text(text)
    assert tokens_of_file(str(file)) == read_tokens(text, "x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no token"),
        ("# nobody", "holds no token"),
        ("wang", "entry 1: write it as"),
        (f"wang: {WANG}\nli", "entry 2"),
        ("wang: short", "at least 16"),
        ("wang: sha256:12", "64 hexadecimal"),
        (f"wang: {WANG}\nli: {WANG}", "wang and li have the same token"),
    ],
)
def test_a_list_of_tokens_that_is_none_is_refused(text, said):
    with pytest.raises(UsageError, match=said) as refused:
        read_tokens(text, "x")
    assert WANG not in str(refused.value)


def test_a_file_of_tokens_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        tokens_of_file(str(tmp_path / "none"))


def test_c85_a_page_behind_a_proxy_is_known_by_the_name_that_was_allowed(serve):
    access = access_for("127.0.0.1", tokens=TOKENS, person=None, names=("ops.example",))
    api = serve(served_app.plain, access=access).api(WANG)
    for origin, status in (
        ("https://ops.example", 201),
        ("https://evil.example", 403),
        ("http://localhost:3000", 403),
    ):
        headers = {"Origin": origin, "Host": "127.0.0.1:8321"}
        assert api.post("/runs", json={"message": "go"}, headers=headers).status_code == status, origin
    assert api.get("/me", headers={"Host": "ops.example"}).status_code == 200


def test_c85_a_conversation_that_no_run_tells_of_is_nobodys_to_go_on_with(serve):
    served = serve(served_app.plain, access=Access(TOKENS))
    graph = StateGraph(MessagesState).add_node("n", lambda _: {}).add_edge(START, "n")
    with SQLAlchemySaver(served.runner.database.url.render_as_string(hide_password=False)) as saver:
        config = {"configurable": {"thread_id": "t1"}}
        graph.compile(checkpointer=saver).invoke({"messages": [HumanMessage("of somebody")]}, config)
    refused = served.api(LI).post("/runs", json={"message": "what was said?", "thread_id": "t1"})
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:adjourn:not_allowed")


def test_c85_a_caller_sees_their_questions_behind_those_of_many_others(serve, monkeypatch):
    monkeypatch.setattr(inbox_routes, "MOST_QUESTIONS", 2)
    served = serve(access=Access(TOKENS), runner={"may_answer": lambda question, person: False})
    wang, li, _ = people(served)
    for _ in range(5):
        wang.start()
    own = li.start()
    assert [one["run_id"] for one in li.get("/inbox").json()["questions"]] == [own["id"]]
    assert len(wang.get("/inbox").json()["questions"]) == 2


def test_c85_mounted_in_another_application_its_page_and_api_are_at_its_path(tmp_path, monkeypatch):
    """Another framework does not open what is mounted: the error says who has to."""
    monkeypatch.setattr(served_app, "HERE", tmp_path)
    with Runner(served_app.build(), f"sqlite:///{tmp_path}/adjourn.db") as runner:
        server = make_app(runner, Access(TOKENS, hosts=frozenset()))

        @asynccontextmanager
        async def lifespan(_):
            async with server.router.lifespan_context(server):
                yield

        routes = [Mount("/agents", server)]
        with TestClient(
            Starlette(routes=routes, lifespan=lifespan), headers={"Origin": "http://testserver"}
        ) as api:
            public = [
                api.get(f"/agents{one}").status_code
                for one in ("/", "/assets/main.js", "/healthz", "/openapi.json")
            ]
            assert public == [200] * 4
            assert [api.get(f"/agents{one}").status_code for one in ("/runs", "/metrics", "/agents/")] == [
                401
            ] * 3
            signed = {"Authorization": f"Bearer {WANG}", "Prefer": "wait=30"}
            run = api.post("/agents/runs", json={"message": "x"}, headers=signed).json()
            assert run["status"] == "interrupted"
        closed = make_app(runner, Access(TOKENS, hosts=frozenset()))
        unopened = TestClient(Starlette(routes=[Mount("/agents", closed)]))
        with unopened as api, pytest.raises(RuntimeError, match=r"lifespan_context\(server\)"):
            api.get("/agents/runs", headers=signed)

"""The HTTP server over every engine that several processes reach: two servers, one store, one sequence of events."""

from collections.abc import Iterator

import pytest
from server import served_app
from server.conftest import Served, frames, told, until

from adjourn.graph import Runner
from adjourn.graph.server import Access
from adjourn.graph.server.table import ENDPOINTS

OF_RUNS = [one for one in ENDPOINTS if "{run_id}" in one.path]
NO_IDS = ("nope", "%00", "run_%00x", "%ED%A0%80", "%ff", "%F0%9F%98%80", "x" * 300, "'%20OR%201=1")


@pytest.fixture
def two(shared_url: str, tmp_path, monkeypatch) -> Iterator[tuple[Served, Served]]:
    """Two servers that share nothing but the database."""
    monkeypatch.setattr(served_app, "HERE", tmp_path)
    made = [Served(Runner(served_app.build(), shared_url), Access(person="wang"), None) for _ in range(2)]
    for one in made:
        one.start()
    yield made[0], made[1]
    for one in made:
        one.close()


def test_c43_c65_a_run_is_started_at_one_server_answered_at_another_and_followed_at_both(
    two, tmp_path
) -> None:
    first, second = two[0].api(), two[1].api()
    run = first.start()
    (asked,) = second.get("/inbox").json()["questions"]
    assert asked["run_id"] == run["id"]
    run = second.answer(run, {"environment": "prod"})
    (tmp_path / "hold-check").touch()
    first.answer(run, {"action": "approve"}, wait_s=0)
    heard = []
    with second.stream("GET", f"/runs/{run['id']}/events") as response:
        for one in frames(response):
            heard.append(one)
            if one.get("event") == "tool_call" and told(one)["name"] == "check":
                (tmp_path / "hold-check").unlink()
    assert until(lambda: second.get(f"/runs/{run['id']}").json()["status"] == "finished")
    assert [told(one) for one in heard if "id" in one] == first.stored(run["id"])
    assert first.get("/runs").json() == second.get("/runs").json()


@pytest.mark.parametrize("route", OF_RUNS, ids=[f"{one.method} {one.path}" for one in OF_RUNS])
def test_c83_an_id_that_no_run_has_is_not_there_whatever_characters_it_holds(two, route) -> None:
    assert len(OF_RUNS) == 5
    for odd in NO_IDS:
        body = {"json": {"answers": {"int_x": "y"}}} if route.takes else {}
        refused = two[0].api().request(route.method, route.path.replace("{run_id}", odd), **body)
        assert (refused.status_code, refused.json()["type"]) == (404, "urn:adjourn:run_not_found"), odd

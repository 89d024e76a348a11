"""The HTTP server over every engine that several processes reach: two servers, one store, one sequence of events."""

from collections.abc import Iterator

import pytest
from server import served_app
from server.conftest import Served, frames, told, until

from adjourn.graph import Runner
from adjourn.graph.server import Access


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

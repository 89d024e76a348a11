"""Events over HTTP (C-63 to C-67): Server-Sent Events that are taken up again where they broke."""

import socket
import threading

import httpx
import pytest
from server import served_app
from server.conftest import Api, frames, told, until

from adjourn.graph.server import Bounds, sse
from adjourn.nodes.scripted import says

PROD = {"environment": "prod", "minutes": 5}


def stored_ids(heard):
    """The ids of frames that have one."""
    return [int(one["id"]) for one in heard if "id" in one]


def listen(api: Api, run_id: str, after: int | None = None) -> list[dict[str, str]]:
    """The frames of a stream until the server closes it."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    with api.stream("GET", f"/runs/{run_id}/events", headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        return [one for one in frames(response) if "data" in one]


def test_c67_the_stream_closes_at_a_question_and_at_the_end_and_is_taken_up_by_its_last_id(serve):
    api = serve().api()
    run = api.start()
    first = listen(api, run["id"])
    assert [one["event"] for one in first] == [
        "run_started", "step_started", "message", "tool_call", "tool_call", "tool_result", "loop_interrupt",
    ]  # fmt: skip
    assert stored_ids(first) == list(range(1, 8))
    run = api.answer(run, PROD)
    second = listen(api, run["id"], after=7)
    assert second[-1]["event"] == "loop_interrupt"
    run = api.answer(run, {"action": "approve"})
    third = listen(api, run["id"], after=int(second[-1]["id"]))
    assert third[-1]["event"] == "run_finished"
    assert [told(one) for one in [*first, *second, *third]] == api.stored(run["id"])


def test_c67_what_will_not_come_is_a_204_so_that_a_browser_stops_asking(serve):
    api = serve().api()
    run = api.start()
    for headers in ({"Last-Event-ID": "7"}, {"Last-Event-ID": "99"}):
        assert api.get(f"/runs/{run['id']}/events", headers=headers).status_code == 204
    assert api.get(f"/runs/{run['id']}/events?after=7").status_code == 204
    assert listen(api, run["id"], after=6)[0]["event"] == "loop_interrupt"


def test_c63_c64_two_calls_are_two_and_two_and_a_fast_result_comes_before_a_slow_sibling(serve, tmp_path):
    turns = [
        says("", *(served_app.call(name, arguments, id=id_) for name, arguments, id_ in (
            ("check", {}, "slow"), ("search_docs", {"query": "x"}, "fast")))),
        "好。",
    ]  # fmt: skip
    served = serve(lambda: served_app.graph_of(turns, [served_app.check, served_app.search_docs]))
    api = served.api()
    (tmp_path / "hold-check").touch()
    run = api.start(wait_s=0)
    heard = []
    with api.stream("GET", f"/runs/{run['id']}/events") as response:
        for one in frames(response):
            heard.append(one)
            if one.get("event") == "tool_result":
                assert (tmp_path / "hold-check").exists() is (told(one)["call_id"] == "fast")
                (tmp_path / "hold-check").unlink(missing_ok=True)
    words = [one.get("event") for one in heard]
    assert (words.count("tool_call"), words.count("tool_result")) == (2, 2)
    for one in heard:
        if "data" in one:
            assert {"type", "run_id", "path", "step", "number"} <= told(one).keys()


def test_c66_c67_text_comes_as_it_is_said_and_carries_no_id(serve, tmp_path):
    turns = [says(["一", "二", "三"], each_s=0.05)]
    api = serve(lambda: served_app.graph_of(turns, [])).api()
    run = api.start(wait_s=0)
    heard = listen(api, run["id"])
    deltas = [one for one in heard if one["event"] == "text_delta"]
    assert deltas
    assert not any("id" in one for one in deltas)
    assert "".join(told(one)["text"] for one in deltas) == "一二三"
    assert [told(one) for one in heard if "id" in one] == api.stored(run["id"])
    message = next(told(one) for one in heard if one["event"] == "message")
    assert message["text"] == "一二三"  # what was sent can be rebuilt from what is stored


def test_c67_pings_are_comments_without_an_id(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(sse, "PING_S", 0.05)
    api = serve(served_app.checks).api()
    (tmp_path / "hold-check").touch()
    run = api.start(wait_s=0)
    lines = []
    with api.stream("GET", f"/runs/{run['id']}/events", headers={"Last-Event-ID": "4"}) as response:
        for line in response.iter_lines():
            lines.append(line)
            if sum(one.startswith(":") for one in lines) == 3:
                (tmp_path / "hold-check").unlink(missing_ok=True)
    assert "retry: 1000" in lines
    pings = [place for place, line in enumerate(lines) if line.startswith(":")]
    assert all(lines[place + 1] == "" for place in pings)  # nothing else stands in a ping's frame


def test_c67_a_listener_that_leaves_does_not_stop_the_run(serve, tmp_path, caplog):
    served = serve(served_app.checks)
    api = served.api()
    (tmp_path / "hold-check").touch()
    run = api.start(wait_s=0)
    for _ in range(20):
        with api.stream("GET", f"/runs/{run['id']}/events") as response:
            next(frames(response))
    until(lambda: not served.runner._owner.broadcast._boxes)
    assert [one for one in caplog.records if one.levelname in ("ERROR", "CRITICAL")] == []
    (tmp_path / "hold-check").unlink()
    assert until(lambda: api.get(f"/runs/{run['id']}").json()["status"] == "finished")


def test_c65_many_listeners_that_come_and_go_get_each_event_once(serve, tmp_path):
    served = serve(served_app.checks)
    api = served.api()
    (tmp_path / "hold-check").touch()
    run = api.start(wait_s=0)
    heard: list[list[int]] = [[] for _ in range(5)]

    def listener(place: int) -> None:
        with served_api(served.url) as mine:
            while True:
                headers = {"Last-Event-ID": str(heard[place][-1])} if heard[place] else {}
                with mine.stream("GET", f"/runs/{run['id']}/events", headers=headers) as response:
                    if response.status_code == 204:
                        return
                    for one in frames(response):
                        if "id" not in one:
                            continue
                        heard[place].append(int(one["id"]))
                        if int(one["id"]) % (place + 2) == 0:
                            break  # it loses its connection, again and again

    threads = [threading.Thread(target=listener, args=(place,)) for place in range(5)]
    for one in threads:
        one.start()
    until((tmp_path / "in-check").exists)
    (tmp_path / "hold-check").unlink()
    for one in threads:
        one.join(60)
    last = api.get(f"/runs/{run['id']}").json()["last_event"]
    assert heard == [list(range(1, last + 1))] * 5


def test_c65_a_run_that_another_server_drives_is_followed_live(serve, tmp_path):
    """Two servers over one store: each event reaches a listener wherever the run is driven."""
    first, second = serve(served_app.checks), serve(served_app.checks)
    (tmp_path / "hold-check").touch()
    run = first.api().start(wait_s=0)
    heard = []
    with second.api().stream("GET", f"/runs/{run['id']}/events") as response:
        for one in frames(response):
            heard.append(one)
            if one.get("event") == "tool_call":
                (tmp_path / "hold-check").unlink(missing_ok=True)
    assert [told(one) for one in heard if "id" in one] == first.api().stored(run["id"])
    assert heard[-1]["event"] == "run_finished"


def served_api(url: str) -> httpx.Client:
    return Api(url)


def test_c65_a_listener_that_does_not_read_loses_deltas_and_no_stored_event(serve, tmp_path):
    """The socket of the listener is full: the server keeps a bounded part, and reads the rest from the database."""
    text = ["x" * 200] * 1500
    turns = [says(text, served_app.call("check", {}, id="c")), says(text)]
    served = serve(lambda: served_app.graph_of(turns, [served_app.check]))
    served.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # those that it accepts have the same
    api = served.api()
    (tmp_path / "hold-check").touch()
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(30)
        slow.connect(("127.0.0.1", int(served.url.rpartition(":")[2])))
        run = api.start(wait_s=0)
        path = f"/runs/{run['id']}/events"
        slow.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        until((tmp_path / "in-check").exists)
        (tmp_path / "hold-check").unlink()
        until(lambda: api.get(f"/runs/{run['id']}").json()["status"] == "finished")
        received = b""
        while part := slow.recv(1 << 20):
            received += part
    ids = [int(line[4:]) for line in received.decode().splitlines() if line.startswith("id: ")]
    last = api.get(f"/runs/{run['id']}").json()["last_event"]
    assert ids == list(range(1, last + 1))
    assert 0 < received.count(b"event: text_delta") < 2 * len(text)


def test_streams_have_a_number_for_each_caller(serve, tmp_path):
    api = serve(served_app.checks, bounds=Bounds(max_streams=2)).api()
    (tmp_path / "hold-check").touch()
    run = api.start(wait_s=0)
    path = f"/runs/{run['id']}/events"
    with api.stream("GET", path) as one, api.stream("GET", path) as two:
        reading = [frames(one), frames(two)]  # a generator that is thrown away closes its stream
        assert [next(each)["retry"] for each in reading] == ["1000", "1000"]
        assert api.get(path).status_code == 429
    assert until(lambda: api.get(path, headers={"Last-Event-ID": "x"}).status_code == 400)
    (tmp_path / "hold-check").unlink()
    until(lambda: api.get(f"/runs/{run['id']}").json()["status"] == "finished")
    assert listen(api, run["id"])[-1]["event"] == "run_finished"


@pytest.mark.parametrize("header", ["-1", "1.5", "x", "１", "9" * 5000])
def test_a_last_event_id_is_a_number(serve, header):
    api = serve(served_app.plain).api()
    run = api.start()
    response = api.get(f"/runs/{run['id']}/events", headers=[(b"Last-Event-ID", header.encode())])
    assert response.status_code == 400

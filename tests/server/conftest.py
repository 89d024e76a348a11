"""A server of a test's own: in a thread for what one process can show, in a process to be killed."""

import asyncio
import json
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from server import served_app, served_process

from adjourn.graph import Runner
from adjourn.graph.server import Access, Bounds, make_app
from adjourn.graph.server.serve import bound

LIMIT_S = 60.0  # importing LangGraph takes seconds on a busy machine
JSON = {"Content-Type": "application/json"}


def until(holds: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """What `holds` gives as soon as it is true."""
    end = time.monotonic() + limit_s
    while not (found := holds()):
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.06)  # the server lets one caller ask 20 times a second
    return found


class Api(httpx.Client):
    """A client of a server, as one person."""

    def __init__(self, url: str, token: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        super().__init__(base_url=url, headers=headers, timeout=LIMIT_S, trust_env=False)

    def start(self, message: str = "看看支付", wait_s: int = 30, **body: Any) -> dict[str, Any]:
        """A run, as it stands when it stops."""
        response = self.post("/runs", json={"message": message, **body}, headers={"Prefer": f"wait={wait_s}"})
        assert response.status_code in (200, 201), response.text
        shown: dict[str, Any] = response.json()
        return shown

    def answer(self, run: dict[str, Any], answer: Any, wait_s: int = 30) -> dict[str, Any]:
        """The run after its one open question was answered."""
        (question,) = run["interrupts"]
        response = self.post(
            f"/runs/{run['id']}/answers",
            json={"answers": {question["id"]: answer}},
            headers={"Prefer": f"wait={wait_s}"},
        )
        assert response.status_code == 200, response.text
        shown: dict[str, Any] = response.json()
        return shown

    def stored(self, run_id: str, after: int = 0) -> list[dict[str, Any]]:
        """The stored events of a run."""
        response = self.get(
            f"/runs/{run_id}/events", params={"after": after}, headers={"Accept": "application/json"}
        )
        events: list[dict[str, Any]] = response.json()["events"]
        return events


def frames(response: httpx.Response) -> Iterator[dict[str, str]]:
    """The frames of an event stream as they come: their fields; comments are left out."""
    frame: dict[str, str] = {}
    for line in response.iter_lines():
        if not line:
            if frame:
                yield frame
            frame = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            frame[name] = f"{frame[name]}\n{value}" if name in frame else value


def told(frame: dict[str, str]) -> dict[str, Any]:
    """The event of a frame."""
    event: dict[str, Any] = json.loads(frame["data"])
    return event


class Served:
    """A server in a thread, with the runner that it serves."""

    def __init__(self, runner: Runner, access: Access, bounds: Bounds | None, **settings: Any) -> None:
        self.runner = runner
        self.socket = bound("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        app = make_app(runner, access, bounds, **settings)
        config = uvicorn.Config(app, log_level="error", log_config=None, timeout_graceful_shutdown=2)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="served")
        self._apis: list[Api] = []

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self.socket]))

    def start(self) -> None:
        self._thread.start()
        until(lambda: self._server.started)

    def stop(self) -> None:
        """End it in order: its runs are handed back."""
        self._server.should_exit = True
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()
        self.socket.close()

    def api(self, token: str | None = None) -> Api:
        made = Api(self.url, token)
        self._apis.append(made)
        return made

    def close(self) -> None:
        for one in self._apis:
            one.close()
        if self._thread.is_alive():
            self.stop()
        self.runner.close()


Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts servers over one store: `serve(served_app.build)`."""
    made: list[Served] = []
    monkeypatch.setattr(served_app, "HERE", tmp_path)

    def start(
        build: Callable[[], Any] = served_app.build,
        access: Access | None = None,
        bounds: Bounds | None = None,
        *,
        lease_s: float = 30.0,
        **settings: Any,
    ) -> Served:
        runner = Runner(
            build(), f"sqlite:///{tmp_path / 'adjourn.db'}", lease_s=lease_s, **settings.pop("runner", {})
        )
        served = Served(runner, access or Access(person="wang"), bounds, **settings)
        made.append(served)
        served.start()
        return served

    yield start
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser for the tests of a module; each test opens contexts of its own."""
    from server.browsers import launched  # its import takes half a second, and most tests need no browser

    yield from launched()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Any]:
    """Opens pages, each as a person of their own; none of them may have complained."""
    from server.browsers import Visitor

    made: list[Visitor] = []

    def visitor(url: str, **settings: str) -> Visitor:
        made.append(Visitor(chromium, url, **settings))
        return made[-1]

    yield visitor
    for one in made:
        one.context.close()
    assert [one.troubles for one in made if one.troubles] == []


# Real processes, forked from one that has imported everything: a start takes milliseconds, not seconds.
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["runs.crash_app", "server.served_process"])


class Process:
    """`adjourn serve` in a process of its own, over the store of its folder; started again, it has the same port."""

    def __init__(self, folder: Path, *words: str, app: str = "app.py:build") -> None:
        self.folder = folder
        self.app = app
        self.words = words
        self.url = ""
        self.errors = folder / "stderr.txt"
        self._process: Any = None
        self._port = "0"

    def start(self) -> None:
        printed = self.folder / "stdout.txt"
        printed.unlink(missing_ok=True)
        words = [
            "serve",
            "--app",
            self.app,
            "--json",
            "--port",
            self._port,
            "--by",
            "wang",
            "--lease",
            "0.6",
            *self.words,
        ]
        self._process = PROCESSES.Process(target=served_process.child, args=(str(self.folder), words))
        self._process.start()
        line = until(lambda: self._line(printed))
        self.url = json.loads(line)["url"]
        self._port = self.url.rpartition(":")[2]

    def _line(self, printed: Path) -> str:
        assert self._process.is_alive(), self.errors.read_text()
        text = printed.read_text() if printed.exists() else ""
        return text if text.endswith("\n") else ""

    def kill(self) -> None:
        """SIGKILL: nothing of it is left."""
        self.end(signal.SIGKILL)

    def tell(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Send it a signal."""
        os.kill(self._process.pid, how)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for its end; gives the exit status."""
        if self._process is None:
            return 0
        self.tell(how)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end; gives the exit status."""
        self._process.join(LIMIT_S)
        status = self._process.exitcode
        assert status is not None
        self._process.close()
        self._process = None
        return int(status)

    def hold(self, name: str) -> None:
        """Let a tool stay inside after its effect."""
        (self.folder / f"hold-{name}").touch()

    def wait_in(self, name: str) -> None:
        """Until the tool has had its effect."""
        until((self.folder / f"in-{name}").exists)

    def let_go(self, name: str) -> None:
        (self.folder / f"hold-{name}").unlink()
        (self.folder / f"in-{name}").unlink(missing_ok=True)

    def ran(self, argument: str | None = None) -> list[Any]:
        """The names of the tools that were really executed, in order; or this argument of each."""
        file = self.folder / "ran.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [name if argument is None else given[argument] for name, given in lines]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts server processes in this test's folder: `process("build")`."""
    shutil.copy(Path(served_app.__file__), tmp_path / "app.py")
    made: list[Process] = []

    def start(build: str = "build", *words: str) -> Process:
        one = Process(tmp_path, *words, app=f"app.py:{build}")
        made.append(one)
        one.start()
        return one

    yield start
    for one in made:
        one.kill()

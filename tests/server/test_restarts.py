"""`adjourn serve --detached` and `adjourn worker` are restarted in the middle of a load, in order and by SIGKILL.

Clients start runs, follow their events with `Last-Event-ID` and answer their questions, over HTTP, for as long as it goes
on. What a client was promised has to hold: each run that was accepted comes to its end, no event is lost or told twice, and
no write happens twice. `ADJOURN_RESTARTS` is how many restarts there are [4], `ADJOURN_RESTART_CLIENTS` how many clients
[3], `ADJOURN_RESTART_WORKERS` how many workers [1]; `make scale` gives it 120 restarts, 12 clients and 2 workers.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from server import served_process
from server.conftest import LIMIT_S, PROCESSES, until
from store.engines import Engines, engines
from store.fleet_app import graph
from store.fleet_checks import check

from adjourn.graph import Runner

RESTARTS = int(os.environ.get("ADJOURN_RESTARTS", "4"))
CLIENTS = int(os.environ.get("ADJOURN_RESTART_CLIENTS", "3"))
WORKERS = int(os.environ.get("ADJOURN_RESTART_WORKERS", "1"))
LEASE_S = 2.0
AT_ONCE = 4  # runs of one client
APP = """
from pathlib import Path
from store.fleet_app import graph

def build():
    return graph(Path(__file__).with_name("effects"))
"""


class Command:
    """A command in a process of its own, started again with the same words."""

    def __init__(self, folder: Path, name: str, *words: str) -> None:
        self.name = name
        self._folder = folder
        self.words = words
        self._process: Any = None

    def start(self) -> dict[str, Any]:
        """What it says first."""
        printed = self._folder / f"{self.name}-out.txt"
        printed.unlink(missing_ok=True)
        given = (str(self._folder), list(self.words), f"{self.name}-")
        self._process = PROCESSES.Process(target=served_process.child, args=given)
        self._process.start()

        def line() -> str:
            assert self._process.is_alive(), (self._folder / f"{self.name}-err.txt").read_text()
            return printed.read_text() if printed.exists() else ""

        said: dict[str, Any] = json.loads(until(lambda: line().endswith("\n") and line()).splitlines()[0])
        return said

    def end(self, how: signal.Signals) -> None:
        """Told to go, it goes in order."""
        os.kill(self._process.pid, how)
        self._process.join(LIMIT_S)
        assert self._process.exitcode == (0 if how == signal.SIGTERM else -how), self.name
        self._process.close()
        self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()


class Client:
    """Somebody who starts one run after the other and brings each to its end, whatever happens to the server."""

    def __init__(self, url: str, name: str, effects: Path) -> None:
        self.heard: dict[str, list[int]] = {}
        self.broken = 0
        self._name = name
        self._effects = effects
        self._http = httpx.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {token(name)}"}, timeout=LIMIT_S, trust_env=False
        )

    async def work(self, enough: asyncio.Event) -> None:
        """Several at once, until it is `enough`."""
        async with self._http:
            await asyncio.gather(*(self._one_by_one(enough) for _ in range(AT_ONCE)))

    async def _one_by_one(self, enough: asyncio.Event) -> None:
        while not enough.is_set():
            await self._one(f"run_{self._name}_{len(self.heard)}")

    async def _one(self, run_id: str) -> None:
        self.heard[run_id] = []
        await self._ask("POST", "/runs", {"message": "go", "run_id": run_id})
        while (run := (await self._ask("GET", f"/runs/{run_id}")))["status"] != "finished":
            if run["status"] == "running":
                await self._listen(run_id)
            elif run["status"] == "failed":  # its workers died one after the other
                await self._ask("POST", f"/runs/{run_id}/retry")
            elif answers := await self._honest(run):
                await self._ask("POST", f"/runs/{run_id}/answers", {"answers": answers})
        while not await self._listen(run_id):
            pass  # it broke before the end

    async def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """What the server answers, asked again as often as it takes. It may have done it already, the time before."""
        while True:
            try:
                response = await self._http.request(method, path, json=body)
            except httpx.TransportError:
                self.broken += 1
                await asyncio.sleep(0.1)
                continue
            if response.status_code in (429, 503):  # too many, or it goes
                await asyncio.sleep(float(response.headers.get("Retry-After", 1)) / 4)
                continue
            assert response.status_code in (200, 201, 409), response.text
            answered: dict[str, Any] = response.json()
            return answered

    async def _listen(self, run_id: str) -> bool:
        """Hear what comes until the stream ends, or breaks. True: nothing more will come before somebody answers."""
        heard = self.heard[run_id]
        headers = {"Last-Event-ID": str(heard[-1])} if heard else {}
        try:
            async with self._http.stream("GET", f"/runs/{run_id}/events", headers=headers) as response:
                if response.status_code in (429, 503):
                    await asyncio.sleep(0.25)
                    return False
                assert response.status_code in (200, 204)
                async for line in response.aiter_lines():
                    if line.startswith("id: "):
                        heard.append(int(line.removeprefix("id: ")))
                return response.status_code == 204
        except httpx.TransportError:
            self.broken += 1
            return False

    async def _honest(self, run: dict[str, Any]) -> dict[str, Any]:
        """A yes; and what became of a write whose worker died, from where it would be seen."""
        if any(one["type"] == "outcome_unknown" for one in run["interrupts"]):
            await asyncio.sleep(2 * LEASE_S)  # its worker may only be slow, and still be at it
        given: dict[str, Any] = {}
        for one in run["interrupts"]:
            did = f"{one['tool']} {run['id']}"
            if one["type"] == "confirm_risky":
                given[one["id"]] = {"action": "approve"}
            elif f"{did} " in self._effects.read_text():
                given[one["id"]] = {"action": "happened", "result": did}
            else:
                given[one["id"]] = {"action": "run"}
        return given


def token(name: str) -> str:
    return f"{name}-" + "x" * 40


@pytest.fixture(scope="module")
def servers() -> Iterator[Engines]:
    with engines() as made:
        yield made


@asynccontextmanager
async def restarted(serve: Command, workers: list[Command], enough: asyncio.Event) -> AsyncIterator[None]:
    """While inside, the server and a worker are restarted by turns, in order and by SIGKILL; then it is `enough`."""

    async def restart() -> None:
        for number in range(RESTARTS):
            await asyncio.sleep(0.3)
            one = serve if number % 2 == 0 else workers[number // 2 % len(workers)]
            how = signal.SIGTERM if number // 2 % 2 == 0 else signal.SIGKILL
            await asyncio.to_thread(one.end, how)
            await asyncio.to_thread(one.start)
        enough.set()

    restarting = asyncio.create_task(restart())
    try:
        yield
        await restarting
    finally:
        restarting.cancel()
        with suppress(asyncio.CancelledError):
            await restarting


@pytest.mark.timeout(120 + 10 * RESTARTS)
@pytest.mark.parametrize("engine", ["file", "postgresql"])
async def test_c43_c65_c91_restarts_in_the_middle_of_a_load_lose_nothing_and_tell_nothing_twice(
    engine: str, servers: Engines, tmp_path: Path
) -> None:
    url, effects = servers.empty(engine, tmp_path), tmp_path / "effects"
    effects.touch()
    (tmp_path / "app.py").write_text(APP)
    names = [f"c{number}" for number in range(CLIENTS)]
    (tmp_path / "tokens").write_text("".join(f"{one}: {token(one)}\n" for one in names))
    (tmp_path / "tokens").chmod(0o600)
    same = ("--app", "app.py:build", "--store", url, "--json", "--lease", str(LEASE_S))
    serve = Command(tmp_path, "serve", "serve", "--detached", "--tokens", "tokens", "--port", "0", *same)
    address = serve.start()["url"]
    serve.words = tuple(address.rpartition(":")[2] if one == "0" else one for one in serve.words)
    workers = [Command(tmp_path, f"worker{number}", "worker", *same) for number in range(WORKERS)]
    clients, enough, began = (
        [Client(address, one, effects) for one in names],
        asyncio.Event(),
        time.monotonic(),
    )
    try:
        for one in workers:
            one.start()
        async with restarted(serve, workers, enough):
            await asyncio.gather(*(one.work(enough) for one in clients))
        for one in (serve, *workers):
            one.end(signal.SIGTERM)
    finally:
        for one in (serve, *workers):
            one.kill()
    heard = {run: numbers for one in clients for run, numbers in one.heard.items()}
    found = check(url, effects, list(heard))
    with Runner(graph(effects), url) as looking:
        stored = {one.id: one.last_event for one in await looking.list(limit=None)}
    assert heard == {run: list(range(1, last + 1)) for run, last in stored.items()}
    broken = sum(one.broken for one in clients)
    print(
        f"\n{engine}: {RESTARTS} restarts, {len(heard)} runs, {sum(map(len, heard.values()))} events heard, "
        f"{broken} connections broken, {time.monotonic() - began:.1f} s: {found}"
    )
    assert broken > 0

"""`adjourn worker`: drive the runs that nobody drives, until a signal comes."""

import asyncio
import json
import logging
import signal

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.servers import shown_url
from adjourn.graph.cli.screen import Screen
from adjourn.graph.cli.settings import Settings
from adjourn.graph.cli.staying import load_to_stay, log_to_stderr
from adjourn.graph.cli.stores import opened
from adjourn.graph.runner import Runner
from adjourn.graph.worker import Worker


def work(
    settings: Settings,
    *,
    concurrency: int,
    most_per_person: int | None,
    most_per_graph: int | None,
    lease_s: float,
    drain_s: float,
    health_port: int | None,
) -> int:
    """Work until SIGTERM or Ctrl-C; then hand the runs back. Gives the exit status: 0, or 4 when some still worked."""
    graph = load_to_stay(settings.app)  # before the store: a wrong app makes no file
    log_to_stderr(logging.INFO)
    with opened(settings.store, create=True) as database, Runner(graph, database, lease_s=lease_s) as runner:
        worker = Worker(
            runner,
            concurrency=concurrency,
            most_per_person=most_per_person,
            most_per_graph=most_per_graph,
            drain_s=drain_s,
        )
        left = asyncio.run(_until_told(Screen(settings), worker, health_port))
    return 4 if left else 0


async def _until_told(screen: Screen, worker: Worker, health_port: int | None) -> bool:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    health = None if health_port is None else await _health(worker, health_port)
    name, store = worker.runner.name, shown_url(worker.runner.database.url)
    if screen.json:
        screen.data({"graph": name, "store": store})
    else:
        screen.line(screen.say("worker.works", graph=name, store=store))
    try:
        left = await worker.work(stop)
    finally:
        if health is not None:
            health.close()
    if screen.json:
        screen.data({"taken": worker.taken, "left": list(left)})
    else:
        screen.line(screen.say("worker.gone", taken=worker.taken, left=len(left)))
    return bool(left)


async def _health(worker: Worker, port: int) -> asyncio.Server:
    """Answers each HTTP request on loopback with 200 and what the worker does: its event loop is alive."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                await reader.readuntil(b"\r\n\r\n")
            body = json.dumps({"driving": worker.driving, "taken": worker.taken}).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass  # no request, or nobody who waits for its answer
        finally:
            writer.close()

    try:
        return await asyncio.start_server(answer, "127.0.0.1", port)
    except OSError as error:
        raise UsageError(f"cannot listen at port {port}: {error.strerror or error}") from error

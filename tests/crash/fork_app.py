"""A fork that can be killed at any labelled point: before and after each durable write, and inside each tool."""

import asyncio
import json
import traceback
from pathlib import Path

from crash.kill_app import RUN, Points, honest, runner

from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.graph import Run, Runner

FORK = "forked"  # the fork's thread


async def forked(app: Runner) -> Run | None:
    """The fork as it stands; None: there is none."""
    rows = await app.list(thread_id=FORK)
    return await app.get(rows[0].id) if rows else None


async def go(app: Runner, effects: Path) -> Run:
    """Fork the run from its beginning, where that has not been done, and bring the fork to its end."""
    run = await forked(app)
    if run is None:
        beginning = (await app.history(RUN, limit=None))[-1]
        run = await app.fork(RUN, beginning.id, thread_id=FORK, repeat_writes=True)
    while run.status in (RunStatus.RUNNING, RunStatus.INTERRUPTED):
        if run.status == RunStatus.INTERRUPTED:
            run = await app.resume(run.id, honest(run, effects), by="li")
        else:
            run = await app.recover(run.id)
    return run


def child(url: str, effects: str, last: int, out: str) -> None:
    """The body of a process: fork and go on, and be killed at point `last`; else leave how it ended in `out`."""
    points = Points(last)
    try:
        app = runner(url, Path(effects), points)
        run = asyncio.run(go(app, Path(effects)))
        app.close()
        app.database.close()
        left = {"status": run.status, "points": points.count}
    except BaseException:
        left = {"error": traceback.format_exc()}
    Path(out).write_text(json.dumps(left))

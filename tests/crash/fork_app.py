"""A fork that can be killed at any labelled point: before and after each durable write, and inside each tool."""

from pathlib import Path

from crash.kill_app import RUN, honest, runner

from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.graph import Run, Runner

__all__ = ["FORK", "forked", "go", "runner"]

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

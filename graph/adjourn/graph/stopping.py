"""A run is cancelled, whoever drives it (C-59)."""

import asyncio

from sqlalchemy import Connection

from adjourn.checkpoints import journal
from adjourn.checkpoints.errors import NotResumable, RunBusy
from adjourn.checkpoints.lifecycle import RunEvent, RunStatus
from adjourn.graph.answering import take
from adjourn.graph.behalf import Behalf
from adjourn.graph.cancelling import POLL_S
from adjourn.graph.closing import close_waiting
from adjourn.graph.names import check_name
from adjourn.graph.owning import Owner

_LIVE = (RunStatus.RUNNING, RunStatus.INTERRUPTED, RunStatus.FAILED)


async def cancel(owner: Owner, run_id: str, *, by: str | None) -> None:
    """See `Runner.cancel`."""
    check_name("by", by)
    database = owner.bound.database

    def close(connection: Connection) -> None:
        close_waiting(connection, run_id, RunEvent.CANCEL, by=by, masker=owner.bound.masker)

    while (await owner.bound.row(run_id)).status in _LIVE:
        ended = owner.stop(run_id)
        if ended is not None:
            await database.awrite(lambda c: journal.write_audit(c, run_id, "cancel_requested", by=by))
            await asyncio.shield(asyncio.wrap_future(ended))
        elif await database.awrite(lambda c: journal.request_cancel(c, run_id, by=by)):
            await _take_over_or_wait(owner, run_id)
        await database.awrite(close)  # it may have come to wait, or to fail, while it was asked to stop


async def _take_over_or_wait(owner: Owner, run_id: str) -> None:
    """The run has an owner elsewhere: it ends the run itself; if it is dead, we do so after its lease."""
    try:
        await take(owner, run_id, RunEvent.RECOVER, Behalf(), here=True)
    except (RunBusy, NotResumable):  # it is alive, or the run has just ended
        await asyncio.sleep(POLL_S / 2)

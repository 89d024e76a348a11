"""Whether a run goes on with the graph that began it: its nodes, edges and tools, by their hash."""

import logging
from dataclasses import replace

from sqlalchemy import Connection

from adjourn.checkpoints import journal
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.checkpoints.records import RunRow
from adjourn.graph.starts import Begun

log = logging.getLogger("adjourn.run")


def signed(connection: Connection, begun: Begun, signature: str) -> Begun:
    """Take note when a run that is driven from now on was begun by another version of its graph.

    It is no error: calls are judged just before they run, by the tools that are there then, and one whose tool is
    gone is answered so. The log has a warning, the audit a row `graph_changed`, once for each version. A question
    about a call whose tool is gone is refused when somebody answers it (`NotResumable`).
    """
    if begun.run.status != RunStatus.RUNNING or not sign(connection, begun.run, signature):
        return begun
    return Begun(replace(begun.run, signature=signature), begun.told)


def sign(connection: Connection, run: RunRow, signature: str) -> bool:
    """Take note of the graph that a run goes on with. Gives whether it is another one than before."""
    if run.signature == signature:
        return False
    log.warning(
        "run %s goes on with another version of graph %r: its signature was %s and is %s",
        run.id,
        run.graph,
        run.signature,
        signature,
    )
    journal.write_audit(
        connection, run.id, "graph_changed", by=None, data={"was": run.signature, "is": signature}
    )
    journal.sign_run(connection, run.id, signature)
    return True

"""Runs as they stand in a store: read without LangGraph, so that looking at runs starts quickly."""

from sqlalchemy import Connection

from adjourn.checkpoints import family, flow_rows, journal, run_rows
from adjourn.checkpoints.compiled import in_one_go
from adjourn.checkpoints.errors import RunNotFound, StoredDataError, UsageError
from adjourn.graph.names import check_name
from adjourn.graph.run import Run


def read_run(connection: Connection, run_id: str, *, above: tuple[str, ...] = ()) -> Run:
    """A run with all that belongs to it, in one transaction. Raises `RunNotFound`, and `StoredDataError` for a damaged row.

    `above`: the runs that it works for, the outermost first.
    """
    if run_id in above:
        raise StoredDataError("runs", run_id, f"it works for run {above[-1]}, which works for it")
    with in_one_go(connection):
        run = run_rows.run(connection, run_id)
        steps, calls = run_rows.steps(connection, run_id), run_rows.calls(connection, run_id)
        interrupts, audit = run_rows.interrupts(connection, run_id), run_rows.audit(connection, run_id)
        flow, children = flow_rows.ask(connection, run_id), family.children(connection, run_id)
    below = [read_run(connection, one, above=(*above, run_id)) for one in children()]
    return Run(run(), steps(), calls(), interrupts(), audit(), flow(), below)


def find_run_id(connection: Connection, beginning: str) -> str:
    """The full id of the run that `beginning` means: an id, or the unique beginning of one.

    Raises `RunNotFound`, or `UsageError` when several runs begin so.
    """
    check_name("the run's id", beginning)
    found = journal.find_run_ids(connection, beginning) if beginning else []
    if beginning in found or len(found) == 1:
        return beginning if beginning in found else found[0]
    if not found:
        raise RunNotFound(beginning)
    raise UsageError(f"several runs begin with {beginning!r}: {', '.join(found)}")

"""Rows of runs that nobody drove, for tests that only need them to be there."""

from typing import Any

from adjourn.checkpoints.database import now
from adjourn.checkpoints.records import RunRow


def run_row(run_id: str, **facts: Any) -> RunRow:
    """A run that works, on a thread of its own name; `facts` say what is different."""
    at = now()
    usual: dict[str, Any] = {
        "thread_id": run_id,
        "graph": "g",
        "signature": "s",
        "input": "x",
        "status": "running",
    }
    return RunRow(id=run_id, created_at=at, updated_at=at, **(usual | facts))

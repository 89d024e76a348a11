"""Checkpoints by hand, and the rows behind them."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from langgraph.checkpoint.base.id import uuid6

from adjourn.checkpoints.saver import SQLAlchemySaver


def config(thread_id: str = "t", *, ns: str = "", checkpoint_id: str | None = None, **more: Any) -> Any:
    named = {"thread_id": thread_id, "checkpoint_ns": ns, **more}
    return {"configurable": named if checkpoint_id is None else {**named, "checkpoint_id": checkpoint_id}}


def checkpoint(values: Mapping[str, Any], version: int = 1) -> Any:
    return {
        "v": 4,
        "id": str(uuid6()),
        "ts": "2026-11-29T22:33:01.123456+00:00",
        "channel_values": dict(values),
        "channel_versions": dict.fromkeys(values, version),
        "versions_seen": {"node": {"start": 1}},
        "updated_channels": sorted(values),
    }


def put(
    saver: SQLAlchemySaver, where: Any, values: Mapping[str, Any], version: int = 1, **metadata: Any
) -> Any:
    """Store a checkpoint in which every channel is new. Gives its config."""
    state = checkpoint(values, version)
    return saver.put(where, state, {"source": "loop", "step": version, **metadata}, state["channel_versions"])  # type: ignore[typeddict-item]


def values_of(saver: SQLAlchemySaver, where: Any) -> dict[str, Any]:
    found = saver.get_tuple(where)
    assert found is not None
    return found.checkpoint["channel_values"]


def scalar(saver: SQLAlchemySaver, query: str) -> Any:
    return saver.database.read(lambda connection: connection.execute(sa.text(query)).scalar())


def execute(saver: SQLAlchemySaver, query: str) -> None:
    saver.database.write(lambda connection: connection.exec_driver_sql(query))

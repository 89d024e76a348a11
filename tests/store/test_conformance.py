"""LangGraph's own conformance suite, base and extended, on both kinds of SQLite."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate

from adjourn.checkpoints.saver import SQLAlchemySaver


@pytest.mark.parametrize("kind", ["file", "memory"])
async def test_the_conformance_suite_passes_whole(kind: str, tmp_path: Path) -> None:
    @checkpointer_test(name=f"SQLAlchemySaver, {kind}")
    async def savers() -> AsyncIterator[SQLAlchemySaver]:
        with SQLAlchemySaver(
            f"sqlite:///{tmp_path}/{uuid4()}.db" if kind == "file" else "sqlite://"
        ) as saver:
            yield saver

    report = await validate(savers)

    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    assert failures == {}
    assert all(result.detected and result.passed for result in report.results.values())

"""LangGraph's own conformance suite, base and extended, on every engine."""

from collections.abc import AsyncIterator, Callable

from langgraph.checkpoint.conformance import checkpointer_test, validate

from adjourn.checkpoints.saver import SQLAlchemySaver


async def test_the_conformance_suite_passes_whole(new_url: Callable[[], str]) -> None:
    @checkpointer_test(name="SQLAlchemySaver")
    async def savers() -> AsyncIterator[SQLAlchemySaver]:
        with SQLAlchemySaver(new_url()) as saver:
            yield saver

    report = await validate(savers)

    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    assert failures == {}
    assert all(result.detected and result.passed for result in report.results.values())

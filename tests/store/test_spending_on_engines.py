"""What runs spend, on every engine: per step, per run, and below a run (C-53)."""

from functools import partial

import pytest
from store.stored_runs import run_row

from adjourn.checkpoints import event_rows, family, journal, run_rows
from adjourn.checkpoints.database import Database, now
from adjourn.checkpoints.records import RunRow, StepRow


def run(run_id: str, parent: str | None = None, **more: int | float) -> RunRow:
    return run_row(run_id, status="finished", parent_run_id=parent, **more)


def step(number: int, cost: float, cached: int | None = None) -> StepRow:
    at = now()
    return StepRow(
        run_id="boss",
        step=number,
        model="m",
        message_id=None,
        latency_ms=1,
        input_tokens=100,
        output_tokens=10,
        cached_tokens=cached,
        reasoning_tokens=5 if cached else None,
        cost=cost,
        calls=0,
        started_at=at,
        ended_at=at,
    )


def test_c53_steps_add_up_on_the_run_and_the_last_word_counts_no_step(database: Database) -> None:
    database.setup()
    database.write(lambda c: journal.insert_run(c, run("boss")))
    for one, counted in ((step(1, 0.25, cached=40), True), (step(2, 0.5), False)):
        database.write(
            partial(event_rows.move_on, run_id="boss", facts=[], steps=[event_rows.Counted(one, counted)])
        )
        database.write(partial(journal.insert_step, step=one))
    row = database.read(lambda c: journal.read_run(c, "boss"))
    assert (row.steps, row.input_tokens, row.output_tokens) == (1, 200, 20)
    assert row.cost == pytest.approx(0.75)
    first, second = database.read(lambda c: run_rows.steps(c, "boss")())
    assert (first.cached_tokens, first.reasoning_tokens, first.cost) == (40, 5, 0.25)
    assert (second.cached_tokens, second.reasoning_tokens) == (None, None)


def test_c53_what_is_spent_below_a_run_counts_all_generations_and_no_strangers(database: Database) -> None:
    database.setup()
    relatives = [
        run("boss", input_tokens=1_000),
        run("kid", "boss", input_tokens=30, output_tokens=5, cost=0.5),
        run("other", "boss", input_tokens=20, cost=0.25),
        run("grandkid", "kid", input_tokens=7, cost=0.125),
        run("stranger", "else", input_tokens=9_000, cost=9.0),
    ]
    for one in relatives:
        database.write(lambda c, one=one: journal.insert_run(c, one))  # type: ignore[misc]
    assert database.read(lambda c: family.spent_below(c, "boss")) == (62, 0.875)
    assert database.read(lambda c: family.spent_below(c, "kid")) == (7, 0.125)
    assert database.read(lambda c: family.spent_below(c, "grandkid")) == (0, 0.0)

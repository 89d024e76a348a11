"""A flow that can be killed before and after each durable write, and inside each of its tools."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crash.kill_app import Points, counted_database
from runs.flow_app import CREATE, FIND, NO_TURN, QUOTA, World, build, signed

from adjourn.graph import Run, Runner

RUN = "run_flow"
TURNS = [FIND, QUOTA, NO_TURN, CREATE, NO_TURN, "done"]


class KilledWorld(World):
    """A world in which a process may die before or after each effect."""

    def __init__(self, effects: Path, points: Points) -> None:
        super().__init__(effects)
        self.points = points

    def act(self, line: str) -> None:
        self.points.reach()
        super().act(line)
        self.points.reach()


def runner(url: str, effects: Path, points: Points) -> Runner:
    """The app over a database whose writing transactions are points too."""
    graph = build(effects, lambda _: signed(KilledWorld(effects, points)), TURNS)
    return Runner(graph, counted_database(url, points))


def honest(run: Run, world: World) -> Mapping[str, Any]:
    """What people who can look at the world answer to the open questions; two of them sign."""
    answers: dict[str, Any] = {}
    for question in run.interrupts:
        if question.type != "outcome_unknown":
            answers[question.id] = {"action": "approve"}
        elif "create" in world.done():
            answers[question.id] = {"action": "happened", "result": {"database": "db-7"}}
        else:
            answers[question.id] = {"action": "run"}
    return answers


async def go(app: Runner, effects: Path) -> Run:
    """From wherever the flow stands to its end."""
    rows = await app.list(statuses=(), limit=None)
    run = await app.get(RUN) if rows else await app.start("go", run_id=RUN, thread_id="t")
    world = World(effects)
    people = ["li", "chen"] * 50
    while run.status in ("running", "interrupted"):
        if run.status == "running":
            run = await app.recover(RUN)
        else:
            given = {
                one["by"]
                for question in run.interrupts
                for one in (question.approvals or {}).get("given", [])
            }
            by = next(one for one in people if one not in given)
            run = await app.resume(RUN, honest(run, world), by=by)
    return run

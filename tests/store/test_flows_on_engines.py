"""Flows and specialists on every engine: the rows that hold where each of them stands."""

from pathlib import Path
from typing import Any

from runs.flow_app import World, build

from adjourn.graph import Runner, Specialist, build_supervisor
from adjourn.nodes import ScriptedModel, approve, tool
from adjourn.nodes.scripted import call, says


def test_c78_a_flow_goes_in_order(shared_url: str, tmp_path: Path) -> None:
    def runner() -> Runner:
        return Runner(build(tmp_path / "effects"), shared_url)

    with runner() as one:
        run = one.start_sync("go")
    assert [row.status for row in run.flow] == ["done", "done", "running", "pending"]
    with runner() as other:
        over = other.resume_sync(run.id, {run.interrupts[0].id: approve()}, by="li")
    assert [row.status for row in over.flow] == ["done"] * 4
    assert World(tmp_path / "effects").done() == ["find", "quota", "create", "verify"]


def test_c82_a_question_of_a_specialist_is_answered_elsewhere(shared_url: str) -> None:
    published: list[str] = []

    @tool(effect="write", confirm="Publish?")
    def publish() -> str:
        """Publish."""
        published.append("it")
        return "out"

    def scripted(*turns: Any) -> ScriptedModel:
        return ScriptedModel(turns=list(turns), by_history=True)

    def runner() -> Runner:
        asker = Specialist(
            name="asker",
            about="asks",
            tools=[publish],
            model=scripted(says("", call("publish", {}, id="c")), "it is out"),
        )
        boss = scripted(says("", call("delegate", {"specialist": "asker", "task": "go"}, id="d")), "all done")
        return Runner(build_supervisor(boss, [asker], name="team"), shared_url)

    with runner() as one:
        run = one.start_sync("go", thread_id="t")
        assert [question.path for question in run.interrupts] == ["asker"]
        assert one.expire_sync() == []  # it waits for its specialist, and cannot go on
    with runner() as other:
        over = other.resume_sync(run.id, {run.interrupts[0].id: approve()}, by="li")
    assert (over.status, over.answer, published) == ("finished", "all done", ["it"])

"""Whether the runs below can go on is known before anything is changed (C-73, C-82, C-91)."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from adjourn.checkpoints.errors import KeyLost, WrongGraph
from adjourn.graph import Runner, Specialist, build_react, build_supervisor
from adjourn.nodes import ScriptedModel, Secret, approve, tool
from adjourn.nodes.scripted import call, says


def hand(specialist: str, id: str) -> Any:
    return call("delegate", {"specialist": specialist, "task": "go"}, id=id)


def scripted(*turns: Any) -> ScriptedModel:
    return ScriptedModel(turns=list(turns), by_history=True)


class World:
    """A supervisor with one specialist that takes a secret and one that asks, over one store."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "keys.db"
        self.done: list[Any] = []

    def graph(self, *, without: str = "", more: Any = ()) -> Any:
        @tool(effect="write", confirm="Log in?")
        def login(user: str, password: Secret) -> str:
            """Log in."""
            self.done.append(str(password))
            return "in"

        @tool(effect="write", confirm="Publish?")
        def publish() -> str:
            """Publish."""
            self.done.append("publish")
            return "out"

        teams = {
            "opens": [says("", call("login", {"user": "li"}, id="o")), "opened"],
            "asks": [says("", call("publish", {}, id="p")), "published"],
        }
        tools = {"opens": [login, *more], "asks": [publish]}
        team = [
            Specialist(
                name=name,
                about="works",
                graph=build_react(scripted(*turns), tools[name], name=f"own-{name}"),
            )
            for name, turns in teams.items()
            if name != without
        ]
        boss = scripted(says("", hand("opens", "d1"), hand("asks", "d2")), "all done")
        return build_supervisor(boss, team, name="boss")

    def runner(self, key: str, **settings: Any) -> Runner:
        return Runner(self.graph(**settings), f"sqlite:///{self.file}", key=key)

    def rows(self, *tables: str) -> list[Any]:
        connection = sqlite3.connect(self.file)
        try:
            return [connection.execute(f"SELECT * FROM {one}").fetchall() for one in tables]
        finally:
            connection.close()

    def bury(self) -> None:
        """The owner of the whole family has died."""
        connection = sqlite3.connect(self.file)
        with connection:
            connection.execute(
                "UPDATE runs SET status = 'running', lease_owner = 'gone', lease_until = '2000-01-01T00:00:00.000000Z'"
                " WHERE parent_run_id IS NULL"
            )
        connection.close()


KEPT = ("runs", "interrupts", "audit", "events", "calls")


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


async def sealed(world: World, key: str) -> Any:
    """A run in which a person has given one specialist its secret, and the other still asks."""
    with world.runner(key) as runner:
        run = await runner.start("go")
        (asks,) = [one for one in run.interrupts if one.type == "params_required"]
        run = await runner.resume(run.id, {asks.id: {"password": "open sesame"}}, by="li")
    assert [one.tool for one in run.interrupts] == ["publish"]
    return run


async def goes_on(runner, run, way):
    if way == "resume":
        given = {one.id: approve() for one in run.interrupts if one.tool == "publish"}
        return await runner.resume(run.id, given, by="li")
    return await runner.recover(run.id)


@pytest.mark.parametrize("way", ["resume", "recover"])
async def test_c73_a_lost_key_of_a_run_below_is_told_before_anything_is_changed(world, way):
    key, other = (Fernet.generate_key().decode() for _ in range(2))
    run = await sealed(world, key)
    if way == "recover":
        world.bury()
    before = world.rows(*KEPT)
    with world.runner(other) as runner, pytest.raises(KeyLost):
        await goes_on(runner, run, way)
    assert world.rows(*KEPT) == before
    with world.runner(key) as runner:
        over = run
        if way == "recover":
            over = await runner.recover(run.id)
        while over.status == "interrupted":
            over = await runner.resume(over.id, {one.id: approve() for one in over.interrupts}, by="li")
    assert over.status == "finished" and sorted(world.done) == ["open sesame", "publish"]


@pytest.mark.parametrize("way", ["resume", "recover"])
async def test_c82_a_specialist_that_the_app_has_no_more_is_told_before_anything_is_changed(world, way):
    key = Fernet.generate_key().decode()
    run = await sealed(world, key)
    if way == "recover":
        world.bury()
    before = world.rows(*KEPT)
    with world.runner(key, without="opens") as runner:
        with pytest.raises(WrongGraph, match="opens"):
            await goes_on(runner, run, way)
        assert world.rows(*KEPT) == before
        over = await runner.cancel(run.id)  # it can be ended all the same
    assert over.status == "cancelled" and {one.row.status for one in over.children} == {"cancelled"}


async def test_a_changed_graph_of_a_run_below_is_told_with_that_of_the_run_above(world, caplog):
    @tool(effect="read")
    def another() -> str:
        """A tool of a later version."""
        return ""

    key = Fernet.generate_key().decode()
    run = await sealed(world, key)
    with world.runner(key, more=[another]) as runner:
        while run.status == "interrupted":
            run = await runner.resume(run.id, {one.id: approve() for one in run.interrupts}, by="li")
    connection = sqlite3.connect(world.file)
    told = connection.execute("SELECT run_id FROM audit WHERE action = 'graph_changed'").fetchall()
    connection.close()
    (changed,) = [one for one in run.children if one.row.path == "opens"]
    assert told == [(changed.id,)] and run.status == "finished"
    assert caplog.text.count("another version of graph 'own-opens'") == 1

"""A secret parameter is filled by a person, and nothing that is kept or shown holds it in plain (C-73)."""

import asyncio
import json
import stat
from typing import Annotated

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from pydantic import AfterValidator, Field
from runs.observed import told
from sqlalchemy import text

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import InvalidAnswer, KeyLost, UsageError
from adjourn.graph import Runner, Specialist, build_react, build_supervisor
from adjourn.graph.keys import VARIABLE
from adjourn.nodes import ScriptedModel, Secret, ToolContext, approve, edit, params_required, tool
from adjourn.nodes.scripted import call, says
from adjourn.nodes.sealing import Keyring

PASSWORD = "hunter2-Zephyr'\"é"


class Vault:
    """The tool's side: what it was given, and what it says of it."""

    def __init__(self):
        self.seen = []
        self.says = lambda password: {"state": f"logged in with {password}", "ok": True}

    def tools(self, **settings):
        @tool(effect="write", **settings)
        async def login(user: str, password: Secret[str], context: ToolContext) -> dict:
            """Log in to the vault."""
            self.seen.append((user, password, dict(context.arguments)))
            return self.says(password)

        return [login]


@pytest.fixture
def vault():
    return Vault()


TURNS = [says("", call("login", {"user": "li"}, id="c1")), "done"]


def nothing_holds(secret, folder, *texts):
    """No file of the folder (database, its log, its key) and none of these texts holds the value in any form."""
    forms = [
        secret.encode(),
        json.dumps(secret)[1:-1].encode(),
        repr(secret)[1:-1].encode(),
        secret[:9].encode(),
    ]
    kept = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    assert kept
    for content in [*kept, *(one.encode() for one in texts)]:
        for form in forms:
            assert form not in content


async def answered(runner, run, answer, **settings):
    return await runner.resume(run.id, {run.interrupts[0].id: answer}, **settings)


async def test_c73_a_person_fills_a_secret_and_only_the_tool_sees_it(
    house, vault, tmp_path, caplog, capsys, rows
):
    caplog.set_level("DEBUG")
    runner = house.runner(TURNS, tools=vault.tools())
    run = await runner.start("go", on_event=house.hear)
    (question,) = run.interrupts
    assert (question.type, question.tool, question.arguments) == ("params_required", "login", {"user": "li"})
    assert question.response_schema["properties"]["password"]["writeOnly"] is True
    run = await answered(runner, run, {"password": PASSWORD}, by="wang", on_event=house.hear)
    assert vault.seen == [("li", PASSWORD, {"user": "li", "password": "[secret]"})]
    assert (run.status, run.calls[0].arguments) == ("finished", {"user": "li", "password": "[secret]"})
    assert told(house, "c1")["data"]["state"] == "logged in with [secret]"
    (kept,) = rows("SELECT answer FROM interrupts")
    assert json.loads(kept["answer"])["password"].startswith("adjourn-sealed:")
    print(run, repr(run), json.dumps(run.to_dict()), run._repr_html_() if hasattr(run, "_repr_html_") else "")
    requests = str([[message.model_dump() for message in one] for one in house.models[0].requests])
    events = json.dumps([event.to_dict() for event in house.sent])
    house.check([run.id])
    nothing_holds(PASSWORD, tmp_path, requests, events, caplog.text, capsys.readouterr().out)


async def test_c73_nothing_is_kept_in_the_middle_of_a_run_either(house, vault, tmp_path):
    """Two questions are open: one is answered, the run still waits, and goes on in another process."""
    turn = says("", call("login", {"user": "li"}, id="c1"), call("login", {"user": "wu"}, id="c2"))
    runner = house.runner([turn, "ok"], tools=vault.tools(confirm="Log in {user} with {password}?"))
    run = await runner.start("go")
    first, second = run.interrupts
    run = await runner.resume(run.id, {first.id: {"password": PASSWORD}})
    nothing_holds(PASSWORD, tmp_path)
    other = house.runner([turn, "ok"], tools=vault.tools(confirm="Log in {user} with {password}?"))
    run = await other.resume(run.id, {second.id: {"password": "another-word"}})
    assert [one.reason for one in run.interrupts] == [
        "Log in li with [secret]?",
        "Log in wu with [secret]?",
    ]
    assert run.interrupts[0].arguments == {"user": "li", "password": "[secret]"}
    run = await other.resume(run.id, {one.id: approve() for one in run.interrupts})
    assert [one[:2] for one in vault.seen] == [("li", PASSWORD), ("wu", "another-word")]
    nothing_holds(PASSWORD, tmp_path)
    nothing_holds("another-word", tmp_path)


async def test_c73_an_edit_leaves_a_secret_as_it_is(house, vault):
    runner = house.runner(TURNS, tools=vault.tools(confirm=True))
    run = await runner.start("go")
    run = await answered(runner, run, {"password": PASSWORD})
    with pytest.raises(InvalidAnswer) as raised:
        await answered(runner, run, edit({"user": "wu", "password": "another-word"}))
    assert "another-word" not in str(raised.value)
    run = await answered(runner, run, edit({**run.interrupts[0].arguments, "user": "wu"}))
    assert vault.seen[0][:2] == ("wu", PASSWORD)
    assert told(house, "c1")["ran"] == {"user": "wu", "password": "[secret]"}


async def test_c73_an_edit_may_leave_the_secret_out(house, vault):
    runner = house.runner(TURNS, tools=vault.tools(confirm=True))
    run = await runner.start("go")
    run = await answered(runner, run, {"password": PASSWORD})
    await answered(runner, run, edit({"user": "wu"}))
    assert vault.seen[0][:2] == ("wu", PASSWORD)


async def test_c73_a_secret_never_comes_from_the_model(house, vault):
    guess = says("", call("login", {"user": "li", "password": "guessed-by-model"}, id="c1"))
    run = await house.runner([guess, *TURNS], tools=vault.tools()).start("go")
    assert told(house, "c1", request=1)["errorCode"] == "invalid_arguments"
    assert "a person fills this in" in told(house, "c1", request=1)["message"]
    assert (run.status, vault.seen) == ("interrupted", [])


async def test_c73_a_model_cannot_pass_off_a_text_as_sealed(house, vault, rows):
    runner = house.runner(TURNS, tools=vault.tools())
    run = await runner.start("go")
    await answered(runner, run, {"password": PASSWORD})
    (kept,) = rows("SELECT answer FROM interrupts")
    stolen = json.loads(kept["answer"])["password"]

    @tool(effect="read", confirm="Read {path}?")
    def read(path: str) -> str:
        """Read."""
        return path

    turn = says("", call("read", {"path": stolen}, id="r"))
    run = await house.runner([turn, "ok"], tools=[read]).start("go")
    assert told(house, "r")["errorCode"] == "invalid_arguments"


@pytest.mark.parametrize(
    "answer", [{}, {"password": ""}, {"password": 12345678}, {"password": None}, {"other": PASSWORD}]
)
async def test_c45_c73_a_wrong_answer_changes_nothing_and_is_not_quoted(house, answer):
    def refuse(word):
        raise ValueError(f"{word} is a bad word")

    @tool
    def login(password: Secret[Annotated[str, Field(min_length=1), AfterValidator(refuse)]]) -> str:
        """Log in."""
        return ""

    runner = house.runner([says("", call("login", {}, id="c1")), "ok"], tools=[login])
    run = await runner.start("go")
    for given in (answer, {"password": PASSWORD}):
        with pytest.raises(InvalidAnswer) as raised:
            await answered(runner, run, given)
        assert PASSWORD not in str(raised.value)
        assert "12345678" not in str(raised.value)
    assert (await runner.get(run.id)).interrupts == run.interrupts


async def test_c29_c73_an_error_that_quotes_the_secret_is_masked(house, vault, tmp_path, caplog):
    def refuses(password):
        raise RuntimeError(f"bad password {password!r} for li")

    vault.says = refuses
    runner = house.runner(TURNS, tools=vault.tools())
    run = await runner.start("go", on_event=house.hear)
    run = await answered(runner, run, {"password": PASSWORD}, on_event=house.hear)
    assert run.calls[0].outcome == "failed"
    events = json.dumps([event.to_dict() for event in house.sent])
    nothing_holds(
        PASSWORD, tmp_path, events, caplog.text, json.dumps(run.calls[0].error), str(told(house, "c1"))
    )


async def test_c73_a_tool_may_ask_for_the_secret_again(house, vault, tmp_path):
    def once(password):
        if password == PASSWORD:
            return params_required({"password": {"type": "string"}}, f"{password} was wrong; try again")
        return "in"

    vault.says = once
    runner = house.runner(TURNS, tools=vault.tools())
    run = await runner.start("go")
    run = await answered(runner, run, {"password": PASSWORD})
    assert run.interrupts[0].reason == "[secret] was wrong; try again"
    assert run.interrupts[0].response_schema["properties"]["password"]["writeOnly"] is True
    nothing_holds(PASSWORD, tmp_path)
    run = await answered(runner, run, {"password": "another-word"})
    assert (run.status, [one[1] for one in vault.seen]) == ("finished", [PASSWORD, "another-word"])
    nothing_holds("another-word", tmp_path)


async def test_c73_the_key_file_is_for_its_owner_alone_and_made_once(house, vault, tmp_path):
    runners = [house.runner(TURNS, tools=vault.tools()) for _ in range(4)]
    await runners[0].list()
    assert not (tmp_path / "adjourn.db.key").exists()  # who only looks makes none
    await asyncio.gather(*(asyncio.to_thread(one.start_sync, "go") for one in runners))
    key = tmp_path / "adjourn.db.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len({one.keyring.digest("t", {}) for one in runners}) == 1
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".")]


@pytest.mark.parametrize("how", ["gone", "other"])
async def test_c73_a_lost_key_is_one_clear_sentence_and_changes_nothing(house, vault, tmp_path, how, rows):
    tools = vault.tools(confirm=True)
    runner = house.runner(TURNS, tools=tools)
    run = await runner.start("go")
    run = await answered(runner, run, {"password": PASSWORD})
    key = tmp_path / "adjourn.db.key"
    kept = key.read_text()
    key.unlink()
    if how == "other":
        key.write_text(Keyring.new_key())
        key.chmod(0o600)
    before = rows("SELECT * FROM runs") + rows("SELECT * FROM interrupts") + rows("SELECT * FROM audit")
    lost = house.runner(TURNS, tools=tools)
    with pytest.raises(KeyLost, match="key file back") as raised:
        await answered(lost, run, approve())
    assert (raised.value.run_id, "\n" in str(raised.value)) == (run.id, False)
    assert before == rows("SELECT * FROM runs") + rows("SELECT * FROM interrupts") + rows(
        "SELECT * FROM audit"
    )
    key.write_text(kept)
    run = await answered(house.runner(TURNS, tools=tools), run, approve())
    assert (run.status, vault.seen[0][1]) == ("finished", PASSWORD)


@pytest.mark.parametrize("status", ["running", "failed"])
async def test_c73_a_run_that_died_or_failed_does_not_go_on_without_its_key(
    house, vault, tmp_path, rows, status
):
    tools = vault.tools(confirm=True)
    runner = house.runner(TURNS, tools=tools)
    run = await runner.start("go")
    run = await answered(runner, run, {"password": PASSWORD})
    left = (
        "UPDATE runs SET status = :status, lease_until = '2000-01-01T00:00:00.000000Z', lease_owner = 'gone'"
    )
    runner.database.write(lambda connection: connection.execute(text(left), {"status": status}))
    key = tmp_path / "adjourn.db.key"
    kept = key.read_text()
    key.unlink()
    before = rows("SELECT * FROM runs")
    lost = house.runner(TURNS, tools=tools)
    with pytest.raises(KeyLost):
        await (lost.recover(run.id) if status == "running" else lost.resume(run.id))
    assert before == rows("SELECT * FROM runs")
    key.write_text(kept)
    again = house.runner(TURNS, tools=tools)
    run = await (again.recover(run.id) if status == "running" else again.resume(run.id))
    assert [one.type for one in run.interrupts] == ["confirm_risky"]


async def test_c73_a_cancel_needs_no_key(house, vault, tmp_path):
    tools = vault.tools(confirm=True)
    runner = house.runner(TURNS, tools=tools)
    run = await runner.start("go")
    run = await answered(runner, run, {"password": PASSWORD})
    (tmp_path / "adjourn.db.key").unlink()
    run = await house.runner(TURNS, tools=tools).cancel(run.id)
    assert (run.status, vault.seen) == ("cancelled", [])


async def test_c73_keys_rotate_while_runs_wait(house, vault, tmp_path, monkeypatch):
    old, new = Keyring.new_key(), Keyring.new_key()
    tools = vault.tools(confirm=True)
    monkeypatch.setenv(VARIABLE, old)
    runner = house.runner(TURNS, tools=tools)
    run = await runner.start("go")
    run = await answered(runner, run, {"password": PASSWORD})
    monkeypatch.setenv(VARIABLE, f"{new},{old}")
    run = await answered(house.runner(TURNS, tools=tools), run, approve())
    assert (run.status, vault.seen[0][1]) == ("finished", PASSWORD)
    assert not (tmp_path / "adjourn.db.key").exists()
    monkeypatch.delenv(VARIABLE)
    assert Runner(house.runners[0].graph, house.url, key=[new]).keyring.open(Keyring.of(new).seal(1)) == 1


@pytest.mark.parametrize("url", ["postgresql://nobody@127.0.0.1:1/none", "mysql://nobody@127.0.0.1:1/none"])
def test_c73_on_a_server_a_secret_without_a_key_is_refused_when_the_runner_is_made(vault, url, monkeypatch):
    graph = build_react(ScriptedModel(turns=[]), vault.tools())
    with pytest.raises(UsageError, match="login takes a secret") as raised:
        Runner(graph, url)
    assert VARIABLE in str(raised.value)
    with pytest.raises(UsageError, match="generate_key"):
        Runner(graph, url, key="no key")
    Runner(graph, url, key=Keyring.new_key()).close()
    monkeypatch.setenv(VARIABLE, Keyring.new_key())
    Runner(graph, url).close()
    monkeypatch.delenv(VARIABLE)
    Runner(build_react(ScriptedModel(turns=[])), url).close()  # none is needed


@pytest.mark.in_process  # a worker without its key leaves the run to others
@pytest.mark.parametrize("content", ["", "no key", "x" * 44])
async def test_c73_a_key_file_without_a_key_is_told(house, vault, tmp_path, content):
    (tmp_path / "adjourn.db.key").write_text(content)
    with pytest.raises(UsageError, match=r"adjourn\.db\.key"):
        await house.runner(TURNS, tools=vault.tools()).start("go")


async def test_c73_a_key_file_that_others_can_read_is_warned_of(house, vault, tmp_path, caplog):
    (tmp_path / "adjourn.db.key").write_text(Keyring.new_key())
    (tmp_path / "adjourn.db.key").chmod(0o644)
    await house.runner(TURNS, tools=vault.tools()).start("go")
    assert "chmod 600" in caplog.text


async def test_c73_a_store_in_memory_has_a_key_of_its_own(vault):
    database = Database("sqlite://")
    graph = build_react(ScriptedModel(turns=TURNS, by_history=True), vault.tools(confirm=True))
    with Runner(graph, database) as runner:
        run = await runner.start("go")
        run = await answered(runner, run, {"password": PASSWORD})
    with Runner(graph, database) as other:
        run = await answered(other, run, approve())
    assert (run.status, vault.seen[0][1]) == ("finished", PASSWORD)
    database.close()


async def test_c61_c73_a_write_in_doubt_under_a_lost_key_makes_the_next_one_ask(house, tmp_path):
    """Nothing can be told from a digest whose key is lost, so each write on that thread is asked about."""

    @tool(effect="write")
    async def pay(n: int) -> str:
        """Pay."""
        if n == 1:
            raise ConnectionResetError("gone")
        return "paid"

    turns = [says("", call("pay", {"n": 1}, id="a")), "hm", says("", call("pay", {"n": 2}, id="b")), "ok"]
    runner = house.runner(turns, tools=[pay])
    run = await runner.start("go", thread_id="t")
    assert run.calls[0].outcome == "unknown"
    (tmp_path / "adjourn.db.key").unlink()
    run = await house.runner(turns, tools=[pay]).start("again", thread_id="t")
    assert [one.type for one in run.interrupts] == ["confirm_risky"]


async def test_c73_digests_are_keyed(house, rows):
    @tool(effect="read")
    def look(phone: str) -> str:
        """Look."""
        return ""

    turn = says("", call("look", {"phone": "13800138000"}, id="a"))
    await house.runner([turn, "ok"], tools=[look]).start("go")
    (row,) = rows("SELECT digest, arguments FROM calls")
    assert row["digest"] != Keyring().digest("look", {"phone": "13800138000"})
    assert row["digest"] in house.runners[0].keyring.digests("look", {"phone": "13800138000"})


async def test_c73_without_a_runner_nobody_is_asked_for_what_would_be_stored_plain(vault):
    graph = build_react(ScriptedModel(turns=TURNS), vault.tools())
    with pytest.warns(RuntimeWarning, match="without a ledger"):
        state = await graph.ainvoke({"messages": [HumanMessage("go")]})
    assert "__interrupt__" not in state
    (observation,) = [json.loads(one.text) for one in state["messages"] if isinstance(one, ToolMessage)]
    assert (observation["errorCode"], "Runner" in observation["message"], vault.seen) == (
        "tool_error",
        True,
        [],
    )


def team(vault, turns=(), search=()):
    """A supervisor whose specialist logs in."""
    keeper = Specialist(
        name="keeper",
        about="keeps the vault",
        tools=vault.tools(),
        model=ScriptedModel(turns=list(search), by_history=True),
    )
    return build_supervisor(ScriptedModel(turns=list(turns), by_history=True), [keeper], name="team")


async def test_c73_c82_a_specialist_s_secret_is_kept_like_any_other(url, vault, tmp_path):
    handed = says("", call("delegate", {"specialist": "keeper", "task": "log in"}, id="d"))
    with Runner(team(vault, [handed, "done"], TURNS), url) as runner:
        run = await runner.start("go")
        run = await answered(runner, run, {"password": PASSWORD}, by="li")
    assert (run.status, [one[1] for one in vault.seen]) == ("finished", [PASSWORD])
    nothing_holds(PASSWORD, tmp_path)


def test_c73_c82_a_specialist_s_secret_without_a_key_is_refused_when_the_runner_is_made(vault):
    with pytest.raises(UsageError, match="login takes a secret"):
        Runner(team(vault), "postgresql://nobody@127.0.0.1:1/none")

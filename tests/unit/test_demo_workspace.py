"""The demo's folder: what it remembers, what a restart changes, and which files are on offer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from adjourn.checkpoints.errors import UsageError
from adjourn.graph.demo import folder
from adjourn.graph.demo.app import build, chat_model, prepare
from adjourn.graph.demo.standin import StandInModel
from adjourn.graph.demo.tools import make_tools
from adjourn.graph.demo.workspace import BUNDLED_DATA, DataNotFound, Workspace
from adjourn.nodes import Tool, ToolContext

PAY = ("svc-pay-001", "prod")

RESTART_TEN_TIMES = """
import sys
from adjourn.graph.demo.workspace import Workspace
workspace = Workspace.open(sys.argv[1])
for number in range(10):
    workspace.restart("svc-pay-001", "prod", key=f"{sys.argv[2]}-{number}")
"""


def own_folder(root: Path) -> Path:
    (root / "nested").mkdir(parents=True)
    (root / "app.log").write_text("2026-03-18 20:00:00 ERROR disk is full\n", encoding="utf-8")
    (root / "nested" / "db.log").write_text("2026-03-18 20:00:00 INFO well\n", encoding="utf-8")
    (root / "syslog").write_text("Mar 18 20:00:00 host x: y\n", encoding="utf-8")
    (root / "guide.md").write_text("# Disk\n1. Free the disk\n", encoding="utf-8")
    (root / "Makefile").write_text("all:\n\ttrue\n", encoding="utf-8")
    (root / "daemon").write_text("2026-03-18 20:00:00 up\n", encoding="utf-8")
    (root / "wtmp").write_bytes(b"\0\1\2")
    (root / ".hidden.log").write_text("secret", encoding="utf-8")
    (root / "empty.log").touch()
    (root / "elsewhere.log").symlink_to("/etc/hostname")
    return root


def by_name(workspace: Workspace) -> dict[str, Tool]:
    return {tool.name: tool for tool in make_tools(workspace)}


def context(key: str) -> ToolContext:
    return ToolContext("run", "thread", 1, "call", "restart_service", key, approved_by="wang")


def test_each_counter_starts_at_zero_on_the_disk(tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path)
    state = json.loads(workspace.state_file.read_text(encoding="utf-8"))
    assert {entry["restarts"] for envs in state.values() for entry in envs.values()} == {0}
    assert set(state) == {"svc-pay-001", "svc-ord-002", "svc-crt-003", "svc-gtw-004"}


def test_the_same_key_restarts_once(tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path)
    assert [workspace.restart(*PAY, key=key) for key in ("a", "a", "b")] == [1, 1, 2]
    assert Workspace.open(tmp_path).restarts(*PAY) == 2


def test_two_processes_lose_no_restart(tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path)
    running = [
        subprocess.Popen([sys.executable, "-c", RESTART_TEN_TIMES, str(tmp_path), who]) for who in ("a", "b")
    ]
    assert [process.wait(timeout=60) for process in running] == [0, 0]
    assert workspace.restarts(*PAY) == 20
    assert list(tmp_path.glob("*.new")) == []


def test_counters_stay_when_the_workspace_is_prepared_again(tmp_path: Path) -> None:
    Workspace.create(tmp_path).restart(*PAY, key="a")
    assert Workspace.create(tmp_path).restarts(*PAY) == 1


@pytest.mark.parametrize(("service", "environment"), [("svc-nope", "prod"), ("svc-pay-001", "moon")])
def test_what_does_not_run_is_not_restarted(tmp_path: Path, service: str, environment: str) -> None:
    workspace = Workspace.create(tmp_path)
    before = workspace.state()
    with pytest.raises(DataNotFound, match="svc-"):
        workspace.restart(service, environment, key="a")
    assert workspace.state() == before


def test_the_data_folder_and_its_logs_are_remembered(tmp_path: Path) -> None:
    data = own_folder(tmp_path / "data")
    Workspace.create(tmp_path / "w", data)
    (data / "late.log").write_text("new\n", encoding="utf-8")  # after the question was asked
    workspace = Workspace.open(tmp_path / "w")
    assert workspace.data_dir == data.resolve()
    assert set(workspace.settings.logs) == {"app.log", "nested/db.log", "syslog", "daemon"}
    assert [path.name for path in workspace.documents()] == ["guide.md"]


def test_a_workspace_inside_its_data_folder_is_not_data(tmp_path: Path) -> None:
    data = own_folder(tmp_path / "data")
    workspace = Workspace.create(data / "adjourn-demo", data)
    (workspace.directory / "mine.log").write_text("x\n", encoding="utf-8")
    assert "mine.log" not in {path.name for path in folder.log_files(data, workspace.directory)}


def test_what_is_gone_or_broken_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder"):
        Workspace.create(tmp_path / "w", tmp_path / "none")
    data = own_folder(tmp_path / "data")
    Workspace.create(tmp_path / "w", data)
    data.rename(tmp_path / "moved")
    with pytest.raises(UsageError, match="is gone"):
        Workspace.open(tmp_path / "w")
    (tmp_path / "w" / "demo.json").write_text("{", encoding="utf-8")
    with pytest.raises(UsageError, match="start anew"):
        Workspace.open(tmp_path / "w")
    (tmp_path / "moved" / "services.json").write_text('{"id": 1}', encoding="utf-8")
    with pytest.raises(UsageError, match="services table"):
        Workspace.create(tmp_path / "v", tmp_path / "moved")


def test_a_log_outside_the_data_folder_is_not_read(tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path / "w", own_folder(tmp_path / "data"))
    for name in ("../w/demo.json", "/etc/hostname", "nope.log"):
        with pytest.raises(DataNotFound):
            workspace.log_file(name)


def test_tools_of_the_bundled_data(tmp_path: Path) -> None:
    tools = by_name(Workspace.create(tmp_path))
    assert list(tools) == ["search_resource", "search_docs", "query_logs", "restart_service"]
    assert tools["query_logs"].problems({}).missing == ("environment", "service_id")
    assert "environment" in tools["query_logs"].problems({"environment": "moon", "service_id": PAY[0]}).wrong
    of_restart, given = tools["restart_service"].question_of, {"service_id": PAY[0], "environment": "prod"}
    assert of_restart(given) == "Restart svc-pay-001 in prod?"
    assert of_restart(given, "zh") == "要重启 prod 环境的 svc-pay-001 吗？"


def test_the_tools_do_what_they_say(tmp_path: Path) -> None:
    tools = by_name(Workspace.create(tmp_path))
    assert [row["id"] for row in tools["search_resource"]("支付服务")] == ["svc-pay-001"]
    assert [row["id"] for row in tools["search_resource"](kind="db")] == ["db-pay-101", "db-ord-102"]
    assert tools["search_docs"]("支付")[0]["title"] == "支付服务 5xx 处理手册"
    assert tools["query_logs"]("prod", "svc-pay-001", 10)["service_id"] == "svc-pay-001"
    done = tools["restart_service"](*PAY, context("k"))
    assert done == {"service_id": PAY[0], "environment": PAY[1], "status": "restarted", "restarts": 1}
    assert tools["search_resource"]("svc-pay-001")[0]["restarts"] == {"prod": 1, "staging": 0}


def test_tools_of_a_folder_of_ones_own(tmp_path: Path) -> None:
    tools = by_name(Workspace.create(tmp_path / "w", own_folder(tmp_path / "data")))
    assert list(tools) == ["search_docs", "query_logs"]
    assert set(tools["query_logs"].schema["properties"]["file"]["enum"]) == {
        "app.log",
        "nested/db.log",
        "syslog",
        "daemon",
    }
    assert tools["query_logs"].problems({}).missing == ("file",)
    assert tools["query_logs"]("app.log")["errors"] == 1
    assert tools["search_docs"]("disk")[0]["steps"] == ["Free the disk"]


def test_the_bundled_data_is_small_and_readable() -> None:
    files = [path for path in BUNDLED_DATA.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 600_000
    assert (
        sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files if path.suffix == ".log")
        > 3_000
    )


def test_the_app_uses_what_was_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOURN_DEMO_DIR", str(tmp_path / "w"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert prepare().directory == tmp_path / "w"
    assert build().name == "demo"
    assert isinstance(chat_model(None), StandInModel)
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        prepare(model="some-model")


def test_a_model_of_an_own_server_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert getattr(chat_model("openai:qwen3:8b"), "model_name") == "qwen3:8b"  # noqa: B009

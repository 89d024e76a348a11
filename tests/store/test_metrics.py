"""Reports over many runs (C-70): each number on each engine, by the documented SELECTs, and quickly."""

import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import sqlalchemy as sa
from rich.cells import cell_len
from store.generated_runs import RAN, Made, fill

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.metrics import Metrics, Scope, read_metrics
from adjourn.graph.cli import main
from adjourn.graph.cli.report import Report
from adjourn.graph.cli.screen import Screen
from adjourn.graph.cli.settings import Settings
from adjourn.graph.cli.times import begun_after

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"
BLOCK = re.compile(r"^```sql\n-- (?:(--[^:\n]+(?::\d\d)?): )?([^\n]+)\n(.*?)```", re.MULTILINE | re.DOTALL)
MANY = int(os.environ.get("ADJOURN_REPORT_RUNS", "10000"))
FIGURES = ("runs", "questions", "stop_reasons", "tools", "models")


@pytest.fixture
def made(database: Database) -> Made:
    return fill(database, 800)


def report(database: Database, scope: Scope | None = None) -> Metrics:
    return database.read(lambda connection: read_metrics(connection, scope))


def nearest_rank(values: list[int], share: int) -> int:
    """The smallest value that `share` of 100 do not exceed."""
    ordered = sorted(values)
    return ordered[-(-len(ordered) * share // 100) - 1]


def test_c70_runs_questions_and_stop_reasons_are_counted(database: Database, made: Made) -> None:
    found = report(database)
    ended = [one for one in made.runs if one["status"] in ("finished", "cancelled")]
    assert (found.runs.runs, found.runs.ended) == (800, len(ended))
    assert found.runs.steps_per_run == pytest.approx(fmean(one["steps"] for one in ended), abs=0.005)
    assert found.runs.active_ms_per_run == pytest.approx(fmean(one["active_ms"] for one in ended), abs=0.05)
    assert found.runs.input_tokens == sum(one["input_tokens"] for one in made.runs)
    assert found.runs.cost == pytest.approx(sum(one["cost"] for one in made.runs))
    reason = {one["id"]: one["stop_reason"] for one in made.runs}
    answered = [one for one in made.interrupts if one["state"] == "answered"]
    carried = [one for one in answered if reason[one["run_id"]] == "answered"]
    asked, open_ = len(made.interrupts), sum(one["state"] == "open" for one in made.interrupts)
    assert (found.questions.asked, found.questions.open) == (asked, open_)
    assert found.questions.answered_share == pytest.approx(len(answered) / asked, abs=0.0001)
    assert found.questions.carried_share == pytest.approx(len(carried) / asked, abs=0.0001)
    words = {"interrupted": "ask_user", "failed": "failed", "running": "running"}
    expected = Counter(one["stop_reason"] or words[one["status"]] for one in made.runs)
    assert found.stop_reasons == expected
    assert list(found.stop_reasons.values()) == sorted(expected.values(), reverse=True)


def test_c70_failing_and_slow_tools(database: Database, made: Made) -> None:
    tools = {one.tool: one for one in report(database).tools}
    assert set(tools) == {one["tool"] for one in made.calls}
    for name, found in tools.items():
        mine = [one for one in made.calls if one["tool"] == name]
        ran = [one for one in mine if one["outcome"] in RAN]
        failed = [one for one in ran if one["outcome"] != "ok"]
        times = [one["took_ms"] for one in mine if one["took_ms"] is not None]
        assert (found.calls, found.ran, found.failed) == (len(mine), len(ran), len(failed))
        assert found.failure_rate == pytest.approx(len(failed) / len(ran), abs=0.0001)
        assert (found.p50_ms, found.p95_ms) == (nearest_rank(times, 50), nearest_rank(times, 95))
        assert (found.mean_ms, found.slowest_ms) == (pytest.approx(fmean(times), abs=0.05), max(times))
    slowest = [one.p95_ms for one in report(database).tools]
    assert slowest == sorted(slowest, reverse=True)
    for model in report(database).models:
        times = [one["latency_ms"] for one in made.steps if one["model"] == model.model]
        assert (model.steps, model.p95_ms) == (len(times), nearest_rank(times, 95))
        mine = [one for one in made.steps if one["model"] == model.model]
        assert model.cost == pytest.approx(sum(one["cost"] for one in mine))
        assert model.cached_tokens == sum(one["cached_tokens"] or 0 for one in mine)


def test_c70_only_some_of_the_runs(database: Database, made: Made) -> None:
    since = made.runs[500]["created_at"]
    assert report(database, Scope(since=since)).runs.runs == 300
    ops = report(database, Scope(graph="ops"))
    mine = {one["id"] for one in made.runs if one["graph"] == "ops"}
    assert ops.runs.runs == len(mine)
    assert sum(one.calls for one in ops.tools) == sum(one["run_id"] in mine for one in made.calls)
    assert sum(one.steps for one in ops.models) == sum(one["run_id"] in mine for one in made.steps)
    assert ops.questions.asked == sum(one["run_id"] in mine for one in made.interrupts)
    logs = report(database, Scope(tool="query_logs", since=since))
    late = {one["id"] for one in made.runs[500:]}
    called = [one for one in made.calls if one["tool"] == "query_logs" and one["run_id"] in late]
    assert [(one.tool, one.calls) for one in logs.tools] == [("query_logs", len(called))]
    assert logs.runs.runs == len({one["run_id"] for one in called})
    assert report(database, Scope(graph="none")).questions.answered_share is None


def test_an_empty_database_has_a_report(database: Database) -> None:
    found = report(database)
    assert (found.runs.runs, found.runs.steps_per_run, found.runs.cost) == (0, None, 0.0)
    assert (found.questions.asked, found.questions.carried_share) == (0, None)
    assert (found.tools, found.models, found.stop_reasons) == ([], [], {})


def blocks() -> Iterator[tuple[str, str, str]]:
    """Each SELECT of the document: the options of the command, what it reproduces, the statement."""
    for options, number, statement in BLOCK.findall(DOCUMENT.read_text(encoding="utf-8")):
        yield options, number, statement.strip().rstrip(";")


def scope_of(options: str) -> Scope:
    words = options.split()
    given: dict[str, str] = dict(zip(words[::2], words[1::2], strict=True))
    since = given.get("--since")
    return Scope(begun_after(since) if since else None, given.get("--graph"), given.get("--tool"))


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float):
        return found is not None and abs(float(found) - expected) < 0.0001
    return bool(found == expected)


def test_c70_each_number_is_a_select_of_the_documentation(database: Database, made: Made) -> None:
    for options, number, statement in blocks():
        shown = report(database, scope_of(options)).to_dict()
        rows = database.read(lambda c, s=statement: [tuple(row) for row in c.execute(sa.text(s))])
        name, _, columns = number.partition(": ")
        if columns:
            fields = columns.split(", ")
            expected = {row[fields[0]]: [row[one] for one in fields] for row in shown[name]}
            assert expected.keys() == {row[0] for row in rows}, number
            for row in rows:
                assert all(map(same, row, expected[row[0]])), (number, row, expected[row[0]])
        elif name == "stop_reasons":
            assert dict(rows) == shown[name]
        else:
            section, figure = name.split(".")
            assert same(rows[0][0], shown[section][figure]), (number, rows, shown[section][figure])


def test_the_documentation_leaves_no_number_out() -> None:
    told = {number for _, number, _ in blocks()}
    shown = Metrics(Scope(), *([None] * 5)).to_dict()  # type: ignore[arg-type]
    assert set(shown) == {"scope", *FIGURES}
    for section in ("runs", "questions"):
        kind = Metrics.__dataclass_fields__[section].type
        for figure in kind.__dataclass_fields__:
            assert f"{section}.{figure}" in told
    for section in ("tools", "models"):
        widest = max((one for one in told if one.startswith(f"{section}: ")), key=len)
        (kind,) = Metrics.__dataclass_fields__[section].type.__args__
        assert widest.partition(": ")[2].split(", ") == list(kind.__dataclass_fields__)
    assert "stop_reasons" in told


def test_c70_the_command_shows_the_same(file_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    database = Database(file_url)
    fill(database, 60)
    expected = report(database, Scope(since="2026-11-01T00:30:00.000000Z", graph="ops"))
    narrowed = ["--since", "2026-11-01T00:30", "--graph", "ops"]
    assert main(["metrics", "--store", file_url, "--json", *narrowed]) == 0
    assert json.loads(capsys.readouterr().out) == expected.to_dict()
    assert main(["metrics", "--store", file_url, "--lang", "en", *narrowed]) == 0
    text = capsys.readouterr().out
    assert f"on average {expected.runs.steps_per_run:.2f} steps" in text
    assert f"({(expected.questions.carried_share or 0) * 100:.1f} %)" in text
    for one in expected.tools:
        assert re.search(rf"^{one.tool} +{one.calls} +{one.ran} +{one.failed} ", text, re.MULTILINE)
    assert main(["metrics", "--store", file_url, "--lang", "zh", *narrowed]) == 0
    assert "停止原因" in capsys.readouterr().out
    assert main(["metrics", "--store", file_url, "--tool", "none", "--lang", "en"]) == 0
    assert capsys.readouterr().out == "no runs\n"
    assert main(["metrics", "--store", file_url, "--since", "soon"]) == 2
    assert "--since is an age such as 7d" in capsys.readouterr().err
    database.close()


class Tty(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [48, 80, 200])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_c70_the_tables_line_up_on_narrow_and_wide_terminals(
    file_url: str, monkeypatch: pytest.MonkeyPatch, columns: int, language: str
) -> None:
    database = Database(file_url)
    fill(database, 60)
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Tty()
    Report(Screen(Settings(language=language), stream)).show(report(database, Scope()))
    database.close()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    _, *tables = plain.split("\n\n")
    assert len(tables) == 3
    for one in tables:
        lines = [line.rstrip() for line in one.splitlines()]
        assert max(map(cell_len, lines)) <= columns
        begin = [{cell_len(line[: gap.end()]) for gap in re.finditer("  +", line)} for line in lines]
        assert begin == [begin[0]] * len(begin)  # each column begins at the same place


@pytest.mark.parametrize("more", [(), ("--json",), ("--since", "1d")])
def test_c70_c95_a_graph_that_no_run_has_is_said_with_those_that_have_some(
    file_url: str, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    database = Database(file_url)
    database.setup()
    asked = ["metrics", "--store", file_url, "--graph", "nope", "--lang", "en", *more]
    assert main(asked) == 0  # there are no runs at all yet: nothing is wrong with the name
    capsys.readouterr()
    fill(database, 10)
    database.close()
    assert main(asked) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "--graph 'nope' has no run in this store; those with runs are " in said.err
    assert "ops" in said.err


def test_c70_the_report_of_ten_thousand_runs_takes_less_than_a_second(
    file_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    database = Database(file_url)
    fill(database, MANY)
    database.close()
    best = min(_seconds(["metrics", "--store", file_url]) for _ in range(3))
    assert f"{MANY} runs" in capsys.readouterr().out
    assert best < 1.0 * max(1, MANY / 10_000)
    narrow = [
        "metrics",
        "--store",
        file_url,
        "--tool",
        "query_logs",
        "--graph",
        "ops",
        "--since",
        "2026-11-02",
    ]
    assert min(_seconds(narrow) for _ in range(3)) < 1.0 * max(1, MANY / 10_000)


def _seconds(command: list[str]) -> float:
    began = time.process_time()  # of this process and its threads: other processes may keep the machine busy
    assert main(command) == 0
    return time.process_time() - began

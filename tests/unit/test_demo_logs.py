"""The demo's log reader: any format, the newest minutes, what went wrong."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from adjourn.graph.demo.logs import newest, pattern_of, read_records, summarise
from adjourn.graph.demo.timestamps import is_error, level_of, message_of, time_of
from adjourn.graph.demo.workspace import Workspace

WRITTEN = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "time", "level"),
    [
        ("2026-03-18T20:09:48.335+08:00 ERROR [exec-5] x", "2026-03-18T20:09:48.335000+08:00", "ERROR"),
        ("2026-03-18 20:09:48,335 WARNING root: x", "2026-03-18T20:09:48.335000+00:00", "WARN"),
        ("[4711] 2026/03/18 20:09:48.123456 [INF] Starting", "2026-03-18T20:09:48.123456+00:00", "INFO"),
        ("2026-03-18 20:09:48.123456+00:00 [error] <0.9> x", "2026-03-18T20:09:48.123456+00:00", "ERROR"),
        ("9:M 18 Mar 2026 20:09:48.123 * Ready", "2026-03-18T20:09:48.123000+00:00", None),
        (
            '1.2.3.4 - - [18/Mar/2026:20:09:48 +0000] "GET / HTTP/1.1" 502 9',
            "2026-03-18T20:09:48+00:00",
            None,
        ),
        ('{"level":"fatal","time":"2026-03-18T20:09:48Z"}', "2026-03-18T20:09:48+00:00", "FATAL"),
        ("Mar 18 20:09:48 host sshd[1]: Failed password", "2025-03-18T20:09:48+00:00", None),
        ("Jan  2 11:59:59 host cron[1]: x", "2026-01-02T11:59:59+00:00", None),
        ("1773835788: mosquitto starting", "2026-03-18T12:09:48+00:00", None),
        ("2026-99-99 20:09:48 INFO no day", None, "INFO"),
        ("no time at all, for your info", None, None),
    ],
)
def test_time_and_level_of_a_line(line: str, time: str | None, level: str | None) -> None:
    found = time_of(line, WRITTEN)
    assert (found.isoformat() if found else None, level_of(line)) == (time, level)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("2026-03-18 20:09:48 ERROR x", True),
        ("2026-03-18 20:09:48 INFO request failed over", False),  # the level says it is none
        ('[18/Mar/2026:20:09:48 +0000] "GET / HTTP/1.1" 502 9', True),
        ("Mar 18 20:09:48 host sshd[1]: Failed password for root", True),
        ("2026-03-18 20:09:48 status installed libgpg-error0:amd64", False),  # a package's name
        ("支付失败", True),
    ],
)
def test_what_counts_as_an_error(line: str, expected: bool) -> None:
    assert is_error(line, level_of(line)) is expected


def test_messages_that_differ_only_in_numbers_are_one_pattern() -> None:
    one = "2026-03-18T20:09:48+08:00 ERROR [exec-5] trace=69e8ea78d3fb pay of ORD0318309270 from 10.0.0.8 took=12ms a@b.io"
    two = "2026-03-18T20:11:00+08:00 ERROR [exec-7] trace=12ab34cd56ef pay of ORD0318000001 from 10.0.0.9 took=9ms cc@d.org"
    assert pattern_of(one) == pattern_of(two) == "pay of <id> from <ip> took=<n>ms <mail>"
    assert message_of("plain words") == "plain words"


def test_a_stack_trace_belongs_to_its_line(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(
        "2026-03-18 20:00:00 ERROR boom\nTraceback:\n  at x\n2026-03-18 20:00:01 INFO on\n", encoding="utf-8"
    )
    records = read_records(log)
    assert [record.text.count("\n") for record in records] == [2, 0]


def test_minutes_count_back_from_the_newest_line(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"2026-03-18 20:{m:02d}:00 INFO {m}\n" for m in range(60)), encoding="utf-8")
    assert [record.text[-2:] for record in newest(read_records(log), 3)] == ["56", "57", "58", "59"]


def test_a_log_without_times_is_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("all well\nconnection refused\n", encoding="utf-8")
    found = summarise(read_records(log), 30)
    assert (found["lines"], found["errors"], found["minutes"], found["from"]) == (2, 1, None, None)
    assert found["first_error"] == {"time": None, "text": "connection refused"}


def test_headings_with_a_time_do_not_swallow_the_lines_below(tmp_path: Path) -> None:
    log = tmp_path / "term.log"
    log.write_text("Log started: 2026-03-18  20:00:00\n" + "start was denied\n" * 30, encoding="utf-8")
    found = summarise(read_records(log), 30)
    assert (found["errors"], found["first_error"]["time"]) == (30, "2026-03-18T20:00:00+00:00")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe broken \x80\n", "完全没有\r\n时间".encode()])
def test_odd_files_are_read(tmp_path: Path, content: bytes) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(content)
    assert summarise(read_records(log), 5)["errors"] == 0


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"2026-03-18 20:00:00 INFO {n:05d}\n" for n in range(1000)), encoding="utf-8")
    records = read_records(log, max_bytes=320)
    assert [record.text[-5:] for record in records] == [f"{n:05d}" for n in range(990, 1000)]


def test_the_bundled_incident_tells_its_story(tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path)
    found = summarise(read_records(workspace.service_log("svc-pay-001", "prod")), 30)
    assert found["errors"] > 400
    assert "connection pool exhausted" in found["patterns"][0]["message"]
    assert any("release 2.14.0" in change for change in found["changes_before_first_error"])
    calm = summarise(read_records(workspace.service_log("svc-crt-003", "prod")), 30)
    assert (calm["errors"], calm["first_error"], calm["patterns"]) == (0, None, [])

"""The form on a terminal: a pseudo-terminal types what a person would."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

TIMEOUT_S = 60.0  # importing LangGraph takes seconds on a busy machine
_STYLES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Person:
    """Types into a command that runs on a pseudo-terminal, and reads what it shows."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._master, slave = pty.openpty()
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm", "COLUMNS": "100"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "adjourn.graph", *words],
            cwd=folder,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""
        self._read_to = 0

    def types(self, words: str, *, after: str) -> None:
        """Wait until `after` was shown, then type `words` and Enter."""
        self.wait_for(after)
        os.write(self._master, f"{words}\n".encode())

    def presses(self, key: bytes, *, after: str) -> None:
        """Wait until `after` was shown, then press a key."""
        self.wait_for(after)
        os.write(self._master, key)

    def wait_for(self, words: str) -> None:
        """Read until `words` were shown after what was waited for before."""
        deadline = time.monotonic() + TIMEOUT_S
        while words not in self.seen[self._read_to :]:
            assert time.monotonic() < deadline, f"{words!r} was not shown:\n{self.seen}"
            self._read()
        self._read_to = self.seen.index(words, self._read_to) + len(words)

    def leaves(self) -> int:
        """Read to the end; the exit status."""
        while self._read():
            pass
        return self.process.wait(TIMEOUT_S)

    def _read(self) -> bool:
        if not select.select([self._master], [], [], 1.0)[0]:
            return self.process.poll() is None
        try:
            piece = os.read(self._master, 4096)
        except OSError:  # Linux says so when the other end is closed
            return False
        self.seen += _STYLES.sub("", piece.decode(errors="replace"))
        return bool(piece)

    def close(self) -> None:
        """End the program if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the test's app in it."""
    shutil.copy(Path(__file__).with_name("cli_app.py"), tmp_path / "app.py")
    return tmp_path


@pytest.fixture
def person(folder: Path) -> Iterator[Person]:
    """A person who has started a run in the folder."""
    made = Person(folder, "run", "看看支付", "--app", "app.py:build", "--by", "li", "--lang", "en")
    yield made
    made.close()


def ran(folder: Path) -> list[object]:
    """What the tools really did, in order."""
    return [json.loads(line) for line in (folder / "ran.jsonl").read_text().splitlines()]


def fills_the_parameters(person: Person) -> None:
    """Answer the first question: a wrong value, a number, a wrong type, a value out of range, then a right one."""
    person.types("moon", after="environment (number or name)> ")
    person.wait_for("not accepted: must be one of prod, staging, not 'moon'")
    person.types("1", after="environment (number or name)> ")
    person.types("soon", after="minutes (Enter: 30)> ")
    person.wait_for("not accepted: must be integer, not 'soon'")
    person.types("61", after="minutes (Enter: 30)> ")
    person.wait_for("not accepted: 61 is greater than the maximum of 60")
    person.types("15", after="minutes (Enter: 30)> ")


def test_parameters_then_agreement_in_one_process(person: Person, folder: Path) -> None:
    fills_the_parameters(person)
    person.wait_for("Restart svc-pay-001 in prod?")
    person.types("maybe", after="action> ")
    person.types("1", after="action> ")
    assert person.leaves() == 0
    assert "finished (answered)" in person.seen
    assert ran(folder)[1:] == [
        ["query_logs", {"environment": "prod", "minutes": 15}],
        ["restart", {"service": "svc-pay-001", "environment": "prod", "grace_s": 5}],
    ]


def test_an_edit_asks_each_argument_with_its_present_value(person: Person, folder: Path) -> None:
    fills_the_parameters(person)
    person.types("edit", after="action> ")
    person.types("", after="service (Enter: svc-pay-001)> ")
    person.types("2", after="environment (number or name, Enter: prod)> ")
    person.types("60", after="grace_s (Enter: 5)> ")
    assert person.leaves() == 0
    assert ran(folder)[-1] == ["restart", {"service": "svc-pay-001", "environment": "staging", "grace_s": 60}]


def test_a_rejection_asks_for_the_reason(person: Person, folder: Path) -> None:
    fills_the_parameters(person)
    person.types("3", after="action> ")
    person.types("peak hours", after="reason (Enter: leave it out)> ")
    assert person.leaves() == 0
    assert len(ran(folder)) == 2


def test_who_leaves_the_form_leaves_the_question_open(person: Person, folder: Path) -> None:
    """Ctrl-D: exit status 3; `resume` on a terminal then asks again, and Ctrl-C leaves with 130."""
    person.presses(b"\x04", after="environment (number or name)> ")
    assert person.leaves() == 3
    assert "the question stays open" in person.seen
    run = re.findall(r"run_\w+", person.seen)[0]
    again = Person(folder, "resume", run, "--app", "app.py:build", "--lang", "en")
    try:
        again.wait_for("environment (number or name)> ")
        os.killpg(again.process.pid, 2)
        assert again.leaves() == 130
        assert f"resume {run} --set" in again.seen
        assert "Traceback" not in again.seen
    finally:
        again.close()

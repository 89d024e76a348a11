"""docs/server.md: what its commands print is what it shows."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from server.conftest import Api, Process, until

PAGE = Path(__file__).parents[2] / "docs" / "server.md"
SERVED = "localhost:8321"
IDS = re.compile(r"\bint_[0-9a-f]{12}\b")


def commands() -> list[tuple[str, str]]:
    """Each command of the page's examples, and what stands below it."""
    blocks = re.findall(r"<!-- http -->\n```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    parts = [one for block in blocks for one in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(line, shown) for line, _, shown in (one.partition("\n") for one in parts)]


def holds(printed: str, shown: str) -> bool:
    """Whether what was printed has each piece that is shown between cuts, in order, and no more without a cut."""
    pieces = [re.escape(one) for one in shown.strip().split("…")]
    return re.fullmatch(".*".join(pieces), printed.strip().replace("\r\n", "\n"), re.DOTALL) is not None


@pytest.mark.skipif(shutil.which("curl") is None, reason="the examples use curl, which is not here")
def test_c43_the_examples_print_what_the_page_shows(tmp_path: Path) -> None:
    found = commands()
    assert len(found) >= 7
    server = Process(tmp_path, app="adjourn.graph.demo.app:build")
    server.start()
    fresh: dict[str, str] = {}
    try:
        for line, shown in found:
            if "/inbox" in line:  # the example before it has read the stream up to the question
                with Api(server.url) as api:
                    asked = until(lambda api=api: api.get("/inbox").json()["questions"])
                assert asked[0]["question"]["type"] == "params_required"
            told = line.replace(SERVED, server.url.removeprefix("http://"))
            for written, real in fresh.items():
                told = told.replace(written, real)
            done = subprocess.run(
                ["bash", "-c", told], capture_output=True, text=True, check=True, timeout=60
            )
            for written, real in zip(_new(shown, fresh), _new(done.stdout, fresh, real=True), strict=False):
                fresh[written] = real
            expected = shown
            for written, real in fresh.items():
                expected = expected.replace(written, real)
            assert holds(done.stdout, expected), f"{told}\n{done.stdout}\n{expected}"
    finally:
        server.kill()


def _new(text: str, known: dict[str, str], *, real: bool = False) -> list[str]:
    """The ids of a text that are not known yet, in order."""
    old = set(known.values()) if real else set(known)
    return [one for one in dict.fromkeys(IDS.findall(text)) if one not in old]


def test_a_piece_that_is_not_there_is_found() -> None:
    assert holds('{"a": 1, "b": 2}\n', '{"a": 1, …}')
    assert not holds('{"a": 1, "b": 2}\n', '{"a": 2, …}')
    assert not holds('{"a": 1, "b": 2}\n', '{"a": 1}')

"""The notebooks run from top to bottom in an empty folder, without errors and warnings, and show what they say."""

import re
from pathlib import Path

import nbformat
import pytest
from docs.blocks import ROOT
from docs.notebooks import KERNEL, NOTEBOOKS, executed, shown, stderr_of

STALE = "its outputs are stale; run: .venv/bin/python tests/docs/refresh.py"
BY_NAME = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda one: one.stem)


def test_there_are_notebooks() -> None:
    assert [one.stem for one in NOTEBOOKS][:3] == [
        "01_first_run",
        "02_interrupt_and_resume",
        "03_look_inside",
    ]


@BY_NAME
def test_a_notebook_runs_and_shows_what_is_stored_in_it(notebook: Path, tmp_path: Path) -> None:
    now = executed(notebook, tmp_path)
    assert stderr_of(now) == ""
    assert shown(nbformat.read(notebook, as_version=4)) == shown(now), STALE


@BY_NAME
def test_a_notebook_holds_nothing_of_the_machine_that_ran_it(notebook: Path) -> None:
    stored = nbformat.read(notebook, as_version=4)
    nbformat.validate(stored)
    assert stored.metadata == KERNEL
    assert all(cell.metadata == {} for cell in stored.cells)
    counts = [cell.execution_count for cell in stored.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    text = notebook.read_text(encoding="utf-8")
    assert str(ROOT) not in text
    assert not re.search(r"(?<![\w.])/(home|root|Users|tmp)/", text)


@BY_NAME
def test_links_between_notebooks_lead_somewhere(notebook: Path) -> None:
    stored = nbformat.read(notebook, as_version=4)
    for cell in stored.cells:
        if cell.cell_type == "markdown":
            for target in re.findall(r"\]\(([^)#:\s]+)\)", cell.source):
                assert (notebook.parent / target).exists(), target

"""The notebooks: executed in an empty folder with a fresh kernel, and stored without what changes at each run."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib.font_manager  # noqa: F401 - lists the fonts, once: a kernel whose import takes long for it says so on stderr
import nbformat
from docs.blocks import ROOT
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
TIMEOUT_S = 120  # one cell; importing LangGraph takes seconds on a busy machine

_MASKS = (
    (re.compile(r"\b(run|thr|int|msg|call)_[0-9a-z]{12,}\b"), r"\1"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s)\b"), "N ms"),
    (re.compile(r"<svg.*?</svg>", re.DOTALL), "SVG"),  # bars are as long as things took
)


def executed(file: Path, folder: Path) -> NotebookNode:
    """The notebook after all its cells ran in `folder`. Raises `CellExecutionError` at the first one that fails."""
    notebook = nbformat.read(file, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=TIMEOUT_S,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
    )
    client.execute(cwd=str(folder), env=_environment(folder))
    for output in _outputs(notebook):
        if "text/html" in output.get("data", {}):
            output.data.pop("text/plain", None)  # what a notebook does not show
            # a form lives as long as its kernel
            output.data.pop("application/vnd.jupyter.widget-view+json", None)
    return notebook


def _environment(folder: Path) -> dict[str, str]:
    """This process's, with nothing of the user's, and without the installed commands on the path, as in an editor."""
    scripts = str(Path(sys.executable).parent)
    path = [one for one in os.environ.get("PATH", "").split(os.pathsep) if one != scripts]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ADJOURN_", "OPENAI_"))}
    return {
        **kept,
        "PATH": os.pathsep.join(path),
        "IPYTHONDIR": str(folder / ".ipython"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "LC_ALL": "C.UTF-8",
    }


def stderr_of(notebook: NotebookNode) -> str:
    """Everything that its cells printed to stderr: warnings stand there."""
    return "".join(one.text for one in _outputs(notebook) if one.get("name") == "stderr")


def _outputs(notebook: NotebookNode) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def shown(notebook: NotebookNode) -> list[str]:
    """The text of each output, without ids, times and durations."""
    return [_mask(_text(one)) for one in _outputs(notebook)]


def _text(output: Any) -> str:
    if "text" in output:
        return str(output["text"])
    data = output.get("data", {})
    return "\n".join(str(data[kind]) for kind in sorted(data) if kind.startswith("text/"))


def _mask(words: str) -> str:
    for pattern, mask in _MASKS:
        words = pattern.sub(mask, words)
    return words


def is_fresh(file: Path, now: NotebookNode) -> bool:
    """Whether the stored outputs say what the cells say now."""
    return shown(nbformat.read(file, as_version=4)) == shown(now)


def write(file: Path, notebook: NotebookNode) -> None:
    """Store a notebook: no times of execution, no versions, no empty metadata, so that a diff shows what changed."""
    notebook.metadata = nbformat.from_dict(KERNEL)
    for number, cell in enumerate(notebook.cells, 1):
        cell.metadata = nbformat.from_dict({})
        cell.id = f"cell-{number:02}"
    nbformat.write(notebook, file)

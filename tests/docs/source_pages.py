"""Files of the repository as Markdown pages: a module of tests with a heading for each test, a notebook with its outputs."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from docs.blocks import ROOT

_LANGUAGES = {".py": "python", ".sql": "sql", ".toml": "toml", ".yml": "yaml"}
_HEAD = "---\nsearch:\n  exclude: true\n---\n\n"  # who searches looks for a page, not for a line of a test


def source_page(file: Path) -> str:
    """A file that is no Markdown, as code."""
    name = file.relative_to(ROOT).as_posix()
    text = file.read_text(encoding="utf-8")
    parts = (
        _by_test(text)
        if file.name.startswith("test_")
        else iter([_fence(text, _LANGUAGES.get(file.suffix, "text"))])
    )
    return f"{_HEAD}# {file.name}\n\n`{name}`\n\n" + "\n\n".join(parts) + "\n"


def _by_test(text: str) -> Iterator[str]:
    """The code in order, with a heading before each test that links can lead to."""
    lines, at = text.splitlines(), 0
    for node in ast.parse(text).body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
            continue
        start = min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1
        yield _fence("\n".join(lines[at:start]), "python")
        yield f"## {node.name} {{ #{node.name} }}"
        at = node.end_lineno or start
        yield _fence("\n".join(lines[start:at]), "python")
    yield _fence("\n".join(lines[at:]), "python")


def _fence(code: str, language: str) -> str:
    ticks = "`" * max([3, *(len(one) + 1 for one in re.findall("`{3,}", code))])
    return f"{ticks}{language}\n{code.strip(chr(10))}\n{ticks}" if code.strip() else ""


def notebook_page(file: Path) -> str:
    """A notebook: its text, its code, and what the cells show."""
    return "\n\n".join(_cells(nbformat.read(file, as_version=4))) + "\n"


def _cells(notebook: Any) -> Iterator[str]:
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            yield cell.source
            continue
        yield _fence(cell.source, "python")
        for output in cell.get("outputs", ()):
            yield _shown(output)


def _shown(output: Any) -> str:
    if "text" in output:
        return _fence(output["text"], "text")
    data = output.data
    if "text/html" in data:
        html = re.sub(r"\n\s*\n", "\n", data["text/html"])  # an empty line would end the block of HTML
        return f'<div class="output">\n{html}\n</div>'
    if "image/png" in data:
        return f'<img class="output" alt="" src="data:image/png;base64,{data["image/png"].strip()}">'
    return data.get("text/markdown") or _fence(data.get("text/plain", ""), "text")

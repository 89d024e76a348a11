"""Which tests prove which item of the contract: told by their names, `test_c44_c49_...`."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from docs.blocks import ROOT

CONTRACT = ROOT / "docs" / "contract.md"
TESTS = ROOT / "tests"

# the number leads to its row of the table
_ITEM = re.compile(r"^- \[C-(\d+)\]\(#proof-c-\1\) ", re.MULTILINE)


def items(text: str) -> list[int]:
    """The numbers of the contract's items, in its order."""
    return [int(one) for one in _ITEM.findall(text)]


def proofs(tests: Path = TESTS) -> Mapping[int, list[str]]:
    """item -> `folder/file::test` of every test that names it, in order."""
    found: dict[int, list[str]] = {}
    for file in sorted(tests.rglob("test_*.py")):
        for name in _tests(file):
            for item in _named(name):
                found.setdefault(item, []).append(f"{file.relative_to(tests).as_posix()}::{name}")
    return found


def _tests(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


def _named(test: str) -> list[int]:
    words = re.match(r"test((?:_[csf]\d+)+)(?:_|$)", test)  # s: a scenario, f: a fact of a provider
    return [int(one) for one in re.findall(r"_c(\d+)", words[1])] if words else []


def table(text: str) -> str:
    """The table of proofs for the contract's text, as Markdown."""
    by_item = proofs()
    lines = ["\n| item | proof |\n|---|---|\n"]
    for item in sorted(items(text)):
        links = "<br>".join(map(_link, by_item.get(item, ()))) or "not proven yet"
        lines.append(f'| <a id="proof-c-{item}"></a>C-{item} | {links} |\n')
    return "".join([*lines, "\n"])


def _link(proof: str) -> str:
    file, _, test = proof.partition("::")
    return f"[`{test}`](../tests/{file})"

"""The tables of docs/compared.md, each between its markers, with what it was made with."""

import argparse
import os
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

FILE = Path(__file__).parents[2] / "docs" / "compared.md"
PACKAGES = ("langchain", "langgraph", "langgraph-checkpoint-sqlite", "adjourn")


def arguments(about: str | None) -> argparse.ArgumentParser:
    """What each of these benches can be asked."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--docs", action="store_true", help="write the table into docs/compared.md")
    return parser


def write(marker: str, command: str, lines: Sequence[str], *, packages: Sequence[str] = PACKAGES) -> None:
    """Put the lines between `<!-- marker -->` and `<!-- /marker -->`, under how they were made."""
    begin, end = f"<!-- {marker} -->", f"<!-- /{marker} -->"
    before, rest = FILE.read_text(encoding="utf-8").split(begin)
    after = rest.split(end)[1]
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    made = f"Made {date.today()} by `{command}` with {versions}, on {os.cpu_count()} cores (load {os.getloadavg()[0]:.1f})."
    FILE.write_text("\n".join([f"{before}{begin}", made, "", *lines, f"{end}{after}"]), encoding="utf-8")

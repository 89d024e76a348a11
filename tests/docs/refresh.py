"""Write what is generated into the documents: `python tests/docs/refresh.py` after a change of the code.

The READMEs: the machine's diagram, and the terminal sessions as they run now. docs/contract.md: the table of
proofs. The notebooks: their outputs. Tests fail when one of them is stale.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.blocks import READMES, with_generated
from docs.notebooks import NOTEBOOKS, executed, is_fresh, write
from docs.proofs import CONTRACT, table
from docs.session import rewritten

from adjourn.graph.routes import mermaid


def diagram() -> str:
    """The machine, as GitHub draws it."""
    return f"```mermaid\n{mermaid()}\n```\n"


def readme(text: str) -> str:
    """A README with its diagram drawn from the table of routes."""
    return with_generated(text, "machine", diagram())


def contract(text: str) -> str:
    """The contract with the table of its proofs."""
    return with_generated(text, "proofs", table(text))


def _update(file: Path, text: str) -> None:
    if file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
        print(f"written: {file.name}")


def main() -> None:
    """Refresh every document that is stale."""
    for language, file in READMES.items():
        with tempfile.TemporaryDirectory() as folder:
            _update(file, rewritten(readme(file.read_text(encoding="utf-8")), language, Path(folder)))
    _update(CONTRACT, contract(CONTRACT.read_text(encoding="utf-8")))
    for notebook in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            fresh = executed(notebook, Path(folder))
        if not is_fresh(notebook, fresh):
            write(notebook, fresh)
            print(f"written: {notebook.name}")


if __name__ == "__main__":
    main()

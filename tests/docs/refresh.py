"""Write what is generated into the documents: `python tests/docs/refresh.py` after a change of the code.

The READMEs: the machine's diagram. READMEs and pages: the terminal sessions as they run now, and in docs/sql.md what the
recipes give. docs/contract.md: the table of proofs. The notebooks: their outputs. Tests fail when one of them is stale.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs import recipes
from docs.blocks import DOCS, READMES, with_generated
from docs.notebooks import NOTEBOOKS, executed, is_fresh, write
from docs.proofs import CONTRACT, table
from docs.session import rewritten

from adjourn.graph.routes import mermaid

FIRST_PAGES = (DOCS / "index.md", DOCS / "zh" / "index.md")


def diagram() -> str:
    """The machine, as GitHub draws it."""
    return f"```mermaid\n{mermaid()}\n```\n"


def with_diagram(text: str) -> str:
    """A document with its diagram drawn from the table of routes."""
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
            _update(file, rewritten(with_diagram(file.read_text(encoding="utf-8")), language, Path(folder)))
    for page in FIRST_PAGES:
        _update(page, with_diagram(page.read_text(encoding="utf-8")))
    for page in sorted(DOCS.rglob("*.md")):
        if "<!-- session -->" in page.read_text(encoding="utf-8"):
            language = "zh" if page.parent.name == "zh" else "en"
            with tempfile.TemporaryDirectory() as folder:
                _update(page, rewritten(page.read_text(encoding="utf-8"), language, Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        _update(recipes.PAGE, recipes.rewritten(recipes.PAGE.read_text(encoding="utf-8"), Path(folder)))
    _update(CONTRACT, contract(CONTRACT.read_text(encoding="utf-8")))
    for notebook in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            fresh = executed(notebook, Path(folder))
        if not is_fresh(notebook, fresh):
            write(notebook, fresh)
            print(f"written: {notebook.name}")


if __name__ == "__main__":
    main()

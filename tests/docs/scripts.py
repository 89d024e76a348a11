"""Scripts of a page, run as a reader would run them."""

import os
import subprocess
import sys
from pathlib import Path

from docs.blocks import DOCS, file


def printed_by(page: str, name: str, folder: Path) -> list[str]:
    """The lines that this file of a page prints, run in a folder without settings of Adjourn."""
    (folder / name).write_text(file((DOCS / page).read_text(encoding="utf-8"), name), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", name],
        check=False,
        cwd=folder,
        env={key: value for key, value in os.environ.items() if not key.startswith("ADJOURN_")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()

"""docs/asking.md: its script does what the page says."""

import os
import subprocess
import sys
from pathlib import Path

from docs.blocks import ROOT, file

PAGE = ROOT / "docs" / "asking.md"


def test_c51_the_script_of_the_page_asks_two_of_four(tmp_path: Path) -> None:
    (tmp_path / "approvals.py").write_text(
        file(PAGE.read_text(encoding="utf-8"), "approvals.py"), encoding="utf-8"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ADJOURN_")}
    ran = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "approvals.py"],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.stdout.splitlines() == [
        "mallory -> NotAllowed",
        "chen -> NotAllowed",
        "li -> interrupted",
        "wang -> finished",
        "It is paid.",
    ], ran.stderr

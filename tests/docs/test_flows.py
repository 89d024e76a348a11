"""docs/flows.md: its script that asks for a structured answer gets one."""

import os
import subprocess
import sys
from pathlib import Path

from docs.blocks import ROOT, file

PAGE = ROOT / "docs" / "flows.md"


def test_c79_the_last_step_of_the_page_gives_an_answer_that_fits_its_schema(tmp_path: Path) -> None:
    (tmp_path / "report.py").write_text(file(PAGE.read_text(encoding="utf-8"), "report.py"), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ADJOURN_")}
    ran = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "report.py"],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.stdout == "service='pay' severity='high'\n", ran.stderr

"""docs/flows.md: its script that asks for a structured answer gets one."""

from pathlib import Path

from docs.scripts import printed_by


def test_c79_the_last_step_of_the_page_gives_an_answer_that_fits_its_schema(tmp_path: Path) -> None:
    assert printed_by("flows.md", "report.py", tmp_path) == ["service='pay' severity='high'"]

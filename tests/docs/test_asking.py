"""docs/asking.md: its script does what the page says."""

from pathlib import Path

from docs.scripts import printed_by


def test_c51_the_script_of_the_page_asks_two_of_four(tmp_path: Path) -> None:
    assert printed_by("asking.md", "approvals.py", tmp_path) == [
        "mallory -> NotAllowed",
        "chen -> NotAllowed",
        "li -> interrupted",
        "wang -> finished",
        "It is paid.",
    ]

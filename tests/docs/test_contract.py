"""The project's contract: every item is there once, and its table of proofs is what the tests' names say."""

import re
from pathlib import Path

from docs.blocks import generated
from docs.proofs import CONTRACT, items, proofs, table

STALE = "docs/contract.md is stale; run: .venv/bin/python tests/docs/refresh.py"
LAST = 95


def test_every_item_is_there_once() -> None:
    assert sorted(items(CONTRACT.read_text(encoding="utf-8"))) == list(range(1, LAST + 1))


def test_the_table_of_proofs_is_what_the_names_of_the_tests_say() -> None:
    text = CONTRACT.read_text(encoding="utf-8")
    assert generated(text, "proofs") == table(text), STALE


def test_no_test_names_an_item_that_is_not_in_the_contract() -> None:
    assert set(proofs()) <= set(range(1, LAST + 1))


def test_names_of_tests_are_read_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "def test_c44_c49_s5_reject(): ...\nasync def test_c1(): ...\ndef test_s7_c2(): ...\ndef test_cut(): ...\n"
    )
    assert proofs(tmp_path) == {
        1: ["test_one.py::test_c1"],
        2: ["test_one.py::test_s7_c2"],
        44: ["test_one.py::test_c44_c49_s5_reject"],
        49: ["test_one.py::test_c44_c49_s5_reject"],
    }
    assert "C-300 | not proven yet |" in table("- [C-300](#proof-c-300) An item.\n")


def test_every_item_leads_to_its_row_and_the_row_to_tests_that_are_there() -> None:
    rows = dict(
        re.findall(
            r'^\| <a id="proof-c-(\d+)"></a>C-\1 \| (.*) \|$',
            CONTRACT.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    )
    assert set(map(int, rows)) == set(range(1, LAST + 1))
    for item, row in rows.items():
        links = re.findall(r"\[`(test_\w+)`\]\((\.\./tests/[\w/]+\.py)\)", row)
        assert links, f"C-{item} has no proof"
        for test, file in links:
            assert f"def {test}(" in (CONTRACT.parent / file).read_text(encoding="utf-8"), (test, file)

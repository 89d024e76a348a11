"""The parts of a document that are run or generated, found by comments that readers do not see.

<!-- machine: begin --> ... <!-- machine: end -->     written by refresh.py
<!-- file: ops.py -->                                 the fence below is that file
<!-- session -->                                      the fence below is replayed: see session.py
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
READMES = {"en": ROOT / "README.md", "zh": ROOT / "README.zh.md"}

_FENCE = r"```\w*\n(.*?)```"


def _generated(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}: begin -->\n)(.*?)(<!-- {name}: end -->)", re.DOTALL)


def generated(text: str, name: str) -> str:
    """What stands between the two markers of this name. Raises `LookupError` when they are not there."""
    found = _generated(name).search(text)
    if found is None:
        raise LookupError(f"there are no markers <!-- {name}: begin --> and <!-- {name}: end -->")
    return found[2]


def with_generated(text: str, name: str, body: str) -> str:
    """`text` with `body` between the markers."""
    generated(text, name)
    return _generated(name).sub(lambda found: f"{found[1]}{body}{found[3]}", text)


def file(text: str, name: str) -> str:
    """The code of the fence that is marked as this file."""
    found = re.search(rf"<!-- file: {re.escape(name)} -->\n+{_FENCE}", text, re.DOTALL)
    if found is None:
        raise LookupError(f"there is no fence marked <!-- file: {name} -->")
    return found[1]


def files(text: str) -> dict[str, str]:
    """Every file of a document: name -> code."""
    return {name: file(text, name) for name in re.findall(r"<!-- file: (\S+) -->", text)}


def fences(text: str, language: str) -> list[str]:
    """The inside of every fence of this language that has no mark."""
    found = re.finditer(rf"^(<!-- [^\n]* -->\n+)?```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [one[2] for one in found if one[1] is None]


def session_spans(text: str) -> list[tuple[int, int]]:
    """Where the inside of each fence marked as a session begins and ends."""
    found = re.finditer(rf"<!-- session -->\n+{_FENCE}", text, re.DOTALL)
    return [one.span(1) for one in found]

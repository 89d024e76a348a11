"""The map of each room names every module that is there, and none that is not."""

import re
from pathlib import Path

import pytest
from docs.blocks import ROOT

ROOMS = ("graph", "nodes", "checkpoints")


def modules(room: str) -> set[Path]:
    """Every module and SQL file of a room, by its path within the package; `__init__.py` holds imports only."""
    package = ROOT / room / "adjourn" / room
    files = [*package.rglob("*.py"), *package.rglob("*.sql")]
    return {one.relative_to(package) for one in files if one.name != "__init__.py"}


def mapped(room: str) -> set[Path]:
    """Every file that the room's tables name, under the folder that the heading above names."""
    found: set[Path] = set()
    folder = Path()
    for line in (ROOT / room / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            named = re.search(rf"`adjourn/{room}/(.*?)/?`", line)
            folder = Path(named[1]) if named else Path()
        elif line.startswith("| `"):
            names = line.split("|")[1]
            found |= {folder / one for one in re.findall(r"`([\w.]+\.(?:py|sql))`", names)}
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_the_map_and_the_room_agree(room: str) -> None:
    there, named = modules(room), mapped(room)
    assert not there - named, f"{room}/README.md does not name these"
    assert not named - there, f"{room}/README.md names these, which are gone"


@pytest.mark.parametrize("room", ROOMS)
def test_the_map_says_where_to_put_a_new_thing(room: str) -> None:
    text = (ROOT / room / "README.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {room}: ")
    assert "## Where to put a new thing" in text

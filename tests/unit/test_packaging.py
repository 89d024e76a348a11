"""Three folders, one package: what would break an install without breaking a single other test."""

import importlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import adjourn

ROOT = Path(__file__).parents[2]
ROOMS = ("graph", "nodes", "checkpoints")
UV = Path(sys.executable).with_name("uv")


def settings() -> dict[str, object]:
    """`[tool.hatch.build]` of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        build: dict[str, object] = tomllib.load(file)["tool"]["hatch"]["build"]
    return build


def test_adjourn_is_a_namespace_package() -> None:
    """With an `__init__.py` in one room, Python would see that room alone."""
    for room in ROOMS:
        assert not (ROOT / room / "adjourn" / "__init__.py").exists()
    assert adjourn.__file__ is None


def test_the_build_names_the_three_rooms() -> None:
    build = settings()
    assert build["dev-mode-dirs"] == list(ROOMS)
    assert build["targets"]["wheel"]["packages"] == [f"{room}/adjourn" for room in ROOMS]  # type: ignore[index]


@pytest.mark.parametrize("room", ROOMS)
def test_each_package_comes_from_its_own_room_and_is_typed(room: str) -> None:
    package = importlib.import_module(f"adjourn.{room}")
    assert [Path(one) for one in package.__path__] == [ROOT / room / "adjourn" / room]
    assert (ROOT / room / "adjourn" / room / "py.typed").is_file()


def test_the_wheel_holds_all_three_their_data_and_no_tests(tmp_path: Path) -> None:
    command = [UV, "build", "--quiet", "--wheel", "--out-dir", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for room in ROOMS:
        package = ROOT / room / "adjourn"
        files = [one for one in package.rglob("*") if one.is_file() and "__pycache__" not in one.parts]
        missing = {f"adjourn/{one.relative_to(package).as_posix()}" for one in files} - names
        assert not missing
    assert "adjourn/checkpoints/views.sql" in names
    assert [one for one in names if one.startswith("adjourn/graph/demo/data/logs/")]
    others = {one.partition("/")[0] for one in names} - {"adjourn", "adjourn-0.1.0.dist-info"}
    assert not others
    assert not [one for one in names if re.search(r"(^|/)(tests?|conftest\.py)(/|$)|/test_", one)]


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md"])
@pytest.mark.parametrize("package", ["adjourn.graph", "adjourn.nodes"])
def test_the_readme_lists_the_public_names_and_no_others(readme: str, package: str) -> None:
    text = (ROOT / readme).read_text(encoding="utf-8")
    table = re.search(rf"^\| `{package}` \| \|\n\|---\|---\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table is not None
    listed = [name for row in table[1].splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    public = importlib.import_module(package).__all__
    assert sorted(listed) == sorted(public)
    assert all(hasattr(importlib.import_module(package), name) for name in public)

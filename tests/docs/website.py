"""The documentation as a site: `python tests/docs/website.py` builds it, strictly, without a network.

What is read in the repository is what the site is made of. This script lays copies into a folder, where what a page
links to outside of `docs/` (a test, a room's README, a notebook) becomes a page too, and then calls the generator.
"""

import os.path
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.blocks import DOCS, ROOT
from docs.drawing import svg
from docs.source_pages import notebook_page, source_page

CONFIG = ROOT / "mkdocs.yml"
FOLDER = ROOT / "build" / "docs"  # git ignores it
HOMES = {
    ROOT / "README.md": "index.md",
    ROOT / "README.zh.md": "zh/index.md",
}  # the site has its own first pages

_LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")
_NAMED_LINK = re.compile(r"\[`(test_\w+)`\]\(([^)#:\s]+\.py)\)")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# would be shown as a space
_CHINESE_BREAK = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef])\n *(?=[\u3000-\u9fff\uff00-\uffef])")
_FILE = re.compile(r"<!-- file: (\S+) -->\n+```(\w+)\n")


class Staging:
    """Lays one page after the other into a folder, and each page that one of them leads to."""

    def __init__(self, stage: Path) -> None:
        self._stage = stage
        self._laid: set[Path] = set()

    def all(self) -> None:
        """Every page of `docs/`, and what they lead to."""
        for one in sorted(DOCS.rglob("*")):
            if one.suffix == ".md":
                self.lay(one)
            elif one.is_file():
                self._write(one.relative_to(DOCS), one.read_text(encoding="utf-8"))

    def lay(self, file: Path) -> Path:
        """Where the page of this file of the repository stands, from the site's root; it is made if it is not there."""
        place = _place(file)
        if file not in self._laid and file not in HOMES:
            self._laid.add(file)
            self._write(place, self._page(file, place))
        return place

    def _page(self, file: Path, place: Path) -> str:
        if file.suffix == ".ipynb":
            return self._led(notebook_page(file), file, place)
        if file.suffix != ".md":
            return source_page(file)
        return self._led(file.read_text(encoding="utf-8"), file, place)

    def _led(self, text: str, file: Path, place: Path) -> str:
        """The text with its links leading to pages of the site; what is inside fences is left as it is."""

        def led(found: re.Match[str]) -> str:
            return f"{found[1]}{self._target(file, place, found[2])}{found[3]}"

        def led_to_test(found: re.Match[str]) -> str:
            return f"[`{found[1]}`]({self._target(file, place, found[2])}#{found[1]})"

        def outside(part: str) -> str:
            return _LINK.sub(led, _NAMED_LINK.sub(led_to_test, _CHINESE_BREAK.sub("", part)))

        parts, end = [], 0
        for fence in _FENCED.finditer(text):
            parts += [outside(text[end : fence.start()]), _drawn(fence[0])]
            end = fence.end()
        parts.append(outside(text[end:]))
        return _FILE.sub(r'```\2 title="\1"' + "\n", "".join(parts))

    def _target(self, file: Path, place: Path, target: str) -> str:
        """The link from the page at `place` to what `target` means beside `file`."""
        meant = (file.parent / target).resolve()
        if not meant.is_relative_to(ROOT) or not meant.is_file():
            return target  # the generator complains
        return os.path.relpath(self.lay(meant), place.parent)

    def _write(self, place: Path, text: str) -> None:
        file = self._stage / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _drawn(fence: str) -> str:
    """A fence; one that holds a diagram as a picture."""
    return (
        svg(fence.removeprefix("```mermaid").removesuffix("```")) if fence.startswith("```mermaid") else fence
    )


def _place(file: Path) -> Path:
    if file in HOMES:
        return Path(HOMES[file])
    if file.is_relative_to(DOCS):
        return file.relative_to(DOCS)
    name = file.relative_to(ROOT)
    return (
        name.with_suffix(".md")
        if name.suffix == ".ipynb"
        else Path("source", f"{name}.md" if name.suffix != ".md" else name)
    )


def build(folder: Path = FOLDER) -> Path:
    """Make the site in `folder`, which is emptied first; gives where its pages are. Raises like `generate`."""
    shutil.rmtree(folder, ignore_errors=True)
    Staging(folder / "pages").all()
    return generate(folder, CONFIG.read_text(encoding="utf-8"))


def generate(folder: Path, config: str) -> Path:
    """Make a site of the folder's `pages`; gives where it is.

    Raises `subprocess.CalledProcessError`, having printed what is wrong, also for a mere warning.
    """
    file = folder / CONFIG.name
    file.write_text(config, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", file], check=True, cwd=folder
    )
    return folder / "site"


if __name__ == "__main__":
    site = build().relative_to(ROOT)
    print(f"the site is in {site}; its search needs a server: python -m http.server -d {site}")

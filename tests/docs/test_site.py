"""The site: it is built without complaint, loads nothing from elsewhere, and leads where it says."""

import importlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs.blocks import DOCS, ROOT
from docs.drawing import parsed, svg
from docs.proofs import CONTRACT, items
from docs.website import CONFIG, build, generate
from server.browsers import launched

from adjourn.graph.routes import ROUTES, WHY, mermaid

PACKAGES = ("graph", "nodes", "checkpoints")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("site"))


def html(site: Path, name: str) -> str:
    return (site / name).read_text(encoding="utf-8")


def ids(page: str) -> set[str]:
    return set(re.findall(r'\bid="?([^"\s>]+)', page))


def test_every_page_of_the_documents_is_there_and_in_the_navigation(site: Path) -> None:
    pages = {one.relative_to(DOCS).as_posix() for one in DOCS.rglob("*.md")}
    settings = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    listed = set(_leaves(settings["nav"]))
    assert pages <= listed
    for name in listed:
        assert (site / name).with_suffix(".html").is_file(), name


def _leaves(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for one in nav.values() if isinstance(nav, dict) else nav:
            yield from _leaves(one)


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for tag in re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", text):
            assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag), (page, tag)
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import )[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), (
            style
        )


def test_every_item_of_the_contract_leads_to_its_tests(site: Path) -> None:
    contract, text = html(site, "contract.html"), CONTRACT.read_text(encoding="utf-8")
    known = ids(contract)
    for item in items(text):
        assert f"#proof-c-{item}" in contract
        assert f"proof-c-{item}" in known
    links = set(re.findall(r"\[`(test_\w+)`\]\(\.\./(tests/[^)]+)\)", text))
    assert len(links) > 500
    for test, file in links:
        target = f"source/{file}.html"
        assert f"{target}#{test}" in contract
        assert test in ids(html(site, target)), (file, test)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_holds_every_public_name_with_its_docstring(site: Path, package: str) -> None:
    page = html(site, f"reference/{package}.html")
    for name in importlib.import_module(f"adjourn.{package}").__all__:
        # `adjourn.nodes.tool` is a module of the same name, too
        found = re.search(
            rf'<h\d id="adjourn\.{package}(?:\.{name}){{1,2}}"(.*?)<h\d ', f"{page}<h1 ", re.DOTALL
        )
        if found is None:  # it is the same object
            assert f'href="nodes.html#adjourn.nodes.{name}"' in page, name
        else:
            assert "<p>" in found[1], f"{name} has no docstring"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[a page that is gone](gone.md), [a heading that is gone](other.md#gone)", "2 issues found"),
        ("::: adjourn.graph.gone", "adjourn.graph.gone could not be found"),
    ],
)
def test_what_leads_nowhere_fails_the_build(
    text: str, complaint: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.md").write_text(f"# One\n\n{text}\n\n[there](other.md#here)\n", encoding="utf-8")
    (pages / "other.md").write_text("# Other\n\n## Here\n", encoding="utf-8")
    (pages / "site.css").write_text("", encoding="utf-8")
    config, _, nav = CONFIG.read_text(encoding="utf-8").partition("\nnav:\n")
    assert nav
    with pytest.raises(subprocess.CalledProcessError):
        generate(tmp_path, config)
    assert complaint in "".join(capfd.readouterr())


def test_make_docs_builds_it() -> None:
    recipe = subprocess.run(
        ["make", "-n", "docs"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    # a make around this one adds lines of its own
    assert ".venv/bin/python tests/docs/website.py" in recipe.splitlines()
    ignored = subprocess.run(
        ["git", "check-ignore", "-q", "build/docs/site/index.html"], cwd=ROOT, check=False
    )
    assert ignored.returncode == 0


# -- diagrams


def test_the_drawing_has_every_edge_of_the_machine() -> None:
    diagram = parsed(mermaid())
    drawn = {(diagram.nodes[one.source], diagram.nodes[one.target], one.label) for one in diagram.edges}
    table = {
        (node, target, WHY[node, outcome])
        for node, routes in ROUTES.items()
        for outcome, target in routes.items()
    }
    assert drawn == {("", "model", ""), ("finish", "", ""), *table}
    picture = svg(mermaid())
    assert picture.count('class="edge"') == len(drawn)
    assert all(label in picture for _, _, label in drawn)


def test_a_line_that_is_not_understood_is_no_diagram() -> None:
    with pytest.raises(ValueError, match="not understood"):
        parsed("flowchart TD\n    a ~~~ b")


# -- in a browser


def test_pages_open_in_a_browser_without_complaint_and_fit_its_width(site: Path) -> None:
    troubles: list[str] = []
    for browser in launched():
        for width in (1280, 400):
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.on("pageerror", lambda error: troubles.append(str(error)))
            page.on("request", lambda one: one.url.startswith("http") and troubles.append(one.url))
            for name in (
                "index",
                "tutorial",
                "from-create-agent",
                "sql",
                "reference/graph",
                "contract",
                "compared",
                "zh/index",
            ):
                page.goto((site / f"{name}.html").as_uri())
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, (name, width, wide)
            page.close()
    assert troubles == []

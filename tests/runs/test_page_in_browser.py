"""The page of a run in a real browser: it loads nothing, and can be read by eye, by keyboard and by screen reader."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from runs.shop import Shop

from adjourn.checkpoints.database import now
from adjourn.graph import Run
from adjourn.graph.page import run_page
from adjourn.nodes import approve
from adjourn.nodes.scripted import call, says

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# as root, without a graphics card, and without its own look-ups
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NASTY = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium is here; Debian's package is `chromium`"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def run(house) -> Run:
    """Calls side by side, a failure, a question and its answer, and text that would like to be code."""
    shop = Shop(delays={"search_resource": 0.02}, fails={"search_docs": RuntimeError(NASTY)})
    reads = [
        call("search_resource", {"query": NASTY * 5}, id="a"),
        call("search_docs", {"query": NASTY}, id=NASTY),
    ]
    restart = call("restart_service", {"service_id": "svc-pay-001", "environment": "prod"}, id="r")
    runner = house.runner([says("I look.", *reads, restart), NASTY * 9], shop)
    asked = runner.start_sync(NASTY, run_id="run_b", by="wang")
    return runner.resume_sync(asked.id, {asked.interrupts[0].id: approve()}, by="li")


@pytest.fixture
def opened(browser: Browser, run: Run, tmp_path: Path) -> Iterator[Any]:
    """Opens the page; at its end, nothing was asked of a network and nothing complained."""
    complaints: list[str] = []
    contexts = []

    def open_page(language: str = "en", scheme: Any = "light", width: int = 1180) -> Page:
        file = tmp_path / f"{language}.html"
        file.write_text(run_page(run, language, now()), encoding="utf-8")
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda one: None if one.url == file.as_uri() else complaints.append(one.url))
        page.on("console", lambda one: complaints.append(one.text))
        page.on("pageerror", lambda one: complaints.append(str(one)))
        page.goto(file.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def test_nothing_in_a_run_becomes_code(opened: Any) -> None:
    page = opened()
    assert page.title() == "run_b finished"
    assert page.locator("img, script").count() == 0
    assert NASTY in page.locator("header .words").inner_text()


@pytest.mark.parametrize(("language", "label", "lang"), [("en", "Timeline", "en"), ("zh", "时间线", "zh-CN")])
def test_what_a_screen_reader_is_told(opened: Any, language: str, label: str, lang: str) -> None:
    page = opened(language)
    assert page.locator("html").get_attribute("lang") == lang
    region = page.get_by_role("region", name=label)
    links = region.get_by_role("link")
    names = [one.get_attribute("aria-label") or "" for one in links.all()]
    assert len(names) == 5  # two model calls, three tool calls
    assert "restart_service: ok · " in names[3]
    assert "search_docs: failed · " in names[2]
    assert page.get_by_role("heading", level=1).inner_text() == "run_b"
    assert [one for one in page.locator("h2, h3, h4").all() if not one.inner_text().strip()] == []


def test_the_keyboard_leads_from_a_bar_to_what_it_is_about(opened: Any) -> None:
    page = opened()
    seen: list[str] = []
    for _ in range(12):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                "(document.activeElement.getAttribute('href') || document.activeElement.className).toString()"
            )
        )
    assert seen[:3] == ["#steps", "figure", "#s1"]  # the way past the picture comes first
    restart = page.get_by_role("link", name="restart_service")
    restart.focus()
    page.keyboard.press("Enter")
    assert page.url.endswith("#s1-c2")
    assert "restart_service" in page.locator(":target").inner_text()
    details = page.locator("details").first
    details.locator("summary").focus()
    page.keyboard.press("Enter")
    assert details.get_attribute("open") is not None


CONTRAST = """() => {
  const channel = c => { c /= 255; return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4 };
  const light = c => .2126 * channel(c[0]) + .7152 * channel(c[1]) + .0722 * channel(c[2]);
  const parse = s => (s.match(/[\\d.]+/g) || []).map(Number);
  const ground = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c } return [255, 255, 255] };
  const low = [];
  for (const e of document.querySelectorAll('h1,h2,h3,h4,p,dd,dt,span.dim,span.pill,span.name,pre,td,th,li,footer,svg text')) {
    const style = getComputedStyle(e);
    const ink = parse(e.tagName === 'text' ? style.fill : style.color), back = ground(e);
    const alpha = Number(style.opacity);
    const shown = ink.slice(0, 3).map((c, i) => c * alpha + back[i] * (1 - alpha));
    const [a, b] = [light(shown), light(back)].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) low.push(`${e.tagName}.${e.getAttribute('class')} ${ratio.toFixed(2)} ${e.textContent.slice(0, 30)}`);
  }
  return low }"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(opened: Any, scheme: str) -> None:
    page = opened(scheme=scheme)
    assert page.evaluate(CONTRAST) == []
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(251, 251, 253)" if scheme == "light" else "rgb(20, 22, 27)")


def test_on_a_telephone_the_picture_scrolls_and_the_page_does_not(opened: Any) -> None:
    page = opened(width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    figure = page.locator(".figure")
    assert figure.evaluate("one => one.scrollWidth > one.clientWidth")
    bars = page.locator("rect.adj-ok, rect.adj-failed, rect.adj-model, rect.adj-wait")
    boxes = [one.bounding_box() for one in bars.all()]
    assert len(boxes) == 6
    assert all(box and box["width"] >= 2 and box["height"] >= 8 for box in boxes)

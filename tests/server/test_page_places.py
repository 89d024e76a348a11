"""Finding one's way on the inbox page: the door, the lists, a phone."""

import pytest
from playwright.sync_api import Locator, Page, expect
from server import served_app
from server.browsers import Visit

from adjourn.graph.server import Access
from adjourn.graph.server.access import digest

TOKEN = "wang-token-0123456789"
PHONE = {"width": 390, "height": 800}
BOTH = pytest.mark.parametrize("locale", ["en-US", "zh-CN"])


def top(one: Locator) -> float:
    """How far below the window's upper edge it begins."""
    box = one.bounding_box()
    assert box is not None
    return box["y"]


def expect_run_in_view(page: Page) -> None:
    """What was chosen begins at the window's upper edge, and has the focus."""
    expect(page.locator("#run")).to_be_focused()
    assert abs(top(page.locator("#run"))) < 1


def open_lists(visit: Visit, url: str, locale: str, runs: int) -> Page:
    """The page on a phone, with lists that fill it."""
    visitor = visit(url, locale=locale)
    visitor.page.set_viewport_size(PHONE)
    page = visitor.open()
    expect(page.locator("#runs a")).to_have_count(runs)
    assert page.evaluate("scrollY") == 0
    return page


@pytest.mark.parametrize(
    "locale, none, yours",
    [
        ("en-US", "No runs yet.", "No runs of yours yet."),
        ("zh-CN", "还没有运行。", "您还没有运行。"),
    ],
)
def test_who_sees_their_own_runs_alone_is_told_that_none_is_theirs(
    visit: Visit, serve, locale: str, none: str, yours: str
) -> None:
    page = visit(serve().url, locale=locale).open()
    expect(page.locator("#runs")).to_have_text(none)
    visitor = visit(serve(access=Access({digest(TOKEN): "wang"})).url, locale=locale)
    visitor.context.add_init_script(f"sessionStorage.setItem('adjourn.token', '{TOKEN}')")
    expect(visitor.open().locator("#runs")).to_have_text(yours)


@pytest.mark.parametrize(
    "locale, unknown, other, asked",
    [
        ("en-US", "This token is not known here.", "中文", "需要访问令牌"),
        ("zh-CN", "此令牌无效。", "English", "This server wants a token"),
    ],
)
def test_a_wrong_token_is_told_and_the_door_speaks_both_languages(
    visit: Visit, serve, locale: str, unknown: str, other: str, asked: str
) -> None:
    served = serve(access=Access({digest(TOKEN): "wang"}))
    page = visit(served.url, locale=locale).open()
    door = page.get_by_role("dialog")
    token = door.locator("input")
    expect(token).to_be_focused()
    expect(door.locator(".wrong")).to_be_empty()
    for wrong in ("wrong-token-0123456789", "令牌"):  # the second fits in no header
        token.fill(wrong)
        token.press("Enter")
        expect(door.get_by_role("alert")).to_have_text(unknown)
        expect(token).to_be_focused()
    token.fill(TOKEN)
    door.get_by_role("button", name=other).click()
    expect(door.get_by_role("heading")).to_have_text(asked)
    expect(token).to_have_value(TOKEN)
    token.press("Enter")
    expect(page.locator("#person")).to_contain_text("wang")
    expect(door).to_have_count(0)


def test_beside_a_long_list_the_run_that_is_chosen_at_its_end_is_in_view(visit: Visit, serve) -> None:
    served = serve(served_app.plain)
    for _ in range(30):
        served.api().start()
    page = visit(served.url).open()
    expect(page.locator("#runs a")).to_have_count(30)
    page.locator("#runs a").last.click()
    expect(page.locator("#run h2")).to_be_in_viewport()


@BOTH
def test_on_a_phone_a_chosen_run_comes_into_view_with_the_focus(visit: Visit, serve, locale: str) -> None:
    served = serve(served_app.plain)
    for _ in range(9):
        served.api().start()
    page = open_lists(visit, served.url, locale, 9)
    assert top(page.locator("#run")) > PHONE["height"]
    for place in (3, 3):  # the same one once more: the hash does not change
        page.locator("#runs a").nth(place).click()
        expect_run_in_view(page)
        page.evaluate("scrollTo(0, 0)")
    page.locator("#message").fill("go")
    page.get_by_role("button", name="Start" if locale == "en-US" else "开始").click()
    expect_run_in_view(page)
    expect(page.locator("#run h2")).to_have_text("go")
    page.reload()  # as from a link to this run
    expect(page.locator("#runs a")).to_have_count(10)
    expect_run_in_view(page)


@BOTH
def test_on_a_phone_a_chosen_question_comes_into_view_with_the_focus(
    visit: Visit, serve, locale: str
) -> None:
    served = serve(served_app.several)
    run = served.api().start()
    page = open_lists(visit, served.url, locale, 1)
    for place in (2, 1):  # the second stands in a run that is shown already
        card = page.locator(f"[data-question={run['interrupts'][place]['id']}]")
        page.evaluate("scrollTo(0, 0)")
        page.locator("#waiting a").nth(place).click()
        expect(card).to_be_focused()
        expect(card).to_be_in_viewport(ratio=1)
        bar = page.locator(".bar").bounding_box()
        assert bar is not None
        assert top(card) > bar["y"] + bar["height"]  # which stays above it


@BOTH
def test_on_a_phone_somebody_elses_question_comes_into_view(visit: Visit, serve, locale: str) -> None:
    served = serve(served_app.several, access=Access({digest(TOKEN): "wang", digest(f"li-{TOKEN}"): "li"}))
    for _ in range(3):
        served.api(f"li-{TOKEN}").start()
    visitor = visit(served.url, locale=locale)
    visitor.context.add_init_script(f"sessionStorage.setItem('adjourn.token', '{TOKEN}')")
    visitor.page.set_viewport_size(PHONE)
    page = visitor.open()
    page.locator("#waiting a").nth(8).click()
    expect_run_in_view(page)
    expect(page.locator(".question")).to_be_visible()


@BOTH
def test_beside_the_lists_nothing_jumps(visit: Visit, serve, locale: str) -> None:
    served = serve(served_app.several)
    for _ in range(4):
        served.api().start()
    page = visit(served.url, locale=locale).open()
    link = page.locator("#runs a").nth(0)
    link.focus()
    before = page.evaluate("scrollY")  # the focus may have scrolled
    page.keyboard.press("Enter")
    expect(page.locator(".question")).to_have_count(3)
    expect(link).to_be_focused()
    assert page.evaluate("scrollY") == before


@BOTH
def test_of_several_questions_of_a_run_the_chosen_one_is_marked_and_in_view(
    visit: Visit, serve, locale: str
) -> None:
    served = serve(served_app.several)
    run = served.api().start()
    page = visit(served.url, locale=locale).open()
    for place in (2, 0):
        page.locator("#waiting a").nth(place).click()
        expect(page.locator("#waiting a[aria-current]")).to_have_count(1)
        expect(page.locator("#waiting a").nth(place)).to_have_attribute("aria-current", "true")
        expect(page.locator("#runs a")).to_have_attribute("aria-current", "true")
        card = page.locator(f"[data-question={run['interrupts'][place]['id']}]")
        expect(card).to_be_in_viewport(ratio=1)
        expect(page.locator(".question.chosen")).to_have_count(1)
        assert "chosen" in (card.get_attribute("class") or "")
    page.locator("#runs a").click()
    expect(page.locator("#waiting a[aria-current]")).to_have_count(0)
    expect(page.locator(".question.chosen")).to_have_count(0)


@pytest.mark.parametrize(
    "locale, stop, sure, yes, no",
    [
        ("en-US", "Stop this run", "Stop it for good? It cannot be taken up again.", "Stop it", "Keep it"),
        ("zh-CN", "停止运行", "确定停止吗？停止后无法恢复。", "停止", "不停止"),
    ],
)
def test_a_run_is_stopped_after_a_question_and_by_keyboard(
    visit: Visit, serve, locale: str, stop: str, sure: str, yes: str, no: str
) -> None:
    served = serve()
    run = served.api().start()
    page = visit(served.url, locale=locale).open(f"#run/{run['id']}")
    button = page.get_by_role("button", name=stop, exact=True)
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.url) if one.url.endswith("/cancel") else None)
    for how in ("Enter", "Escape"):
        button.press("Enter")
        expect(page.get_by_role("group", name=sure)).to_be_visible()
        expect(page.get_by_role("button", name=no)).to_be_focused()
        page.keyboard.press(how)
        expect(button).to_be_focused()
    assert sent == []
    button.press("Enter")
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name=yes, exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".chip.cancelled").first).to_be_visible()
    assert len(sent) == 1


@pytest.mark.parametrize(
    "locale, said",
    [
        ("en-US", "There is no run run_nope, or it is somebody else's."),
        ("zh-CN", "没有运行 run_nope，或它属于他人。"),
    ],
)
def test_a_link_to_a_run_that_is_not_there_and_one_that_was_cut(
    visit: Visit, serve, locale: str, said: str
) -> None:
    page = visit(serve().url, locale=locale).open("#run/run_nope")
    expect(page.locator("#run")).to_have_text(said)
    page.goto(page.url.replace("run_nope", "%E0%A4"))
    expect(page.locator("#run")).to_contain_text("%E0%A4")

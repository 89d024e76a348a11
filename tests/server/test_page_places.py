"""Finding one's way on the inbox page: the door, the lists, a phone."""

import pytest
from playwright.sync_api import expect
from server.browsers import Visit

from adjourn.graph.server import Access
from adjourn.graph.server.access import digest

TOKEN = "wang-token-0123456789"


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

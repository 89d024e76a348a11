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

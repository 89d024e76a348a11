"""What the inbox page says of an answer: wrong, taken, or too late."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Page, expect
from server import served_app
from server.browsers import Visit
from sqlalchemy import update

from adjourn.checkpoints.database import format_time
from adjourn.checkpoints.run_schema import interrupts
from adjourn.graph import Runner, expiring


def question(page: Page) -> Locator:
    return page.locator(".question")


def pass_time(runner: Runner) -> None:
    """Let the time of all questions have passed a second ago, and have somebody look."""
    past = format_time(datetime.now(UTC) - timedelta(seconds=1))
    changed = update(interrupts).where(interrupts.c.expires_at.is_not(None)).values(expires_at=past)
    runner.database.write(lambda connection: connection.execute(changed))
    expiring.sweep(runner.database)


def wrongs(form: Locator) -> list[str]:
    """What is shown as wrong, from top to bottom."""
    return [one.inner_text() for one in form.locator(".wrong").all() if one.is_visible()]


@pytest.mark.parametrize(
    "locale, needed, above, send",
    [
        ("en-US", "A value is needed.", "Mend what is marked above.", "Send the answer"),
        ("zh-CN", "必须填写。", "请修改上面标出的内容。", "提交回答"),
    ],
)
def test_an_error_is_said_once_at_its_field_and_the_button_says_that_there_is_one(
    visit: Visit, serve, locale: str, needed: str, above: str, send: str
) -> None:
    served = serve()
    run = served.api().start()
    page = visit(served.url, locale=locale).open(f"#run/{run['id']}")
    question(page).get_by_role("button", name=send).click()
    assert wrongs(question(page)) == [needed, above]
    expect(question(page).get_by_role("radio", name="prod")).to_be_focused()


def test_an_error_of_a_nested_field_is_said_there_alone_and_the_field_has_the_focus(
    visit: Visit, serve
) -> None:
    served = serve()
    run = served.api().answer(served.api().start(), {"environment": "prod"})
    page = visit(served.url).open(f"#run/{run['id']}")
    form = question(page)
    form.get_by_label("Change and approve").check()
    form.get_by_label("grace_s").fill("1.5")
    form.get_by_role("button", name="Approve with these arguments").click()
    assert wrongs(form) == ["This is not a whole number.", "Mend what is marked above."]
    expect(form.get_by_label("grace_s")).to_be_focused()


@pytest.mark.parametrize("locale, edit, title", [("en-US", "Change", "Arguments"), ("zh-CN", "修改", "参数")])
def test_the_fields_of_the_page_are_named_once(
    visit: Visit, serve, locale: str, edit: str, title: str
) -> None:
    served = serve()
    run = served.api().answer(served.api().start(), {"environment": "prod"})
    page = visit(served.url, locale=locale).open(f"#run/{run['id']}")
    question(page).get_by_label(re.compile(edit)).check()
    expect(question(page).locator('[data-path="arguments"] > legend')).to_have_text(
        re.compile(f"^{title}\\s*$")
    )


@pytest.mark.parametrize("locale, told", [("en-US", "Question expired"), ("zh-CN", "问题已过期")])
def test_what_expired_is_told_without_a_person(visit: Visit, serve, locale: str, told: str) -> None:
    served = serve(served_app.timed)
    run = served.api().start()
    page = visit(served.url, locale=locale).open(f"#run/{run['id']}")
    expect(question(page)).to_be_visible()
    pass_time(served.runner)
    expect(page.locator(".settled")).to_have_text(told)

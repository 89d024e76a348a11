"""What the inbox page says of an answer: wrong, taken, or too late."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Page, Route, expect
from server import served_app
from server.browsers import Visit
from server.conftest import Served
from sqlalchemy import update

from adjourn.checkpoints.database import format_time
from adjourn.checkpoints.run_schema import interrupts
from adjourn.graph import Runner, expiring
from adjourn.graph.server import Access
from adjourn.graph.server.access import digest

WANG, LI = "wang-token-0123456789", "li-token-0123456789"
TWO = Access({digest(WANG): "wang", digest(LI): "li"})
GONE = [("en-US", "This question is not open any more."), ("zh-CN", "这个问题已不再开放。")]
FIRST = [
    ("en-US", ("Reject", "Reason"), "Somebody answered first. Nothing was changed."),
    ("zh-CN", ("拒绝", "原因"), "已有人先回答，未作任何更改。"),
]


def question(page: Page) -> Locator:
    return page.locator(".question")


def visit_li(visit: Visit, served: Served, place: str, locale: str) -> Page:
    """A page of li, who has a token."""
    visitor = visit(served.url, locale=locale)
    visitor.context.add_init_script(f"sessionStorage.setItem('adjourn.token', '{LI}')")
    return visitor.open(place)


def reject(form: Locator, words: tuple[str, str], why: str) -> None:
    """Reject what is asked for a reason."""
    rejects, reason = words
    form.get_by_label(re.compile(f"^{rejects}")).check()
    form.get_by_role("textbox", name=reason).fill(why)


def answer_first(page: Page, answer: Callable[[], object]) -> None:
    """Whatever this page answers from now on comes after `answer`."""

    def held(route: Route) -> None:
        answer()
        route.continue_()

    page.route("**/answers", held)


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


@pytest.mark.parametrize("locale, gone", GONE)
def test_a_question_that_expired_under_ones_eyes_was_not_answered(
    visit: Visit, serve, locale: str, gone: str
) -> None:
    served = serve(served_app.timed, access=TWO)
    (asked,) = served.api(WANG).start()["interrupts"]
    page = visit_li(visit, served, f"#question/{asked['id']}", locale)
    expect(question(page)).to_contain_text("Wipe cache?")
    pass_time(served.runner)
    expect(page.locator("main")).to_have_text(gone)


@pytest.mark.parametrize("locale, gone", GONE)
def test_a_question_that_nobody_asked_was_not_answered(visit: Visit, serve, locale: str, gone: str) -> None:
    page = visit(serve().url, locale=locale).open("#question/int_nope")
    expect(page.locator("main")).to_have_text(gone)


@pytest.mark.parametrize(
    "locale, approve, sent",
    [("en-US", "Approve", "The answer was taken."), ("zh-CN", "同意", "回答已提交。")],
)
def test_an_answer_was_taken_when_the_server_took_it(
    visit: Visit, serve, locale: str, approve: str, sent: str
) -> None:
    served = serve(served_app.timed, access=TWO)
    (asked,) = served.api(WANG).start()["interrupts"]
    page = visit_li(visit, served, f"#question/{asked['id']}", locale)
    question(page).get_by_label(re.compile(f"^{approve}")).check()
    question(page).get_by_role("button", name=approve).click()
    expect(page.locator("main")).to_have_text(sent)


@pytest.mark.parametrize("locale, words, first", FIRST)
def test_whoever_answers_second_is_told_and_keeps_what_was_typed(
    visit: Visit, serve, locale: str, words: tuple[str, str], first: str
) -> None:
    served = serve(served_app.several)
    run = served.api().start()
    asked = run["interrupts"][1]
    visitor = visit(served.url, locale=locale)
    page = visitor.open(f"#run/{run['id']}")
    card = page.locator(f"[data-question={asked['id']}]")

    def answer() -> None:
        served.runner.resume_sync(run["id"], {asked["id"]: {"action": "approve"}}, by="li")
        expect(card).to_have_count(0)  # the page has heard of it, before its own answer is sent

    answer_first(page, answer)
    reject(card, words, "先等一等")
    card.get_by_role("button", name=words[0]).click()
    expect(card.get_by_role("alert")).to_have_text(first)
    expect(card.get_by_role("textbox", name=words[1])).to_have_value("先等一等")
    expect(card.get_by_role("textbox", name=words[1])).not_to_be_editable()
    page.get_by_role("button", name="中文" if locale == "en-US" else "English").click()
    expect(card.get_by_role("alert")).to_be_visible()
    card.get_by_role("button").click()
    expect(card).to_have_count(0)
    expect(question(page)).to_have_count(2)


@pytest.mark.parametrize(
    "locale, words, gone", [(one[0], one[1], two[1]) for one, two in zip(FIRST, GONE, strict=True)]
)
def test_whoever_answers_somebody_elses_question_second_is_told_too(
    visit: Visit, serve, locale: str, words: tuple[str, str], gone: str
) -> None:
    """No question of the run is li's any more: to li there is no such run."""
    served = serve(served_app.timed, access=TWO)
    run = served.api(WANG).start()
    page = visit_li(visit, served, f"#question/{run['interrupts'][0]['id']}", locale)
    answer_first(page, lambda: served.api(WANG).answer(run, {"action": "approve"}))
    reject(question(page), words, "先等一等")
    question(page).get_by_role("button", name=words[0]).click()
    expect(question(page).get_by_role("alert")).to_have_text(gone)
    expect(question(page).get_by_role("textbox", name=words[1])).to_have_value("先等一等")
    question(page).get_by_role("button").click()
    expect(page.locator("main")).to_have_text(gone)


@pytest.mark.parametrize(
    "locale, words, gone", [(one[0], one[1], two[1]) for one, two in zip(FIRST, GONE, strict=True)]
)
def test_what_is_being_typed_does_not_vanish_when_somebody_answers(
    visit: Visit, serve, locale: str, words: tuple[str, str], gone: str
) -> None:
    served = serve(served_app.timed)
    run = served.api().start()
    page = visit(served.url, locale=locale).open(f"#run/{run['id']}")
    reject(question(page), words, "先等一等")
    served.runner.resume_sync(run["id"], {run["interrupts"][0]["id"]: {"action": "approve"}}, by="li")
    expect(page.locator(".answer")).to_be_visible()
    expect(question(page).get_by_role("alert")).to_have_text(gone)
    expect(question(page).get_by_role("textbox", name=words[1])).to_have_value("先等一等")

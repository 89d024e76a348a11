"""The inbox page in a real browser: it is filled in, read and left as people do."""

import json
import re

from playwright.sync_api import Page, expect
from server import served_app
from server.browsers import Visit
from server.conftest import Api, until

from adjourn.graph.server import Access
from adjourn.graph.server.access import digest

WANG, LI = "wang-token-0123456789", "li-token-0123456789"


def question(page: Page):
    return page.locator(".question")


def fill_logs(page: Page, environment: str = "prod") -> None:
    """Answer the first question of the served app."""
    form = question(page)
    form.get_by_label(environment, exact=True).check()
    form.get_by_role("button").click()


def test_c43_c65_c67_a_form_is_filled_the_rest_is_shown_and_another_browser_catches_up_over_a_kill(
    visit: Visit, process
) -> None:
    """The whole promise: two browsers, one of them offline, a server that is killed, and one sequence of events."""
    server = process("build")
    with Api(server.url) as api:
        run = api.start("看看支付服务")  # as curl would
    first, second = visit(server.url), visit(server.url, locale="zh-CN")
    for one in (first, second):
        page = one.open()
        page.get_by_role("link", name=re.compile("query_logs")).first.click()
        expect(question(page)).to_be_visible()
    second.context.set_offline(True)

    server.hold("check")
    fill_logs(first.page)
    expect(question(first.page)).to_contain_text("Restart svc-pay-001 in prod?")
    question(first.page).get_by_label("Approve", exact=False).first.check()
    question(first.page).get_by_role("button", name="Approve", exact=True).click()
    expect(first.page.locator('.bar [data-call="q4"]')).to_have_attribute("data-state", "running")
    server.wait_in("check")
    server.kill()  # SIGKILL, in the middle of a step
    expect(first.page.locator("#connection")).to_have_class("off")
    assert len(second.numbers()) == 7
    server.let_go("check")
    server.start()

    expect(first.page.locator(".answer")).to_contain_text("已处理。")
    expect(first.page.locator(".chip.finished").first).to_be_visible()
    second.context.set_offline(False)
    expect(second.page.locator(".answer")).to_contain_text("已处理。")
    expect(second.page.locator("#connection")).to_have_text("实时")
    with Api(server.url) as api:
        numbers = [one["number"] for one in api.stored(run["id"])]
    assert numbers == list(range(1, len(numbers) + 1))
    until(lambda: first.page.wait_for_timeout(50) or len(first.numbers()) >= len(numbers))
    until(lambda: second.page.wait_for_timeout(50) or len(second.numbers()) >= len(numbers))
    assert first.numbers() == numbers
    assert second.numbers() == numbers
    assert server.ran() == [
        "search_docs",
        "query_logs",
        "restart",
        "check",
        "check",
    ]  # the read alone was repeated


def test_a_run_is_started_and_shown_while_it_works(visit: Visit, serve, tmp_path) -> None:
    served = serve(served_app.checks)
    (tmp_path / "hold-check").touch()
    page = visit(served.url).open()
    page.get_by_label("What should the assistant do?").fill("<b>go</b>")
    page.get_by_role("button", name="Start").click()
    bar = page.locator(".bar")
    expect(bar.locator('[data-call="c1"]')).to_have_attribute("data-state", "running")
    expect(page.locator("article h2")).to_have_text("<b>go</b>")
    (tmp_path / "hold-check").unlink()
    expect(bar.locator('[data-call="c2"]')).to_have_attribute("data-state", "ok")
    expect(page.locator(".answer")).to_contain_text("好。")
    expect(page.get_by_role("navigation").get_by_role("link")).to_have_count(1)
    page.reload()
    expect(page.locator(".answer")).to_contain_text("好。")


def test_nothing_that_people_models_or_tools_say_is_markup(visit: Visit, serve) -> None:
    """The tool's result holds an image with a script; a complaint of the page or a dialog fails the test."""
    served = serve()
    run = served.api().start("<script>alert(1)</script><img src=x onerror=alert(2)>")
    visitor = visit(served.url)
    page = visitor.open(f"#run/{run['id']}")
    expect(question(page)).to_be_visible()
    page.locator("details[data-call=q2] summary").click()
    expect(page.locator("details[data-call=q2] pre").last).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("main img, main script, nav img, nav script").count() == 0
    assert visitor.troubles == []
    evil = page.evaluate("fetch('https://example.org/').then(() => 'sent', () => 'refused')")
    assert evil == "refused"  # by the page's own policy, which says so
    assert all("Content Security Policy" in one for one in visitor.troubles)
    visitor.troubles.clear()


def test_a_wrong_value_is_marked_at_its_field_and_what_was_typed_stays(visit: Visit, serve) -> None:
    served = serve()
    run = served.api().start()
    page = visit(served.url).open(f"#run/{run['id']}")
    form = question(page)
    form.get_by_role("button", name="Send the answer").click()
    expect(form.get_by_text("A value is needed.").first).to_be_visible()
    form.get_by_label("staging").check()
    minutes = form.get_by_label("分钟数")
    for value, why in (
        ("99", "This is not within 1–60."),
        ("13", "13 brings bad luck"),
    ):  # the server knows the second
        minutes.fill(value)
        form.get_by_role("button", name="Send the answer").click()
        expect(minutes).to_have_attribute("aria-invalid", "true")
        expect(form.locator('[data-path="minutes"] .wrong')).to_contain_text(why)
    page.get_by_role("button", name="中文").click()
    expect(minutes).to_have_value("13")
    expect(form.get_by_label("staging")).to_be_checked()
    minutes.fill("10")
    form.get_by_role("button", name="提交回答").click()
    expect(form).to_contain_text("Restart svc-pay-001 in prod?")
    ran = served.api().get(f"/runs/{run['id']}").json()["calls"][0]
    assert (ran["outcome"], ran["arguments"]) == ("ok", {"environment": "staging", "minutes": 10})


def test_a_risky_call_is_changed_and_approved(visit: Visit, serve) -> None:
    served = serve()
    run = served.api().answer(served.api().start(), {"environment": "prod"})
    page = visit(served.url).open(f"#run/{run['id']}")
    form = question(page)
    form.get_by_role("button").click()
    expect(form.get_by_role("alert")).to_have_text("Choose one.")
    form.get_by_label("Change and approve").check()
    expect(form.get_by_label("service")).to_have_value("svc-pay-001")  # what was asked for stands in the form
    form.get_by_role("radio", name="staging").check()
    form.get_by_label("grace_s").fill("9")
    form.get_by_role("button", name="Approve with these arguments").click()
    expect(page.locator(".answer")).to_be_visible()
    ran = served.api().get(f"/runs/{run['id']}").json()["calls"][2]
    assert ran["arguments"] == {"service": "svc-pay-001", "environment": "staging", "grace_s": 9}


def test_a_risky_call_is_rejected_with_a_reason(visit: Visit, serve) -> None:
    served = serve()
    run = served.api().answer(served.api().start(), {"environment": "prod"})
    page = visit(served.url, locale="zh-CN").open(f"#run/{run['id']}")
    form = question(page)
    form.get_by_label("拒绝").check()
    form.get_by_role("textbox", name="原因").fill("先等一等")
    form.get_by_role("button", name="拒绝").click()
    expect(page.locator(".answer")).to_be_visible()
    expect(page.locator("details[data-call=q3]")).to_have_attribute("data-state", "declined")
    assert "先等一等" in json.dumps(served.api().stored(run["id"]), ensure_ascii=False)


def test_an_answer_given_elsewhere_takes_the_question_away(visit: Visit, serve) -> None:
    served = serve()
    run = served.api().start()
    page = visit(served.url).open(f"#run/{run['id']}")
    expect(question(page)).to_contain_text("query_logs")
    served.runner.resume_sync(run["id"], {run["interrupts"][0]["id"]: {"environment": "prod"}}, by="li")
    expect(question(page)).to_contain_text("Restart")
    expect(page.locator(".settled")).to_contain_text("answered by li")


def test_by_keyboard_alone_and_with_names_for_a_screen_reader(visit: Visit, serve) -> None:
    served = serve()
    served.api().start()
    page = visit(served.url).open()
    expect(page.get_by_role("navigation").get_by_role("link")).to_have_count(2)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the run")).to_be_focused()
    link = page.get_by_role("navigation").get_by_role("link").first
    for _ in range(10):
        if link.evaluate("(one) => one === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(question(page)).to_be_visible()
    assert page.get_by_role("region", name="Values are missing").count() == 1
    assert question(page).get_by_role("group", name=re.compile("^环境")).count() == 1
    for _ in range(30):
        if page.evaluate("document.activeElement.type === 'radio'"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    expect(question(page).get_by_role("spinbutton", name=re.compile("^分钟数"))).to_be_focused()
    page.keyboard.press("Enter")
    expect(question(page)).to_contain_text("Restart svc-pay-001 in prod?")
    expect(page.locator("#announcer")).to_contain_text("Restart svc-pay-001 in prod?")  # read out, politely
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, a, input, select, textarea')].filter((one) => one.offsetParent"
        " && !(one.labels?.length || one.textContent.trim() || one.ariaLabel)).map((one) => one.outerHTML)"
    )
    assert unnamed == []


def test_what_waits_has_a_colour_of_its_own_and_it_is_not_red(visit: Visit, serve) -> None:
    served = serve()
    run = served.api().start()
    page = visit(served.url).open(f"#run/{run['id']}")
    waiting, done = page.locator('.bar [data-call="q1"]'), page.locator('.bar [data-call="q2"]')
    expect(waiting).to_have_attribute("data-state", "waiting")
    colours = [one.evaluate("(it) => getComputedStyle(it).color") for one in (waiting, done)]
    red, green, blue = map(int, re.findall(r"\d+", colours[0])[:3])
    assert blue > red > green
    assert len(set(colours)) == 2


def test_a_run_that_failed_says_why_and_can_be_tried_again(visit: Visit, serve) -> None:
    served = serve(served_app.broken)
    run = served.api().start()
    page = visit(served.url).open(f"#run/{run['id']}")
    expect(page.locator(".end .wrong")).to_contain_text("no such model")
    page.get_by_role("button", name="Try again").click()
    until(lambda: page.wait_for_timeout(50) or len(served.api().stored(run["id"])) == 4)
    expect(page.get_by_role("button", name="Try again")).to_be_enabled()
    page.get_by_role("button", name="Stop this run").click()
    page.get_by_role("button", name="Stop it").click()
    expect(page.locator(".chip.cancelled").first).to_be_visible()


def test_c85_a_token_is_asked_for_and_somebody_elses_run_is_one_question(visit: Visit, serve) -> None:
    served = serve(access=Access({digest(WANG): "wang", digest(LI): "li"}))
    run = served.api(WANG).start("wang's own words")
    visitor = visit(served.url)
    page = visitor.open()
    for token in ("wrong-token-0123456789", LI):
        page.get_by_label("Token", exact=True).fill(token)
        page.get_by_role("button", name="Enter").click()
    expect(page.locator("#person")).to_have_text("You are li")
    expect(page.locator("#runs")).to_contain_text("No runs of yours yet.")
    page.locator("#waiting").get_by_role("link").click()
    expect(question(page)).to_contain_text("environment")
    assert "own words" not in page.content()
    fill_logs(page)
    expect(question(page)).to_have_count(0)
    until(
        lambda: served.api(WANG).get(f"/runs/{run['id']}").json()["interrupts"][0]["type"] == "confirm_risky"
    )
    page.locator("#waiting").get_by_role("link", name=re.compile("Restart")).click()
    expect(question(page)).to_contain_text("Restart svc-pay-001 in prod?")

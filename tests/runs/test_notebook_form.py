"""The form in a notebook: real widgets, filled and clicked as a browser would."""

import pickle
from types import SimpleNamespace
from typing import Annotated, Literal

import IPython
import pytest
from pydantic import BaseModel, Field, field_validator

from adjourn.checkpoints.errors import UsageError
from adjourn.graph.notebook_form import VIEW
from adjourn.nodes import Approvers, Secret, tool
from adjourn.nodes.scripted import call, says


class Window(BaseModel):
    """When."""

    day: Literal["sat", "sun"]
    hours: int = 2


class Job(BaseModel):
    """What."""

    title: str = Field(title="标题", description="说明用途")
    window: Window

    @field_validator("title")
    @classmethod
    def is_told(cls, value):
        if value == "secret":
            raise ValueError("say what it is")
        return value


def tools(ran):
    @tool(effect="write", ask_for=("job", "level", "hosts", "dry_run", "owner", "marks"))
    def maintain(
        job: Job,
        level: Literal["low", "high"],
        hosts: list[str],
        marks: list[Literal["a", "b", "c"]],
        dry_run: bool = True,
        owner: str | None = None,
    ) -> str:
        """Maintain."""
        ran.append((job.model_dump(), level, hosts, marks, dry_run, owner))
        return "done"

    @tool(effect="write", confirm="Pay {amount}?")
    def pay(amount: int, to: str = "li") -> str:
        """Pay."""
        ran.append((amount, to))
        return "paid"

    @tool(effect="write", name="pay_two", confirm="Pay {amount}?", approvers=Approvers(2, of=("li", "wang")))
    def pay_two(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    return [maintain, pay, pay_two]


def waiting(house, ran, *calls):
    runner = house.runner([says("", *calls), "all done"], tools=tools(ran))
    return runner, runner.start_sync("go", by="ana")


PAY = call("pay", {"amount": 5}, id="p")


def only(form):
    (box,) = form.boxes.values()
    return box


def test_fields_come_from_the_schema_and_their_values_reach_the_tool(house):
    ran = []
    _, run = waiting(house, ran, call("maintain", {}, id="m"))
    form = run.form(by="ben")
    fields = only(form).fields
    job = fields["job"].inner
    assert job["title"].control.description == "标题"
    assert [text for text, _ in fields["level"].control.options] == ["low", "high"]
    assert [text for text, _ in fields["dry_run"].control.options] == ["true", "false"]
    assert fields["dry_run"].control.value == 0
    job["title"].control.value = "disks"
    job["window"].inner["day"].control.value = 1
    assert job["window"].inner["hours"].control.value == "2"
    fields["level"].control.value = 1
    fields["hosts"].control.value = '["web-1"]'
    fields["marks"].control.value = (0, 2)
    only(form).buttons["submit"].click()
    assert form.message.value == ""
    assert ran == [
        ({"title": "disks", "window": {"day": "sun", "hours": 2}}, "high", ["web-1"], ["a", "c"], True, None)
    ]
    assert (form.run.status, form.run.answer, form.boxes) == ("finished", "all done", {})
    assert form.run.questions[0].answered_by == "ben"
    assert "all done" in form.widget.children[0].value


def test_c45_what_is_wrong_stands_beside_its_field_and_what_was_typed_stays(house):
    ran = []
    _, run = waiting(house, ran, call("maintain", {}, id="m"))
    form = run.form()
    fields = only(form).fields
    job = fields["job"].inner
    only(form).buttons["submit"].click()
    assert "a value is needed" in job["title"].widget.children[-1].value
    job["title"].control.value = "secret"
    job["window"].inner["day"].control.value = 0
    job["window"].inner["hours"].control.value = "soon"
    fields["level"].control.value = 0
    fields["hosts"].control.value = "[]"
    only(form).buttons["submit"].click()
    assert "must be integer" in job["window"].inner["hours"].widget.children[-1].value
    assert job["title"].widget.children[-1].value == ""
    job["window"].inner["hours"].control.value = "3"
    only(form).buttons["submit"].click()  # what the schema cannot say, the tool's own types do
    assert "say what it is" in job["title"].widget.children[-1].value
    assert job["title"].control.value == "secret"
    assert (ran, len(form.run.interrupts)) == ([], 1)
    job["title"].control.value = "disks"
    only(form).buttons["submit"].click()
    assert (form.run.status, len(ran)) == ("finished", 1)


@pytest.mark.parametrize(
    ("action", "outcome", "ran_with"),
    [("approve", "ok", [(5, "li")]), ("edit", "ok", [(7, "li")]), ("reject", "declined", [])],
)
def test_c44_approve_edit_and_reject_by_their_buttons(house, action, outcome, ran_with):
    ran = []
    _, run = waiting(house, ran, PAY)
    form = run.form(by="ben")
    box = only(form)
    box.buttons[action].click()
    if action == "edit":
        inner = box.fields["arguments"].inner
        assert (inner["amount"].control.value, inner["to"].control.value) == ("5", "li")
        inner["amount"].control.value = "7"
        box.buttons["submit"].click()
    elif action == "reject":
        box.fields["reason"].control.value = "not now"
        box.buttons["submit"].click()
    assert (form.run.status, form.run.calls[0].outcome, ran) == ("finished", outcome, ran_with)


def test_two_questions_are_answered_one_by_one_and_the_other_keeps_what_was_typed(house):
    ran = []
    _, run = waiting(house, ran, PAY, call("maintain", {}, id="m"))
    form = run.form(by="ben")
    pay = next(one for one in form.boxes.values() if one.question.tool == "pay")
    other = next(one for one in form.boxes.values() if one.question.tool == "maintain")
    other.fields["hosts"].control.value = '["x"]'
    pay.buttons["approve"].click()
    assert (form.run.status, list(form.boxes)) == ("interrupted", [other.question.id])
    assert form.boxes[other.question.id].fields["hosts"].control.value == '["x"]'


def test_c51_who_may_not_is_told_so_and_who_agreed_is_shown(house):
    ran = []
    _, run = waiting(house, ran, call("pay_two", {"amount": 5}, id="p"))
    form = run.form()
    only(form).buttons["approve"].click()
    assert "it needs a name" in form.message.value
    form.name.value = "mallory"
    only(form).buttons["approve"].click()
    assert "it takes 2 of li, wang" in form.message.value
    form.name.value = "li"
    only(form).buttons["approve"].click()
    assert form.message.value == ""
    assert "1 of 2 agreed (li, wang): li " in only(form).widget.children[0].value
    form.name.value = "wang"
    only(form).buttons["approve"].click()
    assert (form.run.status, ran) == ("finished", [5])


def test_c47_somebody_else_was_first(house):
    ran = []
    runner, run = waiting(house, ran, PAY)
    form = run.form(by="ben")
    box = only(form)
    runner.resume_sync(run.id, {box.question.id: {"action": "reject"}}, by="li")
    box.buttons["approve"].click()
    assert "already answered by li" in form.message.value
    assert (form.run.status, form.boxes, ran) == ("finished", {}, [])


def test_a_cell_that_shows_a_waiting_run_shows_the_form_in_a_kernel_only(house, monkeypatch):
    runner, run = waiting(house, [], PAY)
    assert set(run._repr_mimebundle_()) == {"text/plain", "text/html"}
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel="one"))
    shown = run._repr_mimebundle_()
    assert set(shown) == {"text/plain", "text/html", VIEW}
    assert run.interrupts[0].id in shown["text/html"]
    done = runner.resume_sync(run.id, {run.interrupts[0].id: {"action": "reject"}})
    assert set(done._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_without_ipywidgets_it_prints_what_to_write(house, monkeypatch, capsys):
    _, run = waiting(house, [], PAY, call("maintain", {}, id="m"))
    monkeypatch.setattr("adjourn.graph.notebook.find_spec", lambda name: None)
    assert run.form() is None
    told = capsys.readouterr().out
    for one in run.interrupts:
        assert f'runner.resume_sync("{run.id}", {{"{one.id}": ' in told
    assert "approve()" in told


def test_a_run_without_a_runner_or_a_question_has_no_form(house):
    runner, run = waiting(house, [], PAY)
    copy = pickle.loads(pickle.dumps(run))
    assert copy == run
    with pytest.raises(UsageError, match="nothing that could be answered"):
        copy.form()
    done = runner.resume_sync(run.id, {run.interrupts[0].id: {"action": "reject"}})
    with pytest.raises(UsageError, match="nothing that could be answered"):
        done.form()


def test_c73_a_secret_is_not_shown_and_does_not_stay_in_its_widget(house):
    ran = []

    @tool(effect="write", confirm="Log {user} in?")
    def login(user: str, password: Secret[Annotated[str, Field(min_length=4)]]) -> str:
        """Log in."""
        ran.append((user, len(password)))
        return "in"

    runner = house.runner([says("", call("login", {"user": "li"}, id="c")), "done"], tools=[login])
    form = runner.start_sync("go").form(by="li")
    field = only(form).fields["password"]
    assert type(field.control).__name__ == "Password"
    field.control.value = "abc"
    only(form).buttons["submit"].click()
    assert "too short" in field.error
    assert "abc" not in field.error
    field.control.value = "Zephyr-4711"
    only(form).buttons["submit"].click()
    assert (field.control.value, form.message.value) == ("", "")
    box = only(form)
    box.buttons["edit"].click()
    box.fields["arguments"].inner["user"].control.value = "wang"
    box.buttons["submit"].click()
    assert (form.run.status, ran) == ("finished", [("wang", 11)])
    assert "Zephyr" not in form._repr_mimebundle_()["text/html"]


def test_the_form_speaks_the_language_of_the_run(house):
    runner = house.runner([says("", PAY), "好"], tools=tools([]))
    form = runner.start_sync("付款").form()
    assert form.name.description == "姓名"
    assert [one.description for one in only(form)._actions.children] == ["同意", "修改", "拒绝"]

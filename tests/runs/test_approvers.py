"""Who may answer, and agreement by several people (C-51)."""

import asyncio
import json
import pickle

import pytest
from runs.shop import Shop

from adjourn.checkpoints.errors import AlreadyAnswered, NotAllowed, ToolDefinitionError
from adjourn.nodes import Approvers, ToolContext, approve, edit, reject, tool
from adjourn.nodes.scripted import call, says

RESTART = {"service_id": "svc-pay-001", "environment": "prod"}
PAYS = says("", call("pay", {"amount": 500}, id="p"))


def payer(ran, approvers, **settings):
    """A write that needs agreement, and notes with whose it ran."""

    @tool(effect="write", confirm="Pay {amount}?", approvers=approvers, **settings)
    def pay(amount: int, context: ToolContext = None) -> str:
        """Pay."""
        ran.append((amount, context.approved_by))
        return "paid"

    return pay


def house_of(house, ran, approvers=None, **settings):
    return house.runner(
        [PAYS, "done"],
        tools=[payer(ran, approvers or Approvers(2, of=("li", "wang", "zhao", "chen")))],
        **settings,
    )


async def test_c51_a_function_of_question_and_person_says_who_may_answer(house, rows):
    asked = []

    async def rule(question, person):
        asked.append((question.tool, question.arguments, person))
        return person == "li"

    shop = Shop()
    runner = house.runner([says("", call("restart_service", RESTART, id="r")), "done"], shop, may_answer=rule)
    run = await runner.start("go", by="wang")
    (question,) = run.interrupts
    with pytest.raises(NotAllowed, match="wang may not answer") as caught:
        await runner.resume(run.id, {question.id: approve()}, by="wang")
    assert pickle.loads(pickle.dumps(caught.value)).who == "wang"
    with pytest.raises(NotAllowed, match="it needs a name"):
        await runner.resume(run.id, {question.id: approve()})
    assert ((await runner.get(run.id)).interrupts, shop.ran) == ((question,), [])
    assert await runner.may_answer(question, "li")
    assert not await runner.may_answer(question, "wang")
    assert not await runner.may_answer(question, None)
    run = await runner.resume(run.id, {question.id: approve()}, by="li")
    assert (run.status, shop.count("restart_service")) == ("finished", 1)
    assert asked[0] == ("restart_service", RESTART, "wang")
    acts = rows("SELECT action, by, interrupt_id FROM audit ORDER BY id")
    assert [tuple(one.values()) for one in acts] == [
        ("started", "wang", None),
        ("refused", "wang", question.id),
        ("refused", None, question.id),
        ("answered", "li", question.id),
    ]


async def test_c51_a_rule_that_raises_says_no(house):
    def rule(question, person):
        raise KeyError(person)

    runner = house.runner([says("", call("restart_service", RESTART, id="r")), "done"], may_answer=rule)
    run = await runner.start("go")
    with pytest.raises(NotAllowed):
        await runner.resume(run.id, {run.interrupts[0].id: approve()}, by="li")


async def test_c51_the_runner_s_own_rule_stands_before_the_graph_s(house, url):
    from adjourn.graph import Runner

    strict = house.runner(
        [says("", call("restart_service", RESTART, id="r")), "done"], may_answer=lambda *_: False
    )
    run = await strict.start("go")
    with Runner(strict.graph, url, may_answer=lambda _, person: person == "boss") as other:
        assert (await other.resume(run.id, {run.interrupts[0].id: approve()}, by="boss")).status == "finished"


async def test_c51_two_of_these_four(house, rows):
    ran = []
    runner = house_of(house, ran)
    run = await runner.start("go", on_event=house.hear)
    (question,) = run.interrupts
    assert question.approvals == {"needed": 2, "of": ["li", "wang", "zhao", "chen"], "given": []}
    with pytest.raises(NotAllowed, match="it takes 2 of li, wang, zhao, chen"):
        await runner.resume(run.id, {question.id: approve()}, by="mallory")
    with pytest.raises(NotAllowed, match="it needs a name"):
        await runner.resume(run.id, {question.id: approve()})
    run = await runner.resume(run.id, {question.id: approve()}, by="li", on_event=house.hear)
    (question,) = run.interrupts
    assert (run.status, ran) == ("interrupted", [])
    assert [one["by"] for one in question.approvals["given"]] == ["li"]
    shown = json.loads(rows("SELECT approvals FROM v_waiting")[0]["approvals"])
    assert shown == question.approvals
    with pytest.raises(AlreadyAnswered, match="already approved by li"):
        await runner.resume(run.id, {question.id: approve()}, by="li")
    assert len((await runner.get(run.id)).interrupts[0].approvals["given"]) == 1
    run = await runner.resume(run.id, {question.id: approve()}, by="wang", on_event=house.hear)
    assert (run.status, ran) == ("finished", [(500, "li, wang")])
    assert run.questions[0].answered_by == "wang"
    acts = rows("SELECT action, by FROM audit WHERE interrupt_id IS NOT NULL ORDER BY id")
    assert [tuple(one.values()) for one in acts] == [
        ("refused", "mallory"),
        ("refused", None),
        ("approved", "li"),
        ("approved", "wang"),
        ("answered", "wang"),
    ]
    told = [(one.state, one.by) for one in house.sent if one.word == "interrupt_answered"]
    assert told == [("open", "li"), ("answered", "wang")]
    house.check([run.id])


async def test_c51_one_no_ends_it(house):
    ran = []
    runner = house_of(house, ran)
    run = await runner.start("go")
    question = run.interrupts[0].id
    await runner.resume(run.id, {question: approve()}, by="li")
    with pytest.raises(NotAllowed):
        await runner.resume(run.id, {question: reject("no")}, by="mallory")
    run = await runner.resume(run.id, {question: reject("too much")}, by="zhao")
    assert (run.status, ran, run.calls[0].outcome) == ("finished", [], "declined")


async def test_c51_an_edit_begins_the_count_anew_since_it_holds_for_other_arguments(house):
    ran = []
    runner = house_of(house, ran)
    run = await runner.start("go")
    first = run.interrupts[0].id
    await runner.resume(run.id, {first: approve()}, by="li")
    run = await runner.resume(run.id, {first: edit({"amount": 50})}, by="wang")
    (second,) = run.interrupts
    assert (run.status, ran, second.id == first) == ("interrupted", [], False)
    assert second.arguments == {"amount": 50}
    assert second.reason == "Pay 50?"
    assert [one["by"] for one in second.approvals["given"]] == ["wang"]
    with pytest.raises(AlreadyAnswered, match="by wang"):  # a yes to what stood there before
        await runner.resume(run.id, {first: approve()}, by="chen")
    with pytest.raises(AlreadyAnswered, match="already approved by wang"):
        await runner.resume(run.id, {second.id: approve()}, by="wang")
    run = await runner.resume(run.id, {second.id: approve()}, by="li")
    assert (run.status, ran) == ("finished", [(50, "wang, li")])
    assert run.calls[0].arguments == {"amount": 50}
    assert json.loads(run.calls[0].result)["ran"] == {"amount": 50}


async def test_c51_one_named_person_is_a_rule_too(house):
    ran = []
    runner = house_of(house, ran, Approvers(of=["li"]))
    run = await runner.start("go")
    question = run.interrupts[0].id
    with pytest.raises(NotAllowed, match="1 of li"):
        await runner.resume(run.id, {question: approve()}, by="wang")
    run = await runner.resume(run.id, {question: edit({"amount": 5})}, by="li")
    assert (run.status, ran) == ("finished", [(5, "li")])


async def test_c51_two_people_at_the_same_moment_both_count(house):
    for number in range(4):
        ran = []
        first, second = house_of(house, ran, Approvers(2)), house_of(house, ran, Approvers(2))
        run = await first.start("go", thread_id=f"t{number}")
        answers = {run.interrupts[0].id: approve()}
        await asyncio.gather(
            first.resume(run.id, answers, by="li"), second.resume(run.id, answers, by="wang")
        )
        after = await first.get(run.id)
        assert (after.status, len(ran)) == ("finished", 1)
        assert {one["by"] for one in after.questions[0].approvals["given"]} == {"li", "wang"}


async def test_c51_agreements_survive_their_process_and_expire_with_the_question(house):
    ran = []
    runner = house.runner([PAYS, "done"], tools=[payer(ran, Approvers(2), expires_in_s=3600)])
    run = await runner.start("go")
    await runner.resume(run.id, {run.interrupts[0].id: approve()}, by="li")
    from runs.test_expiry import pass_time

    pass_time(runner)
    run = await runner.recover(run.id)
    assert (run.status, ran, run.calls[0].outcome) == ("finished", [], "expired")


def test_c51_approvers_that_can_never_agree_are_refused():
    with pytest.raises(ToolDefinitionError, match="3 of 2 people can never agree"):
        Approvers(3, of=("li", "wang"))
    with pytest.raises(ToolDefinitionError, match="from 1"):
        Approvers(0)
    with pytest.raises(ToolDefinitionError, match="Approvers"):
        payer([], ("li", "wang"))

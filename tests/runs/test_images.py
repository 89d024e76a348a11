"""Images and files in what a user says: in each message of a thread, whatever process goes on with it."""

import pytest
from langchain_core.messages import HumanMessage

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.retention import forget
from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel, approve
from adjourn.nodes.scripted import Fails, call, says

IMAGE = {"type": "image", "base64": "aGVsbG8=", "mime_type": "image/png"}
LINK = {"type": "image_url", "image_url": {"url": "https://example.com/b.png"}}
TEXT = {"type": "text", "text": "What is it?"}
RESTART = says("", call("restart_service", {"service_id": "svc-pay-001", "environment": "prod"}, id="r"))


def asked(house):
    """What users say in the newest request."""
    return [one.content for one in house.models[-1].requests[-1] if isinstance(one, HumanMessage)]


async def test_each_message_of_a_thread_may_hold_images_and_people_see_that_it_does(house):
    runner = house.runner(["a cat", "a dog", "both"])
    first = await runner.start(["What is it?", IMAGE], thread_id="t", on_event=house.hear)
    await runner.start(HumanMessage([LINK, TEXT]), thread_id="t", on_event=house.hear)
    last = await runner.start("And now?", thread_id="t", on_event=house.hear)
    assert asked(house) == [[TEXT, IMAGE], [LINK, TEXT], "And now?"]
    assert first.row.input == "What is it?\n[image]"
    inputs = [one.input for one in house.sent if one.word == "run_started"]
    assert inputs == ["What is it?\n[image]", "[image: https://example.com/b.png]\nWhat is it?", "And now?"]
    house.check([first.id, last.id])


async def test_another_process_that_begins_or_resumes_the_run_has_them(house, url):
    with Runner(build_react(ScriptedModel(turns=[RESTART]), name="react"), url, detached=True) as front:
        accepted = await front.start([TEXT, IMAGE])
    run = await house.runner([RESTART, "done"]).recover(accepted.id)
    assert asked(house) == [[TEXT, IMAGE]]
    other = house.runner([RESTART, "done"])
    run = await other.resume(run.id, {run.interrupts[0].id: approve()})
    assert (run.answer, asked(house)) == ("done", [[TEXT, IMAGE]])


async def test_those_of_a_run_that_failed_at_once_stand_before_the_next_message(house):
    gone = await house.runner([Fails(ValueError("no"))]).start([TEXT, IMAGE], thread_id="t")
    assert gone.status == "failed"
    run = await house.runner(["a cat"]).start("Well?", thread_id="t")
    assert (run.answer, asked(house)) == ("a cat", [[TEXT, IMAGE], "Well?"])


async def test_a_fork_has_them_and_may_bring_its_own(house):
    runner = house.runner(["a cat", "a dog"])
    run = await runner.start([TEXT, IMAGE])
    begin = next(one for one in await runner.history(run.id) if "model" in one.next)
    again = await runner.fork(run.id, begin.id)
    assert asked(house) == [[TEXT, IMAGE]]
    assert again.row.attached == 1
    await runner.fork(run.id, message=[TEXT, LINK])
    assert asked(house)[-1] == [TEXT, LINK]


async def test_a_start_with_another_image_is_not_the_same_start(house):
    runner = house.runner(["a cat", "a dog"])
    await runner.start([TEXT, IMAGE], run_id="job")
    assert (await runner.start([TEXT, IMAGE], run_id="job")).answer == "a cat"
    with pytest.raises(UsageError, match="there is a run 'job' already"):
        await runner.start([TEXT, {**IMAGE, "base64": "b3RoZXI="}], run_id="job")


async def test_with_a_conversation_its_images_are_forgotten(house, rows):
    runner = house.runner(["a cat"])
    await runner.start([TEXT, IMAGE], thread_id="t")
    assert len(rows("SELECT * FROM inputs")) == 1
    forget(runner.database, "t")
    assert rows("SELECT * FROM inputs") == []


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (7, "a message is a text, or a list of texts and content blocks, not int"),
        ([], "the message is empty"),
        ([{"type": "tool_result", "content": "x"}], "part 1 of the message is a block of type 'tool_result'"),
        (["x", 7], "part 2 of the message is a text or a content block, not int"),
        ([{"type": "text"}], "part 1 of the message is a text block without its text"),
        (
            [{"type": "image"}],
            "part 1 of the message, of type 'image', has neither url nor base64 nor file_id",
        ),
        ([{"type": "image", "base64": "x"}], "of type 'image', has base64 without its mime_type"),
        ([{**IMAGE, "extras": b"x"}], "bytes as base64 text: it holds bytes"),
        ([{**IMAGE, "base64": "x" * 8_000_000}], "at most 8000000, so give links"),
    ],
)
async def test_what_is_no_message_is_refused_and_starts_nothing(house, said, problem):
    runner = house.runner([])
    with pytest.raises(UsageError, match=problem):
        await runner.start(said)
    assert await runner.list() == []


async def test_blocks_that_are_all_text_are_a_text(house):
    run = await house.runner(["yes"]).start(["one", {"type": "input_text", "text": "two"}])
    assert (run.row.input, run.row.attached, asked(house)) == ("one\ntwo", 0, ["one\ntwo"])

"""Images and files in what users say and tools return: in each message of a thread, whatever process goes on with it."""

import json

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langchain_openai import ChatOpenAI

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.retention import forget
from adjourn.graph import Runner, build_react
from adjourn.nodes import Attachment, ScriptedModel, approve, as_tool, tool
from adjourn.nodes.observations import content_of, with_attached
from adjourn.nodes.scripted import Fails, call, says
from adjourn.nodes.wire_out import request_messages

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


PNG = b"\x89PNG" + bytes(100)
BLOCK = Attachment("image/png", PNG).block()


@tool(effect="read")
def screenshot(page: str) -> dict:
    """Show a page."""
    return {"page": page, "shot": Attachment("image/png", PNG)}


@tool(effect="write", confirm=True)
def scan() -> list:
    """Scan two pages."""
    return [Attachment("image/png", PNG), Attachment("application/pdf", url="https://example.com/r.pdf")]


SHOT = says("", call("screenshot", {"page": "home"}, id="s"), call("scan", {}, id="w"))
SEEN = {"page": "home", "shot": "[image/png, 0 KB]"}


def results(request):
    return [one for one in request if isinstance(one, ToolMessage)]


def beside(request):
    """The blocks that stand behind the results of a request."""
    behind = [one for one in request if isinstance(one, HumanMessage) and "[runtime] attached" in one.text]
    return [block for one in behind for block in one.content if block["type"] != "text"]


async def test_what_a_tool_attaches_is_behind_its_result_and_people_see_what_it_was(house):
    runner = house.runner([SHOT, "a cat", "still"], tools=[screenshot, scan])
    run = await runner.start("look", thread_id="t", on_event=house.hear)
    done = await house.runner([SHOT, "a cat", "still"], tools=[screenshot, scan]).resume(
        run.id, {run.interrupts[0].id: approve()}, on_event=house.hear
    )
    shot, scanned = results(house.models[-1].requests[-1])
    assert json.loads(shot.text) == {"ok": True, "data": SEEN}
    pdf = {"type": "file", "url": "https://example.com/r.pdf", "mime_type": "application/pdf"}
    assert json.loads(scanned.text)["ok"]
    assert beside(house.models[-1].requests[-1]) == [BLOCK, BLOCK, pdf]
    told = [one.data for one in house.sent if one.word == "tool_result"]
    assert told == [SEEN, ["[image/png, 0 KB]", "[application/pdf: https://example.com/r.pdf]"]]
    assert json.loads(done.calls[0].result)["attached"] == [BLOCK]  # for whoever takes the run over
    await runner.start("and?", thread_id="t", on_event=house.hear)
    assert beside(house.models[0].requests[-1]) == [BLOCK, BLOCK, pdf]
    house.check([run.id])


async def test_a_result_that_was_kept_has_its_image_when_its_question_is_passed_over(house):
    runner = house.runner([SHOT, "well"], tools=[screenshot, scan])
    await runner.start("look", thread_id="t")
    await runner.start("never mind", thread_id="t")
    _, dismissed = results(house.models[-1].requests[-1])
    assert beside(house.models[-1].requests[-1]) == [BLOCK]
    assert json.loads(dismissed.text)["errorCode"] == "user_dismissed"


async def test_an_image_counts_no_characters_and_one_that_is_too_large_is_left_out_and_said_so(house):
    @tool(effect="read", result_limit=300)
    def large() -> dict:
        """Show much."""
        return {
            "a": Attachment("image/png", bytes(4_000_000)),
            "b": Attachment("image/png", bytes(2_000_000)),
        }

    run = await house.runner([says("", call("large", {}, id="l")), "ok"], tools=[large]).start("look")
    (shown,) = results(house.models[-1].requests[-1])
    assert json.loads(shown.text)["data"] == {
        "a": "[image/png, 4000 KB]",
        "b": "[image/png, 2000 KB] too large to be shown",
    }
    assert (len(beside(house.models[-1].requests[-1])), run.answer) == (1, "ok")


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": "aGVsbG8=", "mime_type": "image/jpeg"},
        {"type": "image", "source_type": "base64", "data": "aGVsbG8=", "mime_type": "image/jpeg"},
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,aGVsbG8="}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "aGVsbG8="}},
    ],
)
async def test_a_tool_of_langchain_or_of_an_mcp_server_attaches_what_its_content_holds(house, block):
    @langchain_tool
    def shoot(page: str):
        """Show a page."""
        return [{"type": "text", "text": "the page"}, block]

    turns = [says("", call("shoot", {"page": "home"}, id="s")), "ok"]
    run = await house.runner(turns, tools=[as_tool(shoot, effect="read")]).start("look")
    (shown,) = results(house.models[-1].requests[-1])
    assert run.answer == "ok"
    assert json.loads(shown.text)["data"] == ["the page", "[image/jpeg, 0 KB]"]
    image = {"type": "image", "base64": "aGVsbG8=", "mime_type": "image/jpeg"}
    assert beside(house.models[-1].requests[-1]) == [image]


async def test_a_tool_of_langchain_that_finds_nothing_tells_an_empty_list(house):
    @langchain_tool
    def find(query: str) -> list[str]:
        """Find."""
        return []

    turns = [says("", call("find", {"query": "x"})), "none"]
    run = await house.runner(turns, tools=[as_tool(find, effect="read")]).start("look")
    assert json.loads(run.calls[0].result)["data"] == []


async def test_an_error_with_an_image_is_told_with_what_the_image_was(house):
    @langchain_tool
    def shoot() -> ToolMessage:
        """Shoot."""
        return ToolMessage([{"type": "text", "text": "no page"}, IMAGE], tool_call_id="x", status="error")

    run = await house.runner(
        [says("", call("shoot", {})), "none"], tools=[as_tool(shoot, effect="read")]
    ).start("look")
    told = json.loads(run.calls[0].result)
    assert (told["errorCode"], "no page" in told["message"], "[image/png" in told["message"]) == (
        "tool_error",
        True,
        True,
    ), told


async def test_data_that_reads_like_an_image_is_data(house):
    @tool(effect="read")
    def fetch() -> dict:
        """Fetch a page."""
        return {"attached": [BLOCK], "page": [BLOCK]}

    await house.runner([says("", call("fetch", {}, id="f")), "ok"], tools=[fetch]).start("look")
    assert beside(house.models[-1].requests[-1]) == []


@pytest.mark.parametrize("wrong", [{"mime_type": "png", "data": b"x"}, {"mime_type": "image/png"}])
def test_what_is_no_attachment_says_so(wrong):
    with pytest.raises(ValueError, match=r"no mime type|either data or a url"):
        Attachment(**wrong)


def test_chat_completions_get_what_is_attached_behind_all_results_of_the_turn_and_others_with_them():
    calls = [{"name": "screenshot", "args": {}, "id": one, "type": "tool_call"} for one in ("a", "b")]
    content = content_of(with_attached('{"ok": true}', [BLOCK]))
    history = [
        HumanMessage("look"),
        AIMessage("", tool_calls=calls),
        ToolMessage(content, tool_call_id="a", name="screenshot"),
        ToolMessage("{}", tool_call_id="b", name="screenshot"),
    ]
    chat = request_messages(history, ChatOpenAI(model="m", api_key="x"), ["screenshot"])
    assert [one.type for one in chat] == ["human", "ai", "tool", "tool", "human"]
    assert (chat[2].content, chat[4].content[1:]) == ('{"ok": true}', [BLOCK])
    assert "[runtime] attached to the result of screenshot (a):" in chat[4].text
    items = ChatOpenAI(model="m", api_key="x", use_responses_api=True)
    for model in (items, ChatAnthropic(model="claude-sonnet-4-5", api_key="x")):
        sent = request_messages(history, model, ["screenshot"])
        assert [one.type for one in sent] == ["human", "ai", "tool", "tool"]
        assert sent[2].content[1:] == [BLOCK]

"""The inbox page says each of its texts in both languages, and says no text that it does not have."""

import re
from pathlib import Path

import adjourn.graph
from adjourn.checkpoints.events import EVENTS
from adjourn.checkpoints.lifecycle import CallState, InterruptState, InterruptType, RunStatus, StopReason

PAGE = Path(adjourn.graph.__path__[0]) / "server" / "page"
TABLE = re.search(r"const TEXTS = \{\n(.*?)\n\};", (PAGE / "texts.js").read_text(encoding="utf-8"), re.DOTALL)
assert TABLE is not None
ENTRY = re.compile(r'^  "?([\w.]+)"?: \["(.+)", "(.+)"\],$')


def entries() -> dict[str, tuple[str, str]]:
    """key -> (English, Chinese)."""
    assert TABLE is not None
    found = [ENTRY.match(line) for line in TABLE[1].splitlines()]
    assert all(found)
    return {one[1]: (one[2], one[3]) for one in found if one}


def test_each_text_is_there_in_both_languages_with_the_same_values() -> None:
    for key, (english, chinese) in entries().items():
        assert set(re.findall(r"\{(\w+)\}", english)) == set(re.findall(r"\{(\w+)\}", chinese)), key
        assert re.search(r"[\u4e00-\u9fff]", chinese), key
        assert not re.search(r"[\u4e00-\u9fff]", english), key


def test_every_text_that_is_said_is_there_and_every_one_that_is_there_is_said() -> None:
    code = "".join(one.read_text(encoding="utf-8") for one in sorted(PAGE.glob("*.js")))
    said = set(re.findall(r'\bsay\("([\w.]+)"', code))
    assert said <= entries().keys()
    made = {one.split(".")[0] for one in re.findall(r"`(\w+\.)\$\{", code)}  # say(`status.${...}`)
    unsaid = {key for key in entries() if f'"{key}"' not in code.replace(TABLE[0], "")}  # type: ignore[index]
    assert {key for key in unsaid if key.split(".")[0] not in made} == set()


def test_every_word_that_is_stored_has_a_text() -> None:
    known = entries()
    words = {
        "status": RunStatus, "reason": StopReason, "type": InterruptType, "state": InterruptState,
        "call": [one for one in CallState if one not in (CallState.PLANNED, CallState.STARTED)],
    }  # fmt: skip
    assert {f"{kind}.{one}" for kind, many in words.items() for one in many} <= known.keys()


def test_the_page_takes_every_event() -> None:
    taken = re.search(
        r"const TAKE = \{\n(.*?)\n\};", (PAGE / "story.js").read_text(encoding="utf-8"), re.DOTALL
    )
    assert taken is not None
    assert set(re.findall(r"^  (\w+)\(story, event\)", taken[1], re.MULTILINE)) == set(EVENTS)

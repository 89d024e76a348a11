"""What a user says: a text, or a text with images and files. Pure.

The text is what people see of it, in `runs.input` and in events; what stands beside it is marked there, and is kept whole in
a row of its own.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import HumanMessage

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.json_data import check_data
from adjourn.nodes.attachments import ATTACHED, Attachment

Said = str | HumanMessage | Sequence[str | Mapping[str, Any] | Attachment]
"""A text; a list of texts, attachments and content blocks, as LangChain and OpenAI write them; or a message with either."""

# A closed list: a block of another type could pass for a call or its result.
TYPES = ATTACHED | {"text"}
# characters of JSON: four megabytes of images, and half of what MariaDB takes in one statement
MOST = 8_000_000


@dataclass(frozen=True, slots=True)
class Message:
    """`text` is what people see; `blocks` are the whole of it, None where the text is."""

    text: str
    blocks: list[dict[str, Any]] | None = None

    @property
    def attached(self) -> int:
        """How many images and files it holds."""
        return sum(one["type"] != "text" for one in self.blocks or ())


def read_said(said: Said) -> Message:
    """What was said, checked. Raises `UsageError` for what is no message, in one sentence."""
    content: Any = said.content if isinstance(said, HumanMessage) else said
    if isinstance(content, str):
        return Message(content)
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        kind = type(content).__name__
        raise UsageError(f"a message is a text, or a list of texts and content blocks, not {kind}")
    blocks = [_block(place, one) for place, one in enumerate(content, 1)]
    shown = "\n".join(_shown(one) for one in blocks)
    if all(one["type"] == "text" for one in blocks):
        return Message(shown)
    try:
        check_data(blocks)
    except ValueError as error:
        raise UsageError(f"content blocks are JSON data, bytes as base64 text: {error}") from None
    if (size := len(json.dumps(blocks))) > MOST:
        raise UsageError(
            f"the message has {size} characters with its images and files; at most {MOST}, so give links"
        )
    return Message(shown, blocks)


def _block(place: int, one: Any) -> dict[str, Any]:
    if isinstance(one, str):
        return {"type": "text", "text": one}
    if isinstance(one, Attachment):
        return one.block()
    if not isinstance(one, Mapping):
        raise UsageError(
            f"part {place} of the message is a text or a content block, not {type(one).__name__}"
        )
    kind = one.get("type")
    if kind == "input_text":  # of the Responses API
        one, kind = {**one, "type": "text"}, "text"
    if kind not in TYPES:
        known = ", ".join(sorted(TYPES))
        raise UsageError(f"part {place} of the message is a block of type {kind!r}; there are {known}")
    if kind == "text" and not isinstance(one.get("text"), str):
        raise UsageError(f"part {place} of the message is a text block without its text")
    if kind != "text" and (problem := _lacks(kind, one)):
        raise UsageError(f"part {place} of the message, of type {kind!r}, {problem}")
    return dict(one)


def _lacks(kind: str, block: Mapping[str, Any]) -> str | None:
    """What a block lacks without which no request could be made of it, now or later on its thread; None: nothing."""
    if isinstance(block.get(kind), Mapping) or isinstance(block.get("source"), Mapping):
        return None  # as OpenAI and Anthropic write it
    if kind == "image_url" and isinstance(block.get(kind), str):
        return None
    given = [name for name in ("url", "base64", "data", "file_id") if isinstance(block.get(name), str)]
    if not given:
        return "has neither url nor base64 nor file_id"
    needs_type = "base64" in given or "data" in given
    if needs_type and not isinstance(block.get("mime_type"), str):
        return "has base64 without its mime_type"
    return None


def _shown(block: Mapping[str, Any]) -> str:
    """A part as people see it: its text, else what it is and where it lies or what it is called."""
    if block["type"] == "text":
        return str(block["text"])
    inner = block.get(block["type"])
    fields = {**inner, **block} if isinstance(inner, Mapping) else {"url": inner, **block}
    url = fields.get("url")
    where = url if isinstance(url, str) and not url.startswith("data:") else fields.get("filename")
    kind = str(block["type"]).removeprefix("input_").removesuffix("_url")
    return f"[{kind}]" if where is None else f"[{kind}: {str(where)[:200]}]"

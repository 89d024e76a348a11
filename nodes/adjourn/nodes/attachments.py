"""Images and files that a tool returns, or a user sends: content blocks, apart from data. Pure."""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

ATTACHED: Final = frozenset({"image", "image_url", "audio", "input_audio", "video", "file"})
"""The types of content blocks that are images and files, as LangChain and OpenAI write them."""

MOST_BYTES: Final = 5_000_000  # of all that one result holds: what Anthropic takes as one image


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image or a file, for the model to look at. A tool returns it by itself, or inside a list or a dict.

    `mime_type`: such as `image/png` or `application/pdf`. Either `data`, its bytes, or `url`, where the provider finds it.
    `name`: that of a file. Raises `ValueError` for one with both or neither, and for what is no mime type.
    """

    mime_type: str
    data: bytes | None = field(default=None, repr=False)
    url: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if "/" not in self.mime_type:
            raise ValueError(f"{self.mime_type!r} is no mime type; write one such as 'image/png'")
        if (self.data is None) == (self.url is None):
            raise ValueError("an attachment has either data or a url")

    def block(self) -> dict[str, Any]:
        """It as one of LangChain's content blocks."""
        kind = self.mime_type.split("/")[0]
        source = {"url": self.url} if self.data is None else {"base64": b64encode(self.data).decode()}
        named = {} if self.name is None else {"filename": self.name}
        kind = kind if kind in ("image", "audio", "video") else "file"
        return {"type": kind, **source, "mime_type": self.mime_type, **named}

    @property
    def shown(self) -> str:
        """What stands for it in the data that it was part of, for the model and for people."""
        size = "" if self.data is None else f", {len(self.data) / 1000:.0f} KB"
        where = self.name or (self.url or "")[:200]
        return f"[{self.mime_type}{size}{f': {where}' if where else ''}]"


def detached(value: Any) -> tuple[Any, list[dict[str, Any]]]:
    """`value` with a text in place of each attachment, and these as content blocks, in order.

    What would make them more than `MOST_BYTES` together is left out, and its text says so.
    """
    blocks: list[dict[str, Any]] = []
    room, seen = MOST_BYTES, False

    def without(one: Any) -> Any:
        nonlocal room, seen
        if isinstance(one, Attachment):
            seen, size = True, len(one.data or b"")
            if size > room:
                return f"{one.shown} too large to be shown"
            room -= size
            blocks.append(one.block())
            return one.shown
        if isinstance(one, dict):
            return {key: without(inner) for key, inner in one.items()}
        return [without(inner) for inner in one] if type(one) in (list, tuple) else one

    told = without(value)
    return (told, blocks) if seen else (value, [])


def attachment_of(block: Mapping[str, Any]) -> Attachment | None:
    """What one of LangChain's or OpenAI's content blocks attaches; None: nothing, or nothing that is whole."""
    if block.get("type") not in ATTACHED:
        return None
    inner = block.get("image_url", block.get("source"))
    fields = {**block, **(inner if isinstance(inner, Mapping) else {"url": inner} if inner else {})}
    url = fields.get("url")
    mime_type = fields.get("mime_type") or fields.get("media_type") or _USUAL.get(str(block["type"]), "")
    data = fields.get("base64") or fields.get("data")
    if isinstance(url, str) and url.startswith("data:"):
        head, _, data = url.removeprefix("data:").partition(",")
        mime_type, url = head.split(";")[0] or mime_type, None
    try:
        held = b64decode(data, validate=True) if isinstance(data, str) else None
        return Attachment(str(mime_type), held, None if held is not None else url, fields.get("filename"))
    except (binascii.Error, ValueError):
        return None


_USUAL: Final = {"image": "image/png", "image_url": "image/png", "audio": "audio/wav", "video": "video/mp4"}

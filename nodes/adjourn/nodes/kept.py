"""What of a turn goes back to its provider as it came: signed thinking, tools that the provider ran. Pure.

A provider may want more back than text and calls, in the order in which it sent them. `Kept` puts such blocks
together while they are streamed, at a cost that is linear in their length; a turn without any keeps nothing.
"""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

__all__ = ["CALL_BLOCKS", "FIELDS", "TEXT_BLOCKS", "Kept", "call_extras"]

Block = dict[str, Any]

FIELDS: Final = "message_fields"
"""Type of the block that stands for fields of the message itself, which chat completions have in place of blocks."""

TEXT_BLOCKS: Final = frozenset({"text", "output_text", "refusal"})

CALL_BLOCKS: Final = MappingProxyType(
    {
        # Type of a block that stands for a call -> what of it is kept: its place, and what is not in the call itself.
        "tool_use": ("type", "id", "caller", "toolset_name"),
        "function_call": ("type", "id", "call_id", "namespace"),
    }
)
_PIECE: Final = "input_json_delta"  # of the block at the same index, whatever that is
_JOINED: Final = frozenset(
    {"text", "thinking", "signature", "partial_json", "refusal", "reasoning_content", "reasoning"}
)
_EXTENDED: Final = frozenset({"citations", "annotations"})

# Blocks in a block, told apart by their own index: whether that goes back with them.
_NESTED: Final = MappingProxyType({"summary": False, "reasoning_details": True})


_OF_A_CALL: Final = ("extra_content",)  # Gemini signs its calls there


def call_extras(call: Mapping[str, Any]) -> Block:
    """What came with a call in OpenAI's shape and goes back with it, beside its id, name and arguments."""
    return {key: call[key] for key in _OF_A_CALL if isinstance(call.get(key), dict)}


class Kept:
    """The blocks of one turn, in the order in which they began."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._at: dict[object, _Block] = {}

    def add(self, block: Mapping[str, Any]) -> None:
        """Take a block, or a piece of the block at the same `index`."""
        index = block.get("index")
        known = None if index is None else self._at.get(index)
        if known is None:
            known = _Block(index)
            self._blocks.append(known)
            if index is not None:
                self._at[index] = known
        known.add(block)

    def close(self) -> tuple[Block, ...]:
        """All blocks, or none where text and calls say all that there is. Safe to call again."""
        whole = self.whole()
        return tuple(whole) if any(not _is_plain(block) for block in whole) else ()

    def whole(self, *, with_index: bool = False) -> list[Block]:
        """All blocks that somebody would take back."""
        closed = [(one.index if with_index else None, one.close()) for one in self._blocks]
        return [
            block if index is None else {**block, "index": index}
            for index, block in closed
            if block is not None
        ]


class _Block:
    """A block that is being put together."""

    def __init__(self, index: object = None) -> None:
        self.index = index
        self._fields: Block = {}
        self._texts: dict[str, list[str]] = {}
        self._nested: dict[str, Kept] = {}

    def add(self, piece: Mapping[str, Any]) -> None:
        kind = piece.get("type")
        call = CALL_BLOCKS.get(str(self._fields.get("type") or kind))
        for key, value in piece.items():
            if key == "index" or value is None or (call is not None and key not in call):
                continue
            if key == "type" and (kind == _PIECE or "type" in self._fields):
                continue
            self._take(key, value)

    def _take(self, key: str, value: Any) -> None:
        if key in _JOINED and isinstance(value, str):
            self._texts.setdefault(key, []).append(value)
        elif key in _EXTENDED and isinstance(value, list):
            self._fields.setdefault(key, []).extend(value)
        elif key in _NESTED and isinstance(value, list):
            nested = self._nested.setdefault(key, Kept())
            for part in value:
                nested.add(part)
        else:
            self._fields[key] = value

    def close(self) -> Block | None:
        """The whole block; None if nobody would take it back."""
        block = {**self._fields, **{key: "".join(pieces) for key, pieces in self._texts.items()}}
        for key, nested in self._nested.items():
            block[key] = nested.whole(with_index=_NESTED[key])
        close = _CLOSED.get(str(block.get("type")))
        return block if close is None else close(block)


def _text(block: Block) -> Block | None:
    """Providers refuse empty texts; one that says more than its text is kept."""
    extras = {key: value for key, value in block.items() if key not in ("type", "id", "text") and value}
    made = {key: value for key, value in block.items() if key not in _EXTENDED or value}
    return made if block.get("text") or extras else None


def _thinking(block: Block) -> Block | None:
    """Thinking that is not signed is not taken back."""
    return block if block.get("signature") else None


def _server_call(block: Block) -> Block:
    """A call of the provider's own tool: its input was streamed as JSON."""
    text = block.pop("partial_json", "")
    try:
        streamed = json.loads(text) if text else None
    except ValueError:  # cut off: the provider knows what it asked for
        streamed = None
    return {**block, "input": streamed if isinstance(streamed, dict) else block.get("input") or {}}


_CLOSED: Final[Mapping[str, Callable[[Block], Block | None]]] = MappingProxyType(
    {
        "text": _text,
        "output_text": _text,
        "thinking": _thinking,
        "server_tool_use": _server_call,
        "mcp_tool_use": _server_call,
    }
)


def _is_plain(block: Block) -> bool:
    """Whether text and calls say all that is in a block."""
    kind = block.get("type")
    if kind in TEXT_BLOCKS:
        return not set(block) - {"type", "id", "text", "refusal"}
    return kind in CALL_BLOCKS and not set(block) - {"type", "id", "call_id"}

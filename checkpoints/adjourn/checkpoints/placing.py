"""From a value to its reference: what is stored already is named, what is new becomes rows.

A list of messages becomes ranges of `messages.seq`. Any other value becomes a row of `channel_values`, or
stands in the checkpoint itself where it is short. A large list or dict is stored by its parts, so that
adding to it stores what was added.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from langchain_core.messages import BaseMessage
from sqlalchemy.engine import Connection

from adjourn.checkpoints import statements
from adjourn.checkpoints.codec import Codec, are_storable, is_storable, is_stored_plainly
from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.message_rows import to_row
from adjourn.checkpoints.stored_json import Json, Ranges, compress, dump, parse, tagged
from adjourn.checkpoints.thread_memory import (
    BLOCK,
    Owner,
    PlacedList,
    Reference,
    Remembered,
    ThreadMemory,
)

START = "__start__"  # LangGraph's channel for a run's input, a dict by channel
# LangGraph's own channels, as the people whose values stand in them know them
_KNOWN_AS = {START: "the graph's input", "__interrupt__": "what a node asks by interrupt()"}
SHORT = 40  # characters of JSON that stand in the checkpoint: less than a row of their own would take
# characters of JSON above which a list or dict is stored by its parts; SQLite gives what is longer than 1,002 bytes in
# a table without rowid a page of its own, of 4,096
LARGE = 900
PART = 256  # characters of JSON above which a member is a part of its own; smaller ones are grouped
GROUP = 16  # small members of a list in one part


def hash_of_value(text: str) -> str:
    """128 bits over a value's text: rows of one thread with one hash are taken for one value."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


class Placing:
    """Places the values of one namespace in one transaction. Its rows are inserted by `insert`."""

    def __init__(
        self, memory: ThreadMemory, thread: int, ns: str, codec: Codec, *, frozen: bool = False
    ) -> None:
        self._memory = memory
        self._thread = thread
        self._ns = ns
        self._codec = codec
        self._frozen = frozen
        self._channel = ""
        self._messages: list[tuple[Any, ...]] = []
        self._values: list[dict[str, Any]] = []
        self.names_old_rows = False  # whether a row of an earlier transaction was named

    def insert(self, connection: Connection) -> None:
        """Insert the new rows."""
        if self._messages:
            statements.insert_message.insert_rows(connection, self._messages)
        if self._values:
            statements.insert_channel_value.change_many(connection, self._values)

    def reference(self, channel: str, value: Any) -> Reference:
        """Where a channel's value is stored."""
        self._channel = channel
        if value is None:
            return {"v": None}
        if type(value) is list and value and (ranges := self._channel_of_messages(value)):
            return ranges
        if channel == START and type(value) is dict:
            self._place_input(value)
        text = self.text(channel, value)
        if len(text) <= SHORT:
            return {"v": parse(text)}
        return self._value_row(text, "whole")

    def _place_input(self, value: dict[str, Any]) -> None:
        """Number the input's messages in the channels that they will go to: their ranges stay whole."""
        for channel, member in value.items():
            for message in member if type(member) is list else [member]:
                if type(channel) is str and is_storable(message):
                    self._channel = channel
                    self._remembered(message)
        self._channel = START

    def _channel_of_messages(self, value: list[Any]) -> Ranges | None:
        """The ranges of a channel that is a list of messages; None when it is something else."""
        placed = self._memory.lists.get((self._ns, self._channel)) or PlacedList()
        known = placed.unchanged(value, frozen=self._frozen)
        added = value[known:]
        if not are_storable(added):
            return None
        if known < len(placed.entries):
            placed.cut(known)
        placed.append([self._remembered(message) for message in added])
        self._memory.remember_list(self._ns, self._channel, placed)
        # where a subgraph takes up a conversation, or gives it back: what follows is numbered behind it
        self._memory.message_numbers.stand((self._ns, self._channel, "whole"), placed.entries[-1].seq)
        return [[*one] for one in placed.ranges]

    def text(self, channel: str, value: Any) -> str:
        """The text of a value, with its messages and large parts stored as rows.

        Raises `UsageError` for a value that cannot be stored, with where it stands.
        """
        texts = self._memory.texts
        if texts is not None and (known := texts.get(id(value))):
            return known[1]
        self._channel = channel
        try:
            text = self._text(value)
        except UsageError as error:
            raise UsageError(f"{_KNOWN_AS.get(channel, f'channel {channel!r}')}: {error}") from error
        if texts is not None:
            texts[id(value)] = value, text  # the value is kept: no other one gets its id
        return text

    def _text(self, value: Any) -> str:
        text = self._codec.encode(value, self)
        if len(text) <= LARGE or type(value) not in (list, dict):
            return text
        return dump(self._divide(value, text))

    def place(self, messages: Sequence[BaseMessage]) -> Ranges:
        """The ranges of these messages. Called by the codec too, for messages inside a value."""
        return compress([self._remembered(message).seq for message in messages])

    def _remembered(self, message: BaseMessage) -> Remembered:
        known = self._memory.known_message(message)
        if known is not None:
            self.names_old_rows = True
            return known
        row = to_row(message, self._codec)
        seq = self._memory.message_hashes.get(row.hash)
        if seq is None:
            seq = self._memory.message_numbers.take((self._ns, self._channel, "whole"))
            self._messages.append((self._thread, seq, *row))
        else:
            self.names_old_rows = True
        return self._memory.remember_message(message, seq, row.hash, frozen=self._frozen)

    def _value_row(self, text: str, size: str = "part") -> int:
        row_hash = hash_of_value(text)
        seq = self._memory.value_hashes.get(row_hash)
        if seq is None:
            seq = self._memory.value_numbers.take((self._ns, self._channel, size))
            self._memory.value_hashes[row_hash] = seq
            row = {"thread": self._thread, "seq": seq, "channel": self._channel[:255], "value": text}
            self._values.append({**row, "hash": row_hash})
        else:
            self.names_old_rows = True
        return seq

    def _divide(self, value: Any, text: str) -> Json:
        """The tree of a large list or dict, with its parts stored as rows."""
        if type(value) is list:
            return self._divide_list(value)
        if not is_stored_plainly(value):
            return tagged("part", self._value_row(text))
        tree: dict[str, Json] = {}
        for key, member in value.items():
            shown = self._text(member)
            tree[key] = tagged("part", self._value_row(shown)) if len(shown) > PART else parse(shown)
        return tree

    def _divide_list(self, value: list[Any]) -> Json:
        # many short texts: each is below PART, escaped or not, and a group is written in one go
        if set(map(type, value)) == {str} and max(map(len, value)) <= SHORT:
            groups = [value[start : start + GROUP] for start in range(0, len(value), GROUP)]
            rows = [self._value_row(self._codec.encode(one, self)) for one in groups]
            return tagged("parts", compress(rows))
        seqs: list[int] = []
        group: list[str] = []
        for member in value:
            text = self._text(member)
            if len(text) > PART:
                self._close_group(group, seqs)
                seqs.append(self._value_row(f"[{text}]"))
            else:
                group.append(text)
                if len(group) == GROUP:
                    self._close_group(group, seqs)
        self._close_group(group, seqs)
        return tagged("parts", compress(seqs))

    def _close_group(self, group: list[str], seqs: list[int]) -> None:
        if group:
            seqs.append(self._value_row(f"[{','.join(group)}]"))
            group.clear()


def continue_numbers(connection: Connection, memory: ThreadMemory, thread: int) -> None:
    """Go on numbering where the thread's rows end. For a memory that was just filled."""
    values = {"thread": thread}
    memory.message_numbers.top = statements.last_message.value(connection, values) or 0
    memory.value_numbers.top = statements.last_value.value(connection, values) or 0


def continue_blocks(
    connection: Connection, memory: ThreadMemory, ns: str, references: Mapping[str, Reference]
) -> None:
    """Go on in the open blocks of these channels, so that their ranges stay whole over processes."""
    for channel, reference in references.items():
        owner = (ns, channel, "whole")
        if type(reference) is list and reference and owner not in memory.message_numbers.blocks:
            _continue_messages(connection, memory, owner, reference[-1][1])
        elif type(reference) is int and owner not in memory.value_numbers.blocks:
            _continue_values(connection, memory, owner, reference)
            if last := _last_part(connection, memory.known_thread(), reference):
                _continue_values(connection, memory, (ns, channel, "part"), last)


def _continue_messages(connection: Connection, memory: ThreadMemory, owner: Owner, last: int) -> None:
    where = _block(memory, last)
    used = statements.last_message_between.value(connection, where) or last
    memory.message_numbers.go_on(owner, used)


def _continue_values(connection: Connection, memory: ThreadMemory, owner: Owner, last: int) -> None:
    where = _block(memory, last)
    used = statements.last_value_between.value(connection, where) or last
    memory.value_numbers.go_on(owner, used)


def _block(memory: ThreadMemory, last: int) -> dict[str, int]:
    """The numbers from `last` to the end of its block."""
    return {"thread": memory.known_thread(), "first": last, "last": -(-last // BLOCK) * BLOCK}


def _last_part(connection: Connection, thread: int, seq: int) -> int | None:
    """The last part of a large list that is stored under `seq`; None when it is no such list."""
    row = statements.read_values.first(connection, {"thread": thread, "first": seq, "last": seq})
    if row is None or not row[1].startswith('{"!":"parts"'):
        return None
    ranges = parse(row[1])["v"]
    return int(ranges[-1][1]) if ranges else None

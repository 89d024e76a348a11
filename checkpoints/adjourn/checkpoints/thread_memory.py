"""What this process remembers of a thread: which messages and values are stored, and under which `seq`.

The memory saves work, and nothing rests on it: it may be dropped at any moment and is filled again from the
database. It follows the database one way: whoever changes it inside a transaction drops it when the
transaction fails, so that it never knows more than what was committed.
"""

import copy
import operator
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage

from adjourn.checkpoints.message_rows import MessageRow, Mould
from adjourn.checkpoints.riding import Riders
from adjourn.checkpoints.stored_json import Ranges, compress, extend

BLOCK = 16  # a channel takes numbers in blocks, so that its ranges stay whole beside other channels
MOST_THREADS = 256  # memories kept; the one used longest ago goes first
MOST_ROWS = 20_000  # rows of one thread whose hashes are remembered; above it the memory starts again
MOST_OBJECTS = 1_000  # message objects of one thread that are kept at least; older ones are then let go
MOST_LISTS = 32  # channels of messages that are remembered: each subgraph that ran has its own
MOST_OWNERS = 1_000  # channels that go on in a block of numbers; others begin a new one
MOST_HEADS = 8  # checkpoints whose references are remembered: the newest of each namespace, and forks

Reference = list[list[int]] | int | dict[str, Any]
"""Where a channel's value is stored: ranges of messages, a `channel_values.seq`, or `{"v": value}` itself."""

Owner = tuple[str, str, str]
"""Who takes numbers: a namespace, a channel, and `whole` (its values, its messages) or `part` (parts of a large value)."""


_fields_of = operator.attrgetter("__dict__")
_extra_of = operator.attrgetter("__pydantic_extra__")


@dataclass(slots=True)
class Remembered:
    """A stored message, with a copy of its fields to find changes in place; None: nobody makes any."""

    seq: int
    message: BaseMessage
    fields: dict[str, Any] | None
    extra: dict[str, Any] | None

    def is_unchanged(self, message: Any) -> bool:
        """Whether this is the message object that was stored, with the fields that were stored.

        Not seen: a change in place that Python holds for equal, as from `1` to `True`.
        """
        if message is not self.message or self.fields is None:
            return message is self.message
        try:
            return bool(message.__dict__ == self.fields and message.__pydantic_extra__ == self.extra)
        except Exception:  # an array in an artifact is neither equal nor not; its row's hash tells
            return False


class PlacedList:
    """The messages of a channel as they were stored last: the next list mostly begins with them."""

    def __init__(self) -> None:
        self.entries: list[Remembered] = []
        self.ranges: Ranges = []
        self._messages: list[BaseMessage] = []
        self._fields: list[dict[str, Any] | None] = []
        self._extras: list[dict[str, Any] | None] = []

    def append(self, entries: list[Remembered]) -> None:
        """Add messages that stand behind the ones that are known."""
        for entry in entries:
            self.entries.append(entry)
            self._messages.append(entry.message)
            self._fields.append(entry.fields)
            self._extras.append(entry.extra)
        extend(self.ranges, [entry.seq for entry in entries])

    def cut(self, length: int) -> None:
        """Forget all but the first `length` messages: the rest was changed or taken away."""
        for series in (self.entries, self._messages, self._fields, self._extras):
            del series[length:]
        self.ranges = compress([entry.seq for entry in self.entries])

    def unchanged(self, messages: list[Any], *, frozen: bool = False) -> int:
        """How many of these messages, from the first on, are the ones that were stored; `frozen`: as objects."""
        same = messages[: len(self.entries)]
        if len(same) == len(self.entries) and self._is_whole(same, frozen=frozen):
            return len(same)
        for number, (entry, message) in enumerate(zip(self.entries, messages, strict=False)):
            if not entry.is_unchanged(message):
                return number
        return min(len(self.entries), len(messages))

    def _is_whole(self, messages: list[Any], *, frozen: bool) -> bool:
        # what `Remembered.is_unchanged` looks at, for all messages and without a Python call for each
        same = all(map(operator.is_, messages, self._messages))
        if frozen or not same:
            return same
        try:
            return (
                list(map(_fields_of, messages)) == self._fields
                and list(map(_extra_of, messages)) == self._extras
            )
        except Exception:  # as there
            return False


@dataclass(slots=True)
class Head:
    """A checkpoint's references, for the one that follows it."""

    versions: dict[str, Any]
    references: dict[str, Reference]


@dataclass(slots=True)
class Numbers:
    """Numbers of one table's rows in one thread, handed out in blocks of 16.

    Each owner has a block in which it goes on. Several may share one: what they refer to begins with the same rows. So
    the next number is the block's, and never given twice.

    - `top`: the highest number of the thread's rows.
    - `blocks`: the block of each owner.
    - `next`: the next number in each block that is known not to be full.
    """

    top: int = 0
    blocks: OrderedDict[Owner, int] = field(default_factory=OrderedDict)
    next: dict[int, int] = field(default_factory=dict)

    def stand(self, owner: Owner, number: int) -> None:
        """Note the newest number of an owner: it goes on in that block while the block has room."""
        self.blocks[owner] = _block_of(number)
        self.blocks.move_to_end(owner)
        if len(self.blocks) > MOST_OWNERS:
            self.blocks.popitem(last=False)

    def go_on(self, owner: Owner, used: int) -> None:
        """`stand`, for an owner in whose block no number above `used` is taken."""
        self.stand(owner, used)
        block = self.blocks[owner]
        following = max(used + 1, self.next.get(block, 0))
        if following <= block * BLOCK:
            self.next[block] = following
        else:
            self.next.pop(block, None)
        self.top = max(self.top, used)

    def take(self, owner: Owner) -> int:
        """The next number for this owner. A new one begins in the block of its channel in the root namespace."""
        block = self.blocks.get(owner) or self.blocks.get(("", *owner[1:]), 0)
        number = self.next.get(block)
        if number is None:  # its block is full, or it has none
            number = _block_of(self.top) * BLOCK + 1
        self.go_on(owner, number)
        return number


def _block_of(number: int) -> int:
    """The block of a number: numbers 1 to 16 are block 1. Block 0 holds none."""
    return -(-number // BLOCK)


class ThreadMemory:
    """The memory of one thread. Used under its lock only."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.riders = Riders()  # has a lock of its own
        # by id, the values of the transaction that runs: a task's write and the channel it goes to are mostly one object
        self.texts: dict[int, tuple[Any, str]] | None = None
        self.forget()

    def forget(self) -> None:
        """Drop everything: the next transaction asks the database."""
        self.thread: int | None = None
        self.generation = 0
        self.touched_at = float("-inf")  # monotonic seconds at which this process moved threads.updated_at
        self.namespaces: dict[str, int] = {}
        self.heads: OrderedDict[tuple[str, str], Head] = OrderedDict()
        self._young: dict[int, Remembered] = {}  # id(message); the entry keeps the message alive
        self._old: dict[int, Remembered] = {}
        self.moulds: dict[int, tuple[MessageRow, Mould]] = {}  # of rows that were read, by seq
        self.lists: OrderedDict[tuple[str, str], PlacedList] = OrderedDict()  # by namespace and channel
        self.message_hashes: dict[str, int] = {}
        self.value_hashes: dict[str, int] = {}
        self.message_numbers = Numbers()
        self.value_numbers = Numbers()

    def known_thread(self) -> int:
        """The id of the thread's row, for those who have just made sure that it is known."""
        if self.thread is None:
            raise AssertionError("the thread's row is known here")
        return self.thread

    def remember_message(
        self,
        message: BaseMessage,
        seq: int,
        row_hash: str,
        fields: dict[str, Any] | None = None,
        *,
        frozen: bool = False,
    ) -> Remembered:
        """This message object is stored under `seq`. `fields`: a copy of its fields that nobody changes, for
        a message without others; None: a copy is made, unless nobody changes the message in place (`frozen`)."""
        if frozen:
            entry = Remembered(seq, message, None, None)
        elif fields is None:
            entry = Remembered(seq, message, snapshot(message.__dict__), snapshot(message.__pydantic_extra__))
        else:
            entry = Remembered(seq, message, fields, _NO_FIELDS)
        self._young[id(message)] = entry
        self.message_hashes[row_hash] = seq
        return entry

    def known_message(self, message: BaseMessage) -> Remembered | None:
        """The entry of this message object, if it was stored with the fields that it has now."""
        known = self._young.get(id(message))
        if known is None and (known := self._old.get(id(message))):
            self._young[id(message)] = known
        return known if known and known.is_unchanged(message) else None

    def let_go(self, in_use: int = 0) -> None:
        """Let go of what was not met for long. `in_use`: messages that were read just now."""
        if max(len(self._young), len(self.moulds)) <= MOST_OBJECTS and self._hashes() <= MOST_ROWS:
            return  # as mostly
        in_use = max([in_use, *(len(placed.entries) for placed in self.lists.values())])
        if self._hashes() > max(MOST_ROWS, 2 * in_use):
            self.forget()
        if len(self._young) > max(MOST_OBJECTS, 2 * in_use):
            self._old, self._young = self._young, {}
        if len(self.moulds) > max(MOST_OBJECTS, 2 * in_use):
            self.moulds.clear()

    def _hashes(self) -> int:
        return len(self.message_hashes) + len(self.value_hashes)

    def remember_list(self, ns: str, channel: str, placed: PlacedList) -> None:
        """Note which messages a channel held when it was stored last."""
        self.lists[ns, channel] = placed
        self.lists.move_to_end((ns, channel))
        while len(self.lists) > MOST_LISTS:
            self.lists.popitem(last=False)

    def remember_head(self, ns: str, checkpoint_id: str, head: Head) -> None:
        """Note where the values of a checkpoint are stored: the next one inherits most of them."""
        self.heads[ns, checkpoint_id] = head
        self.heads.move_to_end((ns, checkpoint_id))
        while len(self.heads) > MOST_HEADS:
            self.heads.popitem(last=False)


class Memories:
    """The memories of the threads in use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: OrderedDict[str, ThreadMemory] = OrderedDict()

    def of(self, thread_id: str) -> ThreadMemory:
        """The memory of a thread. Whoever uses it holds its lock."""
        with self._lock:
            memory = self._threads.get(thread_id)
            if memory is None:
                memory = self._threads[thread_id] = ThreadMemory()
                if len(self._threads) > MOST_THREADS:
                    self._threads.popitem(last=False)
            else:
                self._threads.move_to_end(thread_id)
        return memory


class _Unequal:
    """Equal to nothing: stands for a value that cannot be copied."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return False


_NO_FIELDS: dict[str, Any] = {}  # stand in copies, which nobody changes
_NO_MEMBERS: list[Any] = []
_IMMUTABLE = frozenset({str, int, float, bool, type(None), bytes})


def snapshot(value: Any) -> Any:
    """A copy that later changes in place do not reach."""
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    # asked here as well: most members are immutable, and a call takes longer than all the rest
    if kind is dict:
        return (
            _NO_FIELDS
            if not value
            else {
                key: member if type(member) in _IMMUTABLE else snapshot(member)
                for key, member in value.items()
            }
        )
    if kind is list:
        return (
            _NO_MEMBERS
            if not value
            else [member if type(member) in _IMMUTABLE else snapshot(member) for member in value]
        )
    try:
        return copy.deepcopy(value)
    except Exception:  # what an application puts into an artifact may refuse to be copied, in any way
        return _Unequal()

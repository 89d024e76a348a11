"""Values <-> text. Everything is stored as JSON; what JSON cannot say exactly is tagged.

A value that JSON says exactly is stored as that JSON and nothing else. In any other value, the parts that
JSON cannot say are written as `{"!": "tuple", "v": [1, 2]}`: readable in every database, and exact.

Loading runs no code and imports nothing by a stored name (C-71). The tags are a closed list; the classes of
an application are restored when the application registered them, by setting their fields, without their
constructor. An unknown class comes back as plain data, and the log says so.
"""

import base64
import logging
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import orjson
from langchain_core.messages import BaseMessage

from adjourn.checkpoints.builtin_types import PACKERS, UNPACKERS, pack_array
from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.message_rows import pack_inline, unpack_inline
from adjourn.checkpoints.registered_types import Registry
from adjourn.checkpoints.stored_json import TAG, TAG_MARK, Json, Ranges, dump, parse, tagged

DEEPEST = 200  # levels of nesting; orjson writes up to 254, and tags add levels
_INSTEAD = "give a flatter one or a reference to it"

logger = logging.getLogger("adjourn.checkpoints")

_CONTAINERS = frozenset({list, dict})
_EXACT = frozenset({str, int, bool, type(None)})


class Placer(Protocol):
    """Stores messages, and names the places."""

    def place(self, messages: Sequence[BaseMessage]) -> Ranges:
        """The `seq` ranges under which these messages are stored, in order."""
        ...


class Finder(Protocol):
    """Finds what a `Placer` stored, and the parts of large values."""

    def messages(self, ranges: Ranges) -> list[BaseMessage]:
        """The messages of these ranges, in order."""
        ...

    def parts(self, ranges: Ranges) -> list[Any]:
        """The values of these ranges of `channel_values`, in order."""
        ...


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether JSON says this value exactly, as far as types tell.

    False for subclasses (`bool` apart), NaN and infinities, keys that are not text, and dicts that hold the
    tag itself. Integers beyond 64 bits and lone surrogates are left to `orjson.dumps`, which refuses them.
    """
    if type(value) is dict:
        if TAG in value:
            return False
        for key in value:
            if type(key) is not str:
                return False
        members: Iterable[Any] = value.values()
    else:
        members = value if type(value) is list else (value,)
    # said once for all members: a call for each would take longer than all the rest
    for member in members:
        kind = type(member)
        if kind in _EXACT:
            continue
        if kind is float:
            if not math.isfinite(member):
                return False
        elif kind not in _CONTAINERS or depth > DEEPEST or not is_plain(member, depth + 1):
            return False
    return True


def is_stored_plainly(value: dict[Any, Any]) -> bool:
    """Whether JSON can say the keys of a dict."""
    return TAG not in value and all(type(key) is str and is_unicode(key) for key in value)


_NOT_WRITTEN_BY_US = (
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    ArithmeticError,
    RecursionError,
    re.error,
)


class Codec:
    """Packs values into JSON trees and unpacks them.

    `types` are the classes that loading may restore: dataclasses, pydantic models, named tuples, enums and
    subclasses of messages; and state schemas (TypedDicts too), whose annotations are searched for such
    classes.
    """

    def __init__(self, types: Iterable[type] = ()) -> None:
        self.registry = Registry(types)

    def encode(self, value: Any, placer: Placer | None = None) -> str:
        """The text of a value. Messages go to `placer`; without one they are written in place.

        Raises `UsageError` for a value that holds itself, or is nested deeper than 200 levels, counted in the stored form,
        where a tuple or a dict with other keys than text takes more than one; and for an integer with more digits than
        Python reads.
        """
        if is_plain(value):
            try:
                return orjson.dumps(value).decode()
            except TypeError:  # an integer beyond 64 bits or a lone surrogate: tagged below
                pass
        try:
            if placer and type(value) is list and are_storable(value):  # what nodes write mostly: no walk
                return dump(tagged("messages", placer.place(value)))
            return dump(_Packing(self, placer).pack(value))
        except (TypeError, ValueError) as error:  # JSON has its own bounds, and tags take levels too
            raise UsageError(f"a value cannot be stored, {_INSTEAD}: {error}") from error

    def decode(self, text: str, finder: Finder | None = None) -> Any:
        """The value of a text. Raises `ValueError` when the text is not what `encode` writes."""
        tree = parse(text)
        return self.unpack(tree, finder) if TAG_MARK in text else tree

    def pack(self, value: Any) -> Json:
        """The JSON tree of a value, messages in place."""
        if is_plain(value):
            try:
                return orjson.loads(orjson.dumps(value))
            except TypeError:  # as in `encode`
                pass
        return _Packing(self, None).pack(value)

    def unpack(self, tree: Json, finder: Finder | None = None) -> Any:
        """The value of a JSON tree. Raises `ValueError` when a tag does not fit its value."""
        try:
            return _Unpacking(self, finder).unpack(tree)
        except _NOT_WRITTEN_BY_US as error:
            raise ValueError(f"not a stored value: {error!r}") from error

    # LangGraph's serializer protocol, for whoever asks a saver for its `serde`.

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The value as `("adjourn-json", bytes)`, messages in place."""
        return "adjourn-json", self.encode(obj).encode()

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """What `dumps_typed` wrote. Raises `ValueError` for any other type."""
        kind, content = data
        if kind != "adjourn-json":
            raise ValueError(f"cannot load {kind!r}; this serializer reads 'adjourn-json' only")
        return self.decode(content.decode())


class _Packing:
    """One walk from a value to its tree. Holds the placer and the depth."""

    def __init__(self, codec: Codec, placer: Placer | None) -> None:
        self.codec = codec
        self.placer = placer
        self.depth = 0

    def pack(self, value: Any) -> Json:
        kind = type(value)
        if kind is str:
            return (
                value
                if is_unicode(value)
                else tagged("text", _base64(value.encode("utf-8", "surrogatepass")))
            )
        if kind is int:
            return value if -(2**63) <= value < 2**64 else tagged("int", str(value))
        if kind is float:
            return value if math.isfinite(value) else tagged("float", repr(value))
        if kind is bool or value is None:
            return value
        self.depth += 1
        if self.depth > DEEPEST:
            raise UsageError(
                f"a value cannot be stored, {_INSTEAD}: it is nested deeper than {DEEPEST} levels, or holds itself"
            )
        try:
            return self._pack_container(value, kind)
        finally:
            self.depth -= 1

    def _pack_container(self, value: Any, kind: type) -> Json:
        if kind is list:
            return self._pack_list(value)
        if kind is dict:
            return self._pack_dict(value)
        if isinstance(value, BaseMessage):
            return self._pack_message(value)
        if packer := PACKERS.get(kind):
            return tagged(*packer(value, self.pack))
        return self._pack_object(value)

    def _pack_list(self, value: list[Any]) -> Json:
        if self.placer and value and are_storable(value):
            return tagged("messages", self.placer.place(value))
        return [self.pack(member) for member in value]

    def _pack_dict(self, value: dict[Any, Any]) -> Json:
        if is_stored_plainly(value):
            return {key: self.pack(member) for key, member in value.items()}
        return tagged("dict", [[self.pack(key), self.pack(member)] for key, member in value.items()])

    def _pack_message(self, value: BaseMessage) -> Json:
        if self.placer and is_storable(value):
            return tagged("message", self.placer.place([value])[0][0])
        return tagged("inline_message", pack_inline(value, self.codec))

    def _pack_object(self, value: Any) -> Json:
        if array := pack_array(value):
            return tagged(*array)
        if isinstance(value, BaseException):  # why a task failed: a text, as LangGraph's own savers keep it
            return self.pack(repr(value))
        name, fields = self.codec.registry.take_apart(value)
        return {TAG: "object", "type": name, "v": self.pack(fields)}


class _Unpacking:
    """One walk from a tree to its value."""

    def __init__(self, codec: Codec, finder: Finder | None) -> None:
        self.codec = codec
        self.finder = finder

    def unpack(self, tree: Json) -> Any:
        if type(tree) is list:
            return [self.unpack(member) for member in tree]
        if type(tree) is not dict:
            return tree
        if TAG not in tree:
            return {key: self.unpack(member) for key, member in tree.items()}
        return self._unpack_tagged(tree[TAG], tree["v"], tree)

    def _unpack_tagged(self, tag: str, content: Json, tree: dict[str, Json]) -> Any:
        if unpacker := UNPACKERS.get(tag):
            return unpacker(content, self.unpack)
        own: dict[str, Callable[[Json], Any]] = {
            "text": lambda c: base64.b64decode(c).decode("utf-8", "surrogatepass"),
            "int": int,
            "float": float,
            "dict": lambda c: {self.unpack(key): self.unpack(member) for key, member in c},
            "object": lambda c: self.codec.registry.put_together(tree["type"], self.unpack(c)),
            "messages": lambda c: self._finder().messages(c),
            "message": lambda c: self._finder().messages([[c, c]])[0],
            "part": lambda c: self._finder().parts([[c, c]])[0],
            "parts": lambda c: [member for part in self._finder().parts(c) for member in part],
            "inline_message": self._inline_message,
        }
        if tag in own:
            return own[tag](content)
        logger.warning("a stored value has the unknown tag %r; it is given back as plain data", tag)
        return self.unpack(content)

    def _inline_message(self, content: Json) -> BaseMessage:
        return unpack_inline(content, self.codec)

    def _finder(self) -> Finder:
        if self.finder is None:
            raise ValueError("it refers to messages or parts of a thread, and none is at hand")
        return self.finder


def is_storable(value: object) -> bool:
    """Whether a value is a message that has a row: `RemoveMessage` is an instruction and has none."""
    return isinstance(value, BaseMessage) and value.type != "remove"


def are_storable(values: Iterable[object]) -> bool:
    """Whether all of them are."""
    return all(map(is_storable, values))


def is_unicode(text: str) -> bool:
    """Whether a text has no half of a character (a lone surrogate), which neither JSON nor a database takes."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()

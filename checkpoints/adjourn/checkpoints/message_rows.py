"""A message <-> a row of `messages`. Pure.

The columns hold what people read: role, name, text, calls. What a column cannot hold exactly (text with NUL
or lone surrogates, an id that is too long) is written there in a readable form and exactly in `rest`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)
from pydantic_core import PydanticUndefined

from adjourn.checkpoints.errors import StoredDataError
from adjourn.checkpoints.registered_types import type_name
from adjourn.checkpoints.stored_json import TAG_MARK, Json, copied, dump, parse

if TYPE_CHECKING:
    from adjourn.checkpoints.codec import Codec

SHORT = 255  # characters of an ID column

ROLES: dict[type[BaseMessage], str] = {
    HumanMessage: "user",
    AIMessage: "assistant",
    SystemMessage: "system",
    ToolMessage: "tool",
    FunctionMessage: "function",
    ChatMessage: "chat",
}
_BY_ROLE = {role: kind for kind, role in ROLES.items()}
# Classes that `rest` names; a role alone stands for the class in ROLES.
_NAMED: dict[str, type[BaseMessage]] = {
    kind.__name__: kind
    for kind in (
        AIMessageChunk,
        ChatMessageChunk,
        FunctionMessageChunk,
        HumanMessageChunk,
        RemoveMessage,
        SystemMessageChunk,
        ToolMessageChunk,
    )
}
_COLUMNS = frozenset({"id", "name", "content", "tool_call_id", "tool_calls"})  # fields with a column
_IDS = ("id", "name", "tool_call_id")
_NO_DEFAULT = object()


class MessageRow(NamedTuple):
    """The columns of `messages` behind `thread` and `seq`, in the table's order."""

    message_id: str | None
    role: str
    name: str | None
    content: str
    tool_call_id: str | None
    tool_calls: str | None
    rest: str | None
    hash: str


def to_row(message: BaseMessage, codec: "Codec") -> MessageRow:
    """The row of a message. Two messages have equal rows exactly when they are equal in every field."""
    fields = message.__dict__
    kind = type(message)
    rest: dict[str, Json] = _class_mark(kind)
    content = _content(fields.get("content"), rest, codec)
    calls = fields.get("tool_calls")
    message_id, name, call_id = [_short(fields.get(one), one, rest, codec) for one in _IDS]
    _add_rest(message, rest, codec)
    columns = (
        message_id,
        ROLES.get(kind) or _role(kind),
        name,
        content,
        call_id,
        codec.encode(calls) if calls else None,
        dump(rest) if rest else None,
    )
    return MessageRow(*columns, hash=hash_of(columns))


def hash_of(columns: tuple[str | None, ...]) -> str:
    """128 bits over the columns: rows of one thread with one hash are taken for one message."""
    return blake2b(orjson.dumps(columns), digest_size=16).hexdigest()


def mould_of(row: MessageRow, codec: "Codec", key: str) -> "Mould":
    """The message of a row, taken apart. `key` names the row for errors.

    Raises `StoredDataError` when the row does not fit its hash or does not decode.
    """
    if hash_of(row[:-1]) != row.hash:
        raise StoredDataError("messages", key, "the row does not fit its hash")
    try:
        return _mould(row, codec)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoredDataError("messages", key, f"the row does not decode ({error})") from error


def pack_inline(message: BaseMessage, codec: "Codec") -> Json:
    """A message as a tree, for values that are stored outside a thread and for `RemoveMessage`."""
    return list(to_row(message, codec)[:-1])


def unpack_inline(tree: Json, codec: "Codec") -> BaseMessage:
    """The message that `pack_inline` has packed. Raises `ValueError` for any other tree."""
    return _mould(MessageRow._make([*tree, ""]), codec).cast()


def _role(kind: type[BaseMessage]) -> str:
    for parent in kind.__mro__:
        if parent in ROLES:
            return ROLES[parent]
    return "other"


def _class_mark(kind: type[BaseMessage]) -> dict[str, Json]:
    if kind in ROLES:
        return {}
    return {"class": kind.__name__ if kind in _NAMED.values() else type_name(kind)}


def _short(value: Any, name: str, rest: dict[str, Json], codec: "Codec") -> str | None:
    if value is None or (
        type(value) is str and len(value) <= SHORT and value.isascii() and "\0" not in value
    ):
        return value
    text = value if type(value) is str else str(value)
    shown = _readable(text)[:SHORT]
    if shown != value or type(value) is not str:
        rest[name] = codec.pack(value)
    return shown


def _content(value: Any, rest: dict[str, Json], codec: "Codec") -> str:
    if type(value) is not str:
        rest["content"] = "json"
        return dump(codec.pack(value))
    shown = _readable(value)
    if shown != value:
        rest["content"] = [codec.pack(value)]
    return shown


def _readable(text: str) -> str:
    """The text without NUL and lone surrogates, which no database takes in a text column."""
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def _defaults_of(kind: type[BaseMessage]) -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        factory: Callable[[], Any] | None = field.default_factory  # type: ignore[assignment]
        value = factory() if factory else field.default
        if value is not PydanticUndefined:
            defaults[name] = value
    return defaults


_DEFAULTS = {kind: _defaults_of(kind) for kind in (*ROLES, *_NAMED.values())}


def _add_rest(message: BaseMessage, rest: dict[str, Json], codec: "Codec") -> None:
    """Every field that has no column and is not at its default."""
    kind = type(message)
    defaults = _DEFAULTS.get(kind) or _defaults_of(kind)
    fields = {
        name: value
        for name, value in message.__dict__.items()
        if name not in _COLUMNS
        # the default itself, mostly; else its equal in kind and value
        and (value is not (default := defaults.get(name, _NO_DEFAULT)))
        and (type(value) is not type(default) or bool(value != default))
    }
    if fields:
        rest["fields"] = {name: codec.pack(value) for name, value in fields.items()}
    if message.__pydantic_extra__:
        rest["extra"] = codec.pack(message.__pydantic_extra__)


@dataclass(frozen=True, slots=True)
class Mould:
    """A message taken apart, from which equal ones are cast: nothing is parsed or checked again.

    `fields` are all fields of a message, defaults included, or those that are given where `is_whole` is
    False: then the class fills in the others. `is_lasting`: its values are plain, so that each cast has its
    own; any other mould is good for one.
    """

    kind: type[BaseMessage]
    fields: dict[str, Any]
    given: frozenset[str]
    containers: tuple[str, ...]
    is_whole: bool
    is_lasting: bool

    def cast(self) -> BaseMessage:
        """A new message.

        `model_construct` gives the same, and inspects the signature of each default's factory: 1 ms a message.
        """
        values = self.fields.copy()
        for name in self.containers:
            values[name] = copied(values[name])
        if not self.is_whole:
            return self.kind.model_construct(**values)
        message = self.kind.__new__(self.kind)
        set_field = object.__setattr__  # the class's own would check
        set_field(message, "__dict__", values)
        set_field(message, "__pydantic_fields_set__", set(self.given))
        set_field(message, "__pydantic_extra__", {})
        set_field(message, "__pydantic_private__", None)
        return message


def _mould(row: MessageRow, codec: "Codec") -> Mould:
    rest: dict[str, Json] = parse(row.rest) if row.rest else {}
    kind = _class_of(row.role, rest, codec)
    fields: dict[str, Any] = {"id": row.message_id, "name": row.name, "content": row.content}
    if row.tool_call_id is not None:
        fields["tool_call_id"] = row.tool_call_id
    if row.tool_calls is not None:
        fields["tool_calls"] = codec.decode(row.tool_calls)
    if rest:
        _apply_rest(fields, rest, codec)
    blank = _BLANKS.get(kind)
    is_whole = blank is not None and fields.keys() <= blank.keys()
    values = fields
    if blank is not None and is_whole:
        values = blank | fields
        for name in _NEEDED[kind]:
            if name not in fields:
                del values[name]
    containers = tuple([name for name, value in values.items() if type(value) in (list, dict)])
    tagged = (row.rest, row.tool_calls, row.content if "content" in rest else None)
    is_lasting = not any(text is not None and TAG_MARK in text for text in tagged)
    return Mould(kind, values, frozenset(fields), containers, is_whole, is_lasting)


# Every field of a class in its order, with its default; and those without one.
_BLANKS = {kind: dict.fromkeys(kind.model_fields) | defaults for kind, defaults in _DEFAULTS.items()}
_NEEDED = {kind: [name for name in blank if name not in _DEFAULTS[kind]] for kind, blank in _BLANKS.items()}


def _apply_rest(fields: dict[str, Any], rest: dict[str, Json], codec: "Codec") -> None:
    form = rest.get("content")
    if form == "json":
        fields["content"] = codec.decode(fields["content"])
    elif form:
        fields["content"] = codec.unpack(form[0])
    for name in _IDS:
        if name in rest:
            fields[name] = codec.unpack(rest[name])
    for name, value in rest.get("fields", {}).items():
        fields[name] = codec.unpack(value)
    if "extra" in rest:
        fields |= codec.unpack(rest["extra"])


def _class_of(role: str, rest: dict[str, Json], codec: "Codec") -> type[BaseMessage]:
    name = rest.get("class")
    if name is None:
        return _BY_ROLE[role]
    registered = codec.registry.get(name)
    if registered is not None and issubclass(registered, BaseMessage):
        return registered
    # An unknown subclass comes back as the class that its role stands for.
    return _NAMED.get(name) or _BY_ROLE.get(role, HumanMessage)

"""Values come back as they were, and loading runs nothing (C-71)."""

import contextlib
import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import logging
import math
import os
import pathlib
import re
import sys
import uuid
import zoneinfo
from collections import OrderedDict, deque
from typing import Any, NamedTuple, TypedDict

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.agents import AgentAction, AgentActionMessageLog, AgentFinish, AgentStep
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Overwrite, Send
from pydantic import BaseModel, PrivateAttr, SecretStr
from store.stored_graphs import config, execute, put, scalar, values_of

from adjourn.checkpoints.codec import Codec
from adjourn.checkpoints.errors import StoredDataError, UsageError
from adjourn.checkpoints.message_rows import ROLES, mould_of, to_row
from adjourn.checkpoints.saver import SQLAlchemySaver

# Any text at all, lone surrogates and NUL included.
anything_textual = st.text(st.characters(exclude_categories=()), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | anything_textual
    | st.binary(max_size=20)
    | st.decimals(allow_nan=False)
    | st.datetimes()
    | st.datetimes(timezones=st.just(dt.UTC))
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
)
keys = (
    anything_textual
    | st.sampled_from(["!", "v"])
    | st.integers()
    | st.tuples(st.integers(), st.text(max_size=3))
)
trees = st.recursive(
    scalars,
    lambda members: (
        st.lists(members, max_size=4)
        | st.dictionaries(keys, members, max_size=4)
        | st.lists(members, max_size=4).map(tuple)
        | st.sets(st.integers() | st.text(max_size=3), max_size=4)
    ),
    max_leaves=15,
)


def same(one: Any, other: Any) -> bool:
    """Equal in value, in type and in order, NaN and minus zero included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if isinstance(one, list | tuple | deque):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    return bool(one == other)


@given(trees)
@settings(max_examples=300)
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    codec = Codec()
    assert same(codec.decode(codec.encode(value)), value)


@given(trees)
@settings(max_examples=40)
def test_any_value_survives_the_database(value: Any) -> None:
    with SQLAlchemySaver("sqlite://") as saver:
        where = put(saver, config(), {"a": value, "b": [value] * 3})
        saver.put_writes(where, [("a", value)], "task")
        assert same(values_of(saver, config()), {"a": value, "b": [value] * 3})
        assert same(saver.get_tuple(config()).pending_writes[0][2], value)  # type: ignore[union-attr,index]


@given(
    st.sampled_from([HumanMessage, AIMessage, SystemMessage]),
    anything_textual | st.lists(st.dictionaries(anything_textual, trees, max_size=3), max_size=3),
    st.none() | anything_textual,
    st.dictionaries(anything_textual, trees, max_size=3),
)
@settings(max_examples=200)
def test_any_message_comes_back_as_it_was(kind: Any, content: Any, name: Any, more: dict[str, Any]) -> None:
    message = kind.model_construct(
        content=content, name=name, id=name, additional_kwargs=more, response_metadata={}
    )
    row = to_row(message, codec := Codec())
    assert all("\0" not in (column or "") for column in row)
    assert ("".join(column or "" for column in row)).encode()
    back = mould_of(row, codec, "row").cast()
    assert type(back) is kind
    assert same(back.__dict__, {**kind.model_construct(content="").__dict__, **message.__dict__})


def test_plain_json_is_stored_as_plain_json() -> None:
    value = {"a": [1, 2.5, None, True, "支付"], "b": {}}
    assert Codec().encode(value) == '{"a":[1,2.5,null,true,"支付"],"b":{}}'


@pytest.mark.parametrize(
    "value",
    [
        (1, (2, [3])),
        {1, 2},
        frozenset("ab"),
        deque([1, 2], maxlen=5),
        OrderedDict(b=1, a=2),
        {"!": "tuple", "v": [1]},
        {(1, 2): "x", None: 1},
        b"\x00\xff",
        bytearray(b"x"),
        10**30,
        -(2**63),
        2**64 - 1,
        "\ud800 lone",
        "nul \0",
        -0.0,
        math.inf,
        2 + 3j,
        decimal.Decimal("1.10"),
        uuid.UUID(int=7),
        dt.datetime(2026, 10, 25, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=1),
        dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=8))),
        dt.time(1, 2, 3, 4),
        dt.timedelta(days=-1, microseconds=5),
        pathlib.Path("/tmp/x"),
        pathlib.PurePosixPath("a/b"),
        re.compile("a+", re.IGNORECASE),
        ipaddress.ip_address("::1"),
        ipaddress.ip_network("10.0.0.0/8"),
        range(1, 10, 2),
        Send("node", {"messages": [HumanMessage("x", id="1")]}),
        Interrupt(value={"q": (1, 2)}, id="abc"),
        Command(goto=["a"], update={"x": (1,)}, resume={"id": 1}),
        Overwrite(value=[1]),
        _DeltaSnapshot([HumanMessage("x", id="1")]),
        Document("text", metadata={"n": (1,)}),
        AgentAction("search", {"q": 1}, "log"),
        AgentActionMessageLog(tool="search", tool_input="q", log="log", message_log=[AIMessage("x", id="1")]),
        AgentFinish({"answer": 1}, "log"),
        AgentStep(action=AgentAction("search", "q", "log"), observation=[1]),
        RemoveMessage(id="x"),
        SecretStr("hidden"),
        [HumanMessage("x", id="1"), 5],
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_of_known_types_come_back(value: Any) -> None:
    codec = Codec()
    assert same(codec.decode(codec.encode(value)), value)
    with SQLAlchemySaver("sqlite://") as saver:
        put(saver, config(), {"a": value})
        assert same(values_of(saver, config()), {"a": value})


def test_numbers_and_arrays_of_numpy_come_back_with_their_types() -> None:
    numpy = pytest.importorskip("numpy")
    codec = Codec()
    for value in (numpy.float32(1.5), numpy.int64(3), numpy.bool_(True), numpy.arange(3), numpy.array(3)):
        back = codec.decode(codec.encode(value))
        assert (type(back), back.dtype, back.tolist()) == (type(value), value.dtype, value.tolist())
    with pytest.raises(ValueError, match="reshape"):
        codec.decode('{"!":"array","v":["<f4",null,""]}')


def test_a_text_of_numpys_comes_back_as_text_an_empty_one_too() -> None:
    """It was stored as a number is, and an empty one could not be read again: its thread stood still."""
    numpy = pytest.importorskip("numpy")
    codec = Codec()
    for value in numpy.array(["", "ab"]):
        assert codec.decode(codec.encode({"name": value})) == {"name": str(value)}
    for value in (numpy.bytes_(b""), numpy.bytes_(b"a\0")):
        assert codec.decode(codec.encode(value)) == bytes(value)
    nothing = numpy.empty(0, dtype="V0")
    assert codec.decode(codec.encode(nothing)) == repr(nothing)


@pytest.mark.parametrize("kind", list(ROLES), ids=lambda kind: kind.__name__)
def test_messages_are_built_as_pydantic_builds_them(kind: Any) -> None:
    required = {"tool_call_id": "c", "role": "critic"}
    fields = {name: value for name, value in required.items() if name in kind.model_fields}
    made = kind(content="x", name="n", id="1", **fields)
    row, codec = to_row(made, Codec()), Codec()
    back = mould_of(row, codec, "row").cast()
    expected = kind.model_construct(content="x", name="n", id="1", **fields)
    assert list(back.__dict__.items()) == list(expected.__dict__.items())
    for name in ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"):
        assert getattr(back, name) == getattr(expected, name), name
    assert back.model_dump_json() == expected.model_dump_json()
    back.additional_kwargs["mine"] = 1  # a default is not shared
    assert mould_of(row, codec, "row").cast().additional_kwargs == {}


@pytest.mark.parametrize(
    "message",
    [
        AIMessageChunk(
            content="x",
            id="1",
            tool_call_chunks=[{"name": "t", "args": "{", "id": "c", "index": 0, "type": "tool_call_chunk"}],
        ),
        ChatMessage(content="x", role="critic"),
        ToolMessage("x", tool_call_id="c" * 300, id="i" * 300, status="error", artifact={"a": (1,)}),
        AIMessage([{"type": "text", "text": "hi"}, {"type": "reasoning", "n": 1.5}], id="1"),
        AIMessage(
            "",
            invalid_tool_calls=[
                {"name": "t", "args": "{bad", "id": "c", "error": None, "type": "invalid_tool_call"}
            ],
        ),
        HumanMessage("x", extra_field={"kept": (1, 2)}),
    ],
    ids=lambda message: type(message).__name__,
)
def test_odd_messages_come_back(message: BaseMessage) -> None:
    with SQLAlchemySaver("sqlite://") as saver:
        put(saver, config(), {"messages": [message]})
        back = values_of(saver, config())["messages"]
        assert back == [message]
        assert type(back[0]) is type(message)
        assert back[0].__pydantic_extra__ == message.__pydantic_extra__


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: Any
    norm: float = dataclasses.field(init=False, default=0.0)

    def __post_init__(self) -> None:
        CALLS.append("Point")


class Order(BaseModel):
    id: int
    colour: Colour
    _note: str = PrivateAttr("none")

    def model_post_init(self, context: Any) -> None:
        CALLS.append("Order")


class Pair(NamedTuple):
    left: int
    right: Any


class Own(HumanMessage):
    mood: str = "calm"


class Schema(TypedDict):
    order: Order | None
    points: list[Point]
    pair: Pair
    own: Own


CALLS: list[str] = []
OBJECTS = [
    Colour.RED,
    Point(1, (2, 3)),
    Order(id=1, colour=Colour.RED),
    Pair(1, [2]),
    Own("x", id="1", mood="tense"),
]


@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: type(value).__name__)
def test_registered_classes_come_back_without_their_constructor(value: Any) -> None:
    codec = Codec([Schema])
    text = codec.encode({"it": value})
    CALLS.clear()
    back = codec.decode(text)["it"]
    assert back == value
    assert type(back) is type(value)
    assert CALLS == []


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (Colour.RED, "red"),
        (Point(1, (2, 3)), {"x": 1, "y": (2, 3), "norm": 0.0}),
        (Order(id=1, colour=Colour.RED), {"id": 1, "colour": "red", "_note": "none"}),
        (Pair(1, [2]), {"left": 1, "right": [2]}),
    ],
)
def test_unknown_classes_come_back_as_data_with_a_warning(
    value: Any, data: Any, caplog: pytest.LogCaptureFixture
) -> None:
    codec = Codec()
    with caplog.at_level(logging.WARNING, "adjourn.checkpoints"):
        assert codec.decode(codec.encode(value)) == data
    assert "not registered" in caplog.text


def test_an_unknown_message_class_comes_back_as_the_class_of_its_role() -> None:
    with SQLAlchemySaver("sqlite://") as saver:
        put(saver, config(), {"messages": [Own("x", id="1", mood="tense")]})
        (back,) = values_of(saver, config())["messages"]
        assert type(back) is HumanMessage
        assert back.content == "x"


HOSTILE = [
    '{"!":"object","type":"os:system","v":"touch PWNED"}',
    '{"!":"object","type":"builtins:eval","v":["1+1"]}',
    '{"!":"object","type":"never_imported_module:Thing","v":{}}',
    '{"!":"os.system","v":["touch PWNED"]}',
    '{"!":"array","v":["|O",[1],"AAAAAAAAAAA="]}',
    '{"!":"inline_message","v":[null,"user",null,"x",null,null,"{\\"class\\":\\"os:system\\"}"]}',
]


@pytest.mark.parametrize("text", HOSTILE)
def test_c71_c84_hostile_text_runs_and_imports_nothing(
    text: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "system", lambda *_: pytest.fail("it ran"))
    with contextlib.suppress(ValueError):
        Codec().decode('{"!":"array","v":["<i8",[0],""]}')  # numpy, and what it imports by itself, is no news
    before = set(sys.modules)
    with contextlib.suppress(ValueError):
        Codec().decode(text)
    assert {name for name in set(sys.modules) - before if not name.startswith("numpy.")} == set()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ['{"!":"decimal","v":[]}', '{"!":"messages","v":[[1,2]]}', '{"!":"tuple"}', "{", '{"!":[],"v":1}']
)
def test_text_that_is_not_ours_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        Codec().decode(text)


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UsageError, match="nested deeper"):
        Codec().encode(loop)


def test_the_serializer_protocol() -> None:
    codec = Codec()
    assert codec.loads_typed(codec.dumps_typed((1, "x"))) == (1, "x")
    with pytest.raises(ValueError, match="msgpack"):
        codec.loads_typed(("msgpack", b""))


DAMAGE = {
    "messages": ("UPDATE messages SET content = 'forged'", "messages"),
    "message hash": ("UPDATE messages SET hash = ''", "messages"),
    "message gone": ("DELETE FROM messages", "messages"),
    "value": ("UPDATE channel_values SET value = '[1]'", "channel_values"),
    "value gone": ("DELETE FROM channel_values", "channel_values"),
    "channels": ("UPDATE checkpoints SET channels = '{'", "checkpoints"),
    "channels shape": ('UPDATE checkpoints SET channels = \'{"a": "x"}\'', "checkpoints"),
    "versions": ("UPDATE checkpoints SET channel_versions = 'x'", "checkpoints"),
    "metadata": ("UPDATE checkpoints SET metadata = ''", "checkpoints"),
    "metadata shape": ("UPDATE checkpoints SET metadata = '[]'", "checkpoints"),
    "versions shape": ("UPDATE checkpoints SET channel_versions = '7'", "checkpoints"),
    "rest shape": ("UPDATE checkpoints SET rest = '[1]'", "checkpoints"),
    "ranges": ('UPDATE checkpoints SET channels = \'{"a": [["x", 2]]}\'', "checkpoints"),
    "ranges without end": (
        "UPDATE checkpoints SET channels = '{\"a\": [[1, 1000000000000]]}'",
        "checkpoints",
    ),
    "write": ("UPDATE checkpoint_writes SET value = 'x'", "checkpoint_writes"),
    "write pattern": (
        'UPDATE checkpoint_writes SET value = \'{"!":"pattern","v":["(",0]}\'',
        "checkpoint_writes",
    ),
    "write tag": ('UPDATE checkpoint_writes SET value = \'{"!":"uuid","v":7}\'', "checkpoint_writes"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_c71_a_damaged_row_is_an_error_that_names_table_and_key(damage: tuple[str, str]) -> None:
    statement, table = damage
    with SQLAlchemySaver("sqlite://") as saver:
        where = put(saver, config(), {"messages": [HumanMessage("x", id="1")], "big": "y" * 100})
        saver.put_writes(where, [("a", "b")], "task")
        execute(saver, statement)
        for read in (lambda: saver.get_tuple(config()), lambda: list(saver.list(config()))):
            with pytest.raises(StoredDataError) as caught:
                read()
            assert caught.value.table == table
            assert caught.value.key


PRUNED = ("channels", "channels shape", "metadata shape", "ranges", "ranges without end", "write")


@pytest.mark.parametrize("damage", [DAMAGE[one] for one in PRUNED], ids=PRUNED)
def test_c71_a_prune_meets_a_damaged_row_and_takes_nothing_away(damage: tuple[str, str]) -> None:
    with SQLAlchemySaver("sqlite://") as saver:
        for version in (1, 2):
            where = put(saver, config(), {"messages": [HumanMessage("x", id="1")], "big": "y" * 100}, version)
            saver.put_writes(where, [("a", "b")], "task")
        execute(saver, damage[0])
        with contextlib.suppress(StoredDataError):  # not each of them stands in its way
            saver.prune(["t"])
            return
        assert scalar(saver, "SELECT count(*) FROM checkpoints") == 2


def test_what_json_or_python_cannot_say_is_refused_in_words() -> None:
    deep: Any = 1
    for _ in range(150):
        deep = {1: deep}
    for value in (deep, [10**5000]):
        with pytest.raises(UsageError, match=r"cannot be stored|nested deeper"):
            Codec().encode(value)


def test_messages_that_json_cannot_say_are_refused_in_words() -> None:
    deep: Any = 1
    for _ in range(90):
        deep = {1: deep}
    message = HumanMessage("x", additional_kwargs={"deep": deep})
    with SQLAlchemySaver("sqlite://") as saver:
        where = put(saver, config(), {})
        with pytest.raises(UsageError, match=r"cannot be stored|nested deeper"):
            saver.put_writes(where, [("messages", [message])], "task")


def test_a_large_dict_with_a_key_that_is_no_text_of_unicode_is_stored() -> None:
    with SQLAlchemySaver("sqlite://") as saver:
        value = {"\ud800": "x" * 2_000, "b": "y" * 2_000}
        put(saver, config(), {"a": value})
        assert values_of(saver, config())["a"] == value


def test_messages_are_readable_in_their_columns() -> None:
    with SQLAlchemySaver("sqlite://") as saver:
        calls: Any = [{"id": "c", "name": "search", "args": {"q": "支付"}, "type": "tool_call"}]
        put(saver, config(), {"messages": [AIMessage("我看看", id="m", name="bot", tool_calls=calls)]})
        assert (
            scalar(saver, "SELECT role || '|' || name || '|' || content FROM messages")
            == "assistant|bot|我看看"
        )
        assert orjson.loads(scalar(saver, "SELECT tool_calls FROM messages"))[0]["args"] == {"q": "支付"}


def test_classes_that_langgraph_finds_in_a_graphs_schemas_are_registered() -> None:
    with SQLAlchemySaver("sqlite://") as saver:
        same_saver = saver.with_allowlist(
            {(__name__, "Order"), ("never_imported_module", "Thing"), ("os", "missing")}
        )
        put(saver, config(), {"order": Order(id=1, colour=Colour.RED)})
        assert same_saver is saver
        assert values_of(saver, config())["order"] == Order(id=1, colour=Colour.RED)
        assert "never_imported_module" not in sys.modules
        assert saver.serde is saver.codec


def test_a_config_without_a_thread_says_what_is_missing() -> None:
    with SQLAlchemySaver("sqlite://") as saver, pytest.raises(UsageError, match="thread_id"):
        saver.get_tuple({"configurable": {}})


def test_a_row_that_is_tampered_with_behind_a_reader_is_an_error_all_the_same(tmp_path: pathlib.Path) -> None:
    with SQLAlchemySaver(f"sqlite:///{tmp_path}/store.db") as saver:
        put(saver, config(), {"messages": [HumanMessage("true", id="1")]})
        for _ in range(2):  # the second reader takes what the first one parsed
            assert values_of(saver, config())["messages"][0].content == "true"
        execute(saver, "UPDATE messages SET content = 'false'")
        with pytest.raises(StoredDataError, match="does not fit its hash"):
            values_of(saver, config())

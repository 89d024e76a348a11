"""The closed list of types that loading may build: Python's value types, LangGraph's and LangChain's own.

Each entry says how a value is taken apart and put together again. Nothing here runs code of an application,
and no name that was stored is ever looked up anywhere but in these tables.
"""

import base64
import datetime as dt
import decimal
import importlib
import ipaddress
import pathlib
import re
import sys
import uuid
import zoneinfo
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from langchain_core.agents import AgentAction, AgentActionMessageLog, AgentFinish, AgentStep
from langchain_core.documents import Document
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.store.base import Item
from langgraph.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy
from pydantic import SecretBytes, SecretStr

Json = Any
Pack = Callable[[Any], Json]
Packer = Callable[[Any, Pack], tuple[str, Json]]  # (value, pack a member) -> (tag, content)
Unpacker = Callable[[Json, Callable[[Json], Any]], Any]  # (content, unpack a member) -> value

PACKERS: dict[type, Packer] = {}
UNPACKERS: dict[str, Unpacker] = {}


def _known(tag: str, *kinds: type, take: Callable[[Any], Any], make: Callable[[Any], Any]) -> None:
    """Store values of `kinds` as `take(value)` under `tag`; `make` is given what `take` gave."""
    for kind in kinds:
        PACKERS[kind] = lambda value, pack: (tag, pack(take(value)))
    UNPACKERS[tag] = lambda content, unpack: make(unpack(content))


def _fields(tag: str, kind: type, *names: str) -> None:
    """Store values of `kind` as a dict of these attributes, which are the keywords of its constructor."""
    _known(
        tag,
        kind,
        take=lambda value: {name: getattr(value, name) for name in names},
        make=lambda fields: kind(**{name: fields[name] for name in names if name in fields}),
    )


def _text_of(content: bytes) -> str:
    return base64.b64encode(content).decode()


_known("tuple", tuple, take=list, make=tuple)
_known("set", set, take=list, make=set)
_known("frozenset", frozenset, take=list, make=frozenset)
_known("deque", deque, take=lambda d: [list(d), d.maxlen], make=lambda c: deque(c[0], c[1]))
_known("ordered_dict", OrderedDict, take=lambda d: [list(item) for item in d.items()], make=OrderedDict)
_known("bytes", bytes, take=_text_of, make=base64.b64decode)
_known("bytearray", bytearray, take=_text_of, make=lambda c: bytearray(base64.b64decode(c)))
_known("complex", complex, take=lambda z: [z.real, z.imag], make=lambda c: complex(*c))
_known("decimal", decimal.Decimal, take=str, make=decimal.Decimal)
_known("uuid", uuid.UUID, take=str, make=uuid.UUID)
_known("pattern", re.Pattern, take=lambda p: [p.pattern, p.flags], make=lambda c: re.compile(c[0], c[1]))
_known("range", range, take=lambda r: [r.start, r.stop, r.step], make=lambda c: range(*c))
_known("slice", slice, take=lambda s: [s.start, s.stop, s.step], make=lambda c: slice(*c))

_known("date", dt.date, take=dt.date.isoformat, make=dt.date.fromisoformat)
_known(
    "timedelta",
    dt.timedelta,
    take=lambda d: [d.days, d.seconds, d.microseconds],
    make=lambda c: dt.timedelta(*c),
)
_known("zone", zoneinfo.ZoneInfo, take=str, make=zoneinfo.ZoneInfo)
_known("timezone", dt.timezone, take=lambda z: z.utcoffset(None), make=dt.timezone)


def _take_time(moment: dt.datetime | dt.time) -> list[Any]:
    # isoformat keeps an offset but not the zone's name, and `fold` tells the two 2:30s of a clock change
    zone = moment.tzinfo if isinstance(moment.tzinfo, zoneinfo.ZoneInfo | dt.timezone) else None
    shown = moment.replace(tzinfo=None) if zone else moment
    return [shown.isoformat(), zone, moment.fold]


def _time_maker(kind: type[Any]) -> Callable[[list[Any]], Any]:
    def make(content: list[Any]) -> Any:
        moment = kind.fromisoformat(content[0]).replace(fold=content[2])
        return moment.replace(tzinfo=content[1]) if content[1] else moment

    return make


_known("datetime", dt.datetime, take=_take_time, make=_time_maker(dt.datetime))
_known("time", dt.time, take=_take_time, make=_time_maker(dt.time))

_known("path", type(pathlib.Path()), take=str, make=pathlib.Path)
_known("posix_path", pathlib.PurePosixPath, take=str, make=pathlib.PurePosixPath)
_known("windows_path", pathlib.PureWindowsPath, take=str, make=pathlib.PureWindowsPath)
for _kind in (
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
    ipaddress.IPv4Interface,
    ipaddress.IPv6Interface,
):
    _known(_kind.__name__.lower(), _kind, take=str, make=_kind)

_known("secret", SecretStr, take=SecretStr.get_secret_value, make=SecretStr)
_known("secret_bytes", SecretBytes, take=SecretBytes.get_secret_value, make=SecretBytes)

_fields("send", Send, "node", "arg", "timeout")
_fields("timeout_policy", TimeoutPolicy, "run_timeout", "idle_timeout", "refresh_on")
_fields("interrupt", Interrupt, "value", "id", "response_schema")
_fields("command", Command, "graph", "update", "resume", "goto")
_fields("overwrite", Overwrite, "value")
_fields("delta_snapshot", _DeltaSnapshot, "value")
_fields("document", Document, "id", "page_content", "metadata")
_fields("agent_action", AgentAction, "tool", "tool_input", "log")
_fields("agent_action_log", AgentActionMessageLog, "tool", "tool_input", "log", "message_log")
_fields("agent_finish", AgentFinish, "return_values", "log")
_fields("agent_step", AgentStep, "action", "observation")
_fields("item", Item, "value", "key", "namespace", "created_at", "updated_at")


def pack_array(value: Any) -> tuple[str, Json] | None:
    """A numpy array, or one of its numbers or times (without a shape), when numpy is loaded; else None.

    One of its texts is none: that is a `str` or `bytes`, which numpy would cut at the end, and cannot make of nothing.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None or not (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
        return None
    is_one = isinstance(value, numpy.generic)
    if value.dtype.hasobject or value.dtype.fields or not value.dtype.itemsize:
        return None
    if is_one and isinstance(value, numpy.character):
        return None
    shape = None if is_one else list(value.shape)
    return "array", [value.dtype.str, shape, _text_of(value.tobytes())]


def _make_array(content: Json, _unpack: Callable[[Json], Any]) -> Any:
    try:
        numpy: Any = importlib.import_module("numpy")  # this name and no other
    except ImportError as error:
        raise ValueError("it holds an array, and numpy is not installed") from error
    kind = numpy.dtype(content[0])
    if kind.hasobject:
        raise ValueError("an array of objects is never stored")
    numbers = numpy.frombuffer(base64.b64decode(content[2]), kind)
    return numbers.reshape(())[()] if content[1] is None else numbers.reshape(content[1]).copy()


UNPACKERS["array"] = _make_array

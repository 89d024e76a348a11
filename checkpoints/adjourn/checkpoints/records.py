"""Rows of the run tables as values. JSON columns are decoded here, and only here. A row that cannot be what it should is
an error that names it."""

import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType, UnionType
from typing import Any, ClassVar, Self, TypeVar, get_args, get_origin, get_type_hints

from sqlalchemy.engine import RowMapping

from adjourn.checkpoints.errors import StoredDataError
from adjourn.checkpoints.lifecycle import (
    CallState,
    Effect,
    ErrorCode,
    InterruptState,
    InterruptType,
    RunStatus,
    StopReason,
)
from adjourn.checkpoints.sealed import hidden

T = TypeVar("T")
Stored = Mapping[str, Any] | RowMapping  # a row by the names of its columns

KEY_LENGTH = 255  # of the columns that hold ids: MySQL cannot index longer ones

# `json.dumps` would make one for each text
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_encode_ascii = json.JSONEncoder(allow_nan=False).encode


def to_json(value: Any) -> str | None:
    """JSON text as it is stored; None stays NULL.

    Half a surrogate pair, which no text column takes, is escaped. NaN and infinities, which JSON does not have, are
    written as text: they can only be an app's own, such as the default of a parameter, since what people and models give
    is refused where it enters.
    """
    if value is None:
        return None
    try:
        text = _encode(value)
    except ValueError:
        value = _finite(value)
        text = _encode(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return _encode_ascii(value)
    return text


def _finite(value: Any) -> Any:
    """`value` with text in place of what is no number of JSON."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def as_text(value: str) -> str:
    """Text as a column takes it: half surrogate pairs and NUL, which some databases refuse, are replaced."""
    return value.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def to_text(value: str | None) -> str | None:
    """`as_text`; None stays NULL."""
    return None if value is None else as_text(value)


def shortened(value: str, length: int) -> str:
    """`value` as a key of at most `length` characters.

    What is longer, or holds what no text column takes, ends in a hash of all of it instead.
    """
    plain = as_text(value)
    if plain == value and len(value) <= length:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{plain[: length - 33]}#{digest}"


def from_json(text: str | None, table: str, key: str) -> Any:
    """What the text says. Raises `StoredDataError` naming table and key when it is no JSON."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise StoredDataError(table, key, f"not JSON: {error}") from error


def whole(
    rows: Iterable[Stored], of: Callable[[Stored], T], damaged: list[StoredDataError] | None
) -> list[T]:
    """The rows as values, without those that are damaged: their errors are added to `damaged`. None: the first one is
    raised."""
    found = []
    for row in rows:
        try:
            found.append(of(row))
        except StoredDataError as error:
            if damaged is None:
                raise
            damaged.append(error)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row as a value. Each class says of which table, and what its columns hold beyond their types."""

    _table: ClassVar[str]
    _key: ClassVar[tuple[str, ...]]
    """The columns by which a damaged row is named."""
    _words: ClassVar[Mapping[str, type[StrEnum]]] = MappingProxyType({})
    """What the database checks as well, but not where it was told not to."""
    _json: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def of(cls, row: Stored) -> Self:
        """What this row holds. Raises `StoredDataError`, which names the row, where a column holds something else."""
        values = {}
        for name, kinds, check in _columns(cls):  # type: ignore[arg-type]
            value = row[name]
            if name in cls._json:
                value = from_json(value, cls._table, cls._name(row))
            if kinds and type(value) not in kinds:
                raise cls._damaged(row, f"{name} holds a value of type {type(value).__name__}")
            if check is not None and value is not None and not check(value):
                raise cls._damaged(row, f"{name} holds {value[:40]!r}")
            values[name] = value
        return cls(**values)

    @classmethod
    def _name(cls, row: Stored) -> str:
        key = ", ".join(str(row[name]) for name in cls._key)
        return key if len(cls._key) == 1 else f"({key})"

    @classmethod
    def _damaged(cls, row: Stored, why: str) -> StoredDataError:
        return StoredDataError(cls._table, cls._name(row), why)


@functools.cache
def _columns(row: type[Row]) -> tuple[tuple[str, frozenset[type], Callable[[str], bool] | None], ...]:
    """The columns of a row's class, each with the types that its value may have (none: any), and a check where it has to be
    one of our words, or a time."""
    hints = get_type_hints(row)
    checks: dict[str, Callable[[str], bool]] = {
        name: words._value2member_map_.__contains__ for name, words in row._words.items()
    }
    checks |= {name: _is_time for name in hints if f"_{name}".endswith(_TIMES) and name != "forked_at"}
    return tuple((one.name, _kinds(hints[one.name]), checks.get(one.name)) for one in fields(row))


_TIMES = ("_at", "_until")  # so their columns are called; `forked_at` is a checkpoint


def _is_time(value: str) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _kinds(hint: Any) -> frozenset[type]:
    if hint is Any:
        return frozenset()
    parts = [get_origin(one) or one for one in (get_args(hint) if isinstance(hint, UnionType) else (hint,))]
    return frozenset([*parts, int] if float in parts else parts)  # a whole number may come as one


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow(Row):
    """One run. `input` is the user's message as text, with `attached` images and files beside it, `context` what its
    caller said about it; times are ISO 8601, UTC; `active_ms` is time worked."""

    id: str
    thread_id: str
    graph: str
    signature: str
    input: str
    status: str
    created_at: str
    updated_at: str
    parent_run_id: str | None = None
    parent_step: int | None = None
    parent_call_id: str | None = None
    forked_from: str | None = None
    forked_at: str | None = None
    path: str = ""
    started_by: str | None = None
    stop_reason: str | None = None
    attached: int = 0
    context: dict[str, Any] | None = None
    answer: str | None = None
    error: dict[str, Any] | None = None
    failures: int = 0
    steps: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    active_ms: int = 0
    lease_owner: str | None = None
    lease_until: str | None = None
    fence: int = 0
    deaths: int = 0
    claimed_event: int = 0
    priority: int = 0
    cancel_requested_at: str | None = None
    cancel_requested_by: str | None = None
    last_event: int = 0
    trace_context: str | None = None
    ended_at: str | None = None

    _table = "runs"
    _key = ("id",)
    _words = MappingProxyType({"status": RunStatus, "stop_reason": StopReason})
    _json = frozenset({"input", "context", "error"})

    @property
    def died(self) -> int:
        """How many owners died at the place where it stands, if the one that it has is dead too."""
        if self.lease_owner is None:
            return self.deaths
        return 1 if self.last_event > self.claimed_event else self.deaths + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow(Row):
    """One model call. `latency_ms` is from the request to the end signal; tokens are None if not told.

    `cached_tokens` and `cache_write_tokens` are part of the input, `reasoning_tokens` of the output.
    """

    run_id: str
    step: int
    path: str = ""
    model: str
    message_id: str | None
    latency_ms: int
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float = 0.0
    calls: int
    started_at: str
    ended_at: str

    _table = "steps"
    _key = ("run_id", "step")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow(Row):
    """One call, as the ledger holds it. `result` is the observation as the model is told it, JSON text."""

    run_id: str
    step: int
    call_id: str
    batch: int
    position: int
    tool: str
    effect: str
    arguments: dict[str, Any] | None
    digest: str | None = None
    raw: str | None = None
    outcome: str
    error_code: str | None = None
    attempts: int = 0
    idempotency_key: str | None = None
    result: str | None = None
    shown: Any = None
    error: dict[str, str] | None = None
    planned_at: str
    started_at: str | None = None
    ended_at: str | None = None
    took_ms: int | None = None

    _table = "calls"
    _key = ("run_id", "step", "call_id")
    _words = MappingProxyType({"effect": Effect, "outcome": CallState, "error_code": ErrorCode})
    _json = frozenset({"arguments", "shown", "error"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow(Row):
    """Who did what to a run or a question, when. `by` None: the person gave no name, or it was nobody's doing."""

    action: str
    interrupt_id: str | None
    by: str | None
    at: str
    data: Any = None

    _table = "audit"
    _key = ("id",)
    _json = frozenset({"data"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt(Row):
    """A question to a person. `response_schema` is the JSON Schema of the answer; `state` is its word.

    `arguments` are the call's, masked (C-73); `expires_at` None: never.
    """

    id: str
    run_id: str
    step: int
    call_id: str
    path: str = ""
    position: int
    type: str
    tool: str
    arguments: dict[str, Any]
    reason: str
    payload: dict[str, Any]
    response_schema: dict[str, Any]
    state: str
    answer: Any = None
    answered_by: str | None = None
    approvals: dict[str, Any] | None = None
    langgraph_id: str | None = None
    created_at: str
    expires_at: str | None = None
    closed_at: str | None = None

    _table = "interrupts"
    _key = ("id",)
    _words = MappingProxyType({"type": InterruptType, "state": InterruptState})
    _json = frozenset({"arguments", "payload", "response_schema", "answer", "approvals"})

    @property
    def asked(self) -> str:
        """What is asked, as text: the reason, and the data that a node of somebody's own asked with."""
        value = self.payload.get("value") if self.type == InterruptType.CUSTOM else None
        data = "" if value is None or isinstance(value, str) else _encode(value)
        return " ".join(one for one in (data, self.reason) if one)

    @property
    def agreed(self) -> str | None:
        """Who gave the answer: of several who had to agree, all of them, with commas between."""
        given = self.approvals["given"] if self.approvals is not None else []
        is_yes = isinstance(self.answer, dict) and self.answer.get("action") == "approve"
        return ", ".join(str(one["by"]) for one in given) if given and is_yes else self.answered_by

    def has_agreed(self, person: str | None) -> bool:
        """Whether this person is one of those who agreed, where others have to as well."""
        return any(one["by"] == person for one in (self.approvals or {}).get("given", ()))

    def is_overdue(self, at: str) -> bool:
        """Whether it is open although its time had passed at `at`, a time as it is stored."""
        return self.state == InterruptState.OPEN and self.expires_at is not None and self.expires_at <= at

    def to_dict(self) -> dict[str, Any]:
        """What is shown of a question: JSON data."""
        shown = ("id", "call_id", "path", "type", "tool", "arguments", "reason", "payload", "response_schema")
        return {name: getattr(self, name) for name in (*shown, "approvals", "expires_at")}

    @property
    def shown_answer(self) -> Any:
        """The answer as people see it: secrets are not (C-73)."""
        return hidden(self.answer) if isinstance(self.answer, dict) else self.answer

"""What the model is told about a call: the envelope, and how a long result is cut. Pure.

A success is `{"ok": true, "data": ...}`, a failure `{"ok": false, "errorCode": ..., "message": ...}`
(C-16). Both are always valid JSON, however long the result was (C-74).
"""

import dataclasses
import enum
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from adjourn.checkpoints.lifecycle import ErrorCode
from adjourn.nodes.texts import say


def unmasked(value: Any) -> Any:
    """The mask that hides nothing."""
    return value


def success(
    data: Any,
    *,
    limit: int,
    language: str,
    note: dict[str, Any] | None = None,
    mask: Callable[[Any], Any] = unmasked,
) -> str:
    """The observation of a call that succeeded; `note` is merged in beside `data`.

    `limit` is how many characters the whole observation may have. `mask` hides what the model may not see
    (C-73); of a result that is far too long, only the part that could be kept is masked.
    """
    around = {"ok": True, **(note or {})}
    whole = _dump(data)
    data = json.loads(whole)  # as `plain` gives it
    if len(whole) <= 4 * limit:
        masked = mask(data)
        text = _dump({"ok": True, "data": masked, **(note or {})})
        return text if len(text) <= limit else _cut(masked, limit=limit, language=language, around=around)
    count = len(data) if isinstance(data, list) else None
    total = len(data) if isinstance(data, str) else len(whole)
    head = mask(_head(data, whole, 2 * limit))
    return _cut(head, limit=limit, language=language, around=around, total=total, count=count)


def _head(data: Any, whole: str, room: int) -> Any:
    """The beginning of a long result: whole elements of a list, else text."""
    if not isinstance(data, list):
        return (data if isinstance(data, str) else whole)[:room]
    head: list[Any] = []
    for one in data:
        room -= len(_dump(one)) + 2
        if room < 0:
            break
        head.append(one)
    return head or whole[: room + len(_dump(data[0])) + 2]


def failure(code: ErrorCode, message: str, *, suggestion: str | None = None, data: Any = None) -> str:
    """The observation of a call that did not succeed."""
    envelope: dict[str, Any] = {"ok": False, "errorCode": code.value, "message": message}
    if suggestion:
        envelope["suggestion"] = suggestion
    if data is not None:
        envelope["data"] = data
    return _dump(envelope)


def shrink(observation: str, limit: int, language: str) -> str:
    """A success cut to `limit` characters, as `success` cuts; failures and what is short come back as they are.

    It gets as short as its note and what stands beside `data` allow. A note of an earlier cut stays, before the new one.
    Raises `ValueError` when `observation` is no JSON.
    """
    if len(observation) <= limit:
        return observation
    told = json.loads(observation)
    if not isinstance(told, dict) or told.get("ok") is not True:
        return observation
    data, before = told.pop("data", None), told.pop("cut", None)
    room = limit if before is None else limit - len(_dump(before))
    shrunk = _cut(data, limit=room, language=language, around=told)
    if before is not None:
        told = json.loads(shrunk)
        shrunk = _dump({**told, "cut": f"{before}; {told['cut']}"})
    return min(shrunk, observation, key=len)


def with_attached(observation: str, blocks: Sequence[Mapping[str, Any]]) -> str:
    """A success that holds images and files too, as content blocks beside its data: they are no part of its length."""
    return f'{observation[:-1]}, "attached": {_dump(list(blocks))}}}' if blocks else observation


def parted(observation: str) -> tuple[str, list[dict[str, Any]]]:
    """An observation without its images and files, and these."""
    if '"attached": ' not in observation:
        return observation, []
    told = json.loads(observation)
    blocks = told.pop("attached", [])
    return (_dump(told), blocks) if blocks else (observation, [])


def content_of(observation: str) -> str | list[str | dict[str, Any]]:
    """An observation as the content of its message: the text, and behind it a block for each image and file."""
    text, blocks = parted(observation)
    return [{"type": "text", "text": text}, *blocks] if blocks else text


def error_code(observation: str) -> str | None:
    """The `errorCode` of an observation; None for a success, and for text that is no observation."""
    try:
        told = json.loads(observation)
    except ValueError:
        return None
    return told.get("errorCode") if isinstance(told, dict) else None


def status_of(observation: str) -> Literal["success", "error"]:
    """The status of the tool message that holds an observation: `error` exactly for `ok: false` (C-13)."""
    return "error" if error_code(observation) else "success"


def plain(value: Any) -> Any:
    """`value` as JSON data: models and dataclasses as objects, sets as lists, enums as their values, what is left as text."""
    return json.loads(_dump(value))


def _dump(value: Any) -> str:
    text = _encode(_walk(value))
    # half a surrogate pair goes through no wire and into no text column
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _walk(value: Any) -> Any:
    # NaN and infinities are no JSON; keys that are no text would be refused
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {k if isinstance(k, str) else str(k): _walk(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_walk(one) for one in value]
    return value


_DUMPERS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("model_dump", lambda value: value.model_dump(mode="json")),
    ("isoformat", lambda value: value.isoformat()),
    ("tolist", lambda value: value.tolist()),  # numbers and arrays of numpy, columns of pandas
)


def _default(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _walk({one.name: getattr(value, one.name) for one in dataclasses.fields(value)})
    for name, dump in _DUMPERS:
        if hasattr(value, name) and not isinstance(value, type):
            return _walk(dump(value))
    if isinstance(value, enum.Enum):  # as pydantic writes it, and as the model would give it back
        return _walk(value.value)
    if isinstance(value, set | frozenset):
        return [_walk(one) for one in sorted(value, key=str)]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


# `json.dumps` would make one for each value.
_encode = json.JSONEncoder(ensure_ascii=False, default=_default).encode


def _cut(
    data: Any,
    *,
    limit: int,
    language: str,
    around: dict[str, Any],
    total: int | None = None,
    count: int | None = None,
) -> str:
    """Keep whole elements of a list as long as they fit, else the head of the text; say what is missing.

    `total` and `count` are the characters and elements of the whole, where `data` is its beginning alone.
    """
    data = plain(data)
    if total is None:
        total = len(data) if isinstance(data, str) else len(_dump(data))
    if isinstance(data, list):
        of = len(data) if count is None else count
        kept = _kept(
            data, limit - len(_dump({**around, "data": [], "cut": _counted(total, total, of, of, language)}))
        )
        note = _counted(total - len(_dump(kept)), total, len(kept), of, language)
        fitted = _dump({**around, "data": kept, "cut": note})
        if kept and len(fitted) <= limit:
            return fitted
    text = data if isinstance(data, str) else _dump(data)
    return _cut_text(text, max(total, len(text)), limit, language, around)


def _kept(data: list[Any], room: int) -> list[Any]:
    kept: list[Any] = []
    for one in data:
        room -= len(_dump(one)) + 2
        if room < 0:
            break
        kept.append(one)
    return kept


def _counted(missing: int, total: int, kept: int, of: int, language: str) -> str:
    return f"{_cut_note(missing, total, language)} ({kept}/{of})"


def _cut_text(text: str, total: int, limit: int, language: str, around: dict[str, Any]) -> str:
    keep = min(limit, len(text))
    while True:
        note = _cut_note(total - keep, total, language)
        fitted = _dump({**around, "data": text[:keep], "cut": note})
        over = len(fitted) - limit
        if over <= 0 or keep == 0:
            return fitted
        # JSON may write one character as six: what is too much is that many characters less
        written = max(1, len(_dump(text[:keep])))
        keep = max(0, keep - max(1, math.ceil(over * keep / written)))


def _cut_note(missing: int, total: int, language: str) -> str:
    return say("cut", language, missing=missing, total=total)

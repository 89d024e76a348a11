"""Streamed pieces become a turn: its text, and its calls in index order (C-1 to C-8). Pure.

An `Assembler` takes what a provider's stream brought (`Piece`, `Fragment`) and keeps it in lists that are
joined once, at the end, so that the cost is linear in the stream's length (C-4). Arguments are parsed once,
after the end, by a strict parser; a text that does not parse is never completed, repaired or taken as `{}`.

Which call a fragment belongs to is decided in `_Calls.of` and nowhere else.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, NoReturn

from adjourn.checkpoints.json_data import check_data, too_deep
from adjourn.nodes.kept import Kept

__all__ = ["AssembledCall", "Assembler", "Finish", "Fragment", "Piece", "Turn", "Usage", "parse_arguments"]

Finish = Literal["stop", "tool_calls", "length", "content_filter", "refusal", "pause"]
"""Why a provider ended a turn. `length`, `content_filter` and `refusal` mean that something may be missing; `pause`,
that the provider works on with its own tools when it gets the turn back as it is."""

_CUT: Final = ("length", "content_filter", "refusal")

FUNCTION_CALL_ID: Final = "function_call"
"""The id of a call that came as the old `function_call`, which has none; a turn holds at most one."""

_NO_IDS: Final = frozenset({"", "null"})
_SHOWN: Final = 24  # characters around a mistake: enough to find it, too few to repeat a document


@dataclass(frozen=True, slots=True)
class Fragment:
    """One piece of one call, as it came.

    `id` may be `None`, `""` or `"null"`, which all mean that there is none. `arguments` is text, or a whole
    object from servers that do not send text. `exact` is False where the text is not the model's own but
    canonical JSON of what a model package parsed. `old` marks a `function_call` (the API before tools).
    `extra` is what else came with the call and goes back with it.
    """

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str | dict[str, Any] | None = None
    exact: bool = True
    old: bool = False
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a turn cost, told alike for all providers.

    `cached_tokens` (read from the provider's cache) and `cache_write_tokens` (written to it) are part of the
    input, `reasoning_tokens` of the output.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def then(self, later: "Usage") -> "Usage":
        """This report and a later one of the same stream.

        Reports add up (Anthropic tells the input first and the output last), but some compatible servers
        send a running total with every chunk: those repeat the prompt's tokens, and the latest one counts.
        """
        if later.input_tokens and later.input_tokens == self.input_tokens:
            return later
        return Usage(
            self.input_tokens + later.input_tokens,
            self.output_tokens + later.output_tokens,
            self.cached_tokens + later.cached_tokens,
            self.reasoning_tokens + later.reasoning_tokens,
            self.cache_write_tokens + later.cache_write_tokens,
        )


class Piece(NamedTuple):
    """What one chunk of a stream brought. An empty one (a ping, a chunk without choices) changes nothing."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    fragments: tuple[Fragment, ...] = ()
    finish: Finish | None = None
    usage: Usage | None = None
    model: str | None = None
    blocks: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class AssembledCall:
    """One call of a turn: what the model sent, and what came of parsing it (C-7).

    Exactly one of `arguments` and `error` is None. `raw` is the argument text byte for byte; with
    `exact=False` it is canonical JSON in its place. `cut` tells that the provider cut its output in this
    call, or may have (C-10): it must not run, even where its text parses.
    """

    position: int
    id: str | None
    name: str
    raw: str
    arguments: dict[str, Any] | None
    error: str | None = None
    exact: bool = True
    cut: bool = False
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One whole turn of a model. `finish` is None when the stream ended without an end signal (C-10).

    `blocks` is what goes back to its provider as it came, if that is more than text and calls; `origin` names that
    provider, and nobody else gets them.
    """

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: tuple[AssembledCall, ...] = ()
    finish: Finish | None = None
    usage: Usage | None = None
    model: str | None = None
    blocks: tuple[Mapping[str, Any], ...] = ()
    origin: str = ""

    @property
    def answer(self) -> str:
        """What the model said to the user: its text, and its refusal, which is an answer too (C-11)."""
        return self.text + self.refusal

    @property
    def truncated(self) -> bool:
        """Whether the provider says that the output was cut."""
        return self.finish in _CUT

    @property
    def paused(self) -> bool:
        """Whether the provider goes on with this turn when it gets it back: there is nothing to run, or to answer."""
        return self.finish == "pause" and not self.calls

    @property
    def problem(self) -> str | None:
        """Why this turn may not be written to the history (C-9), as a sentence for the model; else None.

        A turn without an end signal is no such turn: look at `finish` first.
        """
        ids = Counter(call.id for call in self.calls)
        twice = [repr(id_) for id_, count in ids.items() if id_ is not None and count > 1]
        if None in ids:
            return "a tool call came without an id"
        if twice:
            return f"several tool calls have the same id: {', '.join(twice)}"
        if self.finish == "tool_calls" and not self.calls:
            return "the turn ended as if it called tools, but it holds no tool call"
        says_nothing = not self.calls and not self.answer.strip()
        if says_nothing and self.finish not in ("refusal", "pause"):
            return "the turn holds neither text nor a tool call"
        return None


@dataclass(slots=True)
class _Name:
    """A name that comes in pieces. A piece equal to the whole name so far is a repetition."""

    pieces: list[str] = field(default_factory=list)
    length: int = 0

    def add(self, piece: str) -> None:
        # Lengths are compared first, so that joining happens only where the piece pays for it.
        if len(piece) == self.length and piece == self.whole():
            return
        self.pieces.append(piece)
        self.length += len(piece)

    def whole(self) -> str:
        return "".join(self.pieces)


@dataclass(slots=True)
class _Open:
    """A call that is being put together."""

    index: int | None
    id: str | None = None
    name: _Name = field(default_factory=_Name)
    texts: list[str] = field(default_factory=list)
    whole: str | None = None  # arguments that came as an object; a later object stands for the earlier one
    exact: bool = True
    extra: dict[str, Any] = field(default_factory=dict)

    def add(self, fragment: Fragment, id_: str | None) -> None:
        self.id = self.id or id_
        self.exact = self.exact and fragment.exact
        if fragment.extra:
            self.extra.update(fragment.extra)
        if fragment.name:
            self.name.add(fragment.name)
        if isinstance(fragment.arguments, str):
            self.texts.append(fragment.arguments)
        elif fragment.arguments is not None:
            self.whole = canonical(fragment.arguments)

    def takes(self, fragment: Fragment) -> bool:
        """Whether a first id that comes with `fragment` may still be this call's own."""
        begun = any(self.texts) or self.whole is not None
        return not fragment.name or not begun or fragment.name == self.name.whole()

    def close(self, position: int, truncated: bool) -> AssembledCall:
        raw = "".join(self.texts) + (self.whole or "")
        arguments, error = parse_arguments(raw)
        unfinished = error is not None or not raw or not self.exact
        cut = truncated and unfinished
        extra = self.extra or None
        return AssembledCall(
            position, self.id, self.name.whole(), raw, arguments, error, self.exact, cut, extra
        )


class _Calls:
    """The calls of a turn while their fragments come."""

    def __init__(self) -> None:
        self._opened: list[_Open] = []
        self._at: dict[int, _Open] = {}  # index -> the call opened last at that index
        self._known: dict[tuple[int | None, str], _Open] = {}  # (index, id) -> call; None: at any index
        self._old = _Open(None, FUNCTION_CALL_ID)

    def add(self, fragment: Fragment) -> None:
        if fragment.old:
            self._old.add(fragment, None)
            return
        id_ = None if fragment.id in _NO_IDS else fragment.id
        call = self.of(fragment, id_)
        call.add(fragment, id_)
        if id_ is not None and call.id is not None:
            self._known[call.index, call.id] = self._known[None, call.id] = call

    def of(self, fragment: Fragment, id_: str | None) -> _Open:
        """The call that a fragment belongs to, opened if need be (C-3).

        An index that was never seen opens a call. At a known index, an id that is known there leads to its
        call: servers that send index 0 for all may interleave. A new id together with a name opens a call;
        without a name it belongs to the open call (some servers make up an id for every chunk).
        """
        here = self._at.get(fragment.index) if fragment.index is not None else self._last()
        if id_ is not None and (known := self._known.get((fragment.index, id_))) is not None:
            return known
        if here is None:
            return self._open(fragment.index)
        if id_ is None or not fragment.name or (here.id is None and here.takes(fragment)):
            return here
        return self._open(fragment.index)

    def _last(self) -> _Open | None:
        return self._opened[-1] if self._opened else None

    def _open(self, index: int | None) -> _Open:
        call = _Open(index)
        self._opened.append(call)
        if index is not None:
            self._at[index] = call
        return call

    def close(self, truncated: bool) -> tuple[AssembledCall, ...]:
        """All calls in index order; of equal indexes, and of calls without one, the first opened first.

        Servers that still send `function_call` may send the same call in both forms: it counts alone only.
        """
        opened = sorted(self._opened, key=lambda call: math.inf if call.index is None else call.index)
        if not opened and self._old.name.length:
            opened = [self._old]
        return tuple(call.close(position, truncated) for position, call in enumerate(opened))


class Assembler:
    """Puts one turn together. Feed it every piece of the stream, then call `finish` once.

    `ends` tells whether the provider always ends a turn with a reason. Where it does not (models that only
    close their stream, as most test doubles do), a stream that was closed in order counts as ended.
    `origin` is noted in the turn.
    """

    def __init__(self, *, ends: bool = True, origin: str = "") -> None:
        self._ends = ends
        self._origin = origin
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._refusals: list[str] = []
        self._calls = _Calls()
        self._kept = Kept()
        self._last = Piece()

    def feed(self, piece: Piece) -> str:
        """Take one piece; return the text that may be shown at once (C-11), `""` if it brought none."""
        self._texts.append(piece.text)
        self._reasoning.append(piece.reasoning)
        self._refusals.append(piece.refusal)
        for fragment in piece.fragments:
            self._calls.add(fragment)
        for block in piece.blocks:
            self._kept.add(block)
        self._note(piece)
        return piece.text + piece.refusal

    def _note(self, piece: Piece) -> None:
        if not (piece.finish or piece.usage or piece.model):
            return
        before = self._last
        usage = (
            before.usage.then(piece.usage) if before.usage and piece.usage else piece.usage or before.usage
        )
        finish, model = piece.finish or before.finish, piece.model or before.model
        self._last = before._replace(finish=finish, usage=usage, model=model)

    def finish(self) -> Turn:
        """The whole turn. Arguments are parsed here, once. Safe to call again: the same result."""
        finish = self._last.finish
        calls = self._calls.close(finish in _CUT)
        if finish is None and not self._ends:
            finish = "tool_calls" if calls else "stop"
        text, reasoning, refusal = map("".join, (self._texts, self._reasoning, self._refusals))
        return Turn(
            text,
            reasoning,
            refusal,
            calls,
            finish,
            self._last.usage,
            self._last.model,
            self._kept.close(),
            self._origin,
        )


_canonical = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode  # made once


def canonical(value: object) -> str:
    """JSON text for a value that came parsed: no spaces, keys in the order they came, text as itself."""
    return _canonical(value)


def parse_arguments(raw: str) -> tuple[dict[str, Any] | None, str | None]:
    """Parse the argument text of a call strictly (C-5): `(arguments, None)` or `(None, what is wrong)`.

    Empty text is `{}`. Refused beyond what JSON forbids, because each would let a tool run on something
    that the model did not plainly say: NaN and infinities, numbers too large for a float, a key given
    twice, half of a surrogate pair (it is no text), what is nested too deeply to be stored, and anything that is not
    an object.
    """
    try:
        value = _DECODER.decode(raw or "{}")
        check_data(value)
        canonical(value).encode()  # what cannot be written down again must not run
    except (ValueError, RecursionError) as error:
        return None, _located(raw, error)
    if not isinstance(value, dict):
        return None, f"the arguments must be a JSON object, but they are {_kind(value)}"
    return value, None


def _located(raw: str, error: ValueError | RecursionError) -> str:
    """What is wrong and where, with a few characters around the place."""
    if isinstance(error, RecursionError):
        return str(too_deep())
    if isinstance(error, UnicodeEncodeError):
        return "the text holds half of a surrogate pair, which is no character"
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    at = error.pos
    if not raw[at:].strip() or error.msg.startswith("Unterminated string"):
        return f"the JSON text breaks off at its end (character {len(raw)}): {raw[-_SHOWN:]!r}"
    near = raw[max(0, at - _SHOWN // 2) : at + _SHOWN // 2]
    return f"{error.msg} (line {error.lineno}, column {error.colno}, character {at}), near {near!r}"


def _kind(value: object) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:_SHOWN]} is too large")
    return number


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:  # more digits than Python converts
        raise ValueError(f"the number {text[:_SHOWN]}... is too large") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice!r} is given more than once")
    return value


_DECODER = json.JSONDecoder(
    parse_constant=_no_constant, parse_float=_finite, parse_int=_integer, object_pairs_hook=_distinct
)

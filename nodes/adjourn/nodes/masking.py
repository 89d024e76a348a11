"""What neither the model, nor an event, nor the database may see is replaced by its kind (C-73). Pure.

`ops@corp.com` becomes `[email]`, `password=hunter2` becomes `password=[secret]`. Masking is linear in the text, changes
nothing when it is repeated, and never raises: what a rule cannot read is withheld. A stack trace that is a tool's data
stays. Data is masked before it is written as JSON, so that it stays JSON: `Masker.data` masks values, `Masker.text` text.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from adjourn.checkpoints.sealed import HIDDEN
from adjourn.nodes import masking_named as names
from adjourn.nodes import masking_personal as personal
from adjourn.nodes import masking_secrets as secrets

log = logging.getLogger("adjourn.masking")

WITHHELD = "[withheld]"  # in place of a text that a rule could not read

Span = tuple[int, int]
Find = Callable[[str], Iterable[Span]]

# A mask must not be found by a rule itself, so no digits, no `@` and no signs
_NAME = re.compile(r"[^\W\d_](?:[^\W\d]|[ -])*")


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of thing to mask: what is found is replaced by `[name]`.

    `find` gives spans `(start, end)` in characters, in any order, or is a pattern, whose first group is masked
    if it has one, else the whole match. It must be linear in the text, and must not find its own mask in what
    it left behind: then masking twice changes nothing. `by_digits` tells that it goes by digits alone; it is
    left out for fields whose name says otherwise (`order_id`).

    Raises `ValueError` for a name that is not made of letters, blanks, `_` and `-`.
    """

    name: str
    find: Find | re.Pattern[str]
    by_digits: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a rule's name is letters, blanks, _ or -, not {self.name!r}")

    def spans(self, text: str) -> Iterable[Span]:
        """Where it is found in `text`."""
        if isinstance(self.find, re.Pattern):
            group = 1 if self.find.groups else 0
            return (found.span(group) for found in self.find.finditer(text))
        return self.find(text)


# In this order: a password may hold an address, and an ID card number a bank card's
DEFAULT: tuple[Rule, ...] = (
    Rule("secret", secrets.by_form),
    Rule("secret", names.by_name),
    Rule("email", personal.emails),
    Rule("id card", personal.id_cards, by_digits=True),
    Rule("bank card", personal.bank_cards, by_digits=True),
    Rule("phone", personal.phones, by_digits=True),
)


class Masker:
    """Masks by rules, one after another: `Masker([*DEFAULT, Rule("employee", re.compile("E-[0-9]{6}"))])`.

    A rule that raises harms no run: the text that it was shown is withheld as a whole, and the log says so once.
    """

    def __init__(self, rules: Iterable[Rule] = DEFAULT) -> None:
        self.rules = tuple(rules)
        self._no_digits = tuple(rule for rule in self.rules if not rule.by_digits)
        self._broken: set[str] = set()  # the names of rules that raised
        self._very: frozenset[str] = frozenset()  # numbers, as text, that are hidden too

    def hiding(self, texts: Sequence[str]) -> "Masker":
        """This masker, which hides these very texts too, wherever they stand. Of several at one place the first wins."""
        if not texts:
            return self
        pattern = re.compile("|".join(re.escape(one) for one in texts))
        made = Masker((Rule("secret", pattern), *self.rules))
        made._broken, made._very = self._broken, self._very | frozenset(texts)
        return made

    def text(self, text: str) -> str:
        """`text` with what the rules find replaced."""
        return self._apply(self.rules, text)

    def _apply(self, rules: Sequence[Rule], text: str) -> str:
        for rule in rules if text else ():
            try:
                if spans := list(rule.spans(text)):
                    text = _replaced(text, spans, f"[{rule.name}]")
            except Exception as error:  # what could not be masked must not be shown
                self._say_once(rule, error)
                return WITHHELD
        return text

    def _say_once(self, rule: Rule, error: Exception) -> None:
        if rule.name not in self._broken:
            self._broken.add(rule.name)
            kind = type(error).__name__  # its text may hold what was to be masked
            log.error(
                "the masking rule %r raises %s; what it is shown is withheld as a whole", rule.name, kind
            )

    def data(self, value: Any) -> Any:
        """JSON data with its strings masked, and the keys of objects where they look like data.

        A string, or a list of strings, under a key that names a secret is masked whole. Numbers, booleans and
        null stay, but for numbers under such a key or under one that names a telephone. The argument is not
        changed; a tuple becomes a list, and what is no JSON data comes back as it is. Depth does not matter.
        """
        root: list[Any] = [value]
        todo: list[tuple[Any, Any, str]] = [(root, 0, "")]
        while todo:
            holder, place, key = todo.pop()
            one = holder[place]
            if isinstance(one, dict):
                holder[place] = held = self._keys(one)
                # An object under a secret's name decides by its own names: a schema has such fields
                todo += [(held, new, str(old)) for new, old in zip(held, one, strict=True)]
            elif isinstance(one, list | tuple):
                holder[place] = items = list(one)
                todo += [(items, index, key) for index in range(len(items))]
            else:
                holder[place] = self._leaf(one, key)
        return root[0]

    def _leaf(self, value: Any, key: str) -> Any:
        if isinstance(value, str):
            if key and value and names.names_a_secret(key):
                return HIDDEN
            rules = self._no_digits if key and personal.names_a_number(key) else self.rules
            return self._apply(rules, value)
        if type(value) in (int, float) and self._very and str(value) in self._very:
            return HIDDEN
        if type(value) is int and key:
            return _number(value, key)
        return value

    def _keys(self, held: dict[Any, Any]) -> dict[Any, Any]:
        """`held` with masked keys, in its order; two keys that became one are told apart by a number."""
        new = {old: self._key(old) for old in held}
        taken = {old for old, masked in new.items() if old == masked}
        renamed: dict[Any, Any] = {}
        for old, value in held.items():
            masked = old if new[old] == old else _free(new[old], taken)
            taken.add(masked)
            renamed[masked] = value
        return renamed

    def _key(self, key: Any) -> Any:
        # A plain name is no data, and by far the most common
        if not isinstance(key, str) or key.replace("_", "").isalpha():
            return key
        return self.text(key)


def _replaced(text: str, spans: Iterable[Span], by: str) -> str:
    parts: list[str] = []
    done = 0
    for start, end in _merged(spans):
        parts += (text[done:start], by)
        done = end
    parts.append(text[done:])
    return "".join(parts)


def _merged(spans: Iterable[Span]) -> Iterator[Span]:
    """The spans in order, those that overlap as one; empty ones and what lies before the text left out."""
    start, end = 0, 0
    for left, right in sorted(spans):
        if left < end:
            end = max(end, right)
            continue
        if end > start:
            yield start, end
        start, end = max(0, left), right
    if end > start:
        yield start, end


def _free(key: str, taken: set[Any]) -> str:
    count = 1
    free = key
    while free in taken:
        count += 1
        free = f"{key} {count}"
    return free


def _number(value: int, key: str) -> int | str:
    if names.names_a_secret(key) and names.hides_numbers(key):
        return HIDDEN
    return "[phone]" if value >= 1_000_000 and personal.names_a_phone(key) else value

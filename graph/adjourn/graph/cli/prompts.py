"""How a person is asked on a terminal: with keys where it has them, by numbers and names where it has not.

Both raise `EOFError` when the person leaves (Ctrl-D, a closed terminal), and pass on `KeyboardInterrupt`.
"""

import getpass
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from adjourn.graph.cli.screen import Screen, clean

Check = Callable[[str], str | None]
"""Says what is wrong with a typed text; None: nothing."""

SHORTCUTS = 9  # choices that a single digit can mean; more are filtered by typing
_DUMB = ("dumb", "unknown", "")


class Prompts(Protocol):
    """Asks for one thing at a time."""

    def choose(self, name: str, titles: Sequence[str], start: int | None = None) -> int:
        """The place of the title that the person chose; `start` is where Enter alone leads, None: nowhere in particular."""
        ...

    def choose_several(self, name: str, titles: Sequence[str], marked: Sequence[int] = ()) -> list[int]:
        """The places of the titles that the person marked."""
        ...

    def write(self, name: str, check: Check, *, hint: str = "", text: str = "", lines: bool = False) -> str:
        """A text that fits; `text` stands there already. `lines`: it may have several lines."""
        ...

    def secret(self, name: str, check: Check, *, hint: str = "") -> str:
        """A text that fits, and that nobody sees while it is typed."""
        ...


def prompts_for(screen: Screen) -> Prompts:
    """What this terminal can do."""
    return Typed(screen) if os.environ.get("TERM", "") in _DUMB else Keys(screen)


class Typed:
    """Numbered lists and lines of text: for terminals without cursor keys, and for `read` in place of one."""

    def __init__(
        self,
        screen: Screen,
        read: Callable[[str], str] = input,
        read_unseen: Callable[[str], str] = getpass.getpass,
    ) -> None:
        self._screen = screen
        self._read = read
        self._read_unseen = read_unseen

    def choose(self, name: str, titles: Sequence[str], start: int | None = None) -> int:
        self._list(titles)
        hint = self._screen.say("form.choose")
        if start is not None:
            hint += ", " + self._screen.say("form.default", default=titles[start])
        while True:
            words = self._line(name, hint)
            if words == "" and start is not None:
                return start
            place = _numbered(words, titles)
            if place is not None:
                return place
            self._wrong(self._screen.say("form.choose"))

    def choose_several(self, name: str, titles: Sequence[str], marked: Sequence[int] = ()) -> list[int]:
        self._list(titles)
        hint = self._screen.say("form.choose_several")
        while True:
            words = self._line(name, hint)
            if words == "":
                return list(marked)
            places = [_numbered(one, titles) for one in words.replace(",", " ").split()]
            found = [one for one in places if one is not None]
            if len(found) == len(places):
                return found
            self._wrong(hint)

    def write(self, name: str, check: Check, *, hint: str = "", text: str = "", lines: bool = False) -> str:
        if text:
            hint = ", ".join(one for one in (hint, self._screen.say("form.default", default=text)) if one)
        while True:
            words = self._line(name, hint) or text
            problem = check(words)
            if problem is None:
                return words
            self._wrong(problem)

    def secret(self, name: str, check: Check, *, hint: str = "") -> str:
        while True:
            words = self._read_unseen(clean(f"  {name} ({hint})> " if hint else f"  {name}> "))
            problem = check(words)
            if problem is None:
                return words
            self._wrong(problem)

    def _line(self, name: str, hint: str) -> str:
        return self._read(clean(f"  {name} ({hint})> " if hint else f"  {name}> ")).strip()

    def _list(self, names: Sequence[str]) -> None:
        for number, one in enumerate(names, start=1):
            self._screen.line((f"{number})", "cyan"), f" {one}", indent=4)

    def _wrong(self, why: str) -> None:
        self._screen.line((self._screen.say("form.wrong", why=why), "red"), indent=2)


def _numbered(words: str, names: Sequence[str]) -> int | None:
    """The place that a name, a number or the beginning of one name means, in this order. None: none of them."""
    if words in names:
        return names.index(words)
    if words.isdecimal() and 1 <= int(words) <= len(names):
        return int(words) - 1
    begun = [place for place, one in enumerate(names) if words and one.lower().startswith(words.lower())]
    return begun[0] if len(begun) == 1 else None


class Keys:
    """Arrow keys, digits, a cursor in the text, and what is wrong shown below it while it stays there."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def choose(self, name: str, titles: Sequence[str], start: int | None = None) -> int:
        import questionary

        digits = len(titles) <= SHORTCUTS
        listed = [
            questionary.Choice(clean(one), value=place, shortcut_key=str(place + 1) if digits else None)
            for place, one in enumerate(titles)
        ]
        asked = questionary.select(
            clean(name),
            listed,
            default=listed[start] if start is not None else None,
            use_shortcuts=digits,
            use_jk_keys=False,
            use_search_filter=not digits,
            instruction=self._screen.say("form.keys" if digits else "form.filter"),
        )
        return int(_answer(asked))

    def choose_several(self, name: str, titles: Sequence[str], marked: Sequence[int] = ()) -> list[int]:
        import questionary

        listed = [
            questionary.Choice(clean(one), value=place, checked=place in marked)
            for place, one in enumerate(titles)
        ]
        asked = questionary.checkbox(
            clean(name), listed, use_jk_keys=False, instruction=self._screen.say("form.keys_several")
        )
        return [int(one) for one in _answer(asked)]

    def write(self, name: str, check: Check, *, hint: str = "", text: str = "", lines: bool = False) -> str:
        import questionary

        if lines:
            hint = ", ".join(one for one in (hint, self._screen.say("form.lines")) if one)
        asked = questionary.text(
            clean(name),
            default=text,
            validate=lambda words: check(words.strip()) or True,
            instruction=f"({clean(hint)})" if hint else " ",
            multiline=lines,
            validate_while_typing=False,
            key_bindings=_line_keys() if lines else None,
        )
        return str(_answer(asked)).strip()

    def secret(self, name: str, check: Check, *, hint: str = "") -> str:
        import questionary

        asked = questionary.password(clean(name), validate=lambda words: check(words) or True)
        return str(_answer(asked))


def _answer(asked: Any) -> Any:
    """What was answered. Ctrl-D leaves lists too, where the library knows no such key."""
    bindings = asked.application.key_bindings
    if hasattr(bindings, "add"):
        bindings.add("c-d", eager=True)(lambda event: event.app.exit(exception=EOFError))
    return asked.unsafe_ask()


def _line_keys() -> Any:
    """Enter ends a text, Alt-Enter begins a new line: most answers have one."""
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()
    keys.add("enter")(lambda event: event.current_buffer.validate_and_handle())
    keys.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))
    return keys

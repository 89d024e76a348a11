"""The form on a terminal: each open question, field by field, asked again until the value fits."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adjourn.checkpoints.records import Interrupt
from adjourn.graph.cli.fields import Schema, WrongValue, choices, parse, shown
from adjourn.graph.cli.given import Answers, properties, variants
from adjourn.graph.cli.how_to import show_field, show_question
from adjourn.graph.cli.screen import Screen

Read = Callable[[str], str]
_NOTHING = object()  # None is a value that a field may have


class Form:
    """Asks on `screen` and reads with `read`, which raises `EOFError` when the person leaves (Ctrl-D)."""

    def __init__(self, screen: Screen, read: Read = input) -> None:
        self._screen = screen
        self._read = read

    def ask(self, questions: Sequence[Interrupt], earlier: Mapping[str, Any] | None = None) -> Answers | None:
        """An answer to each question by its id; None when the person left.

        `earlier` holds answers that were not accepted: their values are offered again.
        """
        try:
            return {one.id: self._question(one, (earlier or {}).get(one.id, {})) for one in questions}
        except EOFError:
            self._screen.line()
            self._screen.line((self._screen.say("form.left"), "yellow"))
            return None

    def _question(self, question: Interrupt, earlier: Answers) -> Any:
        show_question(self._screen, question, flags=False)
        schema = question.response_schema
        if variants(question):
            return self._verdict(question, earlier)
        if not properties(schema):
            return self._field(question.tool, schema, schema)
        return self._object(schema, schema, {} if not isinstance(earlier, dict) else earlier)

    def _verdict(self, question: Interrupt, earlier: Answers) -> Answers:
        action = self._action(list(variants(question)))
        answer: Answers = {"action": action}
        schema = variants(question)[action]
        for name, field in schema["properties"].items():
            if name == "arguments":
                present = earlier.get("arguments", question.arguments)
                answer[name] = self._object(field, question.response_schema, present)
            elif name != "action":
                required = name in schema["required"]
                value = self._field(name, field, question.response_schema, required=required)
                answer |= {} if value is _NOTHING else {name: value}
        return answer

    def _action(self, words: Sequence[str]) -> str:
        listed = [self._screen.say(f"form.action.{one}") for one in words]
        while True:
            self._list(listed)
            chosen = _numbered(self._prompt("action"), words)
            if chosen in words:
                return str(chosen)
            self._wrong(self._screen.say("form.choose"))

    def _object(self, schema: Schema, whole: Schema, present: Mapping[str, Any]) -> Answers:
        """Each field of an object. Present values, then the schema's defaults, are taken by Enter."""
        values: Answers = {}
        for name, field in properties(schema).items():
            default = present.get(name, field.get("default", _NOTHING))
            required = name in schema.get("required", ())
            value = self._field(name, field, whole, default=default, required=required)
            values |= {} if value is _NOTHING else {name: value}
        return values

    def _field(
        self, name: str, field: Schema, whole: Schema, *, default: Any = _NOTHING, required: bool = True
    ) -> Any:
        show_field(self._screen, name, field, whole)
        listed = choices(field, whole) or ()
        self._list([shown(one) for one in listed])
        while True:
            words = self._prompt(name, self._hint(default, required, bool(listed)))
            if words == "" and (default is not _NOTHING or not required):
                return default
            try:
                return self._value(words, field, whole, listed)
            except WrongValue as error:
                self._wrong(str(error))

    def _value(self, words: str, field: Schema, whole: Schema, listed: Sequence[Any]) -> Any:
        if words == "":
            raise WrongValue(self._screen.say("form.required"))
        names = [shown(one) for one in listed]
        chosen = _numbered(words, names)
        return parse(words if chosen is None else chosen, field, whole)

    def _hint(self, default: Any, required: bool, is_listed: bool) -> str:
        hints = [self._screen.say("form.choose")] if is_listed else []
        if default is not _NOTHING:
            hints.append(self._screen.say("form.default", default=shown(default)))
        elif not required:
            hints.append(self._screen.say("form.optional"))
        return f" ({', '.join(hints)})" if hints else ""

    def _prompt(self, name: str, hint: str = "") -> str:
        return self._read(f"  {name}{hint}> ").strip()

    def _list(self, names: Sequence[str]) -> None:
        for number, one in enumerate(names, start=1):
            self._screen.line((f"{number})", "cyan"), f" {one}", indent=4)

    def _wrong(self, why: str) -> None:
        self._screen.line((self._screen.say("form.wrong", why=why), "red"), indent=2)


def _numbered(words: str, names: Sequence[str]) -> str | None:
    """The name that a number or the name itself chooses; a name wins over a number. None: neither."""
    if words in names:
        return words
    is_place = words.isdecimal() and 1 <= int(words) <= len(names)
    return names[int(words) - 1] if is_place else None

"""The form on a terminal: each open question, field by field, asked again until the value fits."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from adjourn.checkpoints.records import Interrupt
from adjourn.graph.cli.given import Answers
from adjourn.graph.cli.how_to import show_field, show_question
from adjourn.graph.cli.prompts import Prompts, prompts_for
from adjourn.graph.cli.screen import Screen, to_line
from adjourn.graph.fields import (
    NOTHING,
    Schema,
    WrongValue,
    choices,
    example,
    kinds,
    parse,
    properties,
    resolved,
    shown,
    variants,
    without_null,
)

DEPTH = 3  # objects within objects that are asked field by field; what lies deeper is typed as JSON


class Form:
    """Asks on `screen` through `prompts`, which raise `EOFError` when the person leaves (Ctrl-D)."""

    def __init__(self, screen: Screen, prompts: Prompts | None = None) -> None:
        self._screen = screen
        self._prompts = prompts or prompts_for(screen)

    def ask(self, questions: Sequence[Interrupt], earlier: Mapping[str, Any] | None = None) -> Answers | None:
        """An answer to each question by its id; None when the person left.

        `earlier` holds answers that were not accepted: their values are offered again.
        """
        self._screen.line((self._screen.say("form.begin"), "dim"))
        try:
            return {one.id: self._question(one, (earlier or {}).get(one.id)) for one in questions}
        except EOFError:
            self._screen.line()
            self._screen.line((self._screen.say("form.left"), "yellow"))
            return None

    def _question(self, question: Interrupt, earlier: Any) -> Any:
        show_question(self._screen, question, flags=False)
        schema = question.response_schema
        before = earlier if isinstance(earlier, dict) else {}
        if variants(schema):
            return self._verdict(question, before)
        if not properties(schema):
            return self._field(question.tool or "answer", schema, schema)
        return self._object(schema, schema, before)

    def _verdict(self, question: Interrupt, earlier: Answers) -> Answers:
        words = list(variants(question.response_schema))
        titles = [self._screen.say(f"form.action.{one}") for one in words]
        action = words[self._prompts.choose("action", titles)]
        answer: Answers = {"action": action}
        schema = variants(question.response_schema)[action]
        for name, field in schema["properties"].items():
            if name == "arguments":
                present = earlier.get("arguments", question.arguments)
                answer[name] = self._object(field, question.response_schema, present)
            elif name != "action":
                required = name in schema["required"]
                value = self._field(name, field, question.response_schema, required=required)
                answer |= {} if value is NOTHING else {name: value}
        return answer

    def _object(
        self, schema: Schema, whole: Schema, present: Mapping[str, Any], prefix: str = "", depth: int = DEPTH
    ) -> Answers:
        """Each field of an object. Present values, then the schema's defaults, are taken by Enter."""
        values: Answers = {}
        for name, field in properties(schema).items():
            if name in present and _only(schema, name) == present[name]:
                values[name] = present[name]  # a secret, which an edit leaves as it is
                continue
            required = name in schema.get("required", ())
            value = self._field(
                f"{prefix}{name}",
                field,
                whole,
                present=present.get(name, NOTHING),
                required=required,
                depth=depth,
            )
            values |= {} if value is NOTHING else {name: value}
        return values

    def _field(
        self,
        name: str,
        field: Schema,
        whole: Schema,
        *,
        present: Any = NOTHING,
        required: bool = True,
        depth: int = DEPTH,
    ) -> Any:
        """The value of one field; `NOTHING`: it is left out."""
        show_field(self._screen, name, field, whole)
        if field.get("writeOnly"):
            return self._secret(name, field, whole)
        taken = present if present is not NOTHING else field.get("default", NOTHING)
        plain, may_be_null = without_null(field, whole)
        listed = choices(field, whole)
        if listed is not None:
            return self._choice(name, listed, taken, required)
        if kinds(plain, whole) == {"object"} and plain.get("properties") and depth and required:
            inner = taken if isinstance(taken, dict) else {}
            return self._object(plain, whole, inner, prefix=f"{name}.", depth=depth - 1)
        if kinds(plain, whole) == {"array"} and (required or taken is not NOTHING):
            items = resolved(plain.get("items", {}), whole)
            if choices(items, whole):
                return self._several(name, choices(items, whole) or (), taken)
            if kinds(items, whole) & {"string", "integer", "number"} and taken in (NOTHING, []):
                return self._items(name, plain, items, whole)
        rest = None if may_be_null and required else NOTHING
        return self._text(name, field, whole, taken=taken, rest=rest, required=required and not may_be_null)

    def _choice(self, name: str, listed: Sequence[Any], taken: Any, required: bool) -> Any:
        titles = [self._title(one) for one in listed]
        values = list(listed)
        if not required and taken is NOTHING:
            titles, values = [self._screen.say("form.leave_out"), *titles], [NOTHING, *values]
            return values[self._prompts.choose(name, titles, 0)]
        start = values.index(taken) if taken in values else None
        return values[self._prompts.choose(name, titles, start)]

    def _title(self, value: Any) -> str:
        if isinstance(value, bool):
            return self._screen.say("form.yes" if value else "form.no")
        return self._screen.say("form.null") if value is None else shown(value)

    def _several(self, name: str, listed: Sequence[Any], taken: Any) -> list[Any]:
        marked = [listed.index(one) for one in taken if one in listed] if isinstance(taken, list) else []
        titles = [self._title(one) for one in listed]
        return [listed[place] for place in self._prompts.choose_several(name, titles, marked)]

    def _items(self, name: str, schema: Schema, items: Schema, whole: Schema) -> list[Any]:
        """The items of a list, one after the other, until one is empty and there are enough."""
        found: list[Any] = []
        while len(found) < schema.get("maxItems", len(found) + 1):
            enough = len(found) >= schema.get("minItems", 0)
            words = self._prompts.write(
                f"{name} {self._screen.say('form.item', number=len(found) + 1)}",
                partial(self._problem, items, whole, enough),
                hint=self._screen.say("form.end") if enough else "",
            )
            if words == "":
                break
            found.append(parse(words, items, whole))
        return found

    def _text(self, name: str, field: Schema, whole: Schema, *, taken: Any, rest: Any, required: bool) -> Any:
        """A typed value. Empty: what is taken where nothing is typed, else `rest`."""
        kept = taken is not NOTHING
        hints = [] if kept else [self._screen.say("form.optional")] * (not required)
        structured = kinds(field, whole) & {"array", "object"} or not kinds(field, whole)
        if structured:
            hints.append(self._screen.say("form.json", example=to_line(example(field, whole))))
        if taken is None:
            hints.insert(0, self._screen.say("form.default", default=self._screen.say("form.null")))
        text = shown(taken) if kept and taken is not None else ""
        check = partial(self._problem, field, whole, not required or kept)
        words = self._prompts.write(
            name, check, hint=", ".join(hints), text=text, lines="string" in kinds(field, whole)
        )
        if words in ("", text):
            return taken if kept else rest
        return parse(words, field, whole)

    def _secret(self, name: str, field: Schema, whole: Schema) -> Any:
        """A value that is not shown while it is typed, nor told when it does not fit."""

        def check(words: str) -> str | None:
            problem = self._problem(field, whole, False, words)
            return problem and self._screen.say("form.secret_wrong" if words else "form.required")

        return parse(self._prompts.secret(name, check, hint=self._screen.say("form.secret")), field, whole)

    def _problem(self, field: Schema, whole: Schema, may_be_empty: bool, words: str) -> str | None:
        if words == "":
            return None if may_be_empty else self._screen.say("form.required")
        try:
            parse(words, field, whole)
        except WrongValue as error:
            return self._screen.refusal(str(error))
        return None


def _only(schema: Schema, name: str) -> Any:
    """The one value that a field may have; `NOTHING`: it may have others."""
    return schema.get("properties", {}).get(name, {}).get("const", NOTHING)

"""The form in a notebook: the open questions of a run as widgets, answered through its runner.

Each question has its own fields and buttons, so that several people answer one by one. What is wrong stands
beside its field; what was typed stays. It needs ipywidgets (the extra `notebooks`).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import ipywidgets  # type: ignore[import-untyped]

from adjourn.checkpoints.errors import AdjournError, InvalidAnswer
from adjourn.checkpoints.records import Interrupt
from adjourn.graph.captions import CAPTIONS, caption
from adjourn.graph.card import question_card, run_card
from adjourn.graph.fields import (
    NOTHING,
    Schema,
    WrongValue,
    choices,
    describe,
    example,
    is_secret,
    kinds,
    parse,
    properties,
    resolved,
    shown,
    title_of,
    variants,
    without_null,
)
from adjourn.graph.picture import safe
from adjourn.graph.refusals import refusal
from adjourn.graph.run import Run
from adjourn.nodes.texts import language_of

if TYPE_CHECKING:
    from adjourn.graph.runner import Runner

VIEW = "application/vnd.jupyter.widget-view+json"
SUBMIT = "submit"  # the button of a question that takes values
DEPTH = 3  # objects within objects that have fields of their own; what lies deeper is typed as JSON
_RED = "#cf222e"
_LABEL = {"description_width": "9em"}
_WIDE = {"width": "40em"}


class NotebookForm:
    """Shows a run and asks its open questions; `run` is the run after the last answer that was accepted.

    `boxes` holds a `QuestionBox` per question id, `name` the field for who answers.
    """

    def __init__(self, run: Run, runner: "Runner", *, by: str | None = None) -> None:
        self._runner = runner
        self._language = language_of(run.row.input)
        label = caption("form.by", self._language)
        self.name = ipywidgets.Text(value=by or "", description=label, style=_LABEL)
        self.widget = ipywidgets.VBox()
        self.message = ipywidgets.HTML()
        self.boxes: dict[str, QuestionBox] = {}
        self.show(run)

    def show(self, run: Run) -> None:
        """Show this run, with a box for each question that is open."""
        self.run = run
        before, self.boxes = self.boxes, {}
        for one in run.interrupts:  # what was typed for a question that is still open stays
            box = before.pop(one.id, None) or QuestionBox(one, self._answer, self._language)
            box.look_again(one)
            self.boxes[one.id] = box
        for box in before.values():
            box.forget()
        asked = [self.name, *(one.widget for one in self.boxes.values())] if self.boxes else []
        self.widget.children = (ipywidgets.HTML(run_card(run, asks=not self.boxes)), *asked, self.message)

    def _answer(self, box: "QuestionBox", answer: Any) -> None:
        """Hand one answer to the runner, and show what became of it."""
        self.message.value = ""
        try:
            run = self._runner.resume_sync(self.run.id, {box.question.id: answer}, by=self.name.value or None)
        except InvalidAnswer as error:
            box.mark(error.problems)
        except AdjournError as error:  # not allowed, too late, somebody else was first
            self.message.value = _red(str(error))
            self.show(self._runner.get_sync(self.run.id))
        else:
            self.show(run)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        view = self.widget._repr_mimebundle_() or {}
        shown_without = {"text/plain": repr(self.run), "text/html": run_card(self.run)}
        return {**shown_without, **({VIEW: view[VIEW]} if VIEW in view else {})}


class QuestionBox:
    """One question: `buttons` by what they do (an action's word, or `submit`), `fields` by name."""

    def __init__(
        self, question: Interrupt, answer: Callable[["QuestionBox", Any], None], language: str
    ) -> None:
        self.question = question
        self._language = language
        self._answer = answer
        self._schema = question.response_schema
        self._action: str | None = None
        self.message = ipywidgets.HTML()
        self.buttons: dict[str, Any] = {}
        self.fields: dict[str, Field] = {}
        self._head = ipywidgets.HTML()
        self._actions = ipywidgets.HBox([self._button(word) for word in variants(self._schema)])
        self.widget = ipywidgets.VBox()
        self._open(None)

    def look_again(self, question: Interrupt) -> None:
        """Show who has agreed by now."""
        self._head.value = question_card(question, self._language)

    def forget(self) -> None:
        """Take the secrets away that were typed here."""
        for field in self.fields.values():
            field.forget()

    def _button(self, word: str) -> Any:
        styles = {"approve": "success", "reject": "danger", SUBMIT: "primary"}
        button = ipywidgets.Button(description=self._label(word), button_style=styles.get(word, ""))
        button.on_click(lambda _: self._press(word))
        self.buttons[word] = button
        return button

    def _label(self, word: str) -> str:
        key = f"form.{word}"
        return caption(key, self._language) if key in CAPTIONS else word

    def _press(self, word: str) -> None:
        if word == SUBMIT:
            self._submit()
            return
        self._open(word)
        if not self.fields:  # nothing more to say: approve
            self._submit()

    def _open(self, action: str | None) -> None:
        """Show the fields of an action; of None: of a question without actions."""
        self._action = action
        schema = self._schema if action is None else variants(self._schema)[action]
        self.fields = {}
        if action is not None or not variants(self._schema):
            self.fields = self._made(schema)
        self.message.value = ""
        asks = bool(self.fields)
        submit = [self._button(SUBMIT)] if asks else []
        self.widget.children = (
            self._head,
            self._actions,
            *(one.widget for one in self.fields.values()),
            *submit,
            self.message,
        )

    def _made(self, schema: Schema) -> dict[str, "Field"]:
        made = {
            name: Field(
                name,
                field,
                self._schema,
                self._language,
                present=self.question.arguments if name == "arguments" else NOTHING,
                required=name in schema.get("required", ()),
            )
            for name, field in properties(schema).items()
            if self._action is None or name != "action"
        }
        if made or self._action is not None:
            return made
        return {"": Field(caption("form.answer", self._language), schema, self._schema, self._language)}

    def _submit(self) -> None:
        for field in self.fields.values():
            field.mark("")
        try:
            values = {
                name: value for name, one in self.fields.items() if (value := one.value()) is not NOTHING
            }
        except WrongValue:
            return  # it stands beside its field
        answer: Any = values.get("") if "" in self.fields else values
        self._answer(self, answer if self._action is None else {"action": self._action, **values})

    def mark(self, problems: Mapping[str, str]) -> None:
        """Say what is wrong beside each field that was named, the rest below."""
        rest = []
        for path, why in problems.items():
            place, _, within = path.partition(".")
            field = self.fields.get(place)
            if field is None and self._action is not None:  # the tool's own types name an argument by itself
                field, within = self.fields.get("arguments"), path
            if field is None or not field.take(within, why):
                rest.append(f"{path}: {why}" if path else why)
        self.message.value = _red("; ".join(rest)) if rest else ""


class Field:
    """One field: `widget` is shown, `control` holds what was typed or chosen, `error` what is wrong with it,
    `inner` the fields of an object."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        whole: Schema,
        language: str,
        *,
        present: Any = NOTHING,
        required: bool = True,
        depth: int = DEPTH,
    ) -> None:
        self._schema, self._whole, self._required = schema, whole, required
        self._language = language
        self.is_secret = is_secret(schema, whole)
        self._taken = present if present is not NOTHING else schema.get("default", NOTHING)
        self.inner: dict[str, Field] = {}
        self.widget: Any
        self._values: list[Any] = []
        self.error = ""
        self._message = ipywidgets.HTML()
        plain, self._may_be_null = without_null(schema, whole)
        label = title_of(name, schema) or name
        if kinds(plain, whole) == {"object"} and plain.get("properties") and depth and required:
            self.control: Any = None
            self.inner = self._fields_of(plain, depth - 1)
            inside = ipywidgets.VBox([one.widget for one in self.inner.values()])
            inside.layout.margin = "0 0 0 2em"
            self.widget = ipywidgets.VBox([ipywidgets.HTML(f"<b>{safe(label)}</b>"), inside, self._message])
            return
        self.control = self._made(plain)
        self.control.description = label
        self.control.tooltip = str(resolved(schema, whole).get("description", ""))
        hint = ipywidgets.HTML(f'<span style="color:#57606a">{safe(self._hint())}</span>')
        self.widget = ipywidgets.VBox([ipywidgets.HBox([self.control, hint]), self._message])

    def _fields_of(self, schema: Schema, depth: int) -> dict[str, "Field"]:
        taken = self._taken if isinstance(self._taken, dict) else {}
        required = schema.get("required", ())
        return {
            name: Field(
                name,
                field,
                self._whole,
                self._language,
                present=taken.get(name, NOTHING),
                required=name in required,
                depth=depth,
            )
            for name, field in properties(schema).items()
        }

    def _made(self, plain: Schema) -> Any:
        settings: dict[str, Any] = {"style": _LABEL, "layout": _WIDE}
        listed = choices(self._schema, self._whole)
        several = choices(resolved(plain.get("items", {}), self._whole), self._whole)
        if listed is not None:
            left_out = not self._required and self._taken is NOTHING
            self._values = [*([NOTHING] if left_out else []), *listed]
            options = [
                ("" if one is NOTHING else shown(one), place) for place, one in enumerate(self._values)
            ]
            start = (
                self._values.index(self._taken) if self._taken in self._values else (0 if left_out else None)
            )
            return ipywidgets.Dropdown(options=options, value=start, **settings)
        if kinds(plain, self._whole) == {"array"} and several:
            self._values = list(several)
            taken = self._taken if isinstance(self._taken, list) else []
            marked = [place for place, one in enumerate(self._values) if one in taken]
            options = [(shown(one), place) for place, one in enumerate(self._values)]
            return ipywidgets.SelectMultiple(options=options, value=marked, rows=len(options), **settings)
        text = "" if self._taken in (NOTHING, None) else shown(self._taken)
        many = kinds(plain, self._whole) & {"string", "array", "object"} or not kinds(plain, self._whole)
        if self.is_secret:
            return ipywidgets.Password(**settings)
        kind = ipywidgets.Textarea if many else ipywidgets.Text
        return kind(value=text, placeholder=self._placeholder(plain), **settings)

    def _placeholder(self, plain: Schema) -> str:
        structured = kinds(plain, self._whole) & {"array", "object"}
        return shown(example(plain, self._whole)) if structured else ""

    def _hint(self) -> str:
        words = describe(self._schema, self._whole)
        told = resolved(self._schema, self._whole).get("description", "")
        optional = "" if self._required else caption("form.optional", self._language)
        return "  ".join(one for one in (words, optional, told) if one)

    def value(self) -> Any:
        """The field's value; `NOTHING`: it is left out. Raises `WrongValue`, and shows it here."""
        if self.inner:
            found = {name: one.value() for name, one in self.inner.items()}
            return {name: value for name, value in found.items() if value is not NOTHING}
        try:
            return self._read()
        except WrongValue as error:
            why = refusal(str(error), self._language)
            self.mark(why.replace(self.control.value.strip(), "…") if self.is_secret else why)
            raise

    def _read(self) -> Any:
        typed = self.control.value
        if self._values:
            if isinstance(typed, tuple):
                return [self._values[place] for place in typed]
            if typed is None:
                raise WrongValue(caption("form.needed", self._language))
            return self._values[typed]
        words = typed.strip()
        if words:
            return parse(words, self._schema, self._whole)
        if self._taken is not NOTHING and self._taken in (None, ""):
            return self._taken
        if self._required and not self._may_be_null:
            raise WrongValue(caption("form.needed", self._language))
        return None if self._required else NOTHING

    def mark(self, why: str) -> None:
        """Say what is wrong with it; empty: nothing."""
        self.error = why
        self._message.value = _red(why) if why else ""
        for one in self.inner.values():
            if not why:
                one.mark("")

    def forget(self) -> None:
        """Take a secret away that was typed: a notebook may be saved with what its widgets hold."""
        for one in self.inner.values():
            one.forget()
        if self.is_secret:
            self.control.value = ""

    def take(self, path: str, why: str) -> bool:
        """Mark this field, or the one in it that `path` leads to. False: there is none."""
        first, _, rest = path.partition(".")
        if first in self.inner:
            return self.inner[first].take(rest, why)
        self.mark(f"{path}: {why}" if path else why)
        return True


def _red(words: str) -> str:
    return f'<span style="color:{_RED}">{safe(words)}</span>'

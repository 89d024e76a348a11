"""How a question is shown, and the exact command that answers it and goes on."""

from collections.abc import Mapping, Sequence

from adjourn.checkpoints.lifecycle import InterruptType
from adjourn.checkpoints.records import Interrupt
from adjourn.graph.cli.fields import Schema, choices, describe, shown
from adjourn.graph.cli.given import properties, variants
from adjourn.graph.cli.screen import Screen, short
from adjourn.graph.cli.settings import Settings

Examples = Mapping[str, str]
"""Values by field name that make a printed command work as it stands."""


def resume_command(
    settings: Settings,
    run_id: str,
    questions: Sequence[Interrupt],
    *,
    by: str | None = None,
    examples: Examples | None = None,
) -> str:
    """The command that answers every open question of a run; `VALUE` and `YOU` stand for what is not known."""
    words = [run_id]
    for question in questions:
        words += _flags(question, examples or {})
    return settings.command("resume", *words, "--by", by or "YOU")


def _flags(question: Interrupt, examples: Examples) -> Sequence[str]:
    if question.type == InterruptType.CONFIRM_RISKY:
        return ["--approve", question.id]
    if question.type == InterruptType.OUTCOME_UNKNOWN:
        return ["--set", f"{question.id}.action=leave"]
    schema = question.response_schema
    needed = [name for name in properties(schema) if name in schema.get("required", ())]
    if not needed:
        return ["--answers", "FILE.json"]
    flags: list[str] = []
    for name in needed:
        value = _example(schema["properties"][name], schema, examples.get(name)) if examples else "VALUE"
        flags += ["--set", f"{question.id}.{name}={value}"]
    return flags


def _example(field: Schema, whole: Schema, wished: str | None) -> str:
    listed = [shown(value) for value in choices(field, whole) or ()]
    if wished is not None and (not listed or wished in listed):
        return wished
    return listed[0] if listed else "VALUE"


def show_question(screen: Screen, question: Interrupt, *, indent: int = 2, flags: bool = True) -> None:
    """A question: who asks, why, about what. `flags`: also what the flags that answer it take."""
    path = f"[{question.path}] " if question.path else ""
    head = f"{path}{question.type}  {question.tool}"
    screen.line(("? ", "yellow"), (question.id, "bold"), f"  {head}", indent=indent)
    if question.reason:
        screen.line(question.reason, indent=indent + 2)
    if question.arguments:
        screen.line(f"{screen.say('arguments')}: {short(question.arguments)}", indent=indent + 2)
    if flags:
        _show_what_flags_take(screen, question, indent + 2)


def _show_what_flags_take(screen: Screen, question: Interrupt, indent: int) -> None:
    if variants(question):
        _show_alternatives(screen, question, indent)
        return
    for name, field in properties(question.response_schema).items():
        show_field(screen, name, field, question.response_schema, indent=indent)


def _show_alternatives(screen: Screen, question: Interrupt, indent: int) -> None:
    key = f"alternatives.{question.type}"
    words = ", ".join(variants(question))
    screen.line((screen.say(key, id=question.id, words=words), "dim"), indent=indent)


def show_field(screen: Screen, name: str, field: Schema, whole: Schema, *, indent: int = 2) -> None:
    """A field: its name, what it takes, its default and its description."""
    parts = [describe(field, whole)]
    if "default" in field:
        parts.append(f"({screen.say('default', default=shown(field['default']))})")
    if field.get("description"):
        parts.append(str(field["description"]))
    screen.line((name, "bold"), *(f"  {part}" for part in parts), indent=indent)


def show_questions(
    screen: Screen,
    settings: Settings,
    run_id: str,
    questions: Sequence[Interrupt],
    *,
    by: str | None = None,
    examples: Examples | None = None,
    intro: str = "go_on",
) -> None:
    """Open questions, and the command that answers them all, alone on its line."""
    for question in questions:
        show_question(screen, question)
    screen.line(screen.say(intro))
    screen.line((resume_command(settings, run_id, questions, by=by, examples=examples), "bold"), indent=2)

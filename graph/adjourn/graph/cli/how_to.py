"""How a question is shown, and the exact command that answers it and goes on."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from adjourn.checkpoints.lifecycle import InterruptState, InterruptType
from adjourn.checkpoints.records import Interrupt
from adjourn.graph.captions import moment
from adjourn.graph.cli.screen import Screen, short, span
from adjourn.graph.cli.settings import Settings
from adjourn.graph.fields import Schema, choices, describe, properties, resolved, shown, title_of, variants

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
    if not properties(schema) and not schema.get("writeOnly"):
        return ["--set", f"{question.id}=VALUE"]
    needed = [name for name in properties(schema) if name in schema.get("required", ())]
    if not needed or any(properties(schema)[name].get("writeOnly") for name in needed):  # no secret on a line
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


def show_question(screen: Screen, question: Interrupt, *, flags: bool = True) -> None:
    """A question: who asks, why, about what. `flags`: also what the flags that answer it take."""
    path = f"[{question.path}] " if question.path else ""
    head = f"{path}{question.type}  {question.tool}"
    screen.line(("? ", "yellow"), (question.id, "bold"), f"  {head}", indent=2)
    if question.asked:
        screen.line(question.asked, indent=4)
    if question.arguments:
        screen.line(f"{screen.say('arguments')}: {short(question.arguments)}", indent=4)
    for told in (approvals_of(screen, question), expiry_of(screen, question)):
        if told:
            screen.line((told, "yellow"), indent=4)
    if flags:
        _show_what_flags_take(screen, question, 4)


def expiry_of(screen: Screen, question: Interrupt) -> str:
    """When an open question expires, or that its time has passed; empty: it waits until it is answered."""
    if question.expires_at is None or question.state not in (InterruptState.OPEN, InterruptState.EXPIRED):
        return ""
    at, here = moment(question.expires_at), datetime.now(UTC)
    left = span((datetime.fromisoformat(question.expires_at) - here).total_seconds())
    return screen.say("overdue", at=at) if left is None else screen.say("expires", at=at, left=left)


def approvals_of(screen: Screen, question: Interrupt) -> str:
    """Who agreed so far, of how many, and who may; empty where one person's answer settles it."""
    approvals = question.approvals
    if approvals is None:
        return ""
    given = approvals["given"]
    who = ", ".join(f"{one['by']} {moment(one['at'] or '')}".strip() for one in given)
    done = screen.say(
        "approvals", given=len(given), needed=approvals["needed"], who=f": {who}" if who else ""
    )
    rule = "approvals.of" if approvals["of"] else "approvals.anybody"
    return f"{done}; {screen.say(rule, needed=approvals['needed'], of=', '.join(approvals['of']))}"


def _show_what_flags_take(screen: Screen, question: Interrupt, indent: int) -> None:
    if variants(question.response_schema):
        _show_alternatives(screen, question, indent)
        return
    if question.response_schema and not properties(question.response_schema):
        screen.line(describe(question.response_schema, question.response_schema), indent=indent)
    for name, field in properties(question.response_schema).items():
        show_field(screen, name, field, question.response_schema, indent=indent)


def _show_alternatives(screen: Screen, question: Interrupt, indent: int) -> None:
    key = f"alternatives.{question.type}"
    words = ", ".join(variants(question.response_schema))
    screen.line((screen.say(key, id=question.id, words=words), "dim"), indent=indent)


def show_field(screen: Screen, name: str, field: Schema, whole: Schema, *, indent: int = 2) -> None:
    """A field: its name, what it takes, its default and its description."""
    title = title_of(name.rpartition(".")[2], field)
    parts = [*([title] if title else []), describe(field, whole)]
    if field.get("default") not in (None, ""):
        parts.append(f"({screen.say('default', default=shown(field['default']))})")
    told = resolved(field, whole).get("description")
    if told:
        parts.append(" ".join(str(told).split()))
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
    """Open questions, and the command that answers them all, alone on its line; of a run whose questions have all
    expired, the one that lets it go on."""
    if not questions:
        screen.line(screen.say("all_expired"))
        screen.line((settings.command("recover", run_id), "bold"), indent=2)
        return
    for question in questions:
        show_question(screen, question)
    screen.line(screen.say(intro))
    screen.line((resume_command(settings, run_id, questions, by=by, examples=examples), "bold"), indent=2)

"""Answers from flags: `--approve`, `--edit`, `--reject`, `--set`, `--answers`, for the questions of a run. Pure
but for the answers file."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adjourn.checkpoints.errors import InterruptNotFound, NotResumable, UsageError
from adjourn.checkpoints.json_data import read_json
from adjourn.checkpoints.lifecycle import InterruptType
from adjourn.checkpoints.records import Interrupt
from adjourn.graph.fields import Schema, WrongValue, parse, properties, variants
from adjourn.graph.run import Run

Answers = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Flags:
    """What was given on the command line, unread. `answers`: a file's name, or `-` for stdin."""

    approve: Sequence[str] = ()
    edit: Sequence[str] = ()
    reject: Sequence[str] = ()
    set: Sequence[str] = ()
    reason: str | None = None
    answers: str | None = None

    def __bool__(self) -> bool:
        return bool(self.approve or self.edit or self.reject or self.set or self.answers or self.reason)


def context_of(assignments: Sequence[str]) -> Answers:
    """What `--context NAME=VALUE` says: JSON where the value is that, else text. Raises `UsageError`."""
    return {name: _json_or_text(text) for name, text in fields_of(assignments, "--context", "NAME").items()}


def _json_or_text(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return text


def fields_of(assignments: Sequence[str], flag: str, what: str) -> dict[str, str]:
    """Texts by their names, of flags such as `--set FIELD=VALUE`. Raises `UsageError`."""
    values: dict[str, str] = {}
    for one in assignments:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise UsageError(f"{flag} {one!r} has no value; write {flag} {what}=VALUE")
        values[name] = value
    return values


def answers_of(flags: Flags, run: Run) -> Answers:
    """The answer to each question that the flags name, by the question's full id.

    A question that is settled already is kept: whoever takes the answers says so. Raises `UsageError`,
    `InterruptNotFound`, `NotResumable`.
    """
    if flags.reason is not None and not flags.reject:
        raise UsageError("--reason goes with --reject ID")
    answers: Answers = {}
    for question, answer in (
        *_approved(flags, run),
        *_rejected(flags, run),
        *_edited(flags, run),
        *_filled(flags, run),
        *_of_file(flags, run),
    ):
        if question.id in answers:
            raise UsageError(f"question {question.id} is answered twice on this command line; answer it once")
        answers[question.id] = answer
    return answers


_WHOLE = ""  # in place of a field: the answer is one value, as a node's own `interrupt()` may want

Pairs = Iterator[tuple[Interrupt, Any]]


def _approved(flags: Flags, run: Run) -> Pairs:
    for one in flags.approve:
        yield (
            _of_type(find_question(run, one), InterruptType.CONFIRM_RISKY, "--approve"),
            {"action": "approve"},
        )


def _rejected(flags: Flags, run: Run) -> Pairs:
    for one in flags.reject:
        answer = {"action": "reject"} | ({"reason": flags.reason} if flags.reason else {})
        yield _of_type(find_question(run, one), InterruptType.CONFIRM_RISKY, "--reject"), answer


def _edited(flags: Flags, run: Run) -> Pairs:
    for question, fields in _by_question(flags.edit, run, "--edit").values():
        _of_type(question, InterruptType.CONFIRM_RISKY, "--edit")
        schema = variants(question.response_schema)["edit"]["properties"]["arguments"]
        changed = _values(question, fields, schema, "--edit")
        yield question, {"action": "edit", "arguments": {**question.arguments, **changed}}


def _filled(flags: Flags, run: Run) -> Pairs:
    for question, fields in _by_question(flags.set, run, "--set").values():
        values = _values(question, fields, question.response_schema, "--set")
        yield question, values.get(_WHOLE, values)


def _of_type(question: Interrupt, kind: InterruptType, flag: str) -> Interrupt:
    if question.type != kind:
        place = f"{question.id}.FIELD" if properties(question.response_schema) else question.id
        raise UsageError(
            f"{flag} {question.id}: it is {question.type}, which is answered with --set {place}=VALUE"
        )
    return question


def _by_question(
    assignments: Sequence[str], run: Run, flag: str
) -> Mapping[str, tuple[Interrupt, dict[str, str]]]:
    found: dict[str, tuple[Interrupt, dict[str, str]]] = {}
    for one in assignments:
        place, equals, value = one.partition("=")
        if not equals or not place:
            raise UsageError(f"{flag} {one!r} has no value; write {flag} ID.FIELD=VALUE")
        beginning, dot, field = place.rpartition(".")
        if not dot and any(one.id == place and not properties(one.response_schema) for one in run.questions):
            beginning, dot, field = place, ".", _WHOLE
        question = find_question(run, beginning) if dot else _only_question(run, flag)
        fields = found.setdefault(question.id, (question, {}))[1]
        if field in fields:
            raise UsageError(f"{flag} gives {field} of {question.id} twice; give it once")
        fields[field] = value
    return found


def _values(question: Interrupt, fields: Mapping[str, str], schema: Schema, flag: str) -> Answers:
    known = properties(schema) or {_WHOLE: schema}
    values: Answers = {}
    for name, words in fields.items():
        if name not in known:
            takes = f"one value: {flag} {question.id}=VALUE" if _WHOLE in known else ", ".join(known)
            raise UsageError(f"{flag} {question.id}.{name}: there is no such field; it takes {takes}")
        if known[name].get("writeOnly"):  # a command line is kept in a history, and shown to every process
            raise UsageError(
                f"{flag} {question.id}.{name}: it is secret, and a command line is seen by others; type it in the form "
                f"on a terminal, or give it with --answers FILE.json or --answers - (stdin)"
            )
        try:
            values[name] = parse(words, known[name], question.response_schema)
        except WrongValue as error:
            place = f"{question.id}.{name}".removesuffix(".")
            raise UsageError(f"{flag} {place}: {error}") from None
    return values


def find_question(run: Run, beginning: str) -> Interrupt:
    """The question of `run` that an id, or the unique beginning of one, means; open ones come first.

    Raises `InterruptNotFound`, or `UsageError` when several begin so.
    """
    for questions in (run.interrupts, run.questions):
        found = [one for one in questions if one.id == beginning] or [
            one for one in questions if beginning and one.id.startswith(beginning)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(one.id for one in found)
            raise UsageError(f"several questions begin with {beginning!r}: {ids}")
    raise InterruptNotFound(run.id, beginning, tuple(one.id for one in run.interrupts))


def _only_question(run: Run, flag: str) -> Interrupt:
    if len(run.interrupts) == 1:
        return run.interrupts[0]
    if not run.interrupts:
        raise NotResumable(run.id, run.status, "it has no open question")
    ids = ", ".join(one.id for one in run.interrupts)
    raise UsageError(f"run {run.id} has several open questions; write {flag} ID.FIELD=VALUE, ID one of {ids}")


def _of_file(flags: Flags, run: Run) -> Pairs:
    if flags.answers is None:
        return
    for beginning, answer in _read_file(flags.answers).items():
        yield find_question(run, beginning), answer


def _read_file(name: str) -> Answers:
    try:
        words = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        answers = read_json(words)
    except OSError as error:
        raise UsageError(f"--answers {name}: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"--answers {name} is no JSON: {error}") from error
    if not isinstance(answers, dict):
        raise UsageError(f'--answers {name} takes an object {{"ID": answer}}, not {type(answers).__name__}')
    return answers

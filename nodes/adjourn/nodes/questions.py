"""Interrupts and answers: what a person is asked, the schema of an answer, and what an answer does. Pure.

A tool asks by returning what `params_required` or `confirm_risky` build; a declaration (`ask_for`,
`confirm`) asks in the same words before the tool runs. An answer is checked against its question before
anything is stored (C-45).
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from adjourn.checkpoints.errors import InvalidAnswer
from adjourn.checkpoints.json_data import check_data, too_deep
from adjourn.checkpoints.lifecycle import CallState, Effect, InterruptType
from adjourn.checkpoints.sealed import HIDDEN, hidden, is_sealed
from adjourn.nodes.calls import Call, Question
from adjourn.nodes.delegation import DELEGATED
from adjourn.nodes.json_schema import check_schema, complaints, shared, shortened
from adjourn.nodes.masking import Masker
from adjourn.nodes.observations import plain
from adjourn.nodes.sealing import forms
from adjourn.nodes.texts import say
from adjourn.nodes.tool import Tool

Answer = dict[str, Any]


def params_required(
    fields: Mapping[str, Any],
    reason: str = "",
    payload: Mapping[str, Any] | None = None,
    *,
    expires_in_s: float | None = None,
) -> dict[str, Any]:
    """What a tool returns when values are missing.

    `fields` maps each parameter to its JSON Schema, such as `{"environment": {"enum": ["prod", "staging"]}}`.
    The values are merged into the call's arguments and the tool runs again. A tool that returns this must
    not have had an effect. `expires_in_s`: seconds that a person has; None: as the tool declares.
    """
    payload = {"fields": dict(fields), **(payload or {})}
    return _interrupt(InterruptType.PARAMS_REQUIRED, reason, payload, expires_in_s)


def confirm_risky(
    reason: str, payload: Mapping[str, Any] | None = None, *, expires_in_s: float | None = None
) -> dict[str, Any]:
    """What a tool returns when a person must agree first.

    After a yes the tool runs again with `context.approved` set; it must not have had an effect before.
    `expires_in_s`: seconds that a person has; None: as the tool declares.
    """
    return _interrupt(InterruptType.CONFIRM_RISKY, reason, dict(payload or {}), expires_in_s)


def _interrupt(
    kind: InterruptType, reason: str, payload: dict[str, Any], expires_in_s: float | None
) -> dict[str, Any]:
    asked = {"interrupt": True, "interruptType": kind.value, "reason": reason, "payload": payload}
    return asked if expires_in_s is None else {**asked, "expiresInSeconds": expires_in_s}


def asks(result: Any) -> bool:
    """Whether a tool's result is a question (C-37)."""
    return isinstance(result, dict) and result.get("interrupt") is True and "interruptType" in result


def approve() -> Answer:
    """The answer that lets a risky call run as it is."""
    return {"action": "approve"}


def edit(arguments: Mapping[str, Any]) -> Answer:
    """The answer that lets a risky call run with these arguments: all of them, not a difference."""
    return {"action": "edit", "arguments": dict(arguments)}


def reject(reason: str = "") -> Answer:
    """The answer that keeps a risky call from ever running; the model is told the reason."""
    return {"action": "reject", "reason": reason} if reason else {"action": "reject"}


IsDoubtful = Callable[[Call], bool]


def repeats_a_doubt(call: Call, tool: Tool, is_doubtful: IsDoubtful) -> bool:
    """Whether the call may do again what a write of unknown outcome has done (C-61). `is_doubtful`: the ledger's."""
    return call["effect"] == Effect.WRITE and not tool.idempotent and is_doubtful(call)


def declared_question(
    call: Call, tool: Tool, *, run_id: str, step: int, language: str, is_doubtful: IsDoubtful
) -> Question | None:
    """What the tool's declaration asks about this call: missing parameters first, then agreement (C-38).

    Who agrees to a call that repeats a doubt is told of it: nobody is asked about that again.
    """
    arguments = call["arguments"] or {}
    missing = tool.problems(arguments).missing
    if missing:
        needed = [name for name in missing if "default" not in tool.schema["properties"][name]] or missing
        reason = say("ask.params_required", language, tool=tool.name, fields=", ".join(needed))
        return make_question(
            call,
            tool,
            InterruptType.PARAMS_REQUIRED,
            reason,
            {"fields": list(missing)},
            run_id=run_id,
            step=step,
        )
    risk = None if call.get("approved") else tool.question_of(arguments, language)
    if risk is None:
        return None
    if repeats_a_doubt(call, tool, is_doubtful):
        risk = f"{say('ask.doubtful', language, tool=tool.name)} {risk}"
    return make_question(call, tool, InterruptType.CONFIRM_RISKY, risk, {}, run_id=run_id, step=step)


def returned_question(
    call: Call, tool: Tool, result: Mapping[str, Any], *, run_id: str, step: int
) -> Question:
    """The question that a tool returned in place of a result.

    Raises `ValueError` for a type that a tool cannot ask, with what it can, and for a payload that cannot be stored.
    """
    word = result.get("interruptType")
    if word == DELEGATED and tool.delegates is not None:
        return _of_specialist(call, str(result["runId"]))
    if word not in (InterruptType.PARAMS_REQUIRED, InterruptType.CONFIRM_RISKY):
        raise ValueError(f"interruptType is 'params_required' or 'confirm_risky', not {word!r}")
    given = result.get("payload")
    payload = _payload(given) if isinstance(given, Mapping) else {}
    question = make_question(
        call,
        tool,
        InterruptType(word),
        str(result.get("reason") or ""),
        payload,
        run_id=run_id,
        step=step,
        expires_in_s=_seconds(result.get("expiresInSeconds")),
    )
    _must_be_answerable(question, tool)
    return question


def _payload(given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        payload: dict[str, Any] = plain(dict(given))
    except RecursionError:
        raise too_deep() from None
    check_data(payload)
    return payload


def _of_specialist(call: Call, run_id: str) -> Question:
    """Stands for the questions of a specialist's run, which have their own rows."""
    return {
        "id": run_id,
        "call_id": call["id"],
        "type": DELEGATED,
        "reason": "",
        "payload": {"run_id": run_id},
        "response_schema": {},
    }


def _seconds(value: Any) -> float | None:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value > 0):
        return value
    raise ValueError(f"expiresInSeconds is a number above 0, not {value!r}")


def _must_be_answerable(question: Question, tool: Tool) -> None:
    """Raises `ValueError` for fields that the tool does not take, and for a schema that is none or refers to nothing."""
    unknown = set(question["response_schema"].get("properties", {})) - set(tool.schema["properties"])
    if unknown:
        raise ValueError(f"it asks for {', '.join(sorted(unknown))}, which it does not take")
    try:
        check_schema(question["response_schema"])
    except ValueError as error:
        raise ValueError(f"the schema of its question is none: {error}") from error


def make_question(
    call: Call,
    tool: Tool,
    kind: InterruptType,
    reason: str,
    payload: dict[str, Any],
    *,
    run_id: str,
    step: int,
    expires_in_s: float | None = None,
) -> Question:
    """A question with the id that any process gives it again.

    It derives from run, step, call, and how many questions about the call were answered before. Its time is
    `expires_in_s`, else the tool's; whether a write happened is asked until somebody says so.
    """
    schema = _response_schema(kind, tool, payload)
    question: Question = {
        "id": question_id(run_id, step, call),
        "call_id": call["id"],
        "type": kind.value,
        "reason": reason,
        "payload": payload,
        "response_schema": schema,
    }
    lasts = tool.expires_in_s if expires_in_s is None else expires_in_s
    if lasts is not None and kind is not InterruptType.OUTCOME_UNKNOWN:
        question["expires_in_s"] = lasts
    if tool.approvers is not None and kind is InterruptType.CONFIRM_RISKY:
        question["approvals"] = tool.approvers.asked(call.get("agreed", ()))
    return question


def question_id(run_id: str, step: int, call: Call) -> str:
    """The id of the next question about a call: derived, so that asking again is asking once."""
    identity = f"{run_id}\n{step}\n{call['id']}\n{call.get('asked', 0)}"
    return f"int_{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def _values_schema(tool: Tool, payload: Mapping[str, Any]) -> dict[str, Any]:
    fields = payload.get("fields", [])
    if isinstance(fields, Mapping):  # a tool that returned its question brings its own schemas
        properties = {name: dict(schema) for name, schema in fields.items()}
        properties |= {name: tool.schema["properties"][name] for name in tool.secret if name in fields}
    else:
        properties = {name: tool.schema["properties"][name] for name in fields}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": [name for name, one in properties.items() if "default" not in one],
        "additionalProperties": False,
    }
    return schema | shared(tool.schema)


def _verdict_schema(tool: Tool) -> dict[str, Any]:
    beside = shared(tool.schema)
    arguments = {k: v for k, v in tool.schema.items() if k not in beside}
    if tool.secret:  # an edit leaves them as they are
        kept = {"const": HIDDEN, "default": HIDDEN}
        arguments["properties"] = {**arguments["properties"], **dict.fromkeys(tool.secret, kept)}
        arguments["required"] = [name for name in arguments.get("required", ()) if name not in tool.secret]
    schema: dict[str, Any] = {
        "oneOf": [
            _action("approve"),
            _action("edit", required=["arguments"], arguments=arguments),
            _action("reject", reason={"type": "string"}),
        ]
    }
    return schema | beside


def _outcome_schema() -> dict[str, Any]:
    return {"oneOf": [_action("happened", required=["result"], result={}), _action("run"), _action("leave")]}


def _action(word: str, required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {
        "title": word,
        "type": "object",
        "properties": {"action": {"const": word}, **properties},
        "required": ["action", *(required or [])],
        "additionalProperties": False,
    }


def _response_schema(kind: InterruptType, tool: Tool, payload: Mapping[str, Any]) -> dict[str, Any]:
    if kind is InterruptType.PARAMS_REQUIRED:
        return _values_schema(tool, payload)
    return _verdict_schema(tool) if kind is InterruptType.CONFIRM_RISKY else _outcome_schema()


def check_answer(
    question: Question, arguments: Mapping[str, Any], answer: Any, tool: Tool, masker: Masker
) -> Answer:
    """The answer as it will be stored. Pure: nothing is changed when it does not fit.

    `arguments` are the call's own, not what is shown of them.

    Raises `InvalidAnswer` with each field that is wrong and why (C-45).
    """
    _must_be_data(question["id"], answer)
    if not isinstance(answer, dict):
        raise InvalidAnswer(question["id"], {"": f"an answer is an object, not {type(answer).__name__}"})
    problems = _schema_problems(question, answer)
    if not problems:
        problems = _argument_problems(question, arguments, answer, tool, masker)
    if problems:
        # some complaints quote the value: a secret is not to be read in an error either
        hides = Masker(()).hiding(forms(answer[name] for name in tool.secret if name in answer))
        raise InvalidAnswer(question["id"], {place: hides.text(why) for place, why in problems.items()})
    return answer


def check_custom(interrupt_id: str, schema: dict[str, Any], answer: Any) -> None:
    """Check the answer to a question of LangGraph's own `interrupt()`; raises `InvalidAnswer`.

    None is refused: LangGraph cannot be resumed with it.
    """
    if answer is None:
        raise InvalidAnswer(interrupt_id, {"": "an answer is needed; null is none"})
    _must_be_data(interrupt_id, answer)
    problems = complaints(schema, answer)
    if problems:
        raise InvalidAnswer(interrupt_id, problems)


def _must_be_data(interrupt_id: str, answer: Any) -> None:
    """Whatever is wrong with an answer in itself, before anything looks into it. Raises `InvalidAnswer`."""
    try:
        check_data(answer)
    except ValueError as error:
        raise InvalidAnswer(interrupt_id, {"": str(error)}) from None


def _schema_problems(question: Question, answer: Answer) -> dict[str, str]:
    schema = question["response_schema"]
    if "oneOf" in schema:
        words = {one["title"]: one for one in schema["oneOf"]}
        action = answer.get("action")
        if not isinstance(action, str) or action not in words:
            return {"action": shortened(f"must be one of {', '.join(words)}, not {action!r}")}
        schema = words[action] | shared(schema)
    return complaints(schema, answer)


def _argument_problems(
    question: Question, arguments: Mapping[str, Any], answer: Answer, tool: Tool, masker: Masker
) -> dict[str, str]:
    """What the tool's own types say to the arguments that this answer leads to."""
    result = _arguments_after(question, arguments, answer, masker)
    if result is None:
        return {}
    filled = () if answer.get("action") == "edit" else [name for name in tool.secret if name in answer]
    problems = tool.problems(result, given=filled)
    wrong = dict(problems.wrong)
    if answer.get("action") == "edit":
        wrong |= dict.fromkeys(problems.missing, "is required")
    return wrong


def restored(given: Any, real: Any, masker: Masker) -> Any:
    """`given` with the real value wherever it shows what masking makes of it: a field that was left alone (C-73)."""
    if isinstance(given, dict) and isinstance(real, dict):
        return {name: restored(value, real.get(name), masker) for name, value in given.items()}
    if isinstance(given, list) and isinstance(real, list) and len(given) == len(real):
        return [restored(one, other, masker) for one, other in zip(given, real, strict=True)]
    return real if real is not None and given == masker.data(real) else given


def _arguments_after(
    question: Question, arguments: Mapping[str, Any], answer: Answer, masker: Masker
) -> dict[str, Any] | None:
    if question["type"] == InterruptType.PARAMS_REQUIRED:
        defaults = {
            name: schema["default"]
            for name, schema in question["response_schema"]["properties"].items()
            if "default" in schema
        }
        return {**arguments, **defaults, **answer}
    if answer.get("action") == "edit":
        # whole fields, so that a field whose name alone says that it is secret is known again
        shown: dict[str, Any] = masker.data(hidden(arguments))
        kept = {name: value for name, value in arguments.items() if is_sealed(value)}
        return kept | {
            name: arguments[name]
            if name in arguments and value == shown[name]
            else restored(value, arguments.get(name), masker)
            for name, value in answer["arguments"].items()
        }
    return None


def apply_answer(
    call: Call, answer: Answer, *, by: str | None, masker: Masker, at: str | None = None
) -> Call:
    """The call after its question was answered by somebody at some time; `answer` was checked before.

    `planned` when it may run (or must be judged again), else its outcome; an `observation` is left to the
    caller for those that the tools node tells in its own words.
    """
    question = call["question"]
    changed: Call = {**call}
    del changed["question"]
    changed["asked"] = call.get("asked", 0) + 1
    action = answer.get("action") if question["type"] != InterruptType.PARAMS_REQUIRED else None
    arguments = _arguments_after(question, call["arguments"] or {}, answer, masker)
    if arguments is not None:
        if action == "edit":
            changed["asked_for"] = call["arguments"] or {}
        changed["arguments"] = arguments
        if arguments != call["arguments"]:  # an agreement holds for the arguments it was given to
            for name in ("approved", "approved_by", "agreed"):
                changed.pop(name, None)  # type: ignore[misc]
    needed = question.get("approvals", {}).get("needed", 1)
    if action == "edit" and needed > 1:  # whoever edits agrees to that; the others are asked about it anew
        changed["agreed"] = [{"by": by, "at": at}]
    elif action in ("approve", "edit"):
        changed["approved"] = True
        changed["approved_by"] = by
    changed["state"] = _STATE_AFTER.get(action or "", CallState.PLANNED).value
    return changed


_STATE_AFTER = {"reject": CallState.DECLINED, "leave": CallState.UNKNOWN, "happened": CallState.OK}

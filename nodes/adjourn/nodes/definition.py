"""Checks of a tool's declaration, made when the tool is defined: no model's call is the first to find a mistake in it."""

import re
import string
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adjourn.checkpoints.errors import ToolDefinitionError
from adjourn.checkpoints.lifecycle import Effect
from adjourn.nodes.approvers import Approvers
from adjourn.nodes.throttle import Rate

if TYPE_CHECKING:
    from adjourn.nodes.tool import Tool


def checked(made: "Tool") -> "Tool":
    """The tool, if a model can be told of it and can call it. Raises `ToolDefinitionError`."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", made.name):
        raise ToolDefinitionError(f"tool {made.name!r}: a name is 1 to 64 letters, digits, _ or -")
    problem = next((why for is_wrong, why in _DEFINED if is_wrong(made)), None)
    if problem is not None:
        raise ToolDefinitionError(f"tool {made.name}: {problem.format_map(vars(made))}")
    try:
        known = made.parameters.schema["properties"]
    except Exception as error:
        raise ToolDefinitionError(f"tool {made.name}: its parameters have no JSON Schema: {error}") from error
    asked = made.confirm
    sentences = asked.values() if isinstance(asked, Mapping) else [asked] if isinstance(asked, str) else []
    named = (
        ("ask_for", made.ask_for),
        ("secret", made.secret),
        ("confirm", [name for one in sentences for name in _placeholders(made.name, one)]),
    )
    for word, names in named:
        if unknown := [name for name in names if name not in known]:
            raise ToolDefinitionError(
                f"tool {made.name}: {word} names {', '.join(unknown)}, which it does not take"
            )
    return _checked_secrets(made)


def _placeholders(tool: str, sentence: str) -> Sequence[str]:
    """The parameters that a sentence is to be filled with, in order; what it cannot be filled with (an item of one, a
    format that holds another) stands there as it is written."""
    try:
        found = [(name, spec) for _, name, spec, _ in string.Formatter().parse(sentence) if name is not None]
    except ValueError as error:
        raise ToolDefinitionError(
            f"tool {tool}: confirm cannot be filled in ({error}); write a brace that is none of a parameter twice"
        ) from error
    return [f"{name}:{spec}" if "{" in (spec or "") else name or "{}" for name, spec in found]


def _checked_secrets(made: "Tool") -> "Tool":
    """What is secret is always filled by a person, and only where it can be told apart."""
    for name, schema in made.parameters.schema["properties"].items():
        if name in made.secret and "default" in schema:
            raise ToolDefinitionError(
                f"tool {made.name}: {name} is secret and has a default; a person always fills it, so take it away"
            )
        if name not in made.secret and _holds_a_secret(schema, made.parameters.schema):
            raise ToolDefinitionError(
                f"tool {made.name}: {name} has a secret inside; make the secret a parameter of its own"
            )
    secret = tuple(name for name in made.secret if name not in made.ask_for)
    return made if secret == made.secret else replace(made, ask_for=_without(made.ask_for, made.secret))


def _without(names: tuple[str, ...], others: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in others)


def _holds_a_secret(schema: Any, whole: Mapping[str, Any]) -> bool:
    """Whether a part of a schema is marked `writeOnly`, as pydantic marks its secret types."""
    todo, seen = [schema], set[str]()
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            if one.get("writeOnly") is True:
                return True
            name = str(one.get("$ref", "")).removeprefix("#/$defs/")
            if name and name not in seen:
                seen.add(name)
                todo.append(whole.get("$defs", {}).get(name))
            todo += one.values()
        elif isinstance(one, list):
            todo += one
    return False


def _is_sentences(asked: Mapping[str, str]) -> bool:
    return bool(asked) and all(isinstance(one, str) and one for one in asked.values())


# What may be wrong with a declaration, and what is said of it.
_DEFINED: tuple[tuple[Callable[["Tool"], bool], str], ...] = (
    (lambda made: not made.description, "a model needs a description; write a docstring"),
    (
        lambda made: isinstance(made.effect, str) and made.effect not in set(Effect),
        "effect is 'read' or 'write', not {effect!r}",
    ),
    (
        lambda made: made.timeout_s is not None and not made.timeout_s > 0,
        "timeout_s is above 0, or None for no limit",
    ),
    (lambda made: made.retries < 0, "retries is a whole number from 0, not {retries!r}"),
    (
        lambda made: made.expires_in_s is not None and not made.expires_in_s > 0,
        "expires_in_s is above 0, or None: it waits for ever",
    ),
    (
        lambda made: made.approvers is not None and not isinstance(made.approvers, Approvers),
        "approvers is Approvers(needed, of=names)",
    ),
    (
        lambda made: isinstance(made.confirm, Mapping) and not _is_sentences(made.confirm),
        'confirm by language holds sentences, such as {{"en": "Pay?", "zh": "付款吗？"}}',
    ),
    (
        lambda made: made.max_parallel is not None and not made.max_parallel >= 1,
        "max_parallel is a whole number from 1, or None for no bound, not {max_parallel!r}",
    ),
    (
        lambda made: made.rate is not None and not Rate.is_one(made.rate),
        "rate is a number and a time, such as '10/min', '5/s', '200/h' or '3/10s', not {rate!r}",
    ),
)

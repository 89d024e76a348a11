"""`@tool`: a Python function, its schema, and what it does to the world.

A tool declares its effect, its time limit, which parameters a person may fill (`ask_for`) and what needs
agreement (`confirm`). Whatever is wrong with a declaration is said when the tool is defined, never when
the model calls it.
"""

import inspect
import string
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

from adjourn.checkpoints.lifecycle import Effect
from adjourn.checkpoints.sealed import hidden, is_sealed
from adjourn.nodes.approvers import Approvers
from adjourn.nodes.context import ToolContext
from adjourn.nodes.definition import checked
from adjourn.nodes.evidence import IsEmpty
from adjourn.nodes.parameters import Arguments, Injected, Parameters, inner, signature_of
from adjourn.nodes.throttle import Rate, Throttle

TIMEOUT_S = 30.0  # C-28; long enough for a slow API, short enough that a person still waits
RESULT_LIMIT = 8_000  # C-74, characters: about 2,000 tokens, so that ten results fit a small context

RETRIES = 2  # C-30

EffectOf = Effect | str | Callable[[Arguments], Effect | str]
VerifyOf = Callable[[ToolContext], Any] | None
ConfirmOf = bool | str | Mapping[str, str] | Callable[[Arguments], bool | str | None] | None


@dataclass(frozen=True)
class ArgumentProblems:
    """What is wrong with a call's arguments. Empty in both fields: nothing.

    `missing` holds the parameters that a person fills; `wrong` maps a field to what was expected.
    """

    missing: tuple[str, ...] = ()
    wrong: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Tool:
    """A function that a model may call. Made by `@tool`; calling it calls the function.

    Attributes with a unit in their name hold numbers of that unit; `timeout_s=None` means no limit.
    """

    name: str
    description: str
    function: Callable[..., Any]
    parameters: Parameters
    effect: EffectOf = Effect.WRITE
    timeout_s: float | None = TIMEOUT_S
    ask_for: tuple[str, ...] = ()
    confirm: ConfirmOf = None
    parallel: bool = True
    resource: str | Callable[[Arguments], str | None] | None = None
    idempotent: bool = False
    verify: VerifyOf = None
    retries: int = RETRIES
    result_limit: int = RESULT_LIMIT
    merge_by: tuple[str, ...] = ()
    rank_by: str | None = None
    repeatable: bool = False
    is_empty: IsEmpty | None = None
    injected: Injected = field(default_factory=dict)
    secret: tuple[str, ...] = ()
    model_fields: tuple[str, ...] | None = None
    max_parallel: int | None = None
    rate: str | None = None
    expires_in_s: float | None = None
    approvers: Approvers | None = None
    delegates: Any = None  # the specialists whose runs work inside its calls; None: it is an ordinary tool
    always_shown: bool = False  # to the model, also where a search stands in for many tools

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @cached_property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function; others run in a thread of their own."""
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            getattr(inner(self.function), "__call__", None)  # noqa: B004 - a callable object may have an async __call__
        )

    @cached_property
    def throttle(self) -> Throttle:
        """The bound and the rate of this tool, for all runs of this process that use this very tool (C-21)."""
        return Throttle(self.max_parallel, None if self.rate is None else Rate.of(self.rate))

    @cached_property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of all parameters. What is secret is marked `writeOnly`."""
        schema = dict(self.parameters.schema)
        marked = {name: {**schema["properties"][name], "writeOnly": True} for name in self.secret}
        return {**schema, "properties": {**schema["properties"], **marked}}

    @cached_property
    def for_model(self) -> dict[str, Any]:
        """The tool as a model is told of it, in the shape every LangChain chat model binds.

        What a person may fill is optional here (C-38), and what is secret is not there (C-73).
        """
        parameters = {key: value for key, value in self.schema.items() if key != "required"}
        known = parameters["properties"]
        parameters["properties"] = {name: one for name, one in known.items() if name not in self.secret}
        required = [name for name in self.schema.get("required", ()) if name not in self.by_people]
        if required:
            parameters["required"] = required
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}

    @property
    def by_people(self) -> tuple[str, ...]:
        """The parameters that a person is asked for when they are missing."""
        return (*self.ask_for, *self.secret)

    def effect_of(self, arguments: Arguments) -> Effect:
        """What this call does; a declaration that raises or says nonsense makes it a write (C-19)."""
        if not callable(self.effect):
            return Effect(self.effect)
        try:
            return Effect(self.effect(hidden(arguments)))
        except Exception:
            return Effect.WRITE

    def resource_of(self, arguments: Arguments) -> str | None:
        """What this call touches, where declared; calls that name the same resource keep their order."""
        if not callable(self.resource):
            return self.resource
        try:
            return self.resource(hidden(arguments))
        except Exception:
            return None

    def question_of(self, arguments: Arguments, language: str = "en") -> str | None:
        """The sentence of agreement that this call needs before it runs, or None. `language`: the run's.

        A declared sentence is filled with the arguments; what a function returns is shown as it is, since it holds
        what a model said. A function that raises asks: whoever declared a risk would rather be asked once too often.
        """
        asked, arguments = self.confirm, hidden(arguments)
        if isinstance(asked, Mapping):
            asked = asked.get(language) or next(iter(asked.values()))
        if isinstance(asked, str) and asked:
            defaults = {k: v["default"] for k, v in self.schema["properties"].items() if "default" in v}
            return _filled(asked, {**defaults, **arguments})
        if callable(asked):
            try:
                asked = asked(arguments)
            except Exception:
                asked = True
        if not asked:
            return None
        return asked if isinstance(asked, str) else f"{self.name}?"

    def problems(self, arguments: Arguments, *, given: Collection[str] = ()) -> ArgumentProblems:
        """What keeps `arguments` (JSON data) from running. Runs no user code but validators.

        A secret parameter holds what a person gave, sealed; its value was checked before that. `given` names
        those that a person is giving now, in plain.
        """
        missing = tuple(name for name in self.by_people if name not in arguments)
        sealed = {name for name in self.secret if name in arguments and is_sealed(arguments[name])}
        unseen = {*missing, *(sealed - set(given))}
        wrong = {
            place: why
            for place, why in self.parameters.wrong(arguments).items()
            if place.partition(".")[0] not in unseen
        }
        for name, value in arguments.items():
            if name in self.secret and name not in sealed and name not in given:
                wrong[name] = "a person fills this in; leave it out"
            elif name not in self.secret and is_sealed(value):
                # it would be shown as a secret, which would hide what runs
                wrong[name] = "a text may not begin like a sealed secret"
        return ArgumentProblems(missing, wrong)

    def without_blanks(self, arguments: Arguments) -> Arguments:
        """`arguments` without the nulls and empty strings that models send for what a person should fill."""
        return {k: v for k, v in arguments.items() if not (k in self.by_people and v in (None, ""))}

    def bind(self, arguments: Arguments, context: ToolContext) -> dict[str, Any]:
        """Checked keyword arguments for the function, defaults filled and what the runtime fills injected.

        Raises `pydantic.ValidationError` when they do not fit; call `problems` first.
        """
        values = self.parameters.values(arguments)
        return values | {name: given(context) for name, given in self.injected.items()}


def _filled(sentence: str, values: Arguments) -> str:
    """A declared sentence with the values in it. They are data: none is read for braces, or decides how another is
    written. A sentence that names more than there is, or a format that its value does not take, is shown as it is."""
    parts = string.Formatter()
    try:
        return "".join(
            text if name is None else text + format(parts.convert_field(values[name], conversion), spec or "")
            for text, name, spec, conversion in parts.parse(sentence)
        )
    except Exception:
        return sentence


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: EffectOf = ...,
    timeout_s: float | None = ...,
    ask_for: tuple[str, ...] | list[str] = ...,
    confirm: ConfirmOf = None,
    parallel: bool = True,
    resource: str | Callable[[Arguments], str | None] | None = None,
    idempotent: bool = False,
    verify: VerifyOf = None,
    retries: int = ...,
    result_limit: int = ...,
    merge_by: tuple[str, ...] = (),
    rank_by: str | None = None,
    repeatable: bool = False,
    is_empty: IsEmpty | None = None,
    expires_in_s: float | None = None,
    approvers: Approvers | None = None,
    secret: tuple[str, ...] | list[str] = ...,
    model_fields: tuple[str, ...] | list[str] | None = None,
    max_parallel: int | None = None,
    rate: str | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: EffectOf = Effect.WRITE,
    timeout_s: float | None = TIMEOUT_S,
    ask_for: tuple[str, ...] | list[str] = (),
    confirm: ConfirmOf = None,
    parallel: bool = True,
    resource: str | Callable[[Arguments], str | None] | None = None,
    idempotent: bool = False,
    verify: VerifyOf = None,
    retries: int = RETRIES,
    result_limit: int = RESULT_LIMIT,
    merge_by: tuple[str, ...] = (),
    rank_by: str | None = None,
    repeatable: bool = False,
    is_empty: IsEmpty | None = None,
    expires_in_s: float | None = None,
    approvers: Approvers | None = None,
    secret: tuple[str, ...] | list[str] = (),
    model_fields: tuple[str, ...] | list[str] | None = None,
    max_parallel: int | None = None,
    rate: str | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, sync or async.

    - `effect`: `"read"` or `"write"`, or a function of the arguments that says which. Undeclared is a write.
    - `timeout_s`: the limit of one attempt, in seconds; None: no limit.
    - `ask_for`: parameters that a person fills when the model leaves them out.
    - `confirm`: needs agreement before it runs: True, a sentence with `{parameters}` that are filled in, such sentences by
      language (`{"en": ..., "zh": ...}`; the first is for runs in any other), or a function of the arguments that gives
      True or the whole sentence, which is shown as it is (None or False: no question).
    - `parallel`: whether a read may run beside other reads.
    - `resource`: what it touches, for the order of reads behind a write that waits.
    - `idempotent`: a repeated write with the same idempotency key has no second effect.
    - `verify`: told the context of a write whose outcome was lost, says whether it happened (`Happened(result)`,
      False, or None when it cannot tell); sync or async. Without it a person is asked (C-35).
    - `retries`: how often an attempt that failed by the network, a time limit (once) or a rate limit is made
      again; only reads and idempotent writes are (C-30).
    - `result_limit`: characters of the result that the model may see.
    - `merge_by`, `rank_by`: records of a result that share these keys become one, the highest rank first (C-75).
    - `repeatable`: the same call may be made again and again (a clock, a status to poll); else a call that succeeded
      before in the run, with no write since, is answered with that result (C-54).
    - `is_empty`: told the data that the model sees, says whether it is no evidence (C-56); null, "", [] and {} never are.
    - `expires_in_s`: how many seconds a person has to answer a question about a call; then it never runs and the
      model is told `expired`. None: a question waits until it is answered.
    - `approvers`: how many people have to agree, and which; None: one, whoever it is.
    - `secret`: parameters that a person always fills and the model never sees, as `Secret[...]` does (C-73).
    - `model_fields`: the fields of a record, or of each record of a list, that the model is told; people see
      all of them (C-32). None: all. A tool may also return `Told(for_model=..., for_people=...)`.
    - `max_parallel`: attempts of this tool at the same time, over all runs of this process that use this very
      tool, reads and writes alike (C-21). None: as many as the runs allow.
    - `rate`: how often it may begin, over the same runs: `"10/min"`, `"5/s"`, `"200/h"`, `"3/10s"`. A call waits
      for its turn, outside its own time limit; one whose turn would come too late is answered `rate_limited`.

    Raises `ToolDefinitionError` for a function that a model could not call or be told of.
    """

    def make(fn: Callable[..., Any]) -> Tool:
        below = inner(fn)
        tool_name: str = name or getattr(below, "__name__", None) or type(below).__name__
        takes = signature_of(fn, tool_name)
        made = Tool(
            name=tool_name,
            description=(description or inspect.getdoc(below) or "").strip(),
            function=fn,
            parameters=takes.parameters,
            effect=effect,
            timeout_s=timeout_s,
            ask_for=tuple(ask_for),
            confirm=confirm,
            parallel=parallel,
            resource=resource,
            idempotent=idempotent,
            verify=verify,
            retries=retries,
            result_limit=result_limit,
            merge_by=tuple(merge_by),
            rank_by=rank_by,
            repeatable=repeatable,
            is_empty=is_empty,
            injected=takes.injected,
            secret=(*takes.secret, *(one for one in secret if one not in takes.secret)),
            model_fields=None if model_fields is None else tuple(model_fields),
            max_parallel=max_parallel,
            rate=rate,
            expires_in_s=expires_in_s,
            approvers=approvers,
        )
        return checked(made)

    return make if function is None else make(function)

"""May this person's run make this call? Asked just before it runs, again after an edit and a resume (C-27). Pure."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from adjourn.checkpoints.lifecycle import Effect

log = logging.getLogger("adjourn.call")


class Mode(StrEnum):
    """How far all runs of a graph may go, whatever its rule says."""

    DEFAULT = "default"  # the rule decides
    READ_ONLY = "read_only"  # writes are denied
    PREAPPROVED_ONLY = "preapproved_only"  # what a person would have to agree to is denied


class Verdict(StrEnum):
    """What a rule says to a call."""

    ALLOW = "allow"
    ASK = "ask"  # a person has to agree
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Request:
    """What a rule is asked. `person` started the run; None: nobody is named. `context`: as a `ToolContext` has it."""

    person: str | None
    tool: str
    effect: Effect
    arguments: Mapping[str, Any]
    run_id: str
    thread_id: str
    context: Mapping[str, Any] = field(default_factory=dict)


Rule = Callable[[Request], Verdict | str | Awaitable[Verdict | str]]
"""Says `allow`, `ask` or `deny`; sync or async. One that raises, or says something else, denies."""


@dataclass(frozen=True, slots=True)
class Permission:
    """The rule and the mode of a graph, and of the runs `above` that it works for: the strictest holds.

    `rule` None: everything is allowed that the mode allows. Every mode holds, and every rule is asked: deny wins over
    ask, ask over allow.
    """

    rule: Rule | None = None
    mode: Mode = Mode.DEFAULT
    above: "Permission | None" = None

    def below(self, above: "Permission | None") -> "Permission":
        """The same, of a run that works for one with this permission."""
        return self if above is None else Permission(self.rule, self.mode, above)

    def _each(self) -> list["Permission"]:
        """This one and those above, each rule once."""
        found: list[Permission] = []
        one: Permission | None = self
        while one is not None:
            if not any((one.rule, one.mode) == (other.rule, other.mode) for other in found):
                found.append(one)
            one = one.above
        return found

    async def verdict(self, request: Request, *, agreed: bool, asks: bool) -> Verdict:
        """What becomes of a call; deny wins.

        `agreed`: a person agreed to these arguments. `asks`: the tool itself declares that they need it.
        """
        if self.rules_out(request.effect, asks=asks):
            return Verdict.DENY
        each = self._each()
        said = await _strictest(each, request)
        if said is Verdict.ASK and any(one.mode is Mode.PREAPPROVED_ONLY for one in each):
            return Verdict.DENY
        if said is Verdict.ASK and agreed:
            return Verdict.ALLOW
        return said

    def rules_out(self, effect: Effect, *, asks: bool) -> bool:
        """Whether a mode alone denies such a call: then nobody needs to be asked about it."""
        modes = [one.mode for one in self._each()]
        if Mode.READ_ONLY in modes and effect is Effect.WRITE:
            return True
        return Mode.PREAPPROVED_ONLY in modes and asks

    async def _said(self, request: Request) -> Verdict:
        if self.rule is None:
            return Verdict.ALLOW
        try:
            said = self.rule(request)
            return Verdict(await said if inspect.isawaitable(said) else said)
        except Exception:
            log.exception("the permission rule failed on %s; the call is denied", request.tool)
            return Verdict.DENY


_STRICT = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)  # the later one wins


async def _strictest(each: Sequence[Permission], request: Request) -> Verdict:
    """What the strictest of these rules says; those behind a deny are not asked."""
    strictest = Verdict.ALLOW
    for one in each:
        strictest = max(strictest, await one._said(request), key=_STRICT.index)
        if strictest is Verdict.DENY:
            break
    return strictest

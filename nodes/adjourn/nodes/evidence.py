"""Did the tools that an answer must rest on bring something? (C-56) Pure."""

import json
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from adjourn.checkpoints.errors import UsageError
from adjourn.nodes.texts import say

log = logging.getLogger("adjourn.call")

IsEmpty = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Tools that must have brought something before an answer counts: each of `all_of`, and one of `any_of`.

    An answer without is sent back with the names of what is missing, twice; then the run ends with `no_evidence`.
    """

    all_of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("all_of", "any_of"):
            names = getattr(self, name)
            if isinstance(names, str) or not all(isinstance(one, str) for one in names):
                raise UsageError(f"{name} is a list of names of tools, not {names!r}")
            object.__setattr__(self, name, tuple(names))
        if not self.all_of and not self.any_of:
            raise UsageError("Evidence needs names of tools, in all_of, any_of or both")

    def check(self, tools: Collection[str]) -> None:
        """Raises `UsageError` for a name that no tool has: no answer could ever pass."""
        unknown = [one for one in (*self.all_of, *self.any_of) if one not in tools]
        if unknown:
            raise UsageError(
                f"Evidence names {', '.join(unknown)}, but the tools are {', '.join(tools) or '-'}"
            )

    def missing(self, brought: Collection[str], language: str) -> str | None:
        """What is missing, as the model is told it; None: nothing is."""
        names = [one for one in self.all_of if one not in brought]
        if self.any_of and not any(one in brought for one in self.any_of):
            names.append(say("runtime.one_of", language, names=", ".join(self.any_of)))
        return ", ".join(names) or None


def brings(observation: str, is_empty: IsEmpty | None) -> bool:
    """Whether the observation of a call that succeeded holds anything: null, "", [] and {} do not.

    `is_empty` is the tool's own word on the data, as the model sees it. One that raises cannot vouch for anything.
    """
    data = json.loads(observation).get("data")
    if data is None or data in ("", [], {}):
        return False
    try:
        return is_empty is None or not is_empty(data)
    except Exception as error:
        log.warning("is_empty of a tool failed: %r", error)
        return False

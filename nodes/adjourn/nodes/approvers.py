"""Who has to agree to a risky call, where one person's yes is not enough. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from adjourn.checkpoints.errors import ToolDefinitionError


@dataclass(frozen=True, slots=True, init=False)
class Approvers:
    """`Approvers(2, of=("li", "wang", "zhao"))`: two of these three have to agree before the call runs.

    - `needed`: how many different people have to agree.
    - `of`: who counts; empty: anybody who gives a name.

    A person counts once, one rejection ends it, and after an edit the count begins anew with whoever edited,
    since it holds for other arguments. Raises `ToolDefinitionError` for a number that can never be reached.
    """

    needed: int
    of: tuple[str, ...]

    def __init__(self, needed: int = 1, of: Iterable[str] = ()) -> None:
        names = tuple(dict.fromkeys([of] if isinstance(of, str) else of))
        if isinstance(needed, bool) or not isinstance(needed, int) or needed < 1:
            raise ToolDefinitionError(f"approvers: needed is a whole number from 1, not {needed!r}")
        if names and needed > len(names):
            raise ToolDefinitionError(f"approvers: {needed} of {len(names)} people can never agree")
        object.__setattr__(self, "needed", needed)
        object.__setattr__(self, "of", names)

    def asked(self, given: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
        """The record that a question carries; `given` holds who agreed already: `{"by": ..., "at": ...}`."""
        return {"needed": self.needed, "of": list(self.of), "given": list(given)}

"""How a secret that is stored sealed is told from other text, and how it is shown: not at all (C-73). Pure."""

from collections.abc import Mapping
from typing import Any

SEAL = "adjourn-sealed:"
HIDDEN = "[secret]"


def is_sealed(value: Any) -> bool:
    """Whether a value of an argument, or of an answer, is sealed."""
    return isinstance(value, str) and value.startswith(SEAL)


def hidden(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments, or an answer, as they are shown: what is sealed reads `[secret]`."""
    return {name: HIDDEN if is_sealed(value) else value for name, value in values.items()}

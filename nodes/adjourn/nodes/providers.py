"""What differs between providers, as one table (C-13).

`provider_of(model)` finds a model's row. `wire_in.py` reads what a provider sends by it, `wire_out.py` writes
what is sent to one; what langchain-openai would drop before we see it is kept by `listening.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from langchain_core.runnables import Runnable

from adjourn.nodes.assembly import Assembler

__all__ = ["PROVIDERS", "UNKNOWN", "Provider", "provider_of", "unbound"]


@dataclass(frozen=True, slots=True)
class Provider:
    """One model package, as far as it differs from others.

    `ends`: every whole turn has an end signal, so that a stream without one broke off (C-10).
    `exact`: argument text comes as the model wrote it; else the package parsed it before we could see it.
    `verbatim`: requests take calls in OpenAI's shape as they stand, so that bytes and order survive.
    `name_length`: the longest name of a tool that the service takes, in characters.
    """

    name: str
    ends: bool = True
    exact: bool = True
    verbatim: bool = False
    name_length: int = 64

    def assembler(self) -> Assembler:
        """An empty assembler for one turn of this provider."""
        return Assembler(ends=self.ends)


UNKNOWN: Final = Provider("unknown", ends=False, exact=False)
"""A package that nothing is known about: test doubles, users' own models. Nothing is taken for granted."""

PROVIDERS: Final[Mapping[str, Provider]] = MappingProxyType(
    {
        # By the package that defines the model's class, or one that it derives from.
        "langchain_openai": Provider("openai", verbatim=True),
        "langchain_anthropic": Provider("anthropic", name_length=128),
        "langchain_google_genai": Provider("google", exact=False),
        "langchain_ollama": Provider("ollama", exact=False),
        "langchain_groq": Provider("groq"),
        "langchain_mistralai": Provider("mistral"),
        "adjourn": Provider("scripted"),
    }
)


def provider_of(model: Runnable[Any, Any]) -> Provider:
    """The table's row for a model, bound to tools or not; `UNKNOWN` if its package is not in the table."""
    packages = (kind.__module__.partition(".")[0] for kind in type(unbound(model)).__mro__)
    return next((PROVIDERS[package] for package in packages if package in PROVIDERS), UNKNOWN)


def unbound(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """The model itself, without the tools and settings that are bound to it."""
    while isinstance(inner := getattr(model, "bound", None), Runnable):
        model = inner
    return model

"""What differs between providers, as one table (C-13).

`provider_of(model)` finds a model's row. `wire_in.py` reads what a provider sends by it, `wire_out.py` writes
what is sent to one; what langchain-openai would drop before we see it is kept by `listening.py`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from langchain_core.runnables import Runnable

from adjourn.nodes.assembly import Assembler
from adjourn.nodes.listening import asks_responses

__all__ = ["PROVIDERS", "UNKNOWN", "Provider", "provider_of", "unbound"]


_DATED: Final = re.compile(r"_\d{8}$")


@dataclass(frozen=True, slots=True)
class Provider:
    """One model package, as far as it differs from others; and what is known about the service behind it.

    `ends`: every whole turn has an end signal, so that a stream without one broke off (C-10).
    `exact`: argument text comes as the model wrote it; else the package parsed it before we could see it.
    `verbatim`: requests take calls in OpenAI's shape as they stand, so that bytes and order survive.
    `name_length`: the longest name of a tool that the service takes, in characters.
    `tools_off`: what a request says so that no tool is called, where the service wants the tools of a history
    that holds calls; None: a request without tools says it.
    `plain_ids`: ids of calls are `[a-zA-Z0-9_-]+`, and no two of a request are equal.
    `id_length`: the longest id of a call, in characters; None: as long as it likes.
    `one_system`: a request has one system message, at its beginning.
    `family`: whose content blocks it takes back; None: content is passed on as it is.
    `items`: requests are items of OpenAI's Responses API. `stateless`: that service is told to keep nothing.
    `wants_reasoning`: a message with calls has the field `reasoning_content`, if only an empty one.
    `origin`: the service that is asked. What it wants back as it came goes to it alone; "": to nobody.
    """

    name: str
    ends: bool = True
    exact: bool = True
    verbatim: bool = False
    name_length: int = 64
    tools_off: Mapping[str, Any] | None = None
    plain_ids: bool = False
    id_length: int | None = None
    one_system: bool = False
    family: str | None = None
    items: bool = False
    stateless: bool = False
    wants_reasoning: bool = False
    origin: str = ""

    def runs(self, tool: Mapping[str, Any]) -> bool:
        """Whether a tool that some provider runs itself is one of this provider's. Anthropic's are named by date."""
        dated = _DATED.search(str(tool.get("type"))) is not None
        return self.family is not None and dated == (self.family == "anthropic")

    def assembler(self) -> Assembler:
        """An empty assembler for one turn of this provider."""
        return Assembler(ends=self.ends, origin=self.origin)


UNKNOWN: Final = Provider("unknown", ends=False, exact=False)
"""A package that nothing is known about: test doubles, users' own models. Nothing is taken for granted."""

PROVIDERS: Final[Mapping[str, Provider]] = MappingProxyType(
    {
        # By the package that defines the model's class, or one that it derives from.
        "langchain_openai": Provider("openai", verbatim=True, family="openai"),
        "langchain_anthropic": Provider(
            "anthropic",
            name_length=128,
            tools_off={"type": "none"},
            plain_ids=True,
            one_system=True,
            family="anthropic",
        ),
        "langchain_google_genai": Provider("google", exact=False),
        "langchain_ollama": Provider("ollama", exact=False),
        "langchain_groq": Provider("groq"),
        "langchain_mistralai": Provider("mistral"),
        "adjourn": Provider("scripted"),
    }
)


# Services that refuse a longer id of a call than they give themselves; others of OpenAI's style take any.
_STRICT_HOSTS: Final = ("api.openai.com", ".openai.azure.com")
_CHAT_ID_LENGTH: Final = 40
_ITEM_ID_LENGTH: Final = 64

# Services that answer 400 to a turn of any author with calls and without the field.
_REASONING_HOSTS: Final = ("api.deepseek.com", "api.moonshot.cn", "api.moonshot.ai")


def provider_of(model: Runnable[Any, Any]) -> Provider:
    """The table's row for a model, bound to tools or not; `UNKNOWN` if its package is not in the table."""
    inner = unbound(model)
    packages = (kind.__module__.partition(".")[0] for kind in type(inner).__mro__)
    row = next((PROVIDERS[package] for package in packages if package in PROVIDERS), UNKNOWN)
    if row.family is None:
        return row
    if row.family == "openai":
        return _openai(row, inner, _settings(model))
    return replace(row, origin=f"{row.name}:{_host(getattr(inner, 'anthropic_api_url', None))}")


def _openai(row: Provider, model: Any, settings: Mapping[str, Any]) -> Provider:
    host = _host(getattr(getattr(model, "root_async_client", None), "base_url", None))
    items = asks_responses(model, settings)
    strict = host.endswith(_STRICT_HOSTS)
    longest = _ITEM_ID_LENGTH if items else _CHAT_ID_LENGTH
    return replace(
        row,
        items=items,
        stateless=getattr(model, "store", None) is False,
        wants_reasoning=host.endswith(_REASONING_HOSTS),
        id_length=longest if strict else None,
        origin=f"{row.name}-{'responses' if items else 'chat'}:{host}",
    )


def _host(url: object) -> str:
    """The host of an address, without its port: the same service on another one takes back what it sent."""
    return urlsplit(str(url)).hostname or "" if url else ""


def _settings(model: Runnable[Any, Any]) -> dict[str, Any]:
    """What is bound to a model."""
    bound: dict[str, Any] = {}
    while isinstance(inner := getattr(model, "bound", None), Runnable):
        bound = {**getattr(model, "kwargs", {}), **bound}
        model = inner
    return bound


def unbound(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """The model itself, without the tools and settings that are bound to it."""
    while isinstance(inner := getattr(model, "bound", None), Runnable):
        model = inner
    return model

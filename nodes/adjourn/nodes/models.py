"""From a model string to a LangChain chat model."""

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel

from adjourn.checkpoints.errors import UsageError


class _Package(NamedTuple):
    module: str
    name: str
    install: str
    settings: Mapping[str, Any]


PACKAGES: Mapping[str, _Package] = {
    # usage comes with the stream only when asked for; retries are ours, so that they are counted and told
    "openai": _Package("langchain_openai", "ChatOpenAI", "adjourn", {"stream_usage": True, "max_retries": 0}),
    "anthropic": _Package("langchain_anthropic", "ChatAnthropic", "langchain-anthropic", {"max_retries": 0}),
}


def chat_model(model: BaseChatModel | str) -> BaseChatModel:
    """The chat model for `"provider:model"`, such as `"openai:gpt-5"`; a chat model comes back as it is.

    Keys and addresses come from the package's own environment variables (`OPENAI_API_KEY`,
    `OPENAI_BASE_URL`). Raises `UsageError` for a string or an object that is no model, or a missing package.
    """
    if isinstance(model, BaseChatModel):
        return model
    if not isinstance(model, str):
        raise UsageError(f"a model is a LangChain chat model or 'provider:model', not {type(model).__name__}")
    provider, colon, name = model.partition(":")
    if not colon or not name or provider not in PACKAGES:
        known = ", ".join(f"{one}:NAME" for one in PACKAGES)
        raise UsageError(f"the model {model!r} is not one of {known}")
    package = PACKAGES[provider]
    try:
        kind = getattr(importlib.import_module(package.module), package.name)
    except ImportError as error:
        raise UsageError(f"the model {model!r} needs a package: pip install {package.install}") from error
    try:
        made: BaseChatModel = kind(model=name, **package.settings)
    except Exception as error:  # each package has its own error for a missing key
        first = str(error).strip().partition("\n")[0]
        raise UsageError(f"the model {model!r} cannot be used: {first}") from error
    return made

"""How many tokens a message costs in a request: by the model's own vocabulary, or by an estimate.

OpenAI's models are counted with tiktoken, which comes with langchain-openai. It fetches a vocabulary from the
network at its first use and keeps it on disk; where that does not work, and for every other provider, the
count is estimated. What a model is told beside its messages (the schemas of tools) is not counted here.

Counting is asked for anew before each model call, over the same messages. So the count of each *text* is
remembered, under the text's hash: a turn costs what is new and a look-up for what is not. Under the hash and
not under the message, because a history that is loaded again comes as new objects, and because a message
that was changed in place must not keep its old count.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, BaseMessage

from adjourn.nodes.kept import CALL_BLOCKS, TEXT_BLOCKS
from adjourn.nodes.stored_form import SENT_AS, sent_calls

if TYPE_CHECKING:
    from tiktoken import Encoding

__all__ = ["Counter", "counter_for", "estimate"]

log = logging.getLogger("adjourn.model")

Counter = Callable[[BaseMessage], int]
"""A message -> the tokens it costs in a request, its share of the request's frame included. Never raises."""

PER_MESSAGE: Final = 4  # role and separators: 3 in OpenAI's published recipe for chat models, rounded up
PER_CALL: Final = 4  # the frame of one call, beside its name and arguments
# An image, a file or a sound: what Anthropic asks at most for one image; OpenAI asks less.
PER_BLOCK: Final = 1600
# tiktoken sets no time limit of its own, and a network that swallows packets would hang us.
LOAD_S: Final = 5.0
REMEMBERED: Final = 50_000  # texts, at about 150 bytes each; more than any budget holds

_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz"
_WEIGHTS: Final = (
    # hundredths of a token for each character, told by the byte that it starts with in UTF-8
    (_LETTERS, 24),
    (_LETTERS.upper(), 40),  # identifiers and random text break at them
    (b"0123456789", 70),  # 0.33 in long numbers, 1 in timestamps and hexadecimal ids
    (b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", 75),
    (bytes(range(0xC2, 0xE0)), 50),  # Latin with accents, Cyrillic, Greek, Arabic
    (bytes(range(0xE0, 0xF0)), 110),  # Chinese, Japanese, Korean, and their punctuation
    (bytes(range(0xF0, 0xF5)), 250),  # emoji, rare characters
)
_PER_WORD: Final = 25  # hundredths for each run of characters between spaces, however wide the space

_CALL_BLOCKS: Final = frozenset({"tool_use", "tool_call", "function_call", "invalid_tool_call"})
# each holds its text under its type
_TEXT_BLOCKS: Final = frozenset({"text", "thinking", "reasoning", "refusal"})


def counter_for(model_name: str | None) -> Counter:
    """How the messages to a model of this name are counted; `None`, or an unknown name: by `estimate`.

    A model that tiktoken knows is counted exactly, but for the frame of a message. Its vocabulary is loaded here,
    which takes up to `LOAD_S` seconds the first time and may use the network; if it cannot be had, the estimate
    is used until the process ends, so that one run is not counted in two ways. The counter may be shared by
    threads, and is the same object for all models of one vocabulary.
    """
    name = _vocabulary_of(model_name) if model_name else None
    return _counter(name if name and _loaded(name) else None)


def estimate(text: str) -> int:
    """About how many tokens `text` has in the vocabularies in use: a weight for each character, by its kind.

    The weights are fitted to cl100k_base, o200k_base and the published vocabularies of Anthropic and DeepSeek,
    and to the *highest* of the four: on English prose, Chinese, JSON and logs the estimate is between 0.9 and 1.5 of
    it. Too high elsewhere (ruled lines of a table), too low by half for base64.
    """
    rest = text.encode("utf-8", "surrogatepass")
    hundredths = _PER_WORD * len(rest.split())
    for kind, weight in _WEIGHTS:
        before = len(rest)
        rest = rest.translate(None, kind)
        hundredths += weight * (before - len(rest))
    return -(-hundredths // 100)


@cache
def _counter(vocabulary: str | None) -> Counter:
    encoding = _loaded(vocabulary) if vocabulary else None
    if encoding is None:
        return partial(_cost, tokens=_remembering(estimate))
    # encode_ordinary: text that looks like a special token is a user's text, and must not raise
    return partial(_cost, tokens=_remembering(lambda text: len(encoding.encode_ordinary(text))))


def _remembering(tokens: Callable[[str], int]) -> Callable[[str], int]:
    known: dict[tuple[int, int], int] = {}

    def remembered(text: str) -> int:
        key = (hash(text), len(text))  # Python keeps a text's hash in the text
        found = known.get(key)
        if found is None:
            if len(known) >= REMEMBERED:
                known.clear()  # counting once more is cheaper than keeping an order
            found = known[key] = tokens(text)
        return found

    return remembered


def _cost(message: BaseMessage, tokens: Callable[[str], int]) -> int:
    content = message.content
    said = tokens(content) if isinstance(content, str) else _cost_of_blocks(content, tokens)
    calls = sent_calls(message) if isinstance(message, AIMessage) else ()
    asked = sum(
        PER_CALL + tokens(str(call["function"]["name"])) + tokens(_text(call["function"]["arguments"]))
        for call in calls
    )
    return PER_MESSAGE + said + asked + _cost_of_kept(message, tokens)


def _cost_of_kept(message: BaseMessage, tokens: Callable[[str], int]) -> int:
    """What goes back to its provider beside text and calls: thinking, results of its own tools."""
    kept = message.additional_kwargs.get(SENT_AS)
    blocks = (kept.get("blocks") or ()) if isinstance(kept, dict) else ()
    more = (block for block in blocks if block.get("type") not in TEXT_BLOCKS | CALL_BLOCKS.keys())
    return sum(tokens(_text(block.get(str(block.get("type"))) or block)) for block in more)


def _cost_of_blocks(blocks: Iterable[str | dict[Any, Any]], tokens: Callable[[str], int]) -> int:
    return sum(tokens(block) if isinstance(block, str) else _cost_of_block(block, tokens) for block in blocks)


def _cost_of_block(block: dict[Any, Any], tokens: Callable[[str], int]) -> int:
    kind = block.get("type")
    if kind in _CALL_BLOCKS:
        return 0  # counted with the calls, which stand in both places
    return tokens(_text(block.get(kind))) if kind in _TEXT_BLOCKS else PER_BLOCK


def _text(value: object) -> str:
    """Messages of other programs hold what they like."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def _vocabulary_of(model_name: str) -> str | None:
    import tiktoken

    try:
        return tiktoken.encoding_name_for_model(model_name)
    except KeyError:
        return None


@cache
def _loaded(vocabulary: str) -> "Encoding | None":
    """tiktoken's encoding of this name, or None if it cannot be had in time; settled at the first call."""
    import tiktoken

    found: list[Encoding] = []

    def load() -> None:
        try:
            found.append(tiktoken.get_encoding(vocabulary))
        except Exception as error:  # of the network, the disk or the file: each means the estimate
            log.debug("no vocabulary %s, tokens are estimated: %s", vocabulary, error)

    loading = threading.Thread(target=load, name=f"load {vocabulary}", daemon=True)
    loading.start()
    loading.join(LOAD_S)
    return found[0] if found else None

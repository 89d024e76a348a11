"""What servers that say they are OpenAI-compatible really send: recorded shapes, by hand, and the right result of each.

Each row names where the shape is documented or was reported. A new quirk is a new row.
"""

from dataclasses import dataclass, field
from typing import Any

from wire.loopback import Line
from wire.openai_server import Chunk, Delta, fragment

Call = tuple[str | None, str, str]
"""Id, name and argument text of a call."""


@dataclass(frozen=True)
class Quirk:
    """One shape of a stream. `problem`: part of the reason why the turn is not used; None: it is."""

    source: str
    deltas: list[Delta]
    calls: list[Call] = field(default_factory=list)
    finish: str | None = "tool_calls"
    ends: str = "tool_calls"
    text: str = ""
    reasoning: str = ""
    problem: str | None = None
    unparsable: tuple[int, ...] = ()
    usage: tuple[int, int] | None = None
    back: dict[str, Any] = field(default_factory=dict)
    """Fields that the assistant message of the next request must hold."""


PARIS, OSLO = '{"city":"Paris"}', '{"city":"Oslo"}'
TWO: list[Call] = [("call_a", "weather", PARIS), ("call_b", "weather", OSLO)]


def head(**delta: Any) -> Chunk:
    """A chunk with a delta as it is, nothing left out."""
    return Chunk({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def last(finish: str, usage: tuple[int, int], **delta: Any) -> Chunk:
    """A last chunk whose end signal, delta and usage come together."""
    spent = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return Chunk({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": spent})


QUIRKS: dict[str, Quirk] = {
    # vLLM
    "vllm: index 0 for every call, an empty id behind the first piece": Quirk(
        "https://github.com/InternLM/lmdeploy/issues/3412 (vLLM's stream, quoted there)",
        [
            [fragment(0, "call_a", "weather", "")],
            [{"index": 0, "id": "", "type": "function", "function": {"arguments": PARIS, "name": None}}],
            [fragment(0, "call_b", "weather", "")],
            [{"index": 0, "id": "", "type": "function", "function": {"arguments": OSLO, "name": None}}],
        ],
        TWO,
    ),
    "vllm: the end signal comes with the last piece": Quirk(
        "https://github.com/vllm-project/vllm-ascend/issues/8327",
        [
            [fragment(0, "call_a", "weather", PARIS[:7])],
            last("tool_calls", (9, 4), tool_calls=[fragment(0, arguments=PARIS[7:])]),
        ],
        TWO[:1],
        finish=None,
        usage=(9, 4),
    ),
    "vllm: cut off by max_tokens, and told as if the calls were whole": Quirk(
        "https://github.com/vllm-project/vllm/issues/53269",
        [[fragment(0, "call_a", "weather", PARIS)], [fragment(1, "call_b", "weather", OSLO[:9])]],
        [TWO[0], ("call_b", "weather", OSLO[:9])],
        unparsable=(1,),
    ),
    "vllm: calls are announced and none comes": Quirk(
        "https://github.com/vllm-project/vllm/issues/53255",
        ["Hello!"],
        text="Hello!",
        problem="no tool call",
    ),
    "vllm: no arguments for a tool without parameters": Quirk(
        "https://github.com/vllm-project/vllm/issues/28806",
        [[{"index": 0, "id": "call_a", "type": "function", "function": {"name": "now"}}]],
        [("call_a", "now", "")],
    ),
    "vllm: the end signal of a forced call is stop": Quirk(
        "https://github.com/vllm-project/vllm/pull/9209",
        [[fragment(0, "call_a", "weather", PARIS)]],
        TWO[:1],
        finish="stop",
        ends="stop",
    ),
    "vllm: reasoning in the field `reasoning`": Quirk(
        "https://docs.vllm.ai/en/v0.26.0/features/reasoning_outputs/",
        [
            head(reasoning="Both "),
            head(reasoning="cities."),
            [fragment(0, "call_a", "weather", PARIS)],
        ],
        TWO[:1],
        reasoning="Both cities.",
        back={"reasoning": "Both cities."},
    ),
    # Ollama
    "ollama: index 0 for every call": Quirk(
        "https://github.com/ollama/ollama/issues/15457",
        [[fragment(0, "call_a", "weather", PARIS)], [fragment(0, "call_b", "weather", OSLO)]],
        TWO,
    ),
    "ollama: no index": Quirk(
        "https://github.com/ollama/ollama/issues/7881",
        [[fragment(None, "call_a", "weather", PARIS), fragment(None, "call_b", "weather", OSLO)]],
        TWO,
    ),
    "ollama: the end signal of calls is stop": Quirk(
        "https://github.com/ollama/ollama/pull/7963",
        [[fragment(0, "call_a", "weather", PARIS)], head(role="assistant", content="")],
        TWO[:1],
        finish="stop",
        ends="stop",
    ),
    "ollama: arguments as an object": Quirk(
        "https://github.com/BerriAI/litellm/pull/37792",
        [[fragment(0, "call_a", "weather", {"city": "Paris"})]],
        TWO[:1],
    ),
    # llama.cpp
    "llama.cpp: the id inside the function, the name in each piece": Quirk(
        "https://github.com/ggml-org/llama.cpp/pull/13800",
        [
            [{"index": 0, "function": {"id": "call_a", "name": "weather", "arguments": PARIS[:7]}}],
            [{"index": 0, "function": {"id": "call_a", "name": "weather", "arguments": PARIS[7:]}}],
        ],
        TWO[:1],
    ),
    "llama.cpp: the name in each piece": Quirk(
        "https://github.com/ggml-org/llama.cpp/pull/12379",
        [
            [fragment(0, "call_a", "weather", "")],
            *([fragment(0, None, "weather", piece)] for piece in (PARIS[:3], PARIS[3:8], PARIS[8:])),
        ],
        TWO[:1],
    ),
    "llama.cpp: an argument text that is no JSON": Quirk(
        "https://github.com/ggml-org/llama.cpp/issues/22072",
        [[fragment(0, "call_a", "weather", '{"city":"Par')], [fragment(1, "call_b", "weather", OSLO)]],
        [("call_a", "weather", '{"city":"Par'), TWO[1]],
        unparsable=(0,),
    ),
    # SGLang
    "sglang: no index": Quirk(
        "https://github.com/sgl-project/sglang/issues/5661",
        [
            [fragment(None, "0", "weather", PARIS[:7])],
            [fragment(None, None, None, PARIS[7:])],
            [fragment(None, "1", "weather", OSLO)],
        ],
        [("0", "weather", PARIS), ("1", "weather", OSLO)],
    ),
    "sglang: index 0 for every call, the id in each piece": Quirk(
        "https://github.com/InternLM/lmdeploy/issues/3412 (SGLang's stream, quoted there)",
        [
            [fragment(0, "0", "weather", "")],
            [fragment(0, "0", None, PARIS)],
            [fragment(0, "1", "weather", "")],
            [fragment(0, "1", None, OSLO)],
        ],
        [("0", "weather", PARIS), ("1", "weather", OSLO)],
    ),
    "sglang: no id behind index 0": Quirk(
        "https://github.com/sgl-project/sglang/issues/7048",
        [
            [fragment(0, "call_a", "weather", PARIS)],
            [
                {
                    "index": 1,
                    "id": None,
                    "type": "function",
                    "function": {"name": "weather", "arguments": OSLO},
                }
            ],
        ],
        [TWO[0], (None, "weather", OSLO)],
        problem="without an id",
    ),
    "sglang: an empty name behind the first piece": Quirk(
        "https://github.com/sgl-project/sglang/issues/4700",
        [
            [fragment(0, "call_a", "weather", "")],
            [{"index": 0, "id": None, "function": {"name": "", "arguments": PARIS}}],
        ],
        TWO[:1],
    ),
    "sglang: every field of the delta, most of them null": Quirk(
        "https://github.com/sgl-project/sglang/issues/6310",
        [
            head(role=None, content=None, reasoning_content=" those", tool_calls=None),
            head(role=None, content=None, reasoning_content=" values", tool_calls=None),
            head(role=None, content="\n\n", reasoning_content=None, tool_calls=None),
            head(
                role=None,
                content=None,
                reasoning_content=None,
                tool_calls=[fragment(0, "call_a", "weather", PARIS)],
            ),
        ],
        TWO[:1],
        text="\n\n",
        reasoning=" those values",
        back={"reasoning_content": " those values"},
    ),
    # DeepSeek
    "deepseek: comments keep the connection, reasoning comes first": Quirk(
        "https://api-docs.deepseek.com/guides/thinking_mode and https://api-docs.deepseek.com/quick_start/rate_limit",
        [
            Line(": keep-alive\n\n"),
            head(role="assistant", content=None, reasoning_content=""),
            head(content=None, reasoning_content="Two calls."),
            Line(": keep-alive\n\n"),
            [fragment(0, "call_a", "weather", PARIS)],
        ],
        TWO[:1],
        reasoning="Two calls.",
        back={"reasoning_content": "Two calls."},
    ),
    "deepseek: an empty thought goes back too": Quirk(
        "https://github.com/deepseek-ai/deepseek-harness/discussions/739",
        [
            head(role="assistant", content=None, reasoning_content=""),
            [fragment(0, "call_a", "weather", PARIS)],
        ],
        TWO[:1],
        back={"reasoning_content": ""},
    ),
    "deepseek: usage rides on the last chunk with its end signal": Quirk(
        "https://api-docs.deepseek.com/api/create-chat-completion/",
        ["Hello", last("stop", (11, 3), content="")],
        finish=None,
        ends="stop",
        text="Hello",
        usage=(11, 3),
    ),
    "deepseek: the service gave up": Quirk(
        "https://api-docs.deepseek.com/api/create-chat-completion/ (finish_reason)",
        ["Hel"],
        finish="insufficient_system_resource",
        ends="",
        text="Hel",
    ),
    # Qwen on Alibaba's Model Studio
    "qwen: an empty id and a null name behind the first piece": Quirk(
        "https://help.aliyun.com/en/model-studio/deep-thinking and the function calling page beside it",
        [
            head(content=None, reasoning_content="Paris."),
            head(
                content=None,
                tool_calls=[
                    {
                        "index": 0,
                        "id": "call_a",
                        "type": "function",
                        "function": {"name": "weather", "arguments": ""},
                    }
                ],
            ),
            *(
                head(
                    content=None,
                    tool_calls=[
                        {
                            "index": 0,
                            "id": "",
                            "type": "function",
                            "function": {"name": None, "arguments": piece},
                        }
                    ],
                )
                for piece in (PARIS[:7], PARIS[7:])
            ),
        ],
        TWO[:1],
        reasoning="Paris.",
        back={"reasoning_content": "Paris."},
    ),
    # Gemini by Google's OpenAI-compatible endpoint
    "gemini: whole calls, index 0 for all, each signed": Quirk(
        "https://github.com/crmne/ruby_llm/issues/591 and https://github.com/su-kaka/gcli2api/pull/406",
        [
            [
                {
                    **fragment(0, "call_a", "weather", PARIS),
                    "extra_content": {"google": {"thought_signature": "AY89"}},
                }
            ],
            [fragment(0, "call_b", "weather", OSLO)],
        ],
        TWO,
        back={
            "tool_calls": [
                {
                    "id": "call_a",
                    "type": "function",
                    "function": {"name": "weather", "arguments": PARIS},
                    "extra_content": {"google": {"thought_signature": "AY89"}},
                },
                {"id": "call_b", "type": "function", "function": {"name": "weather", "arguments": OSLO}},
            ]
        },
    ),
    "gemini: an end signal before the calls are through": Quirk(
        "https://github.com/BerriAI/litellm/pull/31634",
        [
            Chunk(
                {
                    "choices": [
                        {
                            "index": 0,
                            "delta": {"tool_calls": [fragment(0, "call_a", "weather", PARIS)]},
                            "finish_reason": "tool_calls",
                        }
                    ]
                }
            ),
            [fragment(1, "call_b", "weather", OSLO)],
        ],
        TWO,
    ),
    "gemini: two objects run together into one call": Quirk(
        "https://github.com/dyedd/lens/issues/49",
        [
            [fragment(0, "call_a", "weather", "")],
            [{"index": 0, "function": {"name": "", "arguments": PARIS}}],
            [{"index": 0, "function": {"name": "", "arguments": OSLO}}],
        ],
        [("call_a", "weather", PARIS + OSLO)],
        unparsable=(0,),
    ),
    # Azure
    "azure: a first chunk without choices that tells of filters": Quirk(
        "https://github.com/Azure/azure-sdk-for-go/issues/21086",
        [
            Chunk(
                {
                    "id": "",
                    "object": "",
                    "created": 0,
                    "model": "",
                    "choices": [],
                    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
                }
            ),
            "Hello",
        ],
        finish="stop",
        ends="stop",
        text="Hello",
    ),
    "azure: a choice without a delta": Quirk(
        "https://github.com/microsoft/autogen/issues/6465",
        [
            "Hel",
            Chunk(
                {
                    "id": "",
                    "object": "",
                    "created": 0,
                    "model": "",
                    "choices": [
                        {
                            "index": 0,
                            "finish_reason": None,
                            "content_filter_results": {"hate": {"filtered": False}},
                            "content_filter_offsets": {"check_offset": 44},
                        }
                    ],
                    "usage": None,
                }
            ),
            "lo",
        ],
        finish="stop",
        ends="stop",
        text="Hello",
    ),
    "azure: the filter cuts the text": Quirk(
        "https://learn.microsoft.com/en-us/azure/ai-services/openai/concepts/content-filter",
        ["Hel"],
        finish="content_filter",
        ends="content_filter",
        text="Hel",
    ),
    # Proxies
    "litellm: index 1 first, since reasoning was 0": Quirk(
        "https://github.com/pipecat-ai/pipecat/issues/4987",
        [[fragment(1, "call_a", "weather", "")], [fragment(1, None, None, PARIS)]],
        TWO[:1],
    ),
    "openrouter: reasoning with its details": Quirk(
        "https://openrouter.ai/docs/use-cases/reasoning-tokens",
        [
            head(reasoning="Par", reasoning_details=[{"type": "reasoning.text", "text": "Par", "index": 0}]),
            head(reasoning="is.", reasoning_details=[{"type": "reasoning.text", "text": "is.", "index": 0}]),
            head(reasoning_details=[{"type": "reasoning.encrypted", "data": "gAAA", "index": 1}]),
            [fragment(0, "call_a", "weather", PARIS)],
        ],
        TWO[:1],
        reasoning="Paris.",
        back={
            "reasoning": "Paris.",
            "reasoning_details": [
                {"type": "reasoning.text", "text": "Paris.", "index": 0},
                {"type": "reasoning.encrypted", "data": "gAAA", "index": 1},
            ],
        },
    ),
}

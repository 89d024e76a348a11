"""The stream of scenario S1, as it stands and in the shapes that compatible servers give it."""

import json

from wire.openai_server import Delta, fragment

QUESTION = "看看支付服务最近报错，顺便对照一下文档里的处理建议"
RESOURCE = '{"query":"支付服务"}'
DOCS = '{"query":"支付 5xx","top_k":2}'

S1: list[Delta] = [
    "我先同时查两边。",
    [fragment(0, "call_a", "search_resource", "")],
    [fragment(0, arguments='{"query":')],
    [fragment(1, "call_b", "search_docs", "")],
    [fragment(0, arguments='"支付服务"}')],
    [{"index": 1, "id": "", "function": {"name": "", "arguments": '{"query":"支付 5xx",'}}],
    [fragment(1, arguments='"top_k":2}')],
]

VARIANTS: dict[str, list[Delta]] = {
    "as it stands": S1,
    "index 1 first": [
        "我先同时查两边。",
        [fragment(1, "call_b", "search_docs", DOCS[:9])],
        [fragment(0, "call_a", "search_resource", RESOURCE[:5])],
        [fragment(1, arguments=DOCS[9:])],
        [fragment(0, arguments=RESOURCE[5:])],
    ],
    "indexes 1 and 2": [
        "我先同时查两边。",
        [fragment(1, "call_a", "search_resource", RESOURCE[:5])],
        [fragment(2, "call_b", "search_docs", DOCS[:9])],
        [fragment(1, arguments=RESOURCE[5:]), fragment(2, arguments=DOCS[9:])],
    ],
    "the name repeated in each chunk": [
        "我先同时查两边。",
        [fragment(0, "call_a", "search_resource", RESOURCE[:5])],
        [fragment(1, "call_b", "search_docs", DOCS[:9])],
        [fragment(1, None, "search_docs", DOCS[9:])],
        [fragment(0, None, "search_resource", RESOURCE[5:])],
    ],
    "ids in each chunk and no index": [
        "我先同时查两边。",
        [fragment(None, "call_a", "search_resource", RESOURCE[:5])],
        [fragment(None, "call_b", "search_docs", DOCS[:9])],
        [fragment(None, "call_a", None, RESOURCE[5:])],
        [fragment(None, "call_b", None, DOCS[9:])],
    ],
    "index 0 for all": [
        "我先同时查两边。",
        [fragment(0, "call_a", "search_resource", RESOURCE)],
        [fragment(0, "call_b", "search_docs", DOCS[:9])],
        [{"index": 0, "id": "null", "function": {"arguments": DOCS[9:]}}],
    ],
    "arguments as objects": [
        "我先同时查两边。",
        [fragment(0, "call_a", "search_resource", json.loads(RESOURCE))],
        [fragment(1, "call_b", "search_docs", json.loads(DOCS))],
    ],
    "a call without its function in between": [
        "我先同时查两边。",
        [fragment(0, "call_a", "search_resource", RESOURCE)],
        [{"index": 1, "id": "call_b", "function": None}],
        [fragment(1, None, "search_docs", DOCS)],
    ],
}

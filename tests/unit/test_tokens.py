"""What a message costs. The vocabularies themselves are not at hand here: their counts are written down below."""

import json
import subprocess
import sys
import threading
from typing import Any

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from adjourn.nodes import tokens
from adjourn.nodes.tokens import PER_BLOCK, PER_CALL, PER_MESSAGE, counter_for, estimate
from adjourn.nodes.wire_in import MOST_TOKENS, usage_of

PROSE = (
    "The payment service answers with errors since the last release. Look at the connection pool first: "
    "when every connection is taken, requests wait until they give up, and what the customer sees is a "
    "timeout. If the pool is healthy, compare the configuration with last week's and roll back what changed. "
    "Write down what you did and when, because the next person on call will want to know."
)
CHINESE = (
    "支付服务从上次发布以后一直报错。请先检查连接池:连接全部被占用时,请求会一直等待,直到放弃,"
    "用户看到的就是超时。如果连接池正常,就对比上周的配置,把改动过的部分回滚。"
    "请记录做了什么、什么时候做的,因为下一位值班的同事需要知道。"
)
MIXED = "服务 svc-pay-001 在 prod 环境的错误率是 12.5%,建议先执行 rollback,再看 connection_pool 的 max_size。"
ROWS = json.dumps(
    {
        "ok": True,
        "data": [
            {
                "id": f"svc-pay-{number:03}",
                "environment": "prod",
                "status": "degraded",
                "latency_ms": 37 * number,
                "ratio": round(number / 7, 4),
                "owner": "payments@example.com",
                "updated_at": f"2026-07-{number:02}T10:00:00Z",
                "tags": ["eu-west-1", "k8s"],
                "parent": None,
            }
            for number in range(1, 13)
        ],
    }
)
INDENTED = json.dumps(
    [
        {
            "name": "payment",
            "replicas": 3 * number,
            "ready": number % 2 == 0,
            "image": f"registry/payment:1.{number}.0",
            "labels": {"team": "billing", "tier": "backend"},
        }
        for number in range(12)
    ],
    indent=2,
)
CHINESE_ROWS = json.dumps(
    [
        {
            "服务": "支付服务",
            "状态": "异常",
            "说明": "上游连接超时,请检查连接池配置",
            "耗时毫秒": 97 * number,
        }
        for number in range(1, 13)
    ],
    ensure_ascii=False,
)
LOG = "\n".join(
    f"2026-07-12T10:{number:02}:{number * 7 % 60:02}.{number * 37 % 1000:03}Z ERROR [payment-{number % 9}] "
    f"trace={number * 0x9E3779B97F4A7C15 % 2**64:016x} upstream connect error to "
    f"10.0.{number}.{number * 11 % 256}:8443 after {number * 411}ms (attempt {number % 3 + 1}/3)"
    for number in range(1, 31)
)
TRACE = (
    "Traceback (most recent call last):\n"
    '  File "/srv/app/payment/client.py", line 214, in charge\n'
    "    response = self.session.post(url, json=body, timeout=5)\n"
    "requests.exceptions.ConnectTimeout: HTTPSConnectionPool(host='pay.internal', port=8443): "
    "Max retries exceeded\n"
)

# tokens in cl100k_base, o200k_base, and the vocabularies that Anthropic (2023) and DeepSeek (V3) have published
MEASURED = {
    "prose": (PROSE, (78, 77, 78, 78)),
    "chinese": (CHINESE, (113, 82, 96, 70)),
    "mixed": (MIXED, (35, 31, 34, 35)),
    "json": (ROWS, (1028, 1028, 1064, 1089)),
    "indented json": (INDENTED, (722, 722, 711, 770)),
    "chinese json": (CHINESE_ROWS, (507, 459, 477, 435)),
    "log": (LOG, (1778, 1779, 1734, 1785)),
    "trace": (TRACE, (62, 62, 71, 68)),
}


@pytest.fixture
def letters(monkeypatch):
    """A vocabulary of single bytes under the name of a model; tiktoken would fetch a real one from the network."""
    encoding = tiktoken.Encoding(
        name="letters",
        pat_str=r"\w+|\W",
        mergeable_ranks={bytes([byte]): byte for byte in range(256)},
        special_tokens={"<|end|>": 256},
    )
    tokenized = []

    class Watched:
        def encode_ordinary(self, text):
            tokenized.append(text)
            return encoding.encode_ordinary(text)

    known(monkeypatch, "letters", lambda _: Watched())
    return tokenized


def known(monkeypatch, vocabulary, load):
    """tiktoken knows every model, by this vocabulary. Give each test its own: what was loaded is remembered."""
    monkeypatch.setattr(tiktoken, "encoding_name_for_model", lambda _: vocabulary)
    monkeypatch.setattr(tiktoken, "get_encoding", load)
    tokens._loaded.cache_clear()
    tokens._counter.cache_clear()


@pytest.mark.parametrize("kind", MEASURED)
def test_c76_an_estimate_is_at_most_a_tenth_too_low_and_not_far_too_high(kind):
    text, measured = MEASURED[kind]
    assert 0.9 * max(measured) <= estimate(text) <= 1.5 * max(measured)


@given(st.text(st.characters()), st.text(st.characters()))
def test_c76_any_text_can_be_estimated_and_more_text_is_no_fewer_tokens(one, other):
    assert estimate("") == 0
    assert estimate(one) <= estimate(one + other) <= estimate(one) + estimate(other)


def test_c76_half_a_surrogate_pair_is_no_error():
    assert estimate("\ud83d") > 0


def test_c76_models_that_tiktoken_does_not_know_are_estimated():
    message = HumanMessage(PROSE)
    for name in (None, "", "claude-sonnet-4-5", "ScriptedModel"):
        assert counter_for(name)(message) == PER_MESSAGE + estimate(PROSE)


def test_c76_models_that_tiktoken_knows_are_counted_by_their_vocabulary(letters):
    count = counter_for("gpt-5")
    assert count(HumanMessage("hello")) == PER_MESSAGE + 5
    assert count(HumanMessage("<|end|>")) == PER_MESSAGE + 7  # a user's text, no special token
    assert counter_for("gpt-5-mini") is count


def test_c76_a_text_is_counted_once_also_when_its_message_is_loaded_again(letters):
    count = counter_for("gpt-5")
    for _ in range(3):
        count(HumanMessage("".join(["what ", "happened?"])))
    assert letters == ["what happened?"]


def test_c76_a_message_that_was_changed_in_place_is_counted_anew(letters):
    message = HumanMessage("hello")
    count = counter_for("gpt-5")
    before = count(message)
    message.content = "hello again"
    assert count(message) == before + 6


def test_c76_what_is_remembered_has_a_bound(letters, monkeypatch):
    monkeypatch.setattr(tokens, "REMEMBERED", 2)
    count = counter_for("gpt-5")
    assert [count(HumanMessage(text)) - PER_MESSAGE for text in ("a", "bb", "ccc", "a")] == [1, 2, 3, 1]
    assert letters == ["a", "bb", "ccc", "a"]


def test_c76_without_the_network_tokens_are_estimated_and_it_is_not_tried_again(monkeypatch):
    tried = []

    def offline(name):
        tried.append(name)
        raise ConnectionError("no route to host")

    known(monkeypatch, "offline", offline)
    for _ in range(2):
        assert counter_for("gpt-5")(HumanMessage(PROSE)) == PER_MESSAGE + estimate(PROSE)
    assert tried == ["offline"]


def test_c76_a_network_that_never_answers_does_not_hold_up_the_start(monkeypatch):
    answered = threading.Event()

    def silent(name):
        answered.wait(10)
        raise TimeoutError

    known(monkeypatch, "silent", silent)
    monkeypatch.setattr(tokens, "LOAD_S", 0.05)
    try:
        assert counter_for("gpt-5")(HumanMessage(PROSE)) == PER_MESSAGE + estimate(PROSE)
    finally:
        answered.set()


def test_c76_names_and_argument_texts_of_calls_count_as_the_model_sent_them(letters):
    raw = '{"q":   "x"'  # never parsed, and counted nevertheless
    invalid = {"name": "search", "args": raw, "id": "a", "error": "cut", "type": "invalid_tool_call"}
    sent = [{"id": "a", "type": "function", "function": {"name": "search", "arguments": raw}}]
    message = AIMessage("hm", invalid_tool_calls=[invalid], additional_kwargs={"tool_calls": sent})
    expected = PER_MESSAGE + 2 + PER_CALL + len("search") + len(raw)
    assert counter_for("gpt-5")(message) == expected


def test_c76_calls_that_stand_in_the_content_too_count_once(letters):
    blocks = [{"type": "text", "text": "hm"}, {"type": "tool_use", "id": "a", "name": "t", "input": {"q": 1}}]
    call = {"name": "t", "args": {"q": 1}, "id": "a", "type": "tool_call"}
    message = AIMessage(blocks, tool_calls=[call])
    assert counter_for("gpt-5")(message) == PER_MESSAGE + 2 + PER_CALL + 1 + len('{"q":1}')


def test_c76_content_that_is_no_text_has_a_flat_cost(letters):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9000}}
    thought = {"type": "thinking", "thinking": "so", "signature": "A" * 900}
    message = ToolMessage(["raw", image, thought, {"type": "text", "text": "ab"}], tool_call_id="a")
    assert counter_for("gpt-5")(message) == PER_MESSAGE + 3 + PER_BLOCK + 2 + 2


def test_c76_tiktoken_is_imported_only_where_it_counts():
    code = "import sys, adjourn.nodes.trimming, adjourn.nodes.tokens; print('tiktoken' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_c76_what_goes_back_to_its_provider_is_counted() -> None:
    def said(*blocks: dict[str, Any]) -> AIMessage:
        return AIMessage("yes", additional_kwargs={"sent_as": {"origin": "a", "blocks": list(blocks)}})

    count = counter_for("claude-5")
    text = {"type": "text", "text": "yes"}
    plain = count(AIMessage("yes"))
    assert count(said(text, {"type": "tool_use", "id": "a"})) == plain
    thought = count(said(text, {"type": "thinking", "thinking": "hm " * 100, "signature": "x" * 500}))
    assert thought == plain + estimate("hm " * 100)
    found = {"type": "web_search_tool_result", "content": [{"title": "t" * 400}]}
    assert count(said(text, found)) > plain + 50


def test_a_report_beyond_all_reason_is_cut_to_what_can_be_stored() -> None:
    used = usage_of({"input_tokens": 2**70, "output_tokens": -3, "total_tokens": 0})
    assert used is not None
    assert (used.input_tokens, used.output_tokens) == (MOST_TOKENS, 0)

"""What goes back to its provider as it came (C-4, C-13)."""

import time
from typing import Any

import pytest

from adjourn.nodes.kept import FIELDS, Kept

SIGNED = {"type": "thinking", "thinking": "hm", "signature": "s"}


def kept(*blocks: dict[str, Any]) -> list[dict[str, Any]]:
    one = Kept()
    for block in blocks:
        one.add(block)
    return list(one.close())


def test_c13_text_and_calls_alone_keep_nothing() -> None:
    plain = [
        {"type": "text", "text": "a", "index": 0},
        {"type": "text", "text": "b", "index": 0},
        {"type": "tool_use", "id": "t", "name": "n", "input": {}, "index": 1},
        {"type": "input_json_delta", "partial_json": "{}", "index": 1},
        {"type": "function_call", "id": "fc_1", "call_id": "c", "arguments": "{}", "name": "n", "index": 2},
        {"type": "refusal", "refusal": "no"},
    ]
    assert kept(*plain) == []


def test_c13_pieces_of_a_block_are_joined_and_blocks_stay_in_order() -> None:
    assert kept(
        {"type": "thinking", "thinking": "h", "index": 0},
        {"type": "thinking", "thinking": "m", "index": 0},
        {"type": "thinking", "thinking": "", "signature": "s", "index": 0},
        {"type": "text", "text": "a", "index": 1},
        {"type": "tool_use", "id": "t", "name": "n", "input": {}, "index": 2},
        {"type": "text", "text": "b", "index": 3},
    ) == [
        SIGNED,
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "t"},
        {"type": "text", "text": "b"},
    ]


@pytest.mark.parametrize(
    ("block", "back"),
    [
        ({"type": "thinking", "thinking": "hm"}, None),
        ({"type": "text", "text": ""}, None),
        ({"type": "text", "text": "", "citations": []}, None),
        ({"type": "text", "text": "a", "citations": None}, {"type": "text", "text": "a"}),
        (
            {"type": "text", "text": "", "phase": "commentary"},
            {"type": "text", "text": "", "phase": "commentary"},
        ),
        ({"type": "tool_use", "id": "t", "name": "n", "caller": None}, {"type": "tool_use", "id": "t"}),
        (
            {"type": "tool_use", "id": "t", "name": "n", "caller": {"type": "code"}},
            {"type": "tool_use", "id": "t", "caller": {"type": "code"}},
        ),
        (
            {"type": "server_tool_use", "id": "s", "name": "n", "input": {"q": 1}},
            {"type": "server_tool_use", "id": "s", "name": "n", "input": {"q": 1}},
        ),
        (
            {"type": "server_tool_use", "id": "s", "name": "n", "input": {}, "partial_json": '{"q":'},
            {"type": "server_tool_use", "id": "s", "name": "n", "input": {}},
        ),
        ({"type": "tomorrow", "data": [1]}, {"type": "tomorrow", "data": [1]}),
    ],
)
def test_c13_each_kind_of_block_as_its_provider_takes_it_back(
    block: dict[str, Any], back: dict[str, Any] | None
) -> None:
    assert kept(SIGNED, block) == [SIGNED, *([] if back is None else [back])]


def test_c13_blocks_in_a_block_are_told_apart_by_their_own_index() -> None:
    def part(index: int, text: str) -> dict[str, Any]:
        return {"type": "summary_text", "text": text, "index": index}

    assert kept(
        {"type": "reasoning", "id": "rs", "summary": [], "index": 0},
        {"type": "reasoning", "summary": [part(0, "a")], "index": 0},
        {"type": "reasoning", "summary": [part(1, "x")], "index": 0},
        {"type": "reasoning", "summary": [part(0, "b")], "index": 0},
        {"type": "reasoning", "encrypted_content": "g", "summary": [], "index": 0},
    ) == [
        {
            "type": "reasoning",
            "id": "rs",
            "encrypted_content": "g",
            "summary": [{"type": "summary_text", "text": "ab"}, {"type": "summary_text", "text": "x"}],
        }
    ]


def test_c13_fields_of_a_message_are_a_block_too() -> None:
    assert kept(
        {"type": FIELDS, "index": FIELDS, "reasoning_content": "a"},
        {"type": FIELDS, "index": FIELDS, "reasoning_content": "b"},
    ) == [{"type": FIELDS, "reasoning_content": "ab"}]


def test_c4_keeping_costs_linear_time() -> None:
    def took(pieces: int) -> float:
        one = Kept()
        began = time.process_time()
        for _ in range(pieces):
            one.add({"type": "thinking", "thinking": "abcd", "index": 0})
        one.close()
        return time.process_time() - began

    took(1_000)
    assert min(took(40_000) for _ in range(3)) <= 6 * min(took(10_000) for _ in range(3)) + 0.01

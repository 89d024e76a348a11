"""Ids of calls on the wire: changed only where a service needs it, and with their answers (C-13)."""

from dataclasses import replace

import pytest

from adjourn.nodes.providers import PROVIDERS, UNKNOWN
from adjourn.nodes.wire_ids import Ids

ANTHROPIC = PROVIDERS["langchain_anthropic"]
OPENAI = replace(PROVIDERS["langchain_openai"], id_length=40)


@pytest.mark.parametrize("provider", [UNKNOWN, PROVIDERS["langchain_openai"]])
def test_c13_most_services_take_any_id(provider: object) -> None:
    ids = Ids(provider)  # type: ignore[arg-type]
    assert ids.asked(["a b", "搜", "x" * 200]) == ["a b", "搜", "x" * 200]
    assert ids.asked(["a b"]) == ["a b"]


def test_c13_a_fitting_id_stays_and_others_get_one_that_does() -> None:
    ids = Ids(ANTHROPIC)
    fine, odd = ids.asked(["toolu_01-A", "functions.search:0"])
    assert fine == "toolu_01-A"
    assert ids.answered("functions.search:0") == odd != "functions.search:0"
    assert odd.replace("_", "").isalnum()


def test_c13_an_id_that_returns_in_a_later_turn_is_another_call() -> None:
    ids = Ids(ANTHROPIC)
    first = ids.asked(["call_0"])
    assert ids.answered("call_0") == first[0] == "call_0"
    second = ids.asked(["call_0"])
    assert ids.answered("call_0") == second[0] != "call_0"
    assert ids.asked(["call_0"]) not in (first, second)


def test_c13_the_same_history_gets_the_same_ids_in_every_request() -> None:
    turns = [["call_0", "a.b"], ["call_0"], ["a.b"]]
    assert [Ids(ANTHROPIC).asked(turn) for turn in turns[:1]] == [
        Ids(ANTHROPIC).asked(turn) for turn in turns[:1]
    ]
    one, two = Ids(ANTHROPIC), Ids(ANTHROPIC)
    assert [one.asked(turn) for turn in turns] == [two.asked(turn) for turn in [*turns]]


def test_c13_openais_own_service_takes_forty_characters() -> None:
    ids = Ids(OPENAI)
    long = "chatcmpl-tool-040af537f3e14bd6986646facde02ce3"
    (mapped,) = ids.asked([long])
    assert len(mapped) <= 40
    assert ids.answered(long) == mapped
    assert ids.asked(["functions.x:0"]) == ["functions.x:0"]

"""The evidence gate (C-56), prices (C-53), languages (C-57), errors of models (C-58)."""

import json

import pytest

from adjourn.checkpoints.errors import UsageError
from adjourn.graph import Limits
from adjourn.nodes import add_language, texts
from adjourn.nodes.assembly import Usage
from adjourn.nodes.counters import new_counters
from adjourn.nodes.evidence import Evidence, brings
from adjourn.nodes.model_errors import ATTEMPTS, BACKOFF_S, is_transient, wait_before_s
from adjourn.nodes.spending import Price, check_prices, cost_of, spend
from adjourn.nodes.texts import language_of, say


def test_c56_all_of_a_list_and_any_of_a_list():
    gate = Evidence(all_of=["a", "b"], any_of=("c", "d"))
    assert gate.missing([], "en") == "a, b, one of c, d"
    assert gate.missing(["a", "c"], "en") == "b"
    assert gate.missing(["a", "b"], "zh") == "c, d 之一"
    assert gate.missing(["a", "b", "d"], "en") is None


@pytest.mark.parametrize("given", [{}, {"all_of": "abc"}, {"any_of": [1]}])
def test_c56_a_gate_that_names_no_tools_is_refused(given):
    with pytest.raises(UsageError):
        Evidence(**given)


def test_c56_a_gate_that_nothing_could_pass_is_refused():
    with pytest.raises(UsageError, match="moon"):
        Evidence(any_of=["moon"]).check({"sun": 1})


@pytest.mark.parametrize("data", [None, "", [], {}])
def test_c56_an_empty_result_is_no_evidence(data):
    assert not brings(json.dumps({"ok": True, "data": data}), None)


def test_c56_zero_and_false_are_evidence_and_a_tool_may_say_more():
    for data in (0, False, [0], "0"):
        assert brings(json.dumps({"ok": True, "data": data}), None)
    nothing = json.dumps({"ok": True, "data": {"total": 0, "hits": []}})
    assert brings(nothing, None)
    assert not brings(nothing, lambda data: not data["hits"])
    assert not brings(nothing, lambda data: data["moon"])  # it raises: it vouches for nothing


def test_c53_a_turn_costs_what_the_price_table_says():
    price = Price(input=2.0, output=10.0, cached=0.5)
    usage = Usage(input_tokens=1_000, output_tokens=100, cached_tokens=400, reasoning_tokens=50)
    assert price.of(usage) == pytest.approx((600 * 2.0 + 400 * 0.5 + 100 * 10.0) / 1e6)
    assert Price(2.0, 10.0).of(usage) == pytest.approx((1_000 * 2.0 + 100 * 10.0) / 1e6)
    prices = {"gpt": price}
    assert cost_of(usage, ("gpt-2026-01-01", "gpt"), prices) == price.of(usage)
    assert cost_of(usage, (None, "other"), prices) == 0.0
    assert cost_of(None, ("gpt",), prices) == 0.0
    counters = new_counters()
    spend(counters, usage, 0.5)
    spend(counters, None, 0.25)
    assert (counters["input_tokens"], counters["output_tokens"], counters["cost"]) == (1_000, 100, 0.75)


def test_c53_a_limit_of_cost_needs_the_prices():
    check_prices(Limits(), ["gpt"], {})
    check_prices(Limits(max_cost=1.0), ["gpt"], {"gpt": Price(1, 1)})
    with pytest.raises(UsageError, match="mini"):
        check_prices(Limits(max_cost=1.0), ["gpt", "mini"], {"gpt": Price(1, 1)})


@pytest.fixture
def french():
    """A language that was added, and is gone afterwards."""
    add_language("fr", {"stop.timeout": "Le temps est écoulé."}, used_for=lambda text: "bonjour" in text)
    yield
    texts.LANGUAGES[:] = [one for one in texts.LANGUAGES if one[0] != "fr"]
    for one in texts.TEXTS.values():
        one.pop("fr", None)


def test_c57_another_language_by_a_setting(french):
    assert language_of("bonjour 你好") == "fr"
    assert language_of("你好") == "zh"
    assert say("stop.timeout", "fr") == "Le temps est écoulé."
    assert say("stop.nothing", "fr") == say("stop.nothing", "en")
    add_language("fr", {"stop.timeout": "C'est fini."}, used_for=lambda text: text == "salut")
    assert (language_of("bonjour"), language_of("salut")) == ("en", "fr")
    assert say("stop.timeout", "fr") == "C'est fini."


@pytest.mark.parametrize("given", [{"moon": "x"}, {"stop.found": "{moon}"}, {"stop.found": "{found"}])
def test_c57_a_language_that_does_not_fit_is_refused_and_changes_nothing(given):
    with pytest.raises(UsageError):
        add_language("xx", {"stop.timeout": "x", **given}, used_for=bool)
    assert not any("xx" in one for one in texts.TEXTS.values())
    assert [one for one, _ in texts.LANGUAGES] == ["zh"]


class Status(Exception):
    """An exception of an HTTP client."""

    def __init__(self, status, headers=None):
        super().__init__(str(status))
        self.status_code = status
        self.response = type("Response", (), {"headers": headers or {}})()


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_c58_these_are_asked_again(status):
    assert is_transient(Status(status))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_c58_others_are_not(status):
    assert not is_transient(Status(status))
    assert not is_transient(ValueError("the request makes no sense"))


def test_c58_network_errors_are_asked_again():
    for error in (ConnectionResetError(), TimeoutError(), ConnectionError()):
        assert is_transient(error)


def test_c58_back_off_grows_has_jitter_and_an_end():
    waits = [{wait_before_s(Status(500), made, None) for _ in range(50)} for made in (1, 2)]
    assert all(len(one) > 10 for one in waits)
    for place, one in enumerate(waits):
        assert BACKOFF_S * 2**place * 0.5 <= min(one) <= max(one) <= BACKOFF_S * 2**place * 1.5
    assert wait_before_s(Status(500), ATTEMPTS, None) is None


def test_c58_retry_after_is_respected_within_the_time_of_the_run():
    error = Status(429, {"Retry-After": "7"})
    assert wait_before_s(error, 1, None) == 7.0
    assert wait_before_s(error, 1, 8.0) == 7.0
    assert wait_before_s(error, 1, 7.0) is None
    assert wait_before_s(Status(500), 1, 0.01) is None
    assert wait_before_s(Status(429, {"Retry-After": "inf"}), 1, None) < 1.0  # no number of seconds


def test_c53_input_that_the_provider_keeps_for_later_has_its_own_price() -> None:
    usage = Usage(input_tokens=1_000, output_tokens=100, cached_tokens=400, cache_write_tokens=200)
    assert Price(3, 15, cached=0.3, cache_write=3.75).of(usage) == pytest.approx(
        (400 * 3 + 400 * 0.3 + 200 * 3.75 + 100 * 15) / 1_000_000
    )
    assert Price(3, 15).of(usage) == pytest.approx((1_000 * 3 + 100 * 15) / 1_000_000)

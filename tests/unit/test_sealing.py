"""Secrets and digests without and with their keys (C-73)."""

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.checkpoints.errors import KeyLost, UsageError
from adjourn.checkpoints.sealed import SEAL, hidden, is_sealed
from adjourn.nodes.masking import Masker
from adjourn.nodes.sealing import DIGEST_LENGTH, Keyring, forms

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda one: st.lists(one) | st.dictionaries(st.text(), one),
)


def ring(*keys):
    return Keyring(keys or [Keyring.new_key()])


@given(JSON)
def test_c73_what_is_sealed_opens_to_what_it_was(value):
    keys = ring()
    sealed = keys.seal(value)
    assert is_sealed(sealed)
    assert keys.open(sealed) == value
    assert sealed != keys.seal(value)  # not even that two are the same can be told


def test_c73_a_wrong_key_is_one_clear_sentence():
    sealed = ring().seal("hunter2")
    for keys in (ring(), Keyring()):
        with pytest.raises(KeyLost, match="ADJOURN_KEY"):
            keys.open(sealed)
    with pytest.raises(KeyLost):
        ring().open(SEAL + "no token")
    with pytest.raises(KeyLost):
        Keyring().seal("hunter2")


def test_c73_keys_rotate():
    old, new = Keyring.new_key(), Keyring.new_key()
    before, after = ring(old), ring(new, old)
    assert after.open(before.seal("x")) == "x"
    with pytest.raises(KeyLost):
        before.open(after.seal("x"))
    assert Keyring.of(f" {new} , {old},").open(before.seal("x")) == "x"
    assert before.digest("t", {"a": 1}) in after.digests("t", {"a": 1})


@pytest.mark.parametrize("key", ["short", "x" * 44, "é" * 44, "a b"])
def test_c73_what_is_no_key_is_refused_with_how_to_make_one(key):
    with pytest.raises(UsageError, match="generate_key"):
        Keyring.of(key)


def test_c73_a_digest_needs_its_key():
    first, second = ring(), ring()
    arguments = {"phone": "13800138000", "n": 1}
    assert first.digest("t", arguments) == first.digest("t", {"n": 1, "phone": "13800138000"})
    assert len({one.digest("t", arguments) for one in (first, second, Keyring())}) == 3
    assert len(first.digest("t", arguments)) == DIGEST_LENGTH == len(Keyring().digest("t", None))
    assert first.digest("t", arguments) != first.digest("u", arguments)
    assert first.knows(first.digest("t", None))
    assert first.knows(Keyring().digest("t", None))
    assert not second.knows(first.digest("t", None))


def test_c73_a_digest_is_of_the_value_and_not_of_its_sealed_form():
    keys = ring()
    calls = [{"user": "u", "password": keys.seal(word)} for word in ("a", "a", "b")]
    first, again, other = (keys.digest("login", one) for one in calls)
    assert first == again != other
    assert ring().digest("login", calls[0])  # of a lost key: no error, another digest
    assert keys.digest("t", {"x": SEAL + "made up by a model"})


def test_c73_what_is_shown_of_a_secret():
    keys = ring()
    assert hidden({"user": "u", "password": keys.seal("x")}) == {"user": "u", "password": "[secret]"}
    opened = keys.opened({"user": "u", "password": keys.seal("x")}, ("password",))
    assert opened == {"user": "u", "password": "x"}
    assert keys.opened({"user": SEAL + "x"}, ("password",)) == {"user": SEAL + "x"}


@given(st.text(min_size=4, max_size=20), st.text(max_size=10), st.text(max_size=10))
def test_c73_a_secret_is_found_in_every_form_that_a_text_gives_it(secret, before, after):
    masker = Masker(()).hiding(forms([secret]))
    for form in (secret, repr(secret), json.dumps(secret), quote(secret, safe="")):
        assert masker.text(before + form + after) != before + form + after
    assert secret not in masker.text(f"{before}{secret}{after}") or secret in "[secret]"


def test_c73_a_secret_is_hidden_in_data_as_well():
    masker = Masker(()).hiding(forms(["hunter22", 48151623, {"deep": ["other-word"]}]))
    shown = masker.data(
        {"a": "is hunter22!", "n": 48151623, "m": 48151624, "l": ["other-word"], "hunter22": 1}
    )
    assert shown == {"a": "is [secret]!", "n": "[secret]", "m": 48151624, "l": ["[secret]"], "[secret]": 1}
    # too short: it would be everywhere
    assert Masker(()).hiding(forms(["abc", 12])).text("abc 12") == "abc 12"

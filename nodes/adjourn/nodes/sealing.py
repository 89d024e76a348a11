"""What is stored of a secret parameter, and of the digest of a call: nothing that can be read without the key (C-73). Pure.

A sealed value is text, so that it goes through states, rows and JSON like any other; only its tool gets it open.
"""

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from adjourn.checkpoints.errors import KeyLost, UsageError
from adjourn.checkpoints.sealed import SEAL, is_sealed

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

# Characters, as many as the column has: six of the key's name, a colon, and 25 (100 bits) of the digest.
DIGEST_LENGTH = 32
_NAME_LENGTH = 6
_HOW_TO_MAKE = (
    "make one with: python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"
)


_in_order = json.JSONEncoder(sort_keys=True, ensure_ascii=True).encode  # made once


class Keyring:
    """The keys of a store: the first one seals, each one opens. Fernet keys: 32 bytes as URL-safe base64.

    Without any key nothing can be sealed, and digests are plain SHA-256: whoever reads the table could test
    guesses against them. Raises `UsageError` for what is no key.
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._keys = [_raw(key) for key in keys]
        self._words = [base64.urlsafe_b64encode(key) for key in self._keys]
        # a key of its own for digests, so that they tell nothing about the one that seals; by its name
        self._digesting = {
            hmac.digest(key, b"adjourn key name 1", "sha256").hex()[:_NAME_LENGTH]: hmac.digest(
                key, b"adjourn digest 1", "sha256"
            )
            for key in self._keys
        }

    @classmethod
    def of(cls, keys: str | Sequence[str]) -> "Keyring":
        """Keys as a setting gives them: a list, or text with commas between them."""
        given = keys.split(",") if isinstance(keys, str) else keys
        return cls([key.strip() for key in given if key.strip()])

    @staticmethod
    def new_key() -> str:
        """A key that nobody else has."""
        return base64.urlsafe_b64encode(os.urandom(32)).decode()  # Fernet's, without its import

    def __bool__(self) -> bool:
        return bool(self._keys)

    @cached_property
    def _fernet(self) -> "MultiFernet":
        # imported where the first secret is sealed: most runs have none
        from cryptography.fernet import Fernet, MultiFernet

        return MultiFernet([Fernet(key) for key in self._words])

    def seal(self, value: Any) -> str:
        """JSON data as sealed text. Raises `KeyLost` without a key."""
        if not self._keys:
            raise KeyLost()
        return SEAL + self._fernet.encrypt(json.dumps(value).encode()).decode()

    def open(self, text: str) -> Any:
        """What was sealed. Raises `KeyLost` when none of the keys opens it."""
        from cryptography.fernet import InvalidToken

        if not self._keys:
            raise KeyLost()
        try:
            return json.loads(self._fernet.decrypt(text.removeprefix(SEAL).encode()))
        except (InvalidToken, ValueError) as error:
            raise KeyLost() from error

    def sealed(self, answer: Mapping[str, Any], secret: Collection[str]) -> dict[str, Any]:
        """An answer as it is stored: the values of secret parameters sealed."""
        return {name: self.seal(value) if name in secret else value for name, value in answer.items()}

    def opened(self, arguments: Mapping[str, Any], secret: Collection[str]) -> dict[str, Any]:
        """Arguments as their tool gets them. Raises `KeyLost`."""
        return {
            name: self.open(value) if name in secret and is_sealed(value) else value
            for name, value in arguments.items()
        }

    # -- digests

    def digest(self, name: str, arguments: Mapping[str, Any] | None) -> str:
        """The same for two calls of one tool with the same arguments, whatever the order of their keys (C-54)."""
        return next(self._digests(name, arguments))

    def digests(self, name: str, arguments: Mapping[str, Any] | None) -> list[str]:
        """The digest under each key, the newest first, and at last the one without a key."""
        return list(self._digests(name, arguments))

    def _digests(self, name: str, arguments: Mapping[str, Any] | None) -> Iterator[str]:
        same = _in_order([name, self._stable(arguments)]).encode()
        for of, key in self._digesting.items():
            yield f"{of}:{hmac.digest(key, same, 'sha256').hex()[: DIGEST_LENGTH - _NAME_LENGTH - 1]}"
        yield hashlib.sha256(same).hexdigest()[:DIGEST_LENGTH]

    def _stable(self, arguments: Mapping[str, Any] | None) -> Any:
        # sealing twice gives two texts: the digest is of what was sealed
        return arguments and {name: self._opened(value) for name, value in arguments.items()}

    def _opened(self, value: Any) -> Any:
        try:
            return self.open(value) if is_sealed(value) else value
        except KeyLost:
            return value

    def knows(self, digest: str) -> bool:
        """Whether a stored digest was made without a key or with one of these: else nothing can be told from it."""
        name, colon, _ = digest.partition(":")
        return not colon or name in self._digesting


def _raw(key: str) -> bytes:
    try:
        raw = base64.urlsafe_b64decode(key.encode())
    except (ValueError, AttributeError):
        raw = b""
    if len(raw) != 32:
        raise UsageError(
            f"a key is 32 bytes as URL-safe base64, several with commas between them; {_HOW_TO_MAKE}"
        )
    return raw


# -- the plain value in texts


def forms(values: Iterable[Any]) -> list[str]:
    """How open secrets may stand in a text, longest first: as they are, in JSON, in a repr, in a URL, in base64.

    Of data with a structure each text and number counts; what has fewer than four characters is left out, since
    it would be found everywhere.
    """
    texts = {text for value in values for text in _texts(value) if len(text) >= SHORTEST}
    found: set[str] = set()
    for text in texts:
        found |= {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
        found |= {
            quote(text),
            quote(text, safe=""),
            base64.b64encode(text.encode("utf-8", "replace")).decode(),
        }
    return sorted(found, key=len, reverse=True)


SHORTEST = 4


def _texts(value: Any) -> Iterable[str]:
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            todo += one
        elif isinstance(one, str):
            yield one
        elif isinstance(one, int | float) and not isinstance(one, bool):
            yield str(one)

"""Who calls: a person by a bearer token, or, on loopback without tokens, the one person of this machine."""

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from adjourn.checkpoints.errors import UsageError
from adjourn.graph.server.problems import Refused

SHORTEST_TOKEN = 16  # characters: what is shorter can be guessed in the time that a rate limit leaves
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_LINE = re.compile(r"^(?P<person>[^:#\s][^:]*?)\s*:\s*(?P<token>\S+)$")


@dataclass(frozen=True, slots=True)
class Caller:
    """One person. `sees_all`: there are no tokens, and whoever reaches this machine's loopback sees every run."""

    name: str | None
    sees_all: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """Who may come in. `tokens`: SHA-256 of a token (hex) -> person; empty: nobody needs one.

    `person` is who calls where no token is needed. `hosts` are the names under which the server may be called, without
    port; empty: any, which needs tokens. `origins` are those of them under which a proxy shows the page.
    """

    tokens: Mapping[str, str] = field(default_factory=dict)
    person: str | None = None
    hosts: frozenset[str] = _LOCAL_NAMES
    origins: frozenset[str] = frozenset()

    def caller(self, authorization: str | None) -> Caller:
        """The person that a header `Authorization: Bearer TOKEN` names. Raises `Refused` (401)."""
        if not self.tokens:
            return Caller(self.person, sees_all=True)
        word, _, token = (authorization or "").partition(" ")
        if word.lower() != "bearer" or not token:
            raise _unauthorized("this server wants a token: send it as `Authorization: Bearer TOKEN`")
        found = None
        given = digest(token.strip())
        for known, person in self.tokens.items():  # each is compared, so that time tells nothing
            if hmac.compare_digest(known, given):
                found = person
        if found is None:
            raise _unauthorized("this token is not known here; ask whoever runs the server for one")
        return Caller(found)


def _unauthorized(detail: str) -> Refused:
    return Refused(401, "unauthorized", detail, {"WWW-Authenticate": "Bearer"})


def digest(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def read_tokens(text: str, place: str) -> Mapping[str, str]:
    """Tokens from text: `person: token` on each line, or `person: sha256:HEX`; `#` begins a comment.

    `place` names where the text stands, for errors. Raises `UsageError` for a line that is none, a token that
    is too short, or one that two people have.
    """
    tokens: dict[str, str] = {}
    for number, line in enumerate(re.split(r"[\n,]", text), start=1):
        words = line.split(" #")[0].strip()
        if not words or words.startswith("#"):
            continue
        found = _LINE.match(words)
        if found is None:
            raise UsageError(f"{place}, entry {number}: write it as `person: token`")
        key = _key(found["token"], f"{place}, entry {number} ({found['person']})")
        if tokens.setdefault(key, found["person"]) != found["person"]:
            raise UsageError(f"{place}: {tokens[key]} and {found['person']} have the same token")
    if not tokens:
        raise UsageError(f"{place} holds no token; write one line for each person: `person: token`")
    return tokens


def _key(token: str, place: str) -> str:
    if token.startswith("sha256:"):
        key = token.removeprefix("sha256:").lower()
        if not re.fullmatch(r"[0-9a-f]{64}", key):
            raise UsageError(f"{place}: after sha256: stand 64 hexadecimal digits")
        return key
    if len(token) < SHORTEST_TOKEN:
        raise UsageError(f"{place}: a token has at least {SHORTEST_TOKEN} characters")
    return digest(token)


def tokens_of_file(file: str) -> Mapping[str, str]:
    """The tokens of a file. Raises `UsageError` when it cannot be read."""
    try:
        return read_tokens(Path(file).read_text(encoding="utf-8"), file)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the tokens in {file} cannot be read: {error}") from error


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens at `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def access_for(
    host: str, *, tokens: Mapping[str, str], person: str | None, names: tuple[str, ...] = ()
) -> Access:
    """Who may come in at a server that listens at `host`. `names`: further names that it is called by.

    Raises `UsageError` for a host that others can reach, without tokens.
    """
    if not is_loopback(host):
        if not tokens:
            raise UsageError(
                f"others can reach {host}, so callers need tokens: name a file with --tokens, "
                f"or set ADJOURN_TOKENS; or listen on 127.0.0.1"
            )
        return Access(tokens, person, frozenset(names), frozenset(names))
    bracketed = f"[{host.strip('[]')}]" if ":" in host else host
    return Access(tokens, person, _LOCAL_NAMES | {bracketed} | set(names), frozenset(names))

"""The keys of a store: from a setting, from `ADJOURN_KEY`, or from the file beside a SQLite database.

They seal what people fill into secret parameters, and key the digests of calls (C-73). Whoever has the database
and not the key learns neither.
"""

import logging
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from weakref import WeakKeyDictionary

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import KeyLost, StoreError, UsageError
from adjourn.graph.graph_parts import Graph, tools_of
from adjourn.graph.specialists import specialists_of
from adjourn.nodes.sealing import Keyring

VARIABLE = "ADJOURN_KEY"

log = logging.getLogger("adjourn.run")

# The keys of databases in memory; they go with them.
_IN_MEMORY: WeakKeyDictionary[Database, str] = WeakKeyDictionary()


def keyring_of(database: Database, given: str | Sequence[str] | None, secret: Sequence[str]) -> Keyring:
    """The keys of this store: those that are given, else those of the environment, else those of its key file.

    The key file is made with the first run, for its owner alone. A database in memory has a key that nobody
    keeps. On a server there is no place beside the database: `secret` names the tools that need a key there.
    Raises `UsageError` when they have none, or for what is no key; `StoreError` when the file cannot be made.
    """
    keys = given if given is not None else os.environ.get(VARIABLE, "")
    ring = Keyring.of(keys)
    if ring:
        return ring
    if database.in_memory:
        return Keyring([_IN_MEMORY.setdefault(database, Keyring.new_key())])
    if database.is_sqlite:
        return _of_file(key_file(database))
    if secret:
        raise UsageError(
            f"{', '.join(secret)} takes a secret parameter, which is stored encrypted: set {VARIABLE}, the same for "
            "every process of this store; make a key with: "
            "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"
        )
    return ring


def tools_with_secrets(graph: Graph) -> list[str]:
    """The names of the tools that take a secret, in a graph and in those of the specialists that it can reach."""
    below = specialists_of(graph)
    inner = (
        [] if below is None else [name for one in below.graphs.values() for name in tools_with_secrets(one)]
    )
    return [one.name for one in tools_of(graph).values() if one.secret] + inner


def has_key_file(database: Database, given: str | Sequence[str] | None) -> bool:
    """Whether the key of this store is the file beside it."""
    keys = given if given is not None else os.environ.get(VARIABLE)
    return database.is_sqlite and not database.in_memory and not keys


def check_openable(keyring: Keyring, run_id: str, held: Iterable[Mapping[str, Any]]) -> None:
    """Raise `KeyLost` when a secret among these values cannot be opened."""
    try:
        for values in held:
            keyring.opened(values, values.keys())
    except KeyLost as error:
        raise KeyLost(run_id) from error


def key_file(database: Database) -> Path:
    """Where the key of a SQLite database lies."""
    name = str(database.url.database).removeprefix("file:").partition("?")[0]  # SQLite takes URIs too
    return Path(f"{name}.key")


def _of_file(path: Path) -> Keyring:
    try:
        if not path.exists():
            _make(path)
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            log.warning(
                "the key file %s can be read by others; take that away with: chmod 600 %s", path, path
            )
        words = path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise StoreError(
            f"the key file {path} cannot be used: {error.strerror or error}; make its folder writable, or set {VARIABLE}"
        ) from error
    try:
        ring = Keyring.of(words.replace("\n", ","))
    except UsageError as error:
        raise UsageError(f"the key file {path} holds no key: {error}") from error
    if not ring:
        raise UsageError(
            f"the key file {path} is empty; put the key back, or take the file away to begin anew"
        )
    return ring


def _make(path: Path) -> None:
    """A new key file, whole or not at all; of two processes that make it at once, one does."""
    with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as made:  # mode 0600
        made.write(Keyring.new_key() + "\n")
        made.flush()
        os.fsync(made.fileno())
    try:
        os.link(made.name, path)
    except FileExistsError:
        pass
    finally:
        Path(made.name).unlink()

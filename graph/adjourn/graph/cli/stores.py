"""The database that `--store` names, opened for one command, with errors that say what to mend."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from adjourn.checkpoints.database import Database, advice
from adjourn.checkpoints.errors import StoredDataError, StoreError, UsageError
from adjourn.checkpoints.servers import shown_url
from adjourn.graph.cli.screen import clean, short, to_line
from adjourn.graph.cli.settings import Settings

T = TypeVar("T")


@contextmanager
def opened(url: str, *, create: bool = False) -> Iterator[Database]:
    """The database, closed afterwards. `create`: a SQLite file that is missing is made.

    Raises `UsageError` for a URL that leads nowhere, `StoreError` for a database that cannot be used.
    """
    database = _database(url)
    try:
        _check_file(database, create)
        with _told(url):
            database.setup()
            yield database
    finally:
        database.close()


def read(url: str, work: Callable[[Connection], T]) -> T:
    """What `work` reads from the database in one transaction."""
    with opened(url) as database:
        return database.read(work)


def read_current(url: str, work: Callable[[Connection], T]) -> T:
    """The same, after the questions whose time has passed were closed."""
    from adjourn.graph.expiring import sweep  # and with it all that knows rows, which not every command needs

    with opened(url) as database:
        sweep(database)
        return database.read(work)


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Errors of the database as one `StoreError` that names it."""
    try:
        yield
    except DBAPIError as error:
        what_to_do = advice(error.orig) if error.orig else ""
        raise StoreError(
            f"the database {shown_url(url)} cannot be used: {short(str(error.orig))}{what_to_do}"
        ) from error


def _database(url: str) -> Database:
    try:
        return Database(url)
    except StoreError as error:
        raise UsageError(f"--store: {error}") from error


def _check_file(database: Database, create: bool) -> None:
    if not database.is_sqlite or database.in_memory:
        return
    file = Path(database.url.database or "")
    if not create and not file.exists():
        raise UsageError(f"there is no database {file}; --store names one, `adjourn run` makes one")
    if not file.parent.is_dir():
        raise UsageError(f"there is no folder {file.parent} for the database {file.name}")


def tell_damaged(settings: Settings, damaged: Sequence[StoredDataError]) -> int:
    """Say on stderr which rows were left out of a list, and why. Gives the exit status: 4 where there are any."""
    for error in damaged:
        facts = {"error": type(error).__name__, **vars(error), "message": str(error)}
        print(to_line(facts) if settings.json else clean(f"adjourn: {error}"), file=sys.stderr)
    return StoredDataError.exit_status if damaged else 0

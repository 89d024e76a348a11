"""The list of migrations, oldest first.

A migration is a module `m0002_what_it_does.py` beside this one, named by the version that it leads to, with one
function `upgrade(connection)`. It says what changes in the tables and carries the rows over; views are no
concern of it: they are made anew after all migrations. Once released it is never changed: it says how the
tables were then, and does not use today's `schema.py`.

On SQLite and PostgreSQL all migrations of an opening are one transaction. MySQL and MariaDB commit each change of a
table by itself, and an opening that is cut off leaves a migration half done: the next opening runs that one again from its
beginning, those before it not. So each of its steps looks before it changes something: is the column there (`sa.inspect`)?
is the row as it was? Rows are changed in one statement that finds nothing to do the second time. `tests/store/test_cuts.py`
cuts every migration of the list behind each of its statements.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from adjourn.checkpoints.migrations import m0002_more_of_what_began_a_run


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: a database of `version - 1` becomes one of `version`."""

    version: int
    upgrade: Callable[[Connection], None]


MIGRATIONS: tuple[Migration, ...] = (Migration(2, m0002_more_of_what_began_a_run.upgrade),)

"""Statements that are compiled once and run by the driver.

SQLAlchemy's own way from a statement to its rows costs three times what a small SQLite statement itself takes.
Here it only writes the statement, once in each database's dialect; the values go to the driver apart from it (C-84).
"""

import functools
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from adjourn.checkpoints.servers import alone, begin, translated

Row = tuple[Any, ...]

Check = Callable[[], None]
"""To be called when all statements of a block were sent. Raises when one of them was sent on a wrong assumption, such as
that a row is there; the caller's transaction then rolls back."""

T = TypeVar("T")
Asked = Callable[[], T]
"""Called, gives what a query brings. Inside an `in_one_go` block the call waits for the database; after the block the
answer is there."""

ROWS_AT_ONCE = 100  # in one INSERT: PostgreSQL takes 65,535 values, and keeps a plan for each number of rows
# Rows that one joined statement may have to meet: PostgreSQL brings 1,664 columns at most, and many cost more than they save.
MOST_MET = 32


class Statement:
    """A statement with named values. Values are text, numbers, bytes or None: nothing is converted.

    `build` gives the statement for a dialect's name, since inserts that meet an existing row are said
    differently by each database. Every method raises SQLAlchemy's errors (`IntegrityError` ...).
    """

    def __init__(self, build: Callable[[str], sa.ClauseElement]) -> None:
        self._build = build
        self._compiled: dict[str, _Compiled] = {}

    def rows(self, connection: Connection, values: Mapping[str, Any]) -> list[Row]:
        """All rows of a query."""
        return self.ask_rows(connection, values)()

    def mappings(self, connection: Connection, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """All rows of a query, each by the names of its columns."""
        return self.ask(connection, values)()

    def ask(self, connection: Connection, values: Mapping[str, Any]) -> Asked[list[dict[str, Any]]]:
        """`mappings`, sent now and read when the result is called: so that several queries go together (`in_one_go`)."""
        asked, names = self.ask_rows(connection, values), self._for(connection).names
        return lambda: [dict(zip(names, row, strict=True)) for row in asked()]

    def ask_rows(self, connection: Connection, values: Mapping[str, Any]) -> Asked[list[Row]]:
        """`rows`, sent now and read when the result is called."""
        compiled = self._for(connection)
        together = _together(connection) if compiled.is_collected else None
        if together:
            together.go(connection)
        cursor = _cursor(connection, compiled)
        try:
            cursor.execute(compiled.text, compiled.in_order(values))
            if together is None:  # SQLite looks for a row when it is fetched: later changes would be in it
                found = list(cursor.fetchall())
                return lambda: found
        except Exception as error:
            raise translated(connection, compiled.text, error) from error

        def fetched() -> list[Row]:
            try:
                return list(cursor.fetchall())
            except Exception as error:
                raise translated(connection, compiled.text, error) from error

        return fetched

    def first(self, connection: Connection, values: Mapping[str, Any]) -> Row | None:
        """The first row of a query; None without one."""
        rows = self.rows(connection, values)
        return rows[0] if rows else None

    def value(self, connection: Connection, values: Mapping[str, Any]) -> Any:
        """The first column of the first row of a query; None without one."""
        row = self.first(connection, values)
        return row[0] if row else None

    def change(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """Insert, update or delete; how many rows were met."""
        return self.send(connection, values)()

    def send(self, connection: Connection, values: Mapping[str, Any]) -> Callable[[], int]:
        """`change`, sent without waiting: the result gives the count, once the statements of the block are through."""
        compiled = self._for(connection)
        return _send(compiled, compiled.in_order(values), connection)

    def meet(
        self, connection: Connection, values: Mapping[str, Any], or_else: Check, *, row: str = ""
    ) -> Check:
        """Update a row that must be there, or look that it is (a SELECT). The check calls `or_else`, which raises, when
        there was none.

        In a block that ends the transaction (`in_one_go`), the check comes too late and does nothing: the database itself
        refuses the transaction there, with an error that `met_nothing` knows. `row` tells rows of one table apart when a
        block meets several.
        """
        compiled = self._for(connection)
        if compiled.is_collected and (together := _together(connection)) and together.ends:
            together.meets(compiled, compiled.in_order(values), row, connection)
            return _was_met
        if not compiled.table:
            asked = self.ask_rows(connection, values)
            return lambda: None if asked() else or_else()
        count = _send(compiled, compiled.in_order(values), connection)
        return lambda: None if count() > 0 else or_else()

    def insert_one(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """Insert a row that the database numbers; its number. Drivers tell it, psycopg where it is asked for."""
        compiled = self._for(connection)
        cursor = _cursor(connection, compiled)
        try:
            cursor.execute(compiled.text, compiled.in_order(values))
            return int(cursor.fetchone()[0] if connection.dialect.name == "postgresql" else cursor.lastrowid)
        except Exception as error:
            raise translated(connection, compiled.text, error) from error

    def change_many(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert, update or delete once per row; no row, no statement."""
        compiled = self._for(connection)
        self._change_rows(connection, compiled, list(map(compiled.in_order, rows)))

    def insert_rows(self, connection: Connection, rows: Sequence[Row]) -> None:
        """`change_many`, for an INSERT of rows whose values stand in the order of the table's columns."""
        self._change_rows(connection, self._for(connection), rows)

    def _change_rows(self, connection: Connection, compiled: "_Compiled", given: Sequence[Row]) -> None:
        if len(given) <= 1:  # drivers prepare for many, which takes longer than one
            for row in given:
                _send(compiled, row, connection)
            return
        together = _together(connection) if compiled.is_collected else None
        if together and together.takes(compiled, given, connection):
            return
        cursor = _cursor(connection, compiled)
        try:
            if compiled.of_rows is None:
                cursor.executemany(compiled.text, given)
                return
            for start in range(0, len(given), ROWS_AT_ONCE):
                some = given[start : start + ROWS_AT_ONCE]
                text = _joined((), ((compiled, len(some)),))
                cursor.execute(text, list(itertools.chain.from_iterable(some)))
        except Exception as error:
            raise translated(connection, compiled.text, error) from error

    def _for(self, connection: Connection) -> "_Compiled":
        dialect = connection.dialect
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = _compile(self._build(dialect.name), dialect)
        return compiled


def _send(compiled: "_Compiled", row: Row, connection: Connection) -> Callable[[], int]:
    if compiled.is_collected and (together := _together(connection)):
        if together.takes(compiled, [row], connection):
            return _not_counted
        together.ends = False  # its count may be looked at: before COMMIT
    cursor = _cursor(connection, compiled)
    try:
        cursor.execute(compiled.text, row)
    except Exception as error:
        raise translated(connection, compiled.text, error) from error
    return lambda: int(cursor.rowcount)


def word(state: StrEnum) -> sa.ColumnElement[str]:
    """One of our own words, written into the statement in place of a parameter, so that a prepared statement can use a
    partial index."""
    return sa.literal_column(f"'{state.value}'")


def kept(connection: Connection) -> AbstractContextManager[object]:
    """Let the transaction go on after an error in the block. On PostgreSQL that takes a savepoint, since it accepts
    nothing more after an error; the others undo the failed statement alone."""
    return connection.begin_nested() if connection.dialect.name == "postgresql" else nullcontext()


_ONE_BY_ONE: AbstractContextManager[None] = nullcontext()


def in_one_go(connection: Connection, *, ends: bool = False) -> AbstractContextManager[None]:
    """Send the statements of the block without waiting for each one's answer, where the driver can.

    Inside the block `change` knows no count. The count of `send` (of updates and deletes) and the rows of `ask` are known
    after it. Inserts are kept back and sent last, as one statement, except where another statement of the block needs
    their table. An error of one statement may be raised at a later one, or at the end of the block.

    `ends`: COMMIT is sent along, and takes effect if every `Statement.meet` of the block met its row. For a block after
    which the transaction reads and writes nothing more.
    """
    dialect: Any = connection.dialect
    if dialect.driver != "psycopg" or not dialect.loaded_dbapi.Pipeline.is_supported():  # libpq before 14
        return _ONE_BY_ONE
    return _pipelined(connection, ends=ends)


@contextmanager
def _pipelined(connection: Connection, *, ends: bool) -> Iterator[None]:
    driver: Any = connection.dialect.loaded_dbapi
    info = connection.info  # it cannot be asked for any more when the connection is lost
    try:
        with ExitStack() as opened:
            info[_TOGETHER] = together = _Together(ends, opened)
            if not ends:
                together.go_on(connection)
            yield
            together.end(connection)
    except driver.Error as error:
        raise translated(connection, "", error) from error
    finally:
        del info[_TOGETHER]


@dataclass(frozen=True, slots=True, eq=False)
class _Compiled:
    text: str
    """As it is executed."""
    pattern: str
    """The same with `%s` where values stand: how texts are joined."""
    in_order: Callable[[Mapping[str, Any]], Row]
    """The values as the driver wants them."""
    table: str
    """Which rows it changes; empty for a query."""
    inserts: bool
    """Whether it is an INSERT that brings nothing back."""
    is_collected: bool
    """Whether an `in_one_go` block may collect it: the driver is psycopg."""
    of_rows: Callable[[int], str] | None
    """The pattern that inserts so many rows at once; None: the driver's own way is no slower."""
    names: tuple[str, ...]
    """Of the columns that a query brings."""


_TOGETHER = "adjourn_together"


def _together(connection: Connection) -> "_Together | None":
    """What the open `in_one_go` block has collected; None: there is no block, or the driver cannot."""
    found: _Together | None = connection.info.get(_TOGETHER)
    return found


class _Together:
    """Statements of a block, collected to go to PostgreSQL as one: what psycopg takes for each is most of its cost.

    The parts of such a statement do not see each other's changes, so none of them concerns the same row. Foreign keys are
    checked when all of it is done. A block that `ends` the transaction mostly comes to that one statement, which needs
    neither BEGIN nor COMMIT; where another one must go first, they go in a pipeline.
    """

    def __init__(self, ends: bool, opened: ExitStack) -> None:
        self.ends = ends
        self._opened = opened
        self._is_going = False
        self._met: dict[tuple[str, str], tuple[_Compiled, Row]] = {}
        self._parts: dict[str, tuple[_Compiled, list[Row]]] = {}

    def takes(self, compiled: _Compiled, rows: Sequence[Row], connection: Connection) -> bool:
        """Keep an insert for later. False: the caller has to execute it; all that must come before it was executed."""
        before, waiting = self._parts.get(compiled.table, (compiled, []))
        all_of_them = len(waiting) + len(rows)
        fits = all_of_them == 1 or (compiled.of_rows is not None and all_of_them <= ROWS_AT_ONCE)
        if self._meets_in(compiled.table) or (
            waiting and not (fits and compiled.inserts and before is compiled)
        ):
            self.go(connection)
            return self.takes(compiled, rows, connection)
        if not (fits and compiled.inserts):
            return False
        self._parts[compiled.table] = (compiled, [*waiting, *rows])
        return True

    def meets(self, compiled: _Compiled, values: Row, row: str, connection: Connection) -> None:
        """Keep for later a statement that must meet a row."""
        table = compiled.table or compiled.text  # a query is of no table that anything is changed in here
        if table in self._parts or (table, row) in self._met or len(self._met) == MOST_MET:
            self.go(connection)
        self._met[table, row] = (compiled, values)

    def _meets_in(self, table: str) -> bool:
        return any(one == table for one, _ in self._met)

    def go_on(self, connection: Connection) -> None:
        """More than one statement is sent: in a pipeline."""
        if not self._is_going:
            self._is_going = True
            driver: Any = connection.connection.dbapi_connection
            self._opened.enter_context(driver.pipeline())

    def go(self, connection: Connection) -> None:
        """Execute what waits; more follows."""
        self.go_on(connection)
        self._go(connection)

    def end(self, connection: Connection) -> None:
        """Execute what waits; that was all."""
        if not self._is_going and alone(connection):
            self._is_going = True
            self._go(connection)
            return
        self.go(connection)
        if self.ends:
            _numbered(connection).execute("COMMIT", prepare=False)

    def _go(self, connection: Connection) -> None:
        if not self._parts and not self._met:
            return
        met, self._met = list(self._met.values()), {}
        parts, self._parts = list(self._parts.values()), {}
        text = _joined(
            tuple(compiled for compiled, _ in met), tuple((compiled, len(rows)) for compiled, rows in parts)
        )
        values = [value for _, row in met for value in row]
        values += [value for _, rows in parts for row in rows for value in row]
        try:
            _numbered(connection).execute(text, values)
        except Exception as error:
            raise translated(connection, text, error) from error


@functools.lru_cache(maxsize=1_024)
def _joined(met: "tuple[_Compiled, ...]", parts: "tuple[tuple[_Compiled, int], ...]") -> str:
    """One text for the statements that must meet a row, and for the inserts with the number of rows of each.

    It divides 1 by the number of rows that each of the former met: where that is 0, PostgreSQL refuses all of it.
    """
    texts = [one.pattern if one.table else f"SELECT 1 FROM ({one.pattern}) AS one" for one in met]
    texts = [f"{text} RETURNING 1" if one.table else text for one, text in zip(met, texts, strict=True)]
    texts += [one.pattern if one.of_rows is None else one.of_rows(count) for one, count in parts]
    if met:
        texts.append("SELECT " + ", ".join(f"1 / (SELECT count(*) FROM part{n})" for n in range(len(met))))
    first = ", ".join(f"part{number} AS ({text})" for number, text in enumerate(texts[:-1]))
    return _with_numbers(f"WITH {first} {texts[-1]}" if first else texts[-1])


def _with_numbers(pattern: str) -> str:
    """`$1`, `$2` in place of `%s`: such a text psycopg sends as it is; the other it would search for `%s` each time."""
    number = itertools.count(1)
    return re.sub("%%|%s", lambda one: "%" if one[0] == "%%" else f"${next(number)}", pattern)


def _cursor(connection: Connection, compiled: _Compiled) -> Any:
    """A cursor that takes our texts as they are, in a transaction that has begun. It is closed by nobody: it goes with
    its last reader."""
    if compiled.is_collected:
        return _numbered(connection)
    driver: Any = connection.connection.dbapi_connection
    return driver.cursor()


def _numbered(connection: Connection) -> Any:
    """`_cursor`, on psycopg's connection."""
    if together := _together(connection):
        together.go_on(connection)
    begin(connection)
    return _numbered_cursor()(connection.connection.dbapi_connection)


@functools.cache
def _numbered_cursor() -> Any:
    """psycopg's cursor for texts with numbers; it is an extra."""
    from psycopg import RawCursor

    return RawCursor


def _not_counted() -> int:
    return -1


def _was_met() -> None:
    """Nothing to check: the transaction would have ended with an error."""


def _compile(statement: sa.ClauseElement, dialect: sa.Dialect) -> _Compiled:
    compiled: Any = statement.compile(dialect=_positional(dialect))
    fixed = {name: value for name, value in compiled.params.items() if value is not None}  # as a LIMIT is
    pattern = str(compiled)
    inserts = isinstance(statement, sa.Insert) and " RETURNING " not in pattern
    numbers = dialect.driver == "psycopg"
    changed = getattr(statement, "table", None)
    return _Compiled(
        text=_with_numbers(pattern) if numbers else pattern,
        pattern=pattern,
        in_order=_in_order(tuple(compiled.positiontup), fixed),
        table=changed.name if isinstance(changed, sa.Table) else "",
        inserts=inserts,
        is_collected=numbers,
        # psycopg sends each row of an `executemany` by itself, at four times the price
        of_rows=_of_rows(pattern) if numbers and inserts else None,
        names=tuple(one.key for one in getattr(statement, "selected_columns", ())),
    )


def met_nothing(error: BaseException) -> bool:
    """Whether the database refused a transaction because something was not there (`Statement.meet`)."""
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) == _DIVISION_BY_ZERO


_DIVISION_BY_ZERO = "22012"

_POSITIONAL: dict[str, sa.Dialect] = {}


def _positional(like: sa.Dialect) -> sa.Dialect:
    """A dialect that binds values by position, the one form that every driver here takes. All statements share it, since
    it remembers types."""
    if like.name not in _POSITIONAL:
        style = "qmark" if like.name == "sqlite" else "format"
        _POSITIONAL[like.name] = type(like)(paramstyle=style)  # type: ignore[call-arg]
    return _POSITIONAL[like.name]


def _of_rows(text: str) -> Callable[[int], str] | None:
    """Gives the text for so many rows, with `(...)` after VALUES repeated. None where rows of one statement may collide."""
    head, values, rest = text.partition(" VALUES ")
    if not values or "DO UPDATE" in rest or "RETURNING" in rest:
        return None
    depth, end = 0, 0
    while not end or depth:
        depth += {"(": 1, ")": -1}.get(rest[end], 0)
        end += 1
    return lambda count: f"{head}{values}{', '.join([rest[:end]] * count)}{rest[end:]}"


def _in_order(names: tuple[str, ...], fixed: dict[str, Any]) -> Callable[[Mapping[str, Any]], Row]:
    if fixed or len(names) < 2:
        return lambda values: tuple([fixed[name] if name in fixed else values[name] for name in names])
    return operator.itemgetter(*names)

"""Names that callers give, of people, conversations and runs: what every database takes as one."""

from adjourn.checkpoints.errors import UsageError

LONGEST = 255  # characters: the columns'


def check_name(what: str, name: str | None) -> None:
    """Raises `UsageError` for what cannot be stored or looked up as a name. None stands for no name, and is fine.

    It is the same on every engine: SQLite alone takes a name of any length, and one with a NUL.
    """
    if name is None:
        return
    if not isinstance(name, str):
        raise UsageError(f"{what} is a text, not {type(name).__name__}")
    check_text(what, name)
    if "\x00" in name:
        raise UsageError(f"{what} holds a NUL character, which no name has")
    if len(name) > LONGEST:
        raise UsageError(f"{what} has {len(name)} characters; at most {LONGEST} are a name")


def check_text(what: str, text: str) -> None:
    """Raises `UsageError` for what no database and no wire takes as text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} holds half of a surrogate pair, which is no text; send it again") from None

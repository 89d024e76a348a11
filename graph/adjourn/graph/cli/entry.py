"""`main`: parse, do, and turn what went wrong into one line and an exit status (C-95)."""

import gc
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from adjourn.checkpoints.errors import AdjournError, NotAllowed, UsageError
from adjourn.graph.cli.options import BY_VARIABLE, LOG_VARIABLE
from adjourn.graph.cli.parser import app
from adjourn.graph.cli.screen import clean, to_line
from adjourn.graph.cli.settings import language_asked
from adjourn.graph.cli.taking import only
from adjourn.graph.cli.texts import text, told
from adjourn.graph.refusals import in_plain_words, refusal

WRONG_USAGE = 2
CANCELLED = 130  # what shells report for a program that Ctrl-C ended
# commands that need no graph, and end soon
SHORT = frozenset({"doctor", "events", "metrics", "prune", "runs", "show"})


def main(arguments: Sequence[str] | None = None) -> int:
    """The program `adjourn`. `arguments` None: those of the process. Gives the exit status.

    A mistake of the user, and every `AdjournError`, is one line on stderr without a traceback.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    language = language_asked(given, os.environ)
    _prepare_streams()
    if arguments is None and SHORT.intersection(given[:1]) and "--follow" not in given:
        gc.disable()  # it would look at all that is being imported, again and again: a fifth of the time
    try:
        _prepare_logging()
        status = only(app, (given or [""])[0])(
            args=given or ["--help"],
            prog_name="adjourn",
            standalone_mode=False,
            obj=language,
        )
    except AdjournError as error:
        # without what typer has put there
        own = {name: value for name, value in vars(error).items() if not name.startswith("_")}
        facts = {"error": type(error).__name__, **own}
        message = str(error) if "--json" in given else _for_people(error, given, language)
        return _complain(message, given, error.exit_status, facts)
    except (KeyboardInterrupt, typer.Abort):
        return CANCELLED
    except Exception as error:
        said = getattr(error, "format_message", None)
        if said is None:
            raise  # a bug of ours: its traceback is wanted
        # the parser's own: an unknown option, a missing argument
        return _complain(
            _of_parser(error, said(), given, language), given, WRONG_USAGE, {"error": "UsageError"}
        )
    return int(status or 0) if given else WRONG_USAGE


def _for_people(error: AdjournError, given: Sequence[str], language: str) -> str:
    """The error's sentence; and where a person may not do this whom nobody has named, whose name that is."""
    message = told(error, language)
    named = os.environ.get(BY_VARIABLE) or any(one == "--by" or one.startswith("--by=") for one in given)
    if isinstance(error, NotAllowed) and error.who and not named:
        return f"{message}\n{text('by_system', language, person=error.who)}"
    return message


def _of_parser(error: Exception, said: str, given: Sequence[str], language: str) -> str:
    words = in_plain_words(said)
    # what is wrong with an option's form is told without the command that it was given to
    place = " ".join(["adjourn", *(one for one in given[:1] if not one.startswith("-"))])
    of = getattr(getattr(error, "ctx", None), "command_path", place)
    spoken = "en" if "--json" in given else language
    return text("see_help", spoken, message=refusal(words, spoken), command=of)


def _complain(message: str, given: Sequence[str], status: int, facts: Mapping[str, Any]) -> int:
    if "--json" in given:
        line = to_line({**facts, "message": message, "exit_status": status})
    else:
        line = clean(f"adjourn: {message}")
    print(line, file=sys.stderr)
    return status


def _prepare_streams() -> None:
    # a terminal or a pipe whose encoding lacks a character gets it written out rather than an exception
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _prepare_logging() -> None:
    """`ADJOURN_LOG=debug` shows the log on stderr; otherwise a failed run is told once, on the screen.

    Raises `UsageError` for a level that is none.
    """
    level = os.environ.get(LOG_VARIABLE, "").upper()
    if level:
        known = logging.getLevelNamesMapping()
        if level not in known:
            words = ", ".join(one.lower() for one in known if one != "NOTSET")
            raise UsageError(f"{LOG_VARIABLE} is one of {words}, not {level.lower()!r}")
        logging.basicConfig(level=level)
    elif not logging.getLogger("adjourn").handlers:
        logging.getLogger("adjourn").addHandler(logging.NullHandler())

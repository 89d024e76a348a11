"""Terminal sessions in a document: their commands are run again, and what they print is compared.

A session is every fence of a document that is marked `<!-- session -->`, in order, in one folder, in which the document's
files are. `adjourn` runs in this process, which is quick; that a run goes on in another process is proved in `tests/runs`.
`python FILE.py` runs as it is. Ids, times and durations differ from one run to the next: they are masked for the comparison, and the ids that a
document's commands name are put in place of the fresh ones. Long lines of data are cut.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from docs.blocks import files, session_spans

from adjourn.graph.cli import main

PROGRAM = ".venv/bin/adjourn"  # as the Makefile starts it
INSTALLED = "adjourn"  # as it is called where it is installed
MADE_BY_MAKE = {"make demo": f"{PROGRAM} demo"}
WIDTH = 150  # characters of a line of data in a document
LOCALES = {"en": "C.UTF-8", "zh": "zh_CN.UTF-8"}

_IDS = re.compile(r"\b(?:run_[0-9a-z]{13,18}|thr_[0-9a-z]{13,18}|int_[0-9a-f]{12}|call_[0-9a-f]{24})\b")
_MASKS = (
    (re.compile(r"\b\d+ ms\b"), "N ms"),
    (re.compile(r"\b\d+\.\d (s\b|秒)"), r"N \1"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
)


@dataclass(frozen=True)
class Command:
    """A command line, and what it printed; `output=None`: it could not be run here."""

    line: str
    output: str | None


def commands_of(block: str) -> list[Command]:
    """The commands of a block: each line after `$ `, with what follows it."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [Command(line, output) for line, _, output in (part.partition("\n") for part in parts)]


def sessions(text: str) -> list[list[Command]]:
    """The commands of each session fence of a document."""
    return [commands_of(text[start:end]) for start, end in session_spans(text)]


def replayed(text: str, language: str, folder: Path) -> list[list[Command]]:
    """The document's sessions as they run now, in `folder`, with fresh ids. Changes the working folder meanwhile."""
    written_ids: dict[str, tuple[str, int]] = {}
    fresh_ids: dict[str, tuple[str, int]] = {}
    blocks: list[list[Command]] = []

    def fresh(found: re.Match[str]) -> str:
        place = written_ids.get(found[0])
        return next((one for one, at in fresh_ids.items() if at == place), found[0])

    for name, code in files(text).items():
        (folder / name).write_text(code, encoding="utf-8")
    with _as_user(language, folder):
        for block in sessions(text):
            blocks.append([])
            for written in block:
                _number(written.line, written_ids)
                line = _IDS.sub(fresh, written.line)
                output = _run(line)
                blocks[-1].append(Command(line, output))
                _number(written.output or "", written_ids)
                _number(output or "", fresh_ids)
    return blocks


def _number(words: str, known: dict[str, tuple[str, int]]) -> None:
    """Number the ids of each kind in the order in which they appear: that is what a fresh id shares with an old one."""
    for one in _IDS.findall(words):
        kind = one.partition("_")[0]
        known.setdefault(one, (kind, sum(place[0] == kind for place in known.values())))


@contextlib.contextmanager
def _as_user(language: str, folder: Path) -> Iterator[None]:
    """A user called wang in `folder`, with no settings of the command line in the environment."""
    before, argv, path = dict(os.environ), sys.argv, list(sys.path)
    for name in [one for one in os.environ if one.startswith(("ADJOURN_", "UV_RUN"))]:
        del os.environ[name]
    os.environ |= {"LOGNAME": "wang", "LC_ALL": LOCALES[language]}
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        sys.argv, sys.path[:] = argv, path


def _run(line: str) -> str | None:
    words = shlex.split(MADE_BY_MAKE.get(line, line))
    if words[0] in (PROGRAM, INSTALLED):
        return _cut(_adjourn(words))
    if words[0] == "sqlite3":
        return _printed(words, {"LC_ALL": "C"}) if shutil.which("sqlite3") else None
    if words[0] == "python":
        return _cut(_printed([sys.executable, *words[1:]], {}))
    raise ValueError(f"a session of a document may not run {words[0]!r}")


def _printed(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """What a program prints, which ends well and has nothing to complain about."""
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    if done.returncode or done.stderr:
        raise RuntimeError(f"{shlex.join(words)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def _adjourn(line: Sequence[str]) -> str:
    program, *words = line
    printed = io.StringIO()
    sys.argv = [program]  # the commands that it prints begin so
    with contextlib.redirect_stdout(printed):
        status = main(words)
    if status not in (0, 3):
        raise RuntimeError(f"adjourn {shlex.join(words)} ended with {status}")
    return printed.getvalue()


def _cut(output: str) -> str:
    """Lines of data at most `WIDTH` long; commands to paste stay whole."""
    lines = output.splitlines()
    kept = [one if _is_command(one) or len(one) <= WIDTH else f"{one[: WIDTH - 1]}…" for one in lines]
    return "".join(f"{one}\n" for one in kept)


def _is_command(line: str) -> bool:
    return line.strip().startswith((f"{PROGRAM} ", f"{INSTALLED} "))


def masked(blocks: Sequence[Sequence[Command]]) -> list[tuple[str, str]]:
    """Every command and its output without what differs from one run to the next."""
    return [
        (_mask(one.line), _mask(one.output or ""))
        for block in blocks
        for one in block
        if one.output is not None
    ]


def _mask(words: str) -> str:
    words = _IDS.sub(lambda found: found[0].partition("_")[0], words)
    for pattern, mask in _MASKS:
        words = pattern.sub(mask, words)
    # each version of sqlite3 draws its boxes a little differently
    words = re.sub(r"[─┌┐└┘├┤┬┴┼]+", "", words)
    words = re.sub(r"[ \n]+", " ", words) if "│" in words else words
    # what was cut ends somewhere else when a duration before it is longer
    return re.sub(r"^(.{100}).*…$", r"\1…", words, flags=re.MULTILINE)


def rewritten(text: str, language: str, folder: Path) -> str:
    """The document with the sessions as they run now; unchanged when only ids and times would differ."""
    fresh = replayed(text, language, folder)
    if masked(fresh) == masked(sessions(text)):
        return text
    for (start, end), block in reversed(list(zip(session_spans(text), fresh, strict=True))):
        body = "".join(f"$ {one.line}\n{one.output or ''}" for one in block)
        text = text[:start] + body + text[end:]
    return text

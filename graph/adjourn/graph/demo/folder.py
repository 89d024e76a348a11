"""Which files of a folder are logs and which are documents.

A folder of the user's own may hold anything, so a file is looked at before it is offered: it has to be
readable text, inside the folder, and not hidden. Compressed logs are not offered.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from adjourn.graph.demo.timestamps import time_of

MAX_VISITED = 20_000  # files looked at; a folder above that is a file system, not a folder of logs
SNIFFED_BYTES = 4096

_DOCUMENT_SUFFIXES = frozenset({".md", ".markdown", ".rst", ".txt"})
_DOCUMENT_NAME = re.compile(r"(readme|changelog|runbook|howto|notes)\b", re.IGNORECASE)
_LOG_NAME = re.compile(
    r"(\.(log|out|err)(\.\d+)?$|\blog\b|^(syslog|messages|secure|maillog)(\.\d+)?$)", re.IGNORECASE
)
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages"})


def documents(root: Path, without: Path | None = None) -> list[Path]:
    """The documents under `root`, absolute, in the order of their names. `without`: a folder to leave out."""
    return sorted(path for path in _text_files(root, without) if _is_document(path))


def log_files(root: Path, without: Path | None = None) -> list[Path]:
    """The logs under `root`, absolute, the one written last first. `without`: a folder to leave out."""
    found = [path for path in _text_files(root, without) if _is_log(path)]
    return sorted(found, key=lambda path: (-path.stat().st_mtime, str(path)))


def _is_document(path: Path) -> bool:
    if path.suffix.lower() in _DOCUMENT_SUFFIXES:
        return _LOG_NAME.search(path.name) is None
    return path.suffix == "" and _DOCUMENT_NAME.match(path.name) is not None


def _is_log(path: Path) -> bool:
    if _is_document(path):
        return False
    return _LOG_NAME.search(path.name) is not None or (path.suffix in {"", ".1"} and _tells_times(path))


def _tells_times(path: Path) -> bool:
    # a Makefile has no suffix either
    lines = _start_of(path).decode("utf-8", errors="replace").splitlines()
    return any(time_of(line) is not None for line in lines[:10])


def _text_files(root: Path, without: Path | None) -> Iterator[Path]:
    left = MAX_VISITED
    for folder, names, files in os.walk(root):
        here = Path(folder)
        names[:] = sorted(name for name in names if _enters(here / name, without))
        for name in sorted(files):
            left -= 1
            if left < 0:
                return
            path = here / name
            if not name.startswith(".") and _is_readable_text(path):
                yield path


def _enters(folder: Path, without: Path | None) -> bool:
    return not folder.name.startswith(".") and folder.name not in _SKIPPED_FOLDERS and folder != without


def _is_readable_text(path: Path) -> bool:
    # a link may lead out of the folder that the user named, so none is followed
    try:
        start = b"" if path.is_symlink() or not path.is_file() else _start_of(path)
    except OSError:
        return False
    return bool(start) and b"\0" not in start


def _start_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(SNIFFED_BYTES)

"""Full-text search over documents, Chinese and English, on SQLite FTS5.

FTS5's own tokenizers either take a whole Chinese sentence as one word (`unicode61`) or find nothing shorter
than three characters (`trigram`), and most Chinese words have two. So Chinese text is indexed as its single
characters and its pairs of neighbours, and a query as its pairs: 支付服务 is looked for as 支付, 付服, 服务.
Other words go through FTS5's English stemmer.
"""

import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from adjourn.graph.demo.sections import Section, split

MAX_DOCUMENT_BYTES = 1_000_000  # of a longer file the start is indexed
EXCERPT = 400  # characters: enough to judge a hit; three hits stay well below a tool's result limit
WEAK = 0.25  # hits below this share of the best one's score are noise that shares a common word
WAIT_S = 10.0  # while another process builds the index

# so frequent that a match on them says nothing
_NOISE = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "at",
        "be",
        "by",
        "do",
        "does",
        "for",
        "from",
        "how",
        "i",
        "in",
        "is",
        "it",
        "me",
        "my",
        "of",
        "on",
        "or",
        "our",
        "please",
        "show",
        "the",
        "there",
        "this",
        "to",
        "us",
        "was",
        "we",
        "what",
        "when",
        "which",
        "with",
        "you",
        "your",
    ]
)
_NOISE_ZH = frozenset(
    [
        "一下",
        "一个",
        "什么",
        "怎么",
        "这个",
        "那个",
        "可以",
        "我们",
        "请问",
        "看看",
        "帮我",
        "有没",
        "没有",
        "时候",
        "需要",
        "的处",
        "里的",
    ]
)

_CHINESE = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]+")
_WORD = re.compile(r"[^\W\u3400-\u4dbf\u4e00-\u9fff_]+", re.UNICODE)
_TOKEN = re.compile(rf"({_CHINESE.pattern})|({_WORD.pattern})", re.UNICODE)

_TABLES = """
DROP TABLE IF EXISTS about;
DROP TABLE IF EXISTS words;
DROP TABLE IF EXISTS sections;
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE sections (id INTEGER PRIMARY KEY, path TEXT, title TEXT, heading TEXT, text TEXT, steps TEXT);
CREATE VIRTUAL TABLE words USING fts5 (title, heading, text, content='', tokenize='porter unicode61');
"""
_BEST = """
SELECT s.path, s.title, s.heading, s.text, -bm25(words, 4.0, 2.0, 1.0) AS score
FROM words JOIN sections AS s ON s.id = words.rowid
WHERE words MATCH :query ORDER BY score DESC LIMIT 60
"""
_STEPS = "SELECT steps FROM sections WHERE path = ? AND steps <> '' ORDER BY id LIMIT 1"


@dataclass(slots=True)
class Hit:
    """A document that fits, with its best section. `steps`: the numbered list it holds, if any."""

    title: str
    path: str
    section: str
    excerpt: str
    steps: list[str] = field(default_factory=list)
    score: float = 0.0


class DocumentIndex:
    """An index file that follows its documents: it is rebuilt when one of them changed.

    `documents` gives the absolute paths at each search; paths in results are relative to `root`.
    Several processes may search at once; one builds, the others wait.
    """

    def __init__(self, file: Path, root: Path, documents: Callable[[], Sequence[Path]]) -> None:
        self._file = file
        self._root = root
        self._documents = documents

    def search(self, query: str, top_k: int = 3) -> list[Hit]:
        """The `top_k` documents that fit best, best first; empty when none fits or the query has no words."""
        wanted = match_expression(query)
        if not wanted:
            return []
        with closing(sqlite3.connect(self._file, timeout=WAIT_S, isolation_level=None)) as db:
            self._refresh(db)
            hits = _by_document(db.execute(_BEST, {"query": wanted}).fetchall())[:top_k]
            for hit in hits:
                hit.steps = _steps_of(db, hit.path)
        return hits

    def _refresh(self, db: sqlite3.Connection) -> None:
        paths = list(self._documents())
        state = _fingerprint(paths)
        if _stored_fingerprint(db) == state:
            return
        db.execute("BEGIN IMMEDIATE")
        if _stored_fingerprint(db) != state:  # another process may have built it while this one waited
            self._build(db, paths, state)
        db.execute("COMMIT")

    def _build(self, db: sqlite3.Connection, paths: Sequence[Path], state: str) -> None:
        for statement in filter(str.strip, _TABLES.split(";")):
            db.execute(statement)
        for path in paths:
            for section in _read(path):
                self._add(db, path, section)
        db.execute("INSERT INTO about VALUES ('fingerprint', ?)", (state,))

    def _add(self, db: sqlite3.Connection, path: Path, section: Section) -> None:
        row = (path.relative_to(self._root).as_posix(), section.title, section.heading, section.text)
        added = db.execute(
            "INSERT INTO sections (path, title, heading, text, steps) VALUES (?, ?, ?, ?, ?)",
            (*row, "\n".join(section.steps)),
        )
        db.execute(
            "INSERT INTO words (rowid, title, heading, text) VALUES (?, ?, ?, ?)",
            (added.lastrowid, *(" ".join(indexed(part)) for part in row[1:])),
        )


def indexed(text: str) -> Iterator[str]:
    """The words of `text` as the index holds them."""
    for chinese, word in _TOKEN.findall(text):
        if word:
            yield word.lower()
        else:
            yield from chinese
            yield from _pairs(chinese)


def match_expression(query: str) -> str:
    """An FTS5 expression that finds any word of `query`; empty when it has none that says something."""
    wanted: dict[str, None] = {}
    for chinese, word in _TOKEN.findall(query):
        terms = [word.lower()] if word else _pairs(chinese) or [chinese]
        wanted.update((term, None) for term in terms if term not in _NOISE | _NOISE_ZH)
    return " OR ".join(f'"{term}"' for term in wanted)


def _pairs(chinese: str) -> list[str]:
    return [chinese[at : at + 2] for at in range(len(chinese) - 1)]


def _read(path: Path) -> list[Section]:
    with path.open("rb") as file:
        text = file.read(MAX_DOCUMENT_BYTES).decode("utf-8", errors="replace")
    return split(text, path.stem)


def _by_document(rows: list[tuple[str, str, str, str, float]]) -> list[Hit]:
    hits: dict[str, Hit] = {}
    for path, title, heading, text, score in rows:
        known = hits.get(path)
        if known is None:
            hits[path] = Hit(title, path, heading, _excerpt(text), score=score)
        else:
            known.score += 0.2 * score  # a document that fits in several places beats one that fits in one
    ranked = sorted(hits.values(), key=lambda hit: -hit.score)
    return [hit for hit in ranked if hit.score >= WEAK * ranked[0].score]


def _excerpt(text: str) -> str:
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT].rstrip()} ..."


def _steps_of(db: sqlite3.Connection, path: str) -> list[str]:
    row = db.execute(_STEPS, (path,)).fetchone()
    return [] if row is None else str(row[0]).splitlines()


def _fingerprint(paths: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        about = path.stat()
        digest.update(f"{path}\0{about.st_size}\0{about.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _stored_fingerprint(db: sqlite3.Connection) -> str | None:
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone() is None:
        return None
    row = db.execute("SELECT value FROM about WHERE name = 'fingerprint'").fetchone()
    return None if row is None else str(row[0])

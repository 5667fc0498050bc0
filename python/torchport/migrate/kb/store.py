"""The SQLite file that holds the entries, searched with FTS5."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Self

from torchport.migrate.kb import shipped
from torchport.migrate.kb.entry import KINDS, Entry

SCHEMA = 1
_COLUMNS = ("id", "kind", "claim", "source", "date", "versions", "evidence")
# Trigrams find parts of names and of error texts (https://sqlite.org/fts5.html#the_trigram_tokenizer, read 2026-11-30);
# words shorter than three letters are looked up with LIKE.
_TABLES = f"""
CREATE TABLE entry (
  id TEXT PRIMARY KEY, kind TEXT NOT NULL CHECK (kind IN ({", ".join(f"'{kind}'" for kind in KINDS)})),
  claim TEXT NOT NULL, source TEXT NOT NULL, date TEXT NOT NULL, versions TEXT NOT NULL, evidence TEXT NOT NULL,
  shipped INTEGER NOT NULL);
CREATE VIRTUAL TABLE entry_text USING fts5(id, claim, source, versions, content='entry', tokenize='trigram');
CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN
  INSERT INTO entry_text(rowid, id, claim, source, versions)
  VALUES (new.rowid, new.id, new.claim, new.source, new.versions); END;
CREATE TRIGGER entry_gone AFTER DELETE ON entry BEGIN
  INSERT INTO entry_text(entry_text, rowid, id, claim, source, versions)
  VALUES ('delete', old.rowid, old.id, old.claim, old.source, old.versions); END;
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
PRAGMA user_version = {SCHEMA};
"""


def default_path() -> Path:
    """$XDG_DATA_HOME/torchport/kb.db, by default under ~/.local/share."""
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "torchport" / "kb.db"


class Store:
    """A knowledge base file; made when missing, with the shipped entries in it. Readable by its owner only.

    Raises ValueError for a file that is not one, or of a newer TorchPort.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._db = sqlite3.connect(path, timeout=30)
        self._db.row_factory = sqlite3.Row
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                self._prepare()
        except sqlite3.DatabaseError as err:
            self._db.close()
            raise ValueError(f"[kb] {path} must be a knowledge base, got: {err}. Try: another --db") from err
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        """Makes the tables, and renews the shipped entries when those of this version differ."""
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA:
            raise ValueError(
                f"[kb] {self.path} must have a schema of at most {SCHEMA}, got {version}. Try: pip install -U torchport"
            )
        if version == 0:
            for statement in _statements(_TABLES):
                self._db.execute(statement)
        digest = shipped.digest()
        row = self._db.execute("SELECT value FROM about WHERE name = 'shipped'").fetchone()
        if row is None or row["value"] != digest:
            self._db.execute("DELETE FROM entry WHERE shipped = 1")
            self._insert(shipped.entries(), True)
            self._db.execute("INSERT OR REPLACE INTO about VALUES ('shipped', ?)", (digest,))

    @classmethod
    def snapshot(cls, path: Path) -> Store:
        """The base as it is now, in memory: the file is neither made nor written. Shipped entries are this version's."""
        folder = tempfile.mkdtemp(prefix="torchport-kb-")
        try:
            copy = Path(folder) / "kb.db"
            if path.exists():
                with (
                    closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source,
                    closing(sqlite3.connect(copy)) as target,
                ):
                    source.backup(target)
            with cls(copy) as store:
                memory = sqlite3.connect(":memory:")
                store._db.backup(memory)
            found = cls.__new__(cls)
            found.path, found._db = path, memory
            memory.row_factory = sqlite3.Row
            return found
        finally:
            shutil.rmtree(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def _insert(self, entries: Iterable[Entry], is_shipped: bool) -> None:
        rows = [(*(getattr(entry, name) for name in _COLUMNS), int(is_shipped)) for entry in entries]
        places = ", ".join("?" * (len(_COLUMNS) + 1))
        self._db.executemany(f"INSERT OR IGNORE INTO entry ({', '.join(_COLUMNS)}, shipped) VALUES ({places})", rows)

    def add(self, entries: Iterable[Entry]) -> int:
        """Stores entries that are not there yet, all or none; how many were new."""
        wanted = list(entries)
        before = self.count()
        with self._db:
            self._insert(wanted, False)
        return self.count() - before

    def count(self) -> int:
        """How many entries there are."""
        return self._db.execute("SELECT count(*) FROM entry").fetchone()[0]

    def show(self, name: str) -> Entry:
        """The entry of an id. Raises KeyError with the nearest ids."""
        row = self._db.execute("SELECT * FROM entry WHERE id = ?", (name,)).fetchone()
        if row is None:
            near = [entry.id for entry in self.search(name.rpartition("/")[2], limit=3)]
            hint = f"one of {', '.join(near)}" if near else "torchport kb search"
            raise KeyError(f"[kb] must be the id of an entry, got {name!r}. Try: {hint}")
        return _entry(row)

    def search(self, words: str, kind: str = "", limit: int = 10) -> list[Entry]:
        """The entries that hold all the words (parts of words count), best first (bm25, claims weigh most)."""
        if kind and kind not in KINDS:
            raise ValueError(f"[kb] kind must be one of {', '.join(KINDS)}, got {kind!r}")
        if limit < 1:
            raise ValueError(f"[kb] limit must be at least 1, got {limit}")
        terms = re.findall(r"[\w.+-]+", words)
        if not terms:
            raise ValueError(f"[kb] search must have a word, got {words!r}")
        where, values = ["1 = 1"], []
        if long := [term for term in terms if len(term) >= 3]:
            where.append("entry_text MATCH ?")
            values.append(" AND ".join(f'"{term}"' for term in long))
        for term in terms:
            if len(term) < 3:
                where.append("(entry.claim || ' ' || entry.id || ' ' || entry.versions) LIKE ? ESCAPE '!'")
                values.append("%" + re.sub(r"([%_!])", r"!\1", term) + "%")
        if kind:
            where.append("kind = ?")
            values.append(kind)
        order = "bm25(entry_text, 4, 8, 1, 1), entry.date DESC" if long else "entry.date DESC"
        query = (
            "SELECT entry.* FROM entry JOIN entry_text ON entry_text.rowid = entry.rowid "
            f"WHERE {' AND '.join(where)} ORDER BY {order}, entry.id LIMIT ?"
        )
        return [_entry(row) for row in self._db.execute(query, (*values, limit))]

    def entries(self, kind: str = "", with_shipped: bool = True) -> list[Entry]:
        """Every entry, by id."""
        query = "SELECT * FROM entry WHERE (? = '' OR kind = ?) AND (? OR shipped = 0) ORDER BY id"
        return [_entry(row) for row in self._db.execute(query, (kind, kind, with_shipped))]

    def copy(self, path: Path) -> None:
        """A consistent copy of the file, for a reader that must not write to it."""
        with closing(sqlite3.connect(path)) as target:
            self._db.backup(target)


def _entry(row: sqlite3.Row) -> Entry:
    return Entry(**{name: row[name] for name in _COLUMNS})


def _statements(script: str) -> list[str]:
    """Statements of a script, triggers whole: executescript would commit before the first."""
    found, part = [], ""
    for line in script.strip().splitlines():
        part += line + "\n"
        if sqlite3.complete_statement(part):
            found.append(part)
            part = ""
    return found

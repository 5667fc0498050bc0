"""The append-only log of an evaluation: each entry carries the hash of the one before, so none can change unseen.

`chain.jsonl` holds the entries, `chain.head` the number and hash of the last one: a log cut short is noticed too.
Someone who rewrites every file can still forge a folder: `eval status` prints the head, and a head that was given to a
second person (`eval verify --head`) closes that gap.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torchport.migrate.evaluate.durable import canonical, digest, sync_folder, write_atomic
from torchport.migrate.evaluate.errors import EvalError, TamperError

LOG, HEAD, LOCK, TORN = "chain.jsonl", "chain.head", ".lock", "chain.torn"
GENESIS = "0" * 64
FIELDS = ("seq", "time", "kind", "data", "files", "prev")  # what the hash covers


@dataclass(frozen=True)
class Entry:
    """One line of the log. `files` maps a path in the folder to its SHA-256."""

    seq: int
    time: str  # UTC, ISO 8601
    kind: str
    data: dict[str, Any]
    files: dict[str, str]
    prev: str
    hash: str

    @property
    def id(self) -> str:
        """The evidence id that decisions and reports cite."""
        return f"E{self.seq:04d}-{self.hash[:8]}"


def entry_hash(fields: dict[str, Any]) -> str:
    """The hash of an entry: its other fields, canonical."""
    return digest(canonical({name: fields[name] for name in FIELDS}))


def now() -> str:
    """UTC to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Chain:
    """The log of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / LOG

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the folder against a second writer."""
        with (self.folder / LOCK).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise EvalError(
                    "eval",
                    f"be the only writer of {self.folder}",
                    "another torchport eval at work in it",
                    "wait until it has finished",
                ) from error
            yield

    def read(self) -> list[Entry]:
        """Every entry, checked; raises TamperError that names the first entry that does not fit."""
        entries, findings = self.inspect()
        if findings:
            raise TamperError(findings)
        return entries

    def inspect(self) -> tuple[list[Entry], list[str]]:
        """The entries that can be read and what is wrong with the log, without raising."""
        entries: list[Entry] = []
        findings: list[str] = []
        prev = GENESIS
        for number, line in enumerate(self._lines(), 1):
            try:
                fields = json.loads(line)
                entry = Entry(**fields)
            except (ValueError, TypeError):
                findings.append(f"{LOG} line {number}: not an entry of this log")
                break
            if entry.hash != entry_hash(fields):
                findings.append(f"{LOG} entry {entry.seq} ({entry.kind}): its content was changed after it was written")
            elif entry.prev != prev or entry.seq != number:
                findings.append(f"{LOG} line {number}: entry {entry.seq} does not follow the one before it")
            entries.append(entry)
            prev = entry.hash
        findings += self._cut_short(entries)
        return entries, findings

    def append(self, kind: str, data: dict[str, Any], files: dict[str, str] | None = None) -> Entry:
        """Adds an entry and syncs it before returning. Call with the lock held."""
        self.repair()
        entries = self.read()
        fields: dict[str, Any] = {
            "seq": len(entries) + 1,
            "time": now(),
            "kind": kind,
            "data": data,
            "files": files or {},
            "prev": entries[-1].hash if entries else GENESIS,
        }
        entry = Entry(**fields, hash=entry_hash(fields))
        line = canonical(entry.__dict__) + b"\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            written = os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)
        if written != len(line):
            raise EvalError("eval", f"write {len(line)} bytes to {self.path}", written, "free some disk space")
        sync_folder(self.folder)
        write_atomic(self.folder / HEAD, canonical({"seq": entry.seq, "hash": entry.hash}))
        return entry

    def repair(self) -> bool:
        """Sets aside a last line that a kill cut in two. Call with the lock held; says whether there was one."""
        raw = self.path.read_bytes() if self.path.exists() else b""
        whole, newline, torn = raw.rpartition(b"\n")
        if not torn:
            return False
        with (self.folder / TORN).open("ab") as file:
            file.write(torn + b"\n")
            os.fsync(file.fileno())
        write_atomic(self.path, whole + newline)
        return True

    def _lines(self) -> list[bytes]:
        """Whole lines only: what follows the last newline was never finished."""
        raw = self.path.read_bytes() if self.path.exists() else b""
        return raw.split(b"\n")[:-1]

    def _cut_short(self, entries: list[Entry]) -> list[str]:
        path = self.folder / HEAD
        if not path.exists():
            # The first append writes the log before the head: one entry without a head is a kill in between.
            return [f"{HEAD}: missing"] if len(entries) > 1 else []
        try:
            head = json.loads(path.read_bytes())
            seq, value = int(head["seq"]), str(head["hash"])
        except (ValueError, TypeError, KeyError):
            return [f"{HEAD}: not a head of this log"]
        if seq > len(entries):
            return [f"{LOG}: {seq - len(entries)} of {seq} entries were removed from its end"]
        if seq < 1 or entries[seq - 1].hash != value:
            return [f"{HEAD}: names another entry {seq} than the log has"]
        return []

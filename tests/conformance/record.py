"""The rows of a run in a file of JSON lines: a head that says what ran, a row a case, a mark after each finished task."""

import hashlib
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from conformance.pool import Task


def identity(device: str) -> dict[str, Any]:
    """What two runs must have in common for the second to go on where the first ended."""
    import torch

    found: dict[str, Any] = {"torch": torch.__version__, "device": device}
    if device.partition(":")[0] != "cpu":
        import torchport

        torchport.activate()
        from torchport import _C

        found["build"] = hashlib.sha256(Path(_C.__file__).read_bytes()).hexdigest()[:16]
        found["platform"] = torchport.report().get("platform") or "not opened"
    return found


@dataclass
class Rows:
    """What a file holds."""

    head: dict[str, Any] = field(default_factory=dict)
    rows: list[dict] = field(default_factory=list)
    finished: set[tuple[str, str, tuple[str, ...]]] = field(default_factory=set)


def key(task: Task) -> tuple[str, str, tuple[str, ...]]:
    """What a task is known by."""
    return task.op, task.dtype, tuple(task.modes)


def read(path: Path) -> Rows:
    """The head and the rows of every finished task; what an interrupted task left is dropped, as is a torn last line."""
    found, open_rows = Rows(), {}
    with open(path) as file:
        for line in file:
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                if line.endswith("\n"):
                    raise SystemExit(f"[--read] must hold JSON lines, got {line[:80]!r} in {path}") from None
                break
            if "head" in row:
                found.head = row["head"]
            elif "finished" in row:
                op, dtype, modes = row["finished"]
                found.finished.add((op, dtype, tuple(modes)))
                found.rows += open_rows.pop((op, dtype), [])
            else:
                open_rows.setdefault((row["op"], row["dtype"]), []).append(row)
    return found


class Record:
    """Appends to the file of a run; with `resume`, after what an earlier run of the same head has finished."""

    def __init__(self, path: Path, head: dict[str, Any], resume: bool):
        self.path, self.head = path, head
        kept = read(path) if resume and path.exists() else Rows()
        if kept.head and kept.head != head:
            other = ", ".join(k for k in {**head, **kept.head} if head.get(k) != kept.head.get(k))
            print(f"{path}: an earlier run had another {other}; starting over", file=sys.stderr)
            kept = Rows()
        self.rows, self.finished = kept.rows, kept.finished
        self.file: IO[str] | None = None

    def __enter__(self) -> Self:
        part = self.path.with_name(self.path.name + ".part")
        by_task: dict[tuple[str, str], list[dict]] = {}
        for row in self.rows:
            by_task.setdefault((row["op"], row["dtype"]), []).append(row)
        with open(part, "w") as file:
            file.write(json.dumps({"head": self.head}) + "\n")
            for op, dtype, modes in sorted(self.finished):
                for row in by_task.get((op, dtype), []):
                    file.write(json.dumps(row) + "\n")
                file.write(json.dumps({"finished": [op, dtype, modes]}) + "\n")
        part.replace(self.path)
        self.file = open(self.path, "a", buffering=1)
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def has(self, task: Task) -> bool:
        """Whether an earlier run has finished this task."""
        return key(task) in self.finished

    def add(self, row: dict) -> None:
        """Keeps one row."""
        self.rows.append(row)
        self.file.write(json.dumps(row) + "\n")

    def done(self, task: Task) -> None:
        """Marks a task as finished."""
        self.finished.add(key(task))
        self.file.write(json.dumps({"finished": key(task)}) + "\n")

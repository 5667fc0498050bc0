"""Known reasons for differences from the CPU, read from causes.toml."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("causes.toml")
KEYS = ("op", "dtype", "mode", "message")


@dataclass(frozen=True)
class Cause:
    """A reason, and whole-match patterns of the rows that it explains (message: found anywhere)."""

    cause: str
    op: str = ".*"
    dtype: str = ".*"
    mode: str = ".*"
    message: str = ""

    def explains(self, row: dict) -> bool:
        """Whether every pattern fits the row."""
        whole = all(re.fullmatch(getattr(self, key), row[key]) for key in KEYS[:3])
        return whole and re.search(self.message, row["message"]) is not None


class Causes(list[Cause]):
    """The causes of the file, in its order: the first that fits a row counts."""

    @classmethod
    def load(cls, path: Path = FILE) -> "Causes":
        """Reads and checks the file."""
        entries = tomllib.loads(path.read_text())["causes"]
        for entry in entries:
            if unknown := entry.keys() - {"cause", *KEYS}:
                raise ValueError(f"[{path.name}] must have keys of cause, {', '.join(KEYS)}, got {sorted(unknown)}")
            if not entry.get("cause"):
                raise ValueError(f"[{path.name}] must say a cause, got none in {entry}")
            if not entry.keys() & {"op", "message"}:
                raise ValueError(f"[{path.name}] must name ops or a message, got neither in {entry}")
        return cls(Cause(**entry) for entry in entries)

    def of(self, row: dict) -> Cause | None:
        """The first cause that explains a row."""
        return next((cause for cause in self if cause.explains(row)), None)

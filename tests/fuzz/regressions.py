"""The programs of regressions.toml."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("regressions.toml")


@dataclass(frozen=True)
class Regression:
    """A shrunk program. open: what still differs, "" once nothing does.

    Until then random programs leave out statements that match `avoid`, or the comparison of what `ignore` names.
    """

    name: str
    program: str
    open: str = ""
    avoid: str = ""
    ignore: str = ""
    rounded: bool = False


@cache
def regressions() -> tuple[Regression, ...]:
    """Every program of the file."""
    found = tuple(Regression(name, **entry) for name, entry in tomllib.loads(FILE.read_text()).items())
    for entry in found:
        if bool(entry.open) != bool(entry.avoid or entry.ignore) or entry.ignore not in ("", "strides"):
            raise ValueError(f"[regressions.toml] must have open with avoid or ignore = 'strides', got {entry}")
    return found


@cache
def avoided() -> re.Pattern | None:
    """What random programs leave out because its difference is known and open."""
    patterns = [f"(?:{entry.avoid})" for entry in regressions() if entry.avoid]
    return re.compile("|".join(patterns)) if patterns else None


@cache
def ignored() -> frozenset[str]:
    """What random programs do not compare because a difference of all of it is known and open."""
    return frozenset(entry.ignore for entry in regressions() if entry.ignore)

"""The error glossary: what PyTorch, CUDA libraries, XLA, libtpu, TorchTPU and Neuron say, and what to do next.

The entries are in the .toml files beside this one, a file a family. An entry's pattern (one, or a list of them) is
searched in the text; of several entries that match, the one that explains most of it comes first. Needs no torch.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FAMILIES = {
    "pytorch": "PyTorch",
    "cuda": "CUDA and libraries made for it",
    "xla": "XLA, PJRT, libtpu and PyTorch/XLA",
    "torch_tpu": "TorchTPU",
    "neuron": "AWS Neuron",
}
LIMIT = 200_000  # characters of a log that are looked at; the end of a log holds the error


@dataclass(frozen=True)
class Known:
    """One message of the glossary. rules: the catalogue's rules that prevent it. date: when the source was read."""

    id: str
    family: str
    pattern: re.Pattern[str]
    cause: str
    next: str
    rules: tuple[str, ...]
    source: str
    date: str
    versions: str

    @property
    def entry(self) -> str:
        """Its id in the knowledge base."""
        return f"error/{self.id}"


@dataclass(frozen=True)
class Match:
    """A message of the glossary found in a text, with the words that were recognised."""

    known: Known
    words: str


@cache
def glossary() -> tuple[Known, ...]:
    """Every message, in the order of the files."""
    found = []
    for family in FAMILIES:
        path = Path(__file__).with_name(f"{family}.toml")
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        for row in data.pop("error"):
            row = {"versions": "", **data, **row}
            given = row["pattern"]
            row["pattern"] = re.compile(given if isinstance(given, str) else "|".join(given))
            found.append(Known(family=family, rules=tuple(row.pop("rules", ())), **row))
    return tuple(found)


def explain(text: str) -> list[Match]:
    """The messages of the glossary that the text holds, best first; empty when none is known."""
    text = text[-LIMIT:]
    matches = [Match(known, hit[0]) for known in glossary() if (hit := known.pattern.search(text))]
    return sorted(matches, key=lambda match: -len(match.words))  # stable: equals stay in the files' order

"""From an error text to cause and next step. Every part of an answer names its entry in the knowledge base."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from torchport.migrate import errors

_CODE = re.compile(r"\bTP(\d{4})\b")
_WHOLE = re.compile(r"\s*(?:TP)?(\d{1,4})\s*", re.IGNORECASE)  # the argument is a code and nothing else


@dataclass(frozen=True)
class Answer:
    """entry: id in the knowledge base. words: what was recognised. rules: entries of the catalogue that prevent it."""

    entry: str
    words: str
    cause: str
    next: str
    rules: tuple[str, ...]
    source: str
    date: str

    def as_dict(self) -> dict[str, object]:
        """The fields by name."""
        return asdict(self)


@cache
def codes() -> dict[str, dict[str, str]]:
    """TorchPort's own codes, from the file that `make docs` writes."""
    data = json.loads(Path(errors.__file__).with_name("torchport.json").read_text(encoding="utf-8"))
    return {row["code"]: {**row, "source": data["source"], "date": data["date"]} for row in data["codes"]}


def as_code(text: str) -> str | None:
    """TP0103 for `TP0103`, `tp103` and `103`; None for anything else."""
    match = _WHOLE.fullmatch(text)
    return f"TP{match[1].zfill(4)}" if match else None


def answers(text: str) -> list[Answer]:
    """What the glossary and the table of codes know of a text, best first; empty when they know nothing.

    A code of TorchPort comes first: its message names the very place.
    """
    found = []
    for code in dict.fromkeys(f"TP{digits}" for digits in _CODE.findall(text[-errors.LIMIT :])):
        if row := codes().get(code):
            found.append(Answer(f"code/{code}", code, row["cause"], row["cure"], (), row["source"], row["date"]))
    for match in errors.explain(text):
        known = match.known
        rules = tuple(f"rule/{rule}" for rule in known.rules)
        found.append(Answer(known.entry, match.words, known.cause, known.next, rules, known.source, known.date))
    return found

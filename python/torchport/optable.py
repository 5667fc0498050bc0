"""What the conformance runs have found for every op of PyTorch's database: ops.json, and how it is shown.

`make ops-table` writes the file; nothing in it is written by hand. A case is an op, a dtype
and a mode. Its state: y agrees with the CPU, c agrees by running a part on the CPU, n does not agree, - PyTorch's CPU
has no such case or refuses it. The state of its programs under a target's compiler: y all compile, n one is refused,
- not sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("ops.json")
MODES = ("forward", "backward", "out", "inplace")
SHORT = {
    "float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "uint8": "u8", "bool": "bool", "complex64": "c64", "complex128": "c128",
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One op of the database."""

    name: str
    states: dict[str, str]  # dtype -> a letter a mode, in the order of MODES
    target: dict[str, str]  # the same for the target's compiler
    lowerings: list[str]
    fallbacks: list[str]
    wrong_calls: tuple[int, int]  # that raise the CPU's type, of all
    refusals: list[str]  # the compiler's words

    def where(self, letters: str, states: dict[str, str] | None = None) -> str:
        """The cases in one of these states: modes by their first letters, then the dtypes that have just these."""
        groups: dict[str, list[str]] = {}
        for dtype, state in (self.states if states is None else states).items():
            modes = "".join(mode[0] for mode, letter in zip(MODES, state, strict=True) if letter in letters)
            if modes:
                groups.setdefault(modes, []).append(SHORT[dtype])
        return "; ".join(f"{modes}: {' '.join(dtypes)}" for modes, dtypes in groups.items())

    def row(self) -> dict[str, Any]:
        """The cells of a table."""
        right, every = self.wrong_calls
        refused = self.where("n", self.target)
        return {
            "op": self.name,
            "agrees": self.where("yc"),
            "differs": self.where("n"),
            "on_the_CPU": self.fallbacks,
            "wrong_calls": f"{right} of {every}" if every else "",
            "v6e": self.where("y", self.target) and (f"not {refused}" if refused else "yes") or (refused and "no"),
            "lowerings": self.lowerings,
        }


def load() -> dict[str, Any]:
    """The file's contents: head, target, tolerances, looser, ops."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def entries(data: dict[str, Any]) -> list[Entry]:
    """Every op of the file, by name."""
    return [
        Entry(
            name,
            {dtype: state for state, dtypes in op["states"].items() for dtype in dtypes.split()},
            {dtype: state for state, dtypes in op.get("target", {}).items() for dtype in dtypes.split()},
            op.get("lowerings", []),
            op.get("fallbacks", []),
            tuple(op.get("wrong_calls", (0, 0))),
            op.get("refusals", []),
        )
        for name, op in sorted(data["ops"].items())
    ]


def totals(found: Iterable[Entry]) -> dict[str, tuple[int, int]]:
    """Cases that agree, ops without a fallback, wrong calls with the CPU's type, cases that compile: each of how many."""
    found = list(found)
    letters = "".join(state for entry in found for state in entry.states.values())
    target = "".join(state for entry in found for state in entry.target.values())
    return {
        "agree": (letters.count("y") + letters.count("c"), len(letters) - letters.count("-")),
        "no_fallback": (sum(not entry.fallbacks for entry in found), len(found)),
        "wrong_calls": (sum(e.wrong_calls[0] for e in found), sum(e.wrong_calls[1] for e in found)),
        "compile": (target.count("y"), len(target) - target.count("-")),
    }

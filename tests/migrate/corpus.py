"""Reads the labelled corpus: snippets with the rules they must be found by, and where.

A file of corpus/ holds snippets. `--- name` begins one; its suffix or file name says what it is. A line that ends
in `#! CU001 CU028` must be found by these rules, `#! guarded CU016` must be found and marked as guarded. In a snippet
named .ipynb, `%%` alone on a line parts cells. Labels are taken off before the scan, so that no rule can see them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import nbformat

FOLDER = Path(__file__).parent / "corpus"
LABEL = re.compile(r"\s*#! (guarded )?((?:CU\d{3} ?)+)$")

Place = tuple[int | None, int]  # cell, line


@dataclass(frozen=True)
class Label:
    rule: str
    place: Place
    guarded: bool


@dataclass(frozen=True)
class Snippet:
    name: str
    text: str
    labels: frozenset[Label]

    @property
    def is_clean(self) -> bool:
        """Nothing in it is to be reported, except as guarded."""
        return all(label.guarded for label in self.labels)

    def write(self, root: Path) -> Path:
        """Writes the snippet below root, as a notebook where it is one."""
        folder = root / self.name if "/" not in self.name else root
        path = folder / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".ipynb":
            cells = [
                nbformat.v4.new_code_cell(cell.strip("\n")) for cell in re.split(r"^%%$", self.text, flags=re.MULTILINE)
            ]
            for number, cell in enumerate(cells):
                cell["id"] = f"cell-{number}"
            path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)) + "\n")
        else:
            path.write_text(self.text)
        return path


def read() -> list[Snippet]:
    """All snippets."""
    found = []
    for file in sorted(FOLDER.glob("*.txt")):
        for part in re.split(r"^--- ", file.read_text(), flags=re.MULTILINE)[1:]:
            name, _, body = part.partition("\n")
            found.append(_snippet(name, body))
    names = [snippet.name for snippet in found]
    assert len(set(names)) == len(names), sorted({name for name in names if names.count(name) > 1})
    return found


def _snippet(name: str, body: str) -> Snippet:
    notebook = name.endswith(".ipynb")
    cell, line = (0 if notebook else None), 0
    lines, labels = [], []
    for text in body.splitlines():
        line += 1
        if notebook and text == "%%":
            cell, line = cell + 1, 0
        if match := LABEL.search(text):
            text = text[: match.start()]
            labels += [Label(rule, (cell, line), bool(match[1])) for rule in match[2].split()]
        lines.append(text)
    return Snippet(name, "\n".join(lines) + "\n", frozenset(labels))

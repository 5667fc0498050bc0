"""A notebook as one Python module: its code cells joined, so that an import in one cell counts in the next.

Lines for IPython (`!pip`, `%time`) become a `pass` with a comment, and come back when the cells are parted again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

import libcst as cst
import nbformat

CELL = "#%%torchport-cell "
MAGIC = "pass  #torchport-magic:"
_MAGIC_LINE = re.compile(r"^(\s*)((?:[\w, ]+=\s*)?[!%](?![=\s(]).*|\?{0,2}[\w.]+\?{1,2})$")
_SHELL_CELL = re.compile(r"^%%(bash|sh|script\s+bash|script\s+sh)\b")


class NotANotebookError(ValueError):
    """A file that is no notebook, or none in Python."""


@dataclass
class Notebook:
    """The raw JSON, and what its cells hold: one Python source, and shell lines with their cells."""

    raw: dict
    indent: int | str | None  # None: all on one line
    ends_with_newline: bool
    ascii_only: bool
    source: str = ""
    starts: list[tuple[int, int]] = field(default_factory=list)  # (line of the source before a cell's first, cell)
    shell: list[tuple[int, int, str]] = field(default_factory=list)  # (cell, first line, text)
    unread: list[tuple[int, str]] = field(default_factory=list)

    def place(self, line: int) -> tuple[int, int]:
        """Cell and line in the cell of a line of the joined source."""
        start, cell = max(pair for pair in self.starts if pair[0] < line)
        return cell, line - start


def read(text: str) -> Notebook:
    """Reads a notebook; NotANotebookError where it is none, or not one in Python."""
    try:
        raw = json.loads(text)
        nbformat.validate(nbformat.from_dict(raw))
    except (json.JSONDecodeError, nbformat.ValidationError) as err:
        raise NotANotebookError(f"must be a notebook: {str(err).splitlines()[0]}") from err
    language = raw.get("metadata", {}).get("kernelspec", {}).get("language", "python")
    if language != "python":
        raise NotANotebookError(f"must be a notebook in Python, got one in {language}")
    indent = re.match(r"\{\n([ \t]+)", text)
    book = Notebook(raw, indent.group(1) if indent else None, text.endswith("\n"), text.isascii())
    parts: list[str] = []
    lines = 0
    for number, cell in enumerate(raw["cells"]):
        if cell["cell_type"] != "code":
            continue
        source = _text(cell["source"])
        if _SHELL_CELL.match(source):
            book.shell.append((number, 2, source.partition("\n")[2]))
            continue
        if source.startswith("%%") and not source.startswith(("%%time", "%%capture")):
            continue
        python = []
        for i, line in enumerate(source.split("\n"), 1):
            magic = _MAGIC_LINE.match(line) if not line.lstrip().startswith("#") else None
            if magic and "!" in magic[2]:
                book.shell.append((number, i, magic[2].partition("!")[2]))
            python.append(f"{magic[1]}{MAGIC}{magic[2]}" if magic else line)
        joined = "\n".join(python)
        try:
            cst.parse_module(joined + "\n")
        except cst.ParserSyntaxError as err:
            book.unread.append((number, f"cell {number} must be Python: {err.message}, line {err.raw_line}"))
            continue
        parts.append(f"{CELL}{number}\n{joined}\n")
        book.starts.append((lines + 1, number))
        lines += parts[-1].count("\n")
    book.source = "".join(parts)
    return book


def write(book: Notebook, source: str) -> str:
    """The notebook's text with the cells of a changed joined source; other cells, outputs and key order stay."""
    for part in re.split(rf"^{re.escape(CELL)}", source, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        cell = book.raw["cells"][int(head)]
        text = re.sub(rf"^(\s*){re.escape(MAGIC)}", r"\1", body.removesuffix("\n"), flags=re.MULTILINE)
        if text != _text(cell["source"]):
            cell["source"] = text.splitlines(keepends=True) if isinstance(cell["source"], list) else text
    return json.dumps(book.raw, indent=book.indent, ensure_ascii=book.ascii_only) + "\n" * book.ends_with_newline


def _text(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)

"""Which files a scan reads, and as what. Imports no torch."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

SKIPPED = frozenset(
    [
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "venv",
        ".tox",
        ".nox",
        "node_modules",
        "__pycache__",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".eggs",
        "site-packages",
        ".ipynb_checkpoints",
    ]
)
SUFFIXES = {
    **dict.fromkeys((".py", ".pyi"), "python"),
    ".ipynb": "notebook",
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
    ".toml": "toml",
    ".json": "json",
    **dict.fromkeys((".sh", ".bash", ".zsh", ".slurm", ".sbatch", ".env", ".mk"), "shell"),
    ".dockerfile": "docker",
    **dict.fromkeys((".cu", ".cuh"), "cuda"),
}
NAMES = (
    (re.compile(r"(?i)^(dockerfile|containerfile)(\..*)?$"), "docker"),
    (re.compile(r"(?i)^[\w.-]*(requirements|constraints)[\w.-]*\.(txt|in)$"), "requirements"),
    (re.compile(r"^(GNUmakefile|[Mm]akefile|\.env(\.\w+)?)$"), "shell"),
)
LIMIT = 4 * 2**20  # bytes: larger files of these kinds are data


def kind_of(path: Path) -> str | None:
    """What a file is read as, by its name, or by its first line where the name has no suffix."""
    for pattern, kind in NAMES:
        if pattern.match(path.name):
            return kind
    if path.suffix:
        return SUFFIXES.get(path.suffix.lower())
    try:
        with path.open("rb") as file:
            first = file.readline(80)
    except OSError:
        return None  # not readable, and nothing in its name says that it matters
    if not first.startswith(b"#!"):
        return None
    return "python" if b"python" in first else "shell" if re.search(rb"\b(ba|z|da)?sh\b", first) else None


def walk(root: Path) -> Iterator[tuple[Path, str]]:
    """The files below root that a scan reads, in a fixed order, with their kinds. Links are not followed."""
    if root.is_file():
        kind = kind_of(root)
        if kind is None:
            raise ValueError(
                f"[scan] must be a folder, Python, a notebook, YAML, TOML, JSON, shell, a Dockerfile or requirements, got {root}"
            )
        yield root, kind
        return
    if not root.is_dir():
        raise FileNotFoundError(
            f"[scan] must be a file or a folder, got {root}, which does not exist. Try: a path below {Path.cwd()}"
        )
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink() and (kind := kind_of(path)) is not None:
                yield path, kind

"""Where PJRT plugins may lie: the import path, and plugins that other packages announce for JAX or PyTorch/XLA.

Nothing is imported from those packages (that could need jax or torch_xla); their installed files are looked at.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

GROUPS = ("jax_plugins", "torch_xla.plugins")


def search_path() -> list[str]:
    """Directories in which `python:package/file.so` is looked up: those that `import package` would use."""
    found = [os.path.abspath(p) for p in sys.path if os.path.isdir(p or ".")]
    return list(dict.fromkeys(found))


def plugins() -> list[tuple[str, str]]:
    """(name, path of a shared library) for every announced plugin that ships one."""
    found: dict[tuple[str, str], None] = {}
    for group in GROUPS:
        for entry in entry_points(group=group):
            if (path := _library(entry)) is not None:
                found[entry.name, str(path)] = None
    return list(found)


def _library(entry: EntryPoint) -> Path | None:
    """The one shared library among a package's files that is a PJRT plugin."""
    if entry.dist is None or entry.dist.files is None:
        return None
    for file in entry.dist.files:
        if file.suffix == ".so" and ("plugin" in file.name or "pjrt" in file.name):
            path = Path(str(file.locate()))
            if path.is_file():
                return path
    return None

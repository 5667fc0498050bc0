"""The one folder that an agent's tools may touch."""

from __future__ import annotations

import os
from pathlib import Path


class Refused(Exception):
    """A request outside of what was granted; the message says what is allowed."""


class Root:
    """A folder, and whether anything in it may be written.

    Paths are relative to it. Absolute paths, `..` and symbolic links are refused even where they would lead back
    inside: then no later change of a link can turn an allowed path into another one.
    """

    def __init__(self, folder: Path, write: bool = False) -> None:
        if not folder.is_dir():
            raise Refused(f"[mcp] root must be a folder, got {folder}")
        self.folder = folder.resolve()
        self.write = write

    def path(self, given: str, *, folder: bool | None = None) -> Path:
        """The absolute path of one that the agent gave. folder: whether it must be one, or must be a file."""
        if "\0" in given:
            raise Refused("[mcp] path must not hold a null byte")
        asked = Path(given)
        if asked.is_absolute() or ".." in asked.parts:
            raise Refused(f"[mcp] path must be relative to the root, without .., got {given!r}")
        path = self.folder
        for part in asked.parts:
            path /= part
            if path.is_symlink():
                raise Refused(f"[mcp] path must hold no symbolic link, got {given!r}")
        if not path.exists():
            raise Refused(f"[mcp] path must exist below the root, got {given!r}")
        if folder is not None and path.is_dir() != folder:
            raise Refused(f"[mcp] path must be a {'folder' if folder else 'file'}, got {given!r}")
        self._links(path)
        return path

    def _links(self, path: Path) -> None:
        """Refuses a folder with a link in it that leads out of the root: a tool that reads the folder would follow it."""
        for where, folders, files in os.walk(path, followlinks=False):
            for name in (*folders, *files):
                entry = Path(where) / name
                if entry.is_symlink() and not entry.resolve().is_relative_to(self.folder):
                    raise Refused(f"[mcp] {self.shown(entry)} must not link to a place outside the root")

    def may_write(self, what: str) -> None:
        """Refuses unless the server was started with --write."""
        if not self.write:
            raise Refused(
                f"[mcp] {what} must be allowed by the user, got a read-only server. Try: torchport mcp --write"
            )

    def shown(self, path: Path) -> str:
        """A path as the agent may see it."""
        return path.relative_to(self.folder).as_posix() if path.is_relative_to(self.folder) else path.name

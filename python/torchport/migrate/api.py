"""scan() and port(): whole paths in, results out. Imports no torch."""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import libcst as cst

from torchport.migrate import files, notebook, porting
from torchport.migrate.catalogue import catalogue
from torchport.migrate.findings import Change, Finding, PortResult, ScanResult, Unread, finding
from torchport.migrate.module import Module
from torchport.migrate.python_scan import Hit, may_match, scan_module
from torchport.migrate.text_scan import TextHit, scan_text

Progress = Callable[[str], None]
DEVICE = re.compile(r"^[a-z]\w*$")


@dataclass
class _File:
    """One file, read and scanned: its findings, and its text after a port."""

    findings: list[Finding]
    changes: list[Change]
    before: str
    after: str
    unread: list[str]


def scan(path: str | os.PathLike[str], progress: Progress | None = None) -> list[Finding]:
    """What ties the code below path to CUDA; guarded places are among the findings, marked. See scan_tree for the rest."""
    return scan_tree(path, progress).findings


def scan_tree(path: str | os.PathLike[str], progress: Progress | None = None) -> ScanResult:
    """Scans a file or a folder. FileNotFoundError or ValueError where path is neither."""
    root = Path(path)
    result = ScanResult(root=root.as_posix(), files=0, findings=[], unread=[])
    for name, read in _read_all(root, "tpu", progress):
        result.files += 1
        result.findings += read.findings
        result.unread += [Unread(path=name, reason=reason) for reason in read.unread]
    return result


def port(
    path: str | os.PathLike[str], apply: bool = False, device: str = "tpu", progress: Progress | None = None
) -> PortResult:
    """Rewrites what is automatic below path; writes only with apply. device is the name that configuration files get.

    All files are rewritten in memory before the first is written; each is written beside itself and renamed.
    """
    if not DEVICE.match(device) or device.startswith("cuda"):
        raise ValueError(f"[port] device must be a device name such as tpu or neuron, got {device!r}")
    root = Path(path)
    result = PortResult(
        root=root.as_posix(), applied=apply, device=device, files=[], changes=[], by_hand=[], unread=[], diff=""
    )
    diffs: list[str] = []
    new: list[tuple[Path, str]] = []
    for name, read in _read_all(root, device, progress):
        result.by_hand += [f for f in read.findings if not f.automatic]
        result.unread += [Unread(path=name, reason=reason) for reason in read.unread]
        if read.after != read.before:
            result.files.append(name)
            result.changes += read.changes
            diffs += _diff(name, read.before, read.after)
            new.append((root if root.is_file() else root / name, read.after))
    result.diff = "".join(diffs)
    if apply:
        for target, text in new:
            write_atomically(target, text)
    return result


def write_atomically(path: Path, text: str) -> None:
    """Writes beside path and renames, so that a kill leaves the old file or the new one; permissions stay."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        if path.exists():
            os.chmod(name, path.stat().st_mode & 0o7777)
        else:
            os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _diff(name: str, before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return [line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines]


def _read_all(root: Path, device: str, progress: Progress | None):
    for path, kind in files.walk(root):
        name = path.name if root.is_file() else path.relative_to(root).as_posix()
        if progress is not None:
            progress(name)
        yield name, _read(path, name, kind, device)


def _read(path: Path, name: str, kind: str, device: str) -> _File:
    if kind == "cuda":
        rule = next(rule for rule in catalogue().rules if any(re.fullmatch(p, path.name) for p in rule.files))
        found = finding(rule.id, path=name, line=1, column=1, text=path.name, what="a CUDA source file")
        return _File([found], [], "", "", [])
    if (size := path.stat().st_size) > files.LIMIT:
        return _File([], [], "", "", [f"must be at most {files.LIMIT} bytes, got {size}: taken for data"])
    try:
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read()
        if kind == "python":
            return _python(text, name, path.parent)
        if kind == "notebook":
            return _notebook(text, name, path.parent, device)
    except UnicodeDecodeError as err:
        return _File([], [], "", "", [f"must be UTF-8: {err.reason} at byte {err.start}"])
    except OSError as err:
        return _File([], [], "", "", [f"must be readable: {err.strerror}"])
    except notebook.NotANotebookError as err:
        return _File([], [], text, text, [str(err)])
    except cst.ParserSyntaxError as err:
        return _File([], [], text, text, [f"must be Python: {err.message}, line {err.raw_line}"])
    except RecursionError:
        return _File([], [], text, text, ["must be nested less deeply than Python's limit of recursion"])
    hits = scan_text(kind, text, device)
    lines = text.splitlines()
    found = [_of_text(hit, name, lines[hit.line - 1]) for hit in hits]
    after = porting.port_text(text, hits)
    new = after.splitlines()
    changes = [
        Change(rule=h.rule.id, path=name, line=h.line, before=lines[h.line - 1].strip(), after=new[h.line - 1].strip())
        for h in hits
        if h.new is not None
    ]
    return _File(found, changes, text, after, [])


def _of_text(hit: TextHit, name: str, text: str, **place: object) -> Finding:
    return finding(
        hit.rule.id,
        **{"path": name, "line": hit.line, "column": hit.column, "text": text, "what": hit.what, **place},
        automatic=hit.new is not None,
    )


def _python(text: str, name: str, folder: Path) -> _File:
    if not may_match(text):
        return _File([], [], text, text, [])
    module = Module(text)
    hits = scan_module(module, folder)
    found = [_of_python(module, hit, name) for hit in hits]
    changes = [_change(module, hit, name) for hit in hits if hit.edits]
    return _File(found, changes, text, porting.port_module(module, hits), [])


def _of_python(module: Module, hit: Hit, name: str, **place: object) -> Finding:
    line, column = module.place(hit.node)
    return finding(
        hit.rule.id,
        **{"path": name, "line": line, "column": column, "text": module.lines[line - 1], "what": hit.what, **place},
        automatic=hit.automatic,
        guarded=hit.guarded,
    )


def _change(module: Module, hit: Hit, name: str, **place: object) -> Change:
    before = "\n".join(module.code(edit.target).strip() for edit in hit.edits)
    after = "\n".join(module.code(edit.build(edit.target)).strip() for edit in hit.edits)
    line = module.place(hit.node)[0]
    return Change(**{"rule": hit.rule.id, "path": name, "line": line, "before": before, "after": after, **place})


def _notebook(text: str, name: str, folder: Path, device: str) -> _File:
    book = notebook.read(text)
    module = Module(book.source)
    hits = scan_module(module, folder)
    found, changes = [], []
    for hit in hits:
        cell, line = book.place(module.place(hit.node)[0])
        found.append(_of_python(module, hit, name, cell=cell, line=line))
        if hit.edits:
            changes.append(_change(module, hit, name, cell=cell, line=line))
    for cell, first, shell in book.shell:
        for hit in scan_text("shell", shell, device):
            words = shell.splitlines()[hit.line - 1]
            found.append(_of_text(hit, name, words, cell=cell, line=first + hit.line - 1))
    after = porting.port_module(module, hits)
    new = text if after == book.source else notebook.write(book, after)
    found.sort(key=lambda f: (f.cell or 0, f.line, f.column))
    return _File(found, changes, text, new, [reason for _, reason in book.unread])

"""What a scan and a port give back. Imports no torch."""

from __future__ import annotations

import hashlib
import json

from pydantic import BaseModel, ConfigDict

from torchport.migrate.catalogue import Automation, Effect, Effort, Set, catalogue

SCHEMA = "torchport.scan/1"  # raised when a field changes its meaning or goes
PORT_SCHEMA = "torchport.port/1"
RUN_SCHEMA = "torchport.run/1"


class Finding(BaseModel):
    """One place that a rule names. Lines and columns count from 1; in a notebook they are those of the cell."""

    model_config = ConfigDict(frozen=True)

    rule: str
    path: str  # relative to the root that was scanned, with forward slashes
    line: int
    column: int
    cell: int | None = None  # a notebook's cell, counted from 0 over all cells
    text: str  # the line, without its indentation
    what: str
    effect: tuple[Effect, ...]
    effort: Effort
    set: Set
    automation: Automation
    replacement: str
    automatic: bool  # whether `torchport port` rewrites this very place
    guarded: bool  # in a branch that other devices do not enter: reported, never rewritten
    verified_by: str | None = None  # the run that showed the effect; None = not verified

    @property
    def place(self) -> str:
        """path:line, or path:cell:line in a notebook."""
        cell = "" if self.cell is None else f"cell {self.cell}:"
        return f"{self.path}:{cell}{self.line}"


def finding(rule: str, *, path: str, line: int, column: int, text: str, what: str, **more: object) -> Finding:
    """A finding with the rule's own fields filled in."""
    entry = catalogue()[rule]
    return Finding(
        rule=rule,
        path=path,
        line=line,
        column=column,
        text=text.strip(),
        what=what,
        effect=entry.effect,
        effort=entry.effort,
        set=entry.set,
        automation=entry.automation,
        replacement=entry.replacement,
        **{"automatic": False, "guarded": False, **more},
    )


class Unread(BaseModel):
    """A file, or a cell of a notebook, that could not be read as what its name says."""

    path: str
    reason: str


class ScanResult(BaseModel):
    """Everything one scan found, and what it could not read."""

    schema_version: str = SCHEMA
    root: str
    files: int
    findings: list[Finding]
    unread: list[Unread]


def verified(result: ScanResult, log: str) -> ScanResult:
    """The result with the id of a run at every finding that the run met; log is the text of `torchport run --log`.

    The places agree where the scan was given the script's folder. ValueError where log is something else.
    """
    try:
        record = json.loads(log)
        met = {(row["file"], row["line"]) for row in record["redirections"]}
        if record["schema"] != RUN_SCHEMA:
            raise ValueError(record["schema"])
    except (ValueError, KeyError, TypeError) as err:
        raise ValueError(f"[scan] the run's log must be JSON with schema {RUN_SCHEMA}, got: {err}") from err
    run = hashlib.sha256(log.encode()).hexdigest()[:12]
    findings = [
        f.model_copy(update={"verified_by": f"run {run}"}) if (f.path, f.line) in met else f for f in result.findings
    ]
    return result.model_copy(update={"findings": findings})


class Change(BaseModel):
    """One rewrite: the lines before and after."""

    rule: str
    path: str
    line: int
    cell: int | None = None
    before: str
    after: str


class PortResult(BaseModel):
    """What a port changes, or has changed, and what stays to be done by hand."""

    schema_version: str = PORT_SCHEMA
    root: str
    applied: bool
    device: str  # the name written into configuration files
    files: list[str]  # the files that change
    changes: list[Change]
    by_hand: list[Finding]
    unread: list[Unread]
    diff: str  # unified, empty where nothing changes

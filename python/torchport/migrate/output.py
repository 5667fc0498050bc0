"""Findings as a table, as JSON and as SARIF 2.1.0. Imports no torch."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Table

from torchport.migrate.catalogue import catalogue
from torchport.migrate.findings import Finding, PortResult, ScanResult

# What fails stops a port; what is slow or counts otherwise is to be known; a guarded place is a note.
LEVELS = {"fails": "error", "numerics": "warning", "slow": "warning", "operations": "warning"}


def table(findings: list[Finding], console: Console) -> None:
    """One row a finding, and a summary by set and effort."""
    rows = Table()
    for column in ("place", "rule", "what", "effect", "effort", "set", "how"):
        rows.add_column(column, no_wrap=column == "rule", overflow="fold")
    for f in findings:
        how = "guarded" if f.guarded else "automatic" if f.automatic else "by hand"
        rows.add_row(f.place, f.rule, f.what, ", ".join(f.effect), f.effort, f.set, how)
    console.print(rows)
    console.print(summary(findings), markup=False, highlight=False)


def summary(findings: list[Finding]) -> str:
    """The counts that a reader asks for first."""
    due = [f for f in findings if not f.guarded]
    sets = Counter(f.set for f in due)
    effort = Counter(f.effort for f in due if not f.automatic)
    return (
        f"{len(due)} findings: {sets['port']} in the port set, {sets['optimise']} in the optimise set; "
        f"{sum(f.automatic for f in due)} automatic, by hand {effort['minutes']} of minutes, {effort['hours']} of hours, "
        f"{effort['rewrite']} rewrites; {len(findings) - len(due)} guarded places besides"
    )


def sarif(result: ScanResult, version: str) -> dict[str, Any]:
    """A SARIF 2.1.0 log with one run; rules carry the catalogue's text, results the place and a stable fingerprint."""
    met = sorted({f.rule for f in result.findings})
    rules = [catalogue()[rule] for rule in met]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "torchport",
                        "version": version,
                        "rules": [
                            {
                                "id": rule.id,
                                "shortDescription": {"text": rule.pattern},
                                "fullDescription": {"text": rule.why},
                                "help": {"text": f"Instead: {rule.replacement}"},
                                "defaultConfiguration": {"level": LEVELS[rule.effect[0]]},
                                "properties": {"effort": rule.effort, "set": rule.set, "automation": rule.automation},
                            }
                            for rule in rules
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {"ROOT": {"description": {"text": "the path that was scanned"}}},
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": [
                            {"level": "warning", "message": {"text": f"{unread.path}: {unread.reason}"}}
                            for unread in result.unread
                        ],
                    }
                ],
                "results": [_result(f, met) for f in result.findings],
            }
        ],
    }


def _result(f: Finding, met: list[str]) -> dict[str, Any]:
    place = {
        "artifactLocation": {"uri": f.path, "uriBaseId": "ROOT"},
        "region": {"startLine": f.line, "startColumn": f.column, "snippet": {"text": f.text}},
    }
    location: dict[str, Any] = {"physicalLocation": place}
    if f.cell is not None:
        location["logicalLocations"] = [{"name": f"cell {f.cell}", "kind": "module"}]
    return {
        "ruleId": f.rule,
        "ruleIndex": met.index(f.rule),
        "level": "note" if f.guarded else LEVELS[f.effect[0]],
        "message": {"text": f"{f.what}. Instead: {f.replacement}"},
        "locations": [location],
        "partialFingerprints": {
            "place/v1": hashlib.sha256(f"{f.rule}\0{f.path}\0{f.cell}\0{f.text}".encode()).hexdigest()[:32]
        },
        "properties": {"automatic": f.automatic, "guarded": f.guarded, "effect": list(f.effect), "effort": f.effort},
    }


def port_summary(result: PortResult) -> str:
    """What a port did, and what is left."""
    due = [f for f in result.by_hand if not f.guarded]
    verb = "changed" if result.applied else "would change"
    return (
        f"{verb} {len(result.files)} files in {len(result.changes)} places; "
        f"{len(due)} findings stay to be done by hand, {len(result.by_hand) - len(due)} guarded places are left as they are"
    )

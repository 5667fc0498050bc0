"""What a result file of TorchPort gives to the knowledge base: findings, changes, measurements, decisions.

Known are the JSON of `torchport scan`, `port`, `run` and `check` (by the schema that they name) and evaluation folders.
Prompts, answers and names of people in them are left out, texts are redacted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torchport.migrate.kb.entry import Entry, make
from torchport.migrate.kb.redact import clean


def ingest(path: Path) -> list[Entry]:
    """The entries of a file or an evaluation folder. Raises ValueError for what it does not know."""
    if path.is_dir():
        return list(_evaluation(path))
    return entries(path.read_bytes(), str(path))


def entries(raw: bytes, name: str) -> list[Entry]:
    """The entries of a result file's contents; name: what to call it in an error."""
    try:
        data = json.loads(raw)
    except ValueError as err:
        raise ValueError(f"[kb import] {name} must be JSON, got: {err}") from err
    data = clean(data)
    schema = str(data.get("schema_version") or data.get("schema") or "") if isinstance(data, dict) else ""
    known = {"torchport.scan": _scan, "torchport.port": _port, "torchport.run": _run, "torchport.check": _check}
    kind = schema.partition("/")[0]
    if kind not in known:
        raise ValueError(
            f"[kb import] {name} must name a schema of {', '.join(known)}, got {schema or 'none'}. "
            "Try: torchport scan --format json, --log of torchport port or run, torchport check --json, or an evaluation folder"
        )
    return list(known[kind](data, f"sha256:{hashlib.sha256(raw).hexdigest()}"))


def _scan(data: dict[str, Any], evidence: str) -> Iterable[Entry]:
    for row in data["findings"]:
        guarded = ", guarded" if row["guarded"] else ""
        effect = ", ".join(row["effect"])
        claim = f"{row['rule']} ({effect}, {row['effort']}, {row['set']} set{guarded}): {row['text']}"
        place = f"{row['path']}:{row['line']}"
        yield make("finding", claim[:1000], place, evidence=f"{evidence} rule/{row['rule']}")


def _port(data: dict[str, Any], evidence: str) -> Iterable[Entry]:
    done = "was rewritten" if data["applied"] else "would be rewritten"
    for row in data["changes"]:
        claim = f"{row['rule']}: {row['before'].strip()!r} {done} as {row['after'].strip()!r}"
        yield make("change", claim[:1000], f"{row['path']}:{row['line']}", evidence=f"{evidence} rule/{row['rule']}")


def _run(data: dict[str, Any], evidence: str) -> Iterable[Entry]:
    for row in data["redirections"]:
        rule = f" rule/{row['rule']}" if row["rule"] else ""
        claim = f"change still owed: {row['what']} was carried over to {row['to']} while running, {row['count']} times"
        yield make("finding", claim[:1000], f"{row['file']}:{row['line']}", evidence=f"{evidence}{rule}")


def _check(data: dict[str, Any], evidence: str) -> Iterable[Entry]:
    """Findings of the run and of each target; the estimate is one of them, since nothing of it was measured."""
    words = {True: "yes", False: "no", None: "unknown"}
    for row in data["findings"]:
        yield _of_check(data, row, "in emulation", evidence)
    for target in data["targets"]:
        compiles, fits = words[target["compiles"]], words[target["fits"]]
        step = target["estimate"]["seconds"]
        time = "" if step is None else f"; a step at best {step:.3g} s, estimate, not measured"
        claim = f"{data['script']} on {target['target']}: compiles {compiles}, fits {fits}{time}"
        yield make("finding", claim[:1000], "torchport check", date=data["date"], evidence=evidence)
        for row in target["findings"]:
            yield _of_check(data, row, f"on {target['target']}", evidence)


def _of_check(data: dict[str, Any], row: dict[str, Any], where: str, evidence: str) -> Entry:
    advice = f" Next: {row['advice']}" if row["advice"] else ""
    claim = f"{data['script']} {where}: {row['severity']} {row['code']}: {row['what']}{advice}"
    kind = "error" if row["severity"] == "error" else "finding"
    return make(kind, claim[:1000], row["where"] or "torchport check", date=data["date"], evidence=evidence)


def _evaluation(folder: Path) -> Iterable[Entry]:
    """Changes, failures, measurements and decisions of a folder, by their evidence ids."""
    from torchport.migrate.evaluate import EvalError, load_folder

    try:
        evaluation = load_folder(folder)
        evaluation.check()
    except EvalError as err:
        raise ValueError(str(err)) from err
    title = evaluation.plan.evaluation.title
    for entry in evaluation.entries:
        data, day = clean(entry.data), entry.time[:10]
        if entry.kind == "change":
            what = "; ".join(f"{key} {value}" for key, value in data.items() if key != "stage")
            yield make("change", f"{title}, {data['stage']}: {what}"[:1000], str(folder), date=day, evidence=entry.id)
        elif entry.kind == "failure":
            claim = f"{title}, {data['stage']}: a start failed: [{data['where']}] must {data['must']}"
            yield make("error", claim[:1000], str(folder), date=day, evidence=entry.id)
        elif entry.kind == "decision":
            claim = f"{title}: {data['outcome']}, on the evidence of {data['stage']}"
            yield make("decision", claim, data["record"], date=day, evidence=entry.id)
    for stage, ledger in evaluation.ledgers.items():
        for result in ledger.results:
            m = result.measurement
            versions = ", ".join(f"{name} {version}" for name, version in sorted(m.identity.software.items()))
            emulated = ", emulated" if m.identity.emulated else ""
            claim = f"{title}, {stage}: a start of {m.identity.model} on {m.identity.device}{emulated}{_figures(m)}"
            yield make(
                "measurement",
                claim[:1000],
                result.path,
                date=m.started[:10],
                versions=versions[:1000],
                evidence=result.evidence,
            )


def _figures(measurement: Any) -> str:
    """The plain figures of one start."""
    parts = []
    if measurement.cold:
        parts.append(f"first result after {measurement.cold.first_result_s:.3g} s")
    for load in measurement.loads:
        parts.append(f"{load.scenario}: {load.queries} queries, {load.failed} failed, in {load.duration_s:.3g} s")
    if measurement.steps and measurement.steps.seconds:
        seconds = measurement.steps.seconds
        parts.append(f"{len(seconds)} steps in {sum(seconds):.3g} s")
    return "; " + "; ".join(parts) if parts else ""

"""An evaluation folder, read only: the plan in force, its seal and amendments, the stages' ledgers, the decision.

What is in force is the sealed copy, never plan.toml as it lies there: an edit counts once it has been amended.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torchport.migrate.evaluate.chain import Chain, Entry
from torchport.migrate.evaluate.durable import canonical, digest, digest_file
from torchport.migrate.evaluate.errors import EvalError, TamperError
from torchport.migrate.evaluate.measurement import Measurement
from torchport.migrate.evaluate.parse import difference, load_plan, validated
from torchport.migrate.evaluate.plan import MEASURED_STAGES, REFERENCE_STAGES, Plan, PriceFile
from torchport.migrate.evaluate.prices import load_prices

PLAN, SEALED, RESULTS = "plan.toml", "sealed", "results"


@dataclass(frozen=True)
class Recorded:
    """A measurement with the entry that proves it."""

    evidence: str
    path: str
    measurement: Measurement
    recovered: bool = False


@dataclass(frozen=True)
class Ledger:
    """What one stage took and gave."""

    stage: str
    changes: list[Entry] = field(default_factory=list)
    hours: list[Entry] = field(default_factory=list)
    results: list[Recorded] = field(default_factory=list)

    @property
    def total_hours(self) -> float:
        """Engineer hours."""
        return sum(e.data["hours"] for e in self.hours)


class Evaluation:
    """One folder. Use load_folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chain = Chain(folder)
        self.entries, self._chain_findings = self.chain.inspect()

    # the plan

    @property
    def seals(self) -> list[Entry]:
        """The seal, then the amendments, oldest first."""
        return [e for e in self.entries if e.kind in ("seal", "amendment")]

    @property
    def seal(self) -> Entry | None:
        """The entry that fixed the plan, or None."""
        return self.seals[0] if self.seals else None

    @property
    def amendments(self) -> list[Entry]:
        """Later changes; each has data.reason, data.by, data.changes, data.measurements_before."""
        return self.seals[1:]

    @cached_property
    def plan(self) -> Plan:
        """The plan in force: sealed, or plan.toml while there is no seal."""
        if not self.seals:
            return load_plan(self.folder / PLAN)
        return validated(Plan, self._snapshot("plan"), "sealed plan")

    @cached_property
    def prices(self) -> PriceFile:
        """The prices in force."""
        if not self.seals:
            return load_prices(self.folder / self.plan.cost.prices)
        return validated(PriceFile, self._snapshot("prices"), "sealed prices")

    def _snapshot(self, name: str) -> Any:
        path = self.folder / self.seals[-1].data[name]
        try:
            raw = path.read_bytes()
        except FileNotFoundError as error:
            raise TamperError([f"{self.seals[-1].data[name]}: missing"]) from error
        if digest(raw) != self.seals[-1].files[self.seals[-1].data[name]]:
            raise TamperError([f"{self.seals[-1].data[name]}: changed after it was sealed"])
        return json.loads(raw)

    # the evidence

    @cached_property
    def ledgers(self) -> dict[str, Ledger]:
        """Changes, hours and results by stage."""
        found = {stage: Ledger(stage) for stage in (*MEASURED_STAGES, *REFERENCE_STAGES)}
        for entry in self.entries:
            if entry.kind == "change":
                found[entry.data["stage"]].changes.append(entry)
            elif entry.kind == "hours":
                found[entry.data["stage"]].hours.append(entry)
            elif entry.kind == "measurement":
                path = entry.data["path"]
                body = json.loads((self.folder / path).read_bytes())["body"]
                measurement = validated(Measurement, body, path)
                recovered = bool(entry.data.get("recovered"))
                found[measurement.stage].results.append(Recorded(entry.id, path, measurement, recovered))
        return found

    @property
    def answers(self) -> dict[str, Entry]:
        """The latest answer to each criterion that a person answers."""
        return {e.data["criterion"]: e for e in self.entries if e.kind == "answer"}

    @property
    def decisions(self) -> list[Entry]:
        """Decisions, oldest first; data.path is the JSON, data.record the Markdown."""
        return [e for e in self.entries if e.kind == "decision"]

    @property
    def decision(self) -> dict[str, Any] | None:
        """The latest decision as decide.decide wrote it, or None."""
        return json.loads((self.folder / self.decisions[-1].data["path"]).read_bytes()) if self.decisions else None

    @property
    def cost(self) -> dict[str, Any] | None:
        """The cost part of the latest decision, or None."""
        return self.decision["cost"] if self.decision else None

    @property
    def evidence(self) -> dict[str, Entry]:
        """Every entry by its evidence id."""
        return {e.id: e for e in self.entries}

    # tampering

    @cached_property
    def findings(self) -> list[str]:
        """Everything that is not as it was recorded, each with its name; empty when all is well."""
        found = list(self._chain_findings)
        recorded = {path: (sha, entry) for entry in self.entries for path, sha in entry.files.items()}
        for path, (sha, entry) in sorted(recorded.items()):
            target = self.folder / path
            if not target.is_file():
                found.append(f"{path}: missing ({entry.kind} {entry.id})")
            elif digest_file(target) != sha:
                found.append(f"{path}: changed after it was recorded ({entry.kind} {entry.id})")
        return found + self._edited()

    def _edited(self) -> list[str]:
        """Fields of plan.toml and of the price file that differ from what is sealed."""
        if not self.seals or any("sealed/" in f for f in self._chain_findings):
            return []
        found = []
        try:
            plan, prices = self._snapshot("plan"), self._snapshot("prices")
        except TamperError:
            return []  # the snapshot itself is already among the findings
        for name, sealed, load in (
            (PLAN, plan, load_plan),
            (plan["cost"]["prices"], prices, load_prices),
        ):
            try:
                present = load(self.folder / name).model_dump(mode="json")
            except EvalError as error:
                found.append(f"{name}: {error}")
                continue
            for change in difference(sealed, present):
                row = _row(sealed, change["field"])
                found.append(f"{name}: {change['field']}{row} is {change['present']!r}, sealed as {change['sealed']!r}")
        return found

    def check(self) -> None:
        """Raises TamperError when something is not as it was recorded."""
        if self.findings:
            raise TamperError(self.findings)

    @property
    def unrecorded(self) -> list[Path]:
        """Result files that a kill kept from the log; the next command that writes takes them in."""
        known = {path for entry in self.entries for path in entry.files}
        files = sorted((self.folder / RESULTS).rglob("*.json"))
        return [f for f in files if f.relative_to(self.folder).as_posix() not in known]


def _row(sealed: Any, path: str) -> str:
    """` (id)` of the list row that a path lies in, so that a price is named and not numbered."""
    for key in path.split("."):
        if isinstance(sealed, dict):
            sealed = sealed.get(key)
        elif isinstance(sealed, list) and key.isdigit() and int(key) < len(sealed):
            sealed = sealed[int(key)]
            if isinstance(sealed, dict) and "id" in sealed:
                return f" ({sealed['id']})"
        else:
            break
    return ""


def load_folder(folder: str | Path) -> Evaluation:
    """Opens an evaluation folder for reading; `.findings` says what was tampered with, `.check()` raises then."""
    path = Path(folder)
    if not (path / PLAN).is_file() and not (path / "chain.jsonl").is_file():
        raise EvalError("eval", f"be given a folder with {PLAN}", path, f"torchport eval init {path}")
    return Evaluation(path)


def measurement_file(body: dict[str, Any], after: str) -> bytes:
    """A result file: the measurement, its hash, and the head of the log when it was made."""
    return canonical({"after": after, "body": body, "sha256": digest(canonical(body))})

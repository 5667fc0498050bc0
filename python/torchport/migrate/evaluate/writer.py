"""Everything that adds to an evaluation folder: seal, amendment, ledger entries, answers, measurements.

Order of writes: the file first, whole and synced, then the entry that names it. A kill in between leaves a file that
the next command takes in; a kill before leaves nothing half done.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from torchport.migrate.evaluate.chain import GENESIS, Entry
from torchport.migrate.evaluate.durable import canonical, digest, digest_file, write_atomic
from torchport.migrate.evaluate.errors import EvalError
from torchport.migrate.evaluate.folder import PLAN, RESULTS, SEALED, Evaluation, load_folder, measurement_file
from torchport.migrate.evaluate.measurement import Measurement
from torchport.migrate.evaluate.measures import check_measures
from torchport.migrate.evaluate.parse import difference, load_plan, placeholders, validated
from torchport.migrate.evaluate.plan import MEASURED_STAGES, Plan
from torchport.migrate.evaluate.prices import check_prices, find_price, load_prices


@contextmanager
def opened(folder: Path, sealed: bool = True) -> Iterator[Evaluation]:
    """The folder, locked, repaired, checked; with `sealed`, refuses one whose plan nobody has fixed."""
    evaluation = load_folder(folder)
    with evaluation.chain.locked():
        evaluation.chain.repair()
        evaluation = load_folder(folder)
        if sealed and not evaluation.seal:
            raise EvalError(
                "eval",
                "have a sealed plan before anything is measured",
                "a plan that is not sealed",
                f"torchport eval seal {folder}",
            )
        evaluation.check()
        for path in evaluation.unrecorded if evaluation.seal else []:
            _take_in(evaluation, path)
            evaluation = load_folder(folder)
        yield evaluation


def seal(folder: Path, by: str, today: date) -> Entry:
    """Fixes plan, prices and workload data. Refused twice, with placeholders, with unusable prices."""
    with opened(folder, sealed=False) as evaluation:
        if evaluation.seal:
            raise EvalError(
                "eval seal",
                "be given a plan that is not sealed yet",
                f"one sealed on {evaluation.seal.time}",
                f"torchport eval amend {folder} --reason ...",
            )
        return _fix(evaluation, "seal", {"by": by}, today)


def amend(folder: Path, by: str, reason: str, today: date) -> Entry:
    """Puts the present plan.toml and prices in force; what changed, why, and after how many measurements stays on record."""
    evaluation = load_folder(folder)
    with evaluation.chain.locked():
        evaluation.chain.repair()
        evaluation = load_folder(folder)
        if not evaluation.seal:
            raise EvalError(
                "eval amend", "be given a sealed plan", "one that is not sealed", f"torchport eval seal {folder}"
            )
        if not reason.strip():
            raise EvalError("eval amend", "say why", "an empty reason", "--reason 'new price list of 3 March'")
        plan = load_plan(folder / PLAN)
        prices = load_prices(folder / plan.cost.prices)
        changes = [
            {"file": name, **change}
            for name, old, new in ((PLAN, evaluation.plan, plan), (plan.cost.prices, evaluation.prices, prices))
            for change in difference(_dump(old), _dump(new))
        ]
        data = [
            n
            for n, sha in evaluation.seals[-1].files.items()
            if not n.startswith(f"{SEALED}/") and _sha(folder / n) != sha
        ]
        changes += [{"file": name, "field": "content", "sealed": "other bytes", "present": "changed"} for name in data]
        if not changes:
            raise EvalError(
                "eval amend", "find a change in the plan, the prices or the data", "none", f"edit {folder / PLAN} first"
            )
        measured = sum(len(ledger.results) for ledger in evaluation.ledgers.values())
        facts = {"by": by, "reason": reason, "changes": changes, "measurements_before": measured}
        return _fix(evaluation, "amendment", facts, today)


def _fix(evaluation: Evaluation, kind: str, facts: dict[str, Any], today: date) -> Entry:
    folder = evaluation.folder
    plan = load_plan(folder / PLAN)
    if found := placeholders(plan):
        raise EvalError(
            f"eval {kind}", "be given a plan without placeholders", ", ".join(found), f"edit {folder / PLAN}"
        )
    check_measures(plan)
    prices = load_prices(folder / plan.cost.prices)
    check_prices(prices, plan.evaluation.currency, plan.cost.max_price_age_days, today)
    for where, side in (("cost.baseline", plan.cost.baseline), ("cost.target", plan.cost.target)):
        rows = [find_price(prices, side.price, f"{where}.price")]
        if side.commitment:
            rows.append(find_price(prices, side.commitment.price, f"{where}.commitment.price"))
        for row in rows:
            if row.region not in plan.conditions.regions:
                allowed = f"be a price of {', '.join(plan.conditions.regions)} (conditions.regions)"
                raise EvalError(f"{where} price {row.id}", allowed, row.region)
    files = {name: _sha(folder / name) for name in workload_files(plan)}
    if missing := [name for name, sha in files.items() if sha is None]:
        raise EvalError(f"eval {kind}", f"find the workload's files below {folder}", f"no {', '.join(missing)}")
    number = len(evaluation.seals) + 1
    data = {**facts, "as_of": today.isoformat()}
    for name, model in (("plan", plan), ("prices", prices)):
        path = f"{SEALED}/{name}-{number:04d}.json"
        raw = canonical(_dump(model))
        write_atomic(folder / path, raw)
        files[path] = digest(raw)
        data |= {name: path, f"{name}_sha256": digest(raw)}
    return evaluation.chain.append(kind, data, {n: str(sha) for n, sha in files.items()})


def workload_files(plan: Plan) -> list[str]:
    """Files that fix the workload, relative to the folder."""
    service = [plan.workload.service.requests] if plan.workload.service else []
    weights = [plan.workload.weights] if plan.workload.weights else []
    systems = {stage.system_desc for stage in plan.stages.values() if stage.system_desc}
    return [*service, *weights, *plan.workload.data, *sorted(systems)]


def add_change(folder: Path, stage: str, what: str, **facts: Any) -> Entry:
    """One change of a stage's ledger: what, files, rule, effect."""
    return _add(folder, "change", stage, {"what": what, **facts})


def add_hours(folder: Path, stage: str, hours: float, what: str, role: str) -> Entry:
    """Engineer hours of a stage's ledger."""
    if not 0 < hours < 10_000:
        raise EvalError("eval hours", "be given hours above 0 and below 10,000", hours)
    return _add(folder, "hours", stage, {"hours": hours, "what": what, "role": role})


def _add(folder: Path, kind: str, stage: str, data: dict[str, Any]) -> Entry:
    if stage not in MEASURED_STAGES:
        raise EvalError(f"eval {kind}", f"name a stage of {', '.join(MEASURED_STAGES)}", stage)
    with opened(folder) as evaluation:
        return evaluation.chain.append(kind, {"stage": stage, **data})


def add_answer(folder: Path, criterion: str, value: float, evidence: str, by: str) -> Entry:
    """A person's answer to a criterion with measure = answer. An answer without evidence is refused."""
    with opened(folder) as evaluation:
        asked = [c.id for c in evaluation.plan.criteria if c.measure == "answer"]
        if criterion not in asked:
            raise EvalError("eval answer", f"name one of {', '.join(asked) or 'no criterion'}", criterion)
        if not math.isfinite(value):
            raise EvalError("eval answer", "be given a finite value", value)
        if not evidence.strip():
            raise EvalError("eval answer", "give evidence: an address, a file, a ticket", "none")
        files = {evidence: digest_file(folder / evidence)} if (folder / evidence).is_file() else {}
        data = {"criterion": criterion, "value": value, "evidence": evidence, "by": by}
        return evaluation.chain.append("answer", data, files)


def record(evaluation: Evaluation, measurement: Measurement, attachments: dict[str, bytes] | None = None) -> Entry:
    """Stores one finished measurement so that no kill can lose it. Call with the folder opened.

    Attachments are named `suffix -> content` and lie beside the measurement; they are written first.
    """
    head = evaluation.chain.read()[-1].hash
    body = measurement.model_dump(mode="json")
    attached = {}
    stem = f"{RESULTS}/{measurement.stage}/{measurement.session}-{measurement.position:03d}"
    for suffix, content in (attachments or {}).items():
        write_atomic(evaluation.folder / f"{stem}{suffix}", content)
        attached[suffix] = digest(content)
    path = f"{stem}.json"
    if (evaluation.folder / path).exists():
        raise EvalError("eval run", "write a new result", f"{path} already there")
    write_atomic(evaluation.folder / path, measurement_file({**body}, head))
    return _enter(evaluation, path, {f"{stem}{suffix}": sha for suffix, sha in attached.items()}, measurement, {})


def _enter(evaluation: Evaluation, path: str, files: dict[str, str], m: Measurement, facts: dict[str, Any]) -> Entry:
    data = {"path": path, "stage": m.stage, "session": m.session, "source": m.source, **facts}
    return evaluation.chain.append("measurement", data, {path: digest_file(evaluation.folder / path), **files})


def _take_in(evaluation: Evaluation, path: Path) -> None:
    """Enters a result that a kill left out of the log, if it is whole and was made on top of this very log."""
    name = path.relative_to(evaluation.folder).as_posix()
    try:
        raw = json.loads(path.read_bytes())
        whole = digest(canonical(raw["body"])) == raw["sha256"]
        known = raw["after"] in {GENESIS, *(e.hash for e in evaluation.entries)}
        measurement = validated(Measurement, raw["body"], name)
    except (ValueError, KeyError, TypeError) as error:
        raise EvalError(
            "eval", f"find only its own results in {RESULTS}/", f"{name}, which is none ({error})", "move it away"
        ) from error
    if not (whole and known):
        raise EvalError(
            "eval",
            f"find only its own results in {RESULTS}/",
            f"{name}, which was altered or belongs elsewhere",
            "move it away",
        )
    beside = [p for p in path.parent.glob(f"{path.stem}.*") if p != path and not p.name.startswith(".")]
    files = {p.relative_to(evaluation.folder).as_posix(): digest_file(p) for p in beside}
    _enter(evaluation, name, files, measurement, {"recovered": True})


def _dump(model: BaseModel) -> Any:
    return model.model_dump(mode="json")


def _sha(path: Path) -> str | None:
    return digest_file(path) if path.is_file() and os.access(path, os.R_OK) else None

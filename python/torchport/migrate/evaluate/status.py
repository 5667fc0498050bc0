"""Where an evaluation stands, as data: for the command line, the agents' tools and the report."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from torchport.migrate.evaluate.analysis import outside
from torchport.migrate.evaluate.folder import load_folder
from torchport.migrate.evaluate.measures import ANSWER


def status(folder: Path) -> dict[str, Any]:
    """Seal, amendments, ledgers by stage, what nobody has answered, what was tampered with. Changes nothing."""
    evaluation = load_folder(folder)
    plan = evaluation.plan
    failures = Counter(e.data["stage"] for e in evaluation.entries if e.kind == "failure")
    tampered = list(evaluation.findings)
    # With a result gone or altered the ledgers cannot be trusted: what was tampered with is the whole answer then.
    ledgers = {} if any("results/" in f for f in tampered) else evaluation.ledgers
    return {
        "title": plan.evaluation.title,
        "sealed": f"{evaluation.seal.id} on {evaluation.seal.time}" if evaluation.seal else "not sealed",
        "head": evaluation.entries[-1].hash if evaluation.entries else "none",
        "amendments": [{"id": e.id, **e.data} for e in evaluation.amendments],
        "stages": [
            {
                "stage": stage,
                "starts": len(ledger.results),
                "counted": sum(not outside(r.measurement, evaluation) for r in ledger.results),
                "wanted": plan.rules.min_starts,
                "changes": len(ledger.changes),
                "hours": ledger.total_hours,
                "failures": failures[stage],
            }
            for stage, ledger in ledgers.items()
            if stage in plan.stages
        ],
        "unanswered": [c.id for c in plan.criteria if c.measure == ANSWER and c.id not in evaluation.answers],
        "unrecorded": [p.relative_to(evaluation.folder).as_posix() for p in evaluation.unrecorded],
        "decision": _decision(evaluation.decisions),
        "tampered": tampered,
    }


def _decision(decisions: list[Any]) -> str:
    if not decisions:
        return "none"
    last = decisions[-1]
    return f"{last.data['outcome']} ({last.data['stage']}), {last.id} on {last.time}, record {last.data['record']}"

"""From the sealed rules to one of three outcomes. Gates come first: no score and no saving outweighs a gate that failed."""

from __future__ import annotations

import math
from datetime import date, timedelta
from typing import Any, Literal

from torchport.migrate.evaluate.analysis import Analysis, StageFigures
from torchport.migrate.evaluate.chain import Entry
from torchport.migrate.evaluate.durable import canonical, digest, write_atomic
from torchport.migrate.evaluate.errors import EvalError
from torchport.migrate.evaluate.folder import Evaluation
from torchport.migrate.evaluate.measures import ANSWER, MEASURES
from torchport.migrate.evaluate.parse import difference
from torchport.migrate.evaluate.plan import Criterion
from torchport.migrate.evaluate.prices import check_prices
from torchport.migrate.evaluate.record import madr
from torchport.migrate.evaluate.shown import not_shown

Outcome = Literal["move", "keep_two", "not_worthwhile"]
ORDER = ("move", "keep_two", "not_worthwhile")  # the best outcome that a stage reaches is taken
CANDIDATES = ("optimised", "port")  # at equal outcome the optimised deployment, which is what would run
DECISIONS = "decisions"
LEDGER_MEASURES = ("adaptation_hours", "adaptation_changes")  # these rest on ledger entries, not on starts


def compute(evaluation: Evaluation, as_of: date) -> dict[str, Any]:
    """The decision as data. A pure function of the folder and the date; raises EvalError when evidence is missing."""
    plan = evaluation.plan
    check_prices(evaluation.prices, plan.evaluation.currency, plan.cost.max_price_age_days, as_of)
    baseline = StageFigures(evaluation, "baseline")
    analyses = [Analysis(evaluation, stage, baseline) for stage in CANDIDATES if stage in plan.stages]
    stages = {a.stage: judge(a) for a in analyses}
    reached = {s: v["outcome"] for s, v in stages.items() if v["outcome"]}
    best = min(reached.values(), key=ORDER.index, default=None)
    if best is None or (best == "not_worthwhile" and len(reached) < len(stages)):
        wanting = [f"{s}: {w}" for s, v in stages.items() for w in v["wanting"]]
        raise EvalError(
            "eval decide",
            "have every gate answered or measured",
            "; ".join(wanting),
            "torchport eval run, torchport eval answer, or amend the plan to drop a stage",
        )
    stage = next(s for s in stages if reached.get(s) == best)
    chosen = next(a for a in analyses if a.stage == stage)
    evidence = [e for e in evaluation.entries if e.kind != "decision"]
    return rounded(
        {
            "outcome": best,
            "stage": stage,
            "because": stages[stage]["because"],
            "title": plan.evaluation.title,
            "question": plan.evaluation.question,
            "as_of": as_of.isoformat(),
            "expires": (as_of + timedelta(days=plan.rules.valid_days)).isoformat(),
            "plan_sha256": evaluation.seals[-1].data["plan_sha256"],
            "prices_sha256": evaluation.seals[-1].data["prices_sha256"],
            "seal": evaluation.seals[0].id,
            "amendments": [{"id": e.id, **{k: e.data[k] for k in AMENDED}} for e in evaluation.amendments],
            "evidence_head": evidence[-1].hash,
            "baseline": figures(baseline),
            "stages": stages,
            "cost": {"whole": chosen.value, "part": chosen.value_of_part},
            "not_shown": not_shown(evaluation, analyses),
            "fallback": plan.fallback.model_dump(mode="json"),
            "triggers": plan.triggers.model_dump(mode="json"),
            "basis": _basis(evaluation, chosen),
        }
    )


AMENDED = ("by", "reason", "changes", "measurements_before")


def judge(a: Analysis) -> dict[str, Any]:
    """Gates, scores and the outcome of one stage. The outcome is None while evidence is missing."""
    plan, rules = a.plan, a.plan.rules
    gates = [_gate(a, c) for c in plan.criteria if c.kind == "gate"]
    scores = [_score(a, c) for c in plan.criteria if c.kind == "score"]
    total = sum(s["weight"] for s in scores)
    points = (
        None if any(s["points"] is None for s in scores) else sum(s["points"] * s["weight"] for s in scores) / total
    )
    # A measured gate fails on the starts that the rules ask for; a person's answer needs none.
    sound = [g for g in gates if g["passed"] is False and (g["measure"] == ANSWER or not a.missing)]
    fatal = [g["id"] for g in sound if g["on_fail"] == "not_worthwhile"]
    partial = [g["id"] for g in sound if g["on_fail"] == "keep_two"]
    wanting = [f"gate {g['id']} has no value" for g in gates if g["passed"] is None] + a.missing
    wanting += [f"score {s['id']} has no value" for s in scores if s["points"] is None]
    wanting += [] if a.value else ["no capacity to count cost with"]

    outcome: Outcome | None
    if fatal:
        outcome, because = "not_worthwhile", f"gate {', '.join(fatal)} failed; no score or saving outweighs it"
    elif wanting or a.value is None or points is None:
        outcome, because = None, "evidence is missing"
    else:
        outcome, because = _weigh(a, partial, points)
    return {
        "outcome": outcome,
        "because": because,
        "gates": gates,
        "scores": scores,
        "score": points,
        "wanting": wanting,
        "figures": figures(a.target),
        "ratio": a.ratio.as_dict() if a.ratio else None,
        "quality": a.quality,
        "logits": a.logits,
        "hours": a.spent_hours,
        "changes": a.changes,
        "p_net_positive": a.value["p_net_positive"] if a.value else None,
        "p_net_positive_of_part": a.value_of_part["p_net_positive"] if a.value_of_part else None,
        "thresholds": {
            name: getattr(rules, name)
            for name in ("move_probability", "keep_two_probability", "keep_two_share", "min_score")
        },
    }


def _weigh(a: Analysis, partial: list[str], points: float) -> tuple[Outcome, str]:
    """With all fatal gates passed: the value and the score against the sealed thresholds."""
    rules = a.plan.rules
    assert a.value is not None
    p = a.value["p_net_positive"]
    bars = [f"gate {', '.join(partial)} failed"] if partial else []
    if p < rules.move_probability:
        bars.append(f"P(net > 0) = {p:.3f} is below {rules.move_probability:g}")
    if points < rules.min_score:
        bars.append(f"the score {points:.3f} is below {rules.min_score:g}")
    if not bars:
        return "move", f"every gate passed, P(net > 0) = {p:.3f}, score {points:.3f}"
    part = a.value_of_part["p_net_positive"] if a.value_of_part else 0.0
    share = f"{rules.keep_two_share:.0%} of the volume"
    if rules.keep_two_share > 0 and part >= rules.keep_two_probability:
        return "keep_two", f"{'; '.join(bars)}; moving {share}: P(net > 0) = {part:.3f}"
    return "not_worthwhile", f"{'; '.join(bars)}; moving {share}: P(net > 0) = {part:.3f}"


def figures(stage: StageFigures) -> dict[str, Any]:
    """A stage's own figures, with the evidence they rest on."""
    return {
        "evidence": stage.evidence,
        "starts": len(stage.counted),
        "starts_not_counted": [r.evidence for r in stage.all if r not in stage.counted],
        "usable_per_device_hour": stage.capacity.as_dict() if stage.capacity else None,
        "latency": stage.latency,
        "cold_start_s": stage.cold_start_s,
        "failed_share": stage.failed_share,
    }


def _value(a: Analysis, criterion: Criterion) -> tuple[float | None, list[str]]:
    """The value of a criterion and its evidence ids."""
    if criterion.measure == ANSWER:
        entry = a.evaluation.answers.get(criterion.id)
        return (float(entry.data["value"]), [entry.id]) if entry else (None, [])
    value = MEASURES[criterion.measure](a)
    return value, a.ledger if criterion.measure in LEDGER_MEASURES else a.baseline.evidence + a.target.evidence


def _gate(a: Analysis, criterion: Criterion) -> dict[str, Any]:
    value, evidence = _value(a, criterion)
    low = -math.inf if criterion.at_least is None else criterion.at_least
    high = math.inf if criterion.at_most is None else criterion.at_most
    return {
        **criterion.model_dump(
            mode="json", include={"id", "family", "measure", "question", "at_least", "at_most", "on_fail"}
        ),
        "value": value,
        "passed": None if value is None else low <= value <= high,
        "evidence": evidence,
    }


def _score(a: Analysis, criterion: Criterion) -> dict[str, Any]:
    value, evidence = _value(a, criterion)
    assert criterion.worst is not None and criterion.best is not None
    share = None if value is None else (value - criterion.worst) / (criterion.best - criterion.worst)
    return {
        **criterion.model_dump(mode="json", include={"id", "family", "measure", "question", "worst", "best", "weight"}),
        "value": value,
        "points": None if share is None else min(max(share, 0.0), 1.0),
        "evidence": evidence,
    }


def _basis(evaluation: Evaluation, chosen: Analysis) -> dict[str, Any]:
    """What the re-open triggers compare with."""
    used = {evaluation.plan.cost.baseline.price, evaluation.plan.cost.target.price}
    software = {k: v for m in chosen.target.measurements for k, v in m.identity.software.items()}
    return {
        "prices": {p.id: p.per_device_hour for p in evaluation.prices.price if p.id in used},
        "volume": evaluation.plan.workload.results_per_month.mode,
        "mean_score": chosen.quality.get("mean_target"),
        "software": software,
        "regions": evaluation.plan.conditions.regions,
    }


def rounded(value: Any) -> Any:
    """Ten significant digits: the same decision on another machine, whatever its last bits."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(v) for v in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value


def decide(evaluation: Evaluation, today: date) -> tuple[dict[str, Any], Entry, bool]:
    """Decides, or reproduces the last decision when the evidence is still the same. Call with the folder opened.

    Returns the decision, its entry, and whether it was reproduced. A reproduction that differs is an error.
    """
    last = evaluation.decisions[-1] if evaluation.decisions else None
    before = evaluation.decision
    head = [e for e in evaluation.entries if e.kind != "decision"][-1].hash
    if last and before and before["evidence_head"] == head:
        again = compute(evaluation, date.fromisoformat(before["as_of"]))
        if changed := difference(before, again):
            first = changed[0]
            raise EvalError(
                "eval decide",
                f"reproduce the decision {last.id}",
                f"{first['field']} {first['present']}, recorded {first['sealed']}",
            )
        return again, last, True
    decision = compute(evaluation, today)
    number = len(evaluation.decisions) + 1
    path, record = (f"{DECISIONS}/{number:04d}.{suffix}" for suffix in ("json", "md"))
    raw = canonical(decision)
    text = madr(decision, number, last.data["record"] if last else None)
    write_atomic(evaluation.folder / path, raw)
    write_atomic(evaluation.folder / record, text)
    files = {path: digest(raw), record: digest(text.encode())}
    data = {"path": path, "record": record, "outcome": decision["outcome"], "stage": decision["stage"]}
    return decision, evaluation.chain.append("decision", data, files), False

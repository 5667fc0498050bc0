"""What the evidence does not show. Derived from the record, so that nobody has to remember to say it."""

from __future__ import annotations

from collections import Counter

from torchport.migrate.evaluate.analysis import Analysis, outside
from torchport.migrate.evaluate.folder import Evaluation
from torchport.migrate.evaluate.measurement import UNKNOWN
from torchport.migrate.evaluate.stats import percentile_margin

FIELDS = ("weights_sha256", "region", "purchase", "framework", "plugin", "precision", "source_revision")
FEW_STARTS = 5
CLIENT_CPU, NULL_SHARE = 0.7, 0.05  # above these the client, not the server, may have been measured (arXiv 2605.24217)


def not_shown(evaluation: Evaluation, analyses: list[Analysis]) -> list[str]:
    """Sentences, most serious first."""
    plan, found = evaluation.plan, []
    for stage in plan.stages:
        results = evaluation.ledgers[stage].results
        if not results:
            found.append(f"{stage}: was not measured, and nothing is inferred about it from another stage.")
        reasons = Counter(reason for r in results for reason in outside(r.measurement, evaluation))
        found += [f"{stage}: {n} of {len(results)} starts {reason}; they are kept and not generalised."
                  for reason, n in reasons.items()]  # fmt: skip
    figures = {a.target.stage: a.target for a in analyses}
    if analyses:
        figures = {"baseline": analyses[0].baseline, **figures}
    for name, stage in figures.items():
        ms = stage.measurements
        if any(m.identity.emulated for m in ms):
            found.append(f"{name}: the device was emulated; speed and cost of a real chip are not shown.")
        unknown = sorted({f for m in ms for f in FIELDS if getattr(m.identity, f) == UNKNOWN})
        if unknown:
            found.append(f"{name}: the record does not say {', '.join(unknown)}.")
        if stage.latency:
            margin = 100 * percentile_margin(stage.latency["percentile"], stage.latency["n"])
            found.append(
                f"{name}: {stage.latency['n']} latencies place the p{stage.latency['percentile']:g} within "
                f"{margin:.2f} percentage points only (99 % confidence)."
            )
        unsteady = Counter(
            s.verdict
            for m in ms
            for s in [*(load.steadiness for load in m.loads), *([m.steps.steadiness] if m.steps else [])]
        )
        found += [f"{name}: {n} steady phases were {verdict.replace('_', ' ')}; their figures are no plateau."
                  for verdict, n in unsteady.items() if verdict != "steady"]  # fmt: skip
        rates = [load.rate_per_s for m in ms for load in m.loads if load.rate_per_s]
        if plan.workload.kind == "service" and max(rates, default=0) < plan.conditions.max_rate_per_s:
            highest = f"{max(rates):g} a second" if rates else "no arrival rate at all"
            found.append(f"{name}: tested with {highest}; production needs {plan.conditions.max_rate_per_s:g}.")
        if any((load.client_cpu_share or 0) > CLIENT_CPU for m in ms for load in m.loads):
            found.append(f"{name}: the load generator used over {CLIENT_CPU:.0%} of a core; latencies may be its own.")
        slow = [
            load for m in ms for load in m.loads if load.null_p99_ms and load.latency_ms and load.scenario != "Offline"
        ]
        if any(
            load.null_p99_ms > NULL_SHARE * sorted(load.latency_ms)[int(0.99 * (len(load.latency_ms) - 1))]
            for load in slow
        ):
            found.append(
                f"{name}: the client alone takes over {NULL_SHARE:.0%} of the p99; small differences are not shown."
            )
        if any(m.source != "run" for m in ms):
            sources = ", ".join(sorted({m.source for m in ms if m.source != "run"}))
            found.append(
                f"{name}: figures imported from {sources}; cold start and conditions are as that tool reported them."
            )
        found += [f"{name}: {note}" for note in sorted({note for m in ms for note in m.notes})]
    found += [f"{a.stage}: {m}." for a in analyses for m in a.missing]
    found += [f"{a.stage}: no R-ratio; it needs logits of this stage and of both reference stages." for a in analyses
              if "r_ratio_p95" not in a.logits]  # fmt: skip
    found += [f"{a.stage}: {n} samples had no partner in the other stage and were left out of the quality test."
              for a in analyses if (n := a.quality.get("unpaired"))]  # fmt: skip
    if not plan.rules.interleaved:
        found.append(
            "The plan does not ask for starts that alternate; a drift of the machines may look like a difference."
        )
    if plan.rules.min_starts < FEW_STARTS:
        found.append(f"The plan asks for {plan.rules.min_starts} starts only; fewer than {FEW_STARTS} say little.")
    failures = Counter(e.data["stage"] for e in evaluation.entries if e.kind == "failure")
    found += [f"{stage}: {n} starts failed and left no figures." for stage, n in failures.items()]
    days = {r.measurement.started[:10] for ledger in evaluation.ledgers.values() for r in ledger.results}
    if len(days) == 1:
        found.append("All starts fell on one day; variation between days is not shown.")
    return list(dict.fromkeys(found))

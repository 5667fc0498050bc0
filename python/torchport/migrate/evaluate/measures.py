"""The measures that a criterion may name: one function each, from an Analysis to a number, or None when not measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torchport.migrate.evaluate.errors import EvalError
from torchport.migrate.evaluate.plan import Plan

if TYPE_CHECKING:
    from torchport.migrate.evaluate.analysis import Analysis

Measure = Callable[["Analysis"], float | None]
MEASURES: dict[str, Measure] = {}
ANSWER = "answer"  # a person's, with evidence: torchport eval answer


def measure(function: Measure) -> Measure:
    """Registers a measure under its own name."""
    MEASURES[function.__name__] = function
    return function


def describe() -> dict[str, str]:
    """Name -> what it is."""
    return {name: str(function.__doc__) for name, function in MEASURES.items()}


def check_measures(plan: Plan) -> None:
    """Raises EvalError when a criterion names no measure."""
    for criterion in plan.criteria:
        if criterion.measure not in (ANSWER, *MEASURES):
            raise EvalError(
                f"criteria {criterion.id}", f"name {ANSWER} or one of {', '.join(MEASURES)}", criterion.measure
            )
    if not any(c.kind == "gate" and c.measure == quality_non_inferior.__name__ for c in plan.criteria):
        wanted = f"hold a gate on {quality_non_inferior.__name__}: a result that fails quality is not a usable one"
        raise EvalError("criteria", wanted, "none")


@measure
def adaptation_hours(a: Analysis) -> float | None:
    """Engineer hours in the ledgers up to this stage."""
    return a.spent_hours


@measure
def adaptation_changes(a: Analysis) -> float | None:
    """Changes in the ledgers up to this stage."""
    return float(a.changes)


@measure
def capacity_ratio_low(a: Analysis) -> float | None:
    """Lower end of the interval of usable results per device-hour, target over baseline."""
    return a.ratio.low if a.ratio else None


@measure
def capacity_ratio(a: Analysis) -> float | None:
    """Usable results per device-hour, target over baseline."""
    return a.ratio.estimate if a.ratio else None


@measure
def latency_ms(a: Analysis) -> float | None:
    """The percentile of [objectives], milliseconds from the scheduled arrival."""
    return a.target.latency["ms"] if a.target.latency else None


@measure
def latency_over_objective(a: Analysis) -> float | None:
    """That percentile over its bound; above 1 misses the objective."""
    return a.target.latency["ms"] / a.plan.objectives.latency_ms if a.target.latency else None


@measure
def cold_start_over_objective(a: Analysis) -> float | None:
    """Slowest cold start over its bound; above 1 misses the objective."""
    return None if a.target.cold_start_s is None else a.target.cold_start_s / a.plan.objectives.cold_start_s


@measure
def failed_share(a: Analysis) -> float | None:
    """Queries without an answer, of all."""
    return a.target.failed_share


@measure
def quality_non_inferior(a: Analysis) -> float | None:
    """1 when the upper bound of the loss is within the margin, flips and length are within bounds; else 0."""
    found, bound = a.quality, a.plan.quality
    if found["n"] < bound.min_samples:
        return None
    length = found["length_ratio"]
    fits = length is None or bound.length_band[0] <= length <= bound.length_band[1]
    return float(found["loss_upper"] <= bound.margin and found["flips_worse"] / found["n"] <= bound.max_flips and fits)


@measure
def quality_loss_upper(a: Analysis) -> float | None:
    """One-sided upper bound of the loss of the mean score."""
    return a.quality["loss_upper"] if a.quality["n"] >= a.plan.quality.min_samples else None


@measure
def r_ratio_within(a: Analysis) -> float | None:
    """1 when the p95 of the R-ratio is within quality.r_ratio_max, else 0."""
    r = a.logits.get("r_ratio_p95")
    return None if r is None else float(r <= a.plan.quality.r_ratio_max)


@measure
def final_loss_ratio(a: Analysis) -> float | None:
    """Training: mean loss of the last tenth of the steps, target over baseline, worst start of the target."""
    before, after = ([_final(m.losses) for m in s.measurements if m.losses] for s in (a.baseline, a.target))
    return max(after) / (sum(before) / len(before)) if before and after else None


def _final(losses: list[float]) -> float:
    last = losses[-max(len(losses) // 10, 1) :]
    return sum(last) / len(last)


@measure
def kl_p95(a: Analysis) -> float | None:
    """95th percentile of the KL divergence of the logits from the baseline's."""
    return a.logits.get("kl_p95")


@measure
def cost_ratio(a: Analysis) -> float | None:
    """Running cost of a usable result, target over baseline."""
    return a.value["cost_per_usable"]["target"] / a.value["cost_per_usable"]["baseline"] if a.value else None


@measure
def p_net_positive(a: Analysis) -> float | None:
    """Probability that the net value of a whole move is positive at the horizon."""
    return a.value["p_net_positive"] if a.value else None


@measure
def fallback_ops(a: Analysis) -> float | None:
    """Most kinds of operation that left the device in any start, from the device's own report."""
    counts = [len(m.device_report["fallbacks"]) for m in a.target.measurements if "fallbacks" in m.device_report]
    return float(max(counts)) if counts else None

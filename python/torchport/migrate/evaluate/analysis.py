"""From recorded starts to figures, for one stage against the baseline. Only starts within the sealed conditions count."""

from __future__ import annotations

import io
from functools import cached_property
from typing import Any

import numpy as np

from torchport.migrate.evaluate import quality
from torchport.migrate.evaluate.folder import Evaluation, Ledger, Recorded
from torchport.migrate.evaluate.measurement import UNKNOWN, LoadResult, Measurement, Steps
from torchport.migrate.evaluate.stats import Interval, alternation, interval, ratio
from torchport.migrate.evaluate.value import simulate

LOGITS = ".npz"


def outside(measurement: Measurement, evaluation: Evaluation) -> list[str]:
    """Why a start does not stand for the sealed conditions; empty: it does."""
    plan = evaluation.plan
    identity, stage = measurement.identity, plan.stages.get(measurement.stage)
    if stage is None:
        return [f"the plan has no stage {measurement.stage}"]
    found = []
    if identity.device != stage.expect_device:
        found.append(f"ran on {identity.device}, the plan expects {stage.expect_device}")
    if identity.emulated and not plan.conditions.accept_emulated:
        found.append("ran on an emulated device")
    if identity.region == UNKNOWN:
        found.append("nobody said in which region it ran")
    elif identity.region not in plan.conditions.regions:
        found.append(f"ran in {identity.region}, outside {', '.join(plan.conditions.regions)}")
    if identity.model != plan.workload.model:
        found.append(f"ran {identity.model}, the plan is about {plan.workload.model}")
    sealed = evaluation.seals[-1].files if evaluation.seals else {}
    used = {**identity.data_sha256, plan.workload.weights: identity.weights_sha256}
    other = sorted(n for n, sha in used.items() if n in sealed and sealed[n] != sha)
    return found + [f"used another {name} than the one that is sealed" for name in other]


def observations(load: LoadResult, latency_bound_ms: float) -> np.ndarray:
    """Rows (seconds, usable results), a row a query, whose sums give the load's usable rate.

    Offline results have no latency objective: all of them arrive at once (MLPerf). Where queries overlap (Server,
    closed loop) each takes an equal part of the duration. Failed queries are rows without a result; in the other
    scenarios they share the time that no answered query accounts for.
    """
    latency = np.asarray(load.latency_ms) / 1000
    usable = np.ones(latency.size) if load.scenario == "Offline" else (latency * 1000 <= latency_bound_ms).astype(float)
    if load.scenario not in ("Offline", "SingleStream"):
        seconds = np.full(latency.size + load.failed, load.duration_s / max(latency.size + load.failed, 1))
        return np.column_stack([seconds, np.concatenate([usable, np.zeros(load.failed)])])
    seconds = np.diff(np.sort(latency), prepend=0.0) if load.scenario == "Offline" else latency
    rows = np.column_stack([seconds, usable])
    if load.failed:
        rest = max(load.duration_s - float(seconds.sum()), 0.0) / load.failed
        rows = np.concatenate([rows, np.column_stack([np.full(load.failed, rest), np.zeros(load.failed)])])
    return rows


def step_observations(steps: Steps) -> np.ndarray:
    """Rows (seconds, items), a row a step."""
    return np.column_stack([steps.seconds, steps.items])


def per_hour(rows: np.ndarray) -> float:
    """Usable results an hour."""
    return float(3600 * rows[:, 1].sum() / rows[:, 0].sum())


class StageFigures:
    """What the counted starts of one stage say."""

    def __init__(self, evaluation: Evaluation, stage: str) -> None:
        self.plan, self.stage, self.folder = evaluation.plan, stage, evaluation.folder
        self.all: list[Recorded] = evaluation.ledgers[stage].results
        self.counted = [r for r in self.all if not outside(r.measurement, evaluation)]
        self.measurements = [r.measurement for r in self.counted]

    @property
    def evidence(self) -> list[str]:
        """Evidence ids of the counted starts."""
        return [r.evidence for r in self.counted]

    @cached_property
    def capacity(self) -> Interval | None:
        """Usable results of one device in one hour, from the first load (service) or the steps (training)."""
        starts = []
        for m in self.measurements:
            if m.loads and (rows := observations(m.loads[0], self.plan.objectives.latency_ms)).size:
                starts.append(rows)
            elif m.steps and m.steps.seconds:
                starts.append(step_observations(m.steps))
        if not starts:
            return None
        devices = self.plan.stages[self.stage].devices
        rules = self.plan.rules
        # Each stage has its own stream, or the draws of two stages would move together.
        seed = [rules.seed, sum(self.stage.encode())]
        found = interval(starts, lambda rows: per_hour(rows) / devices, rules.resamples, rules.confidence, seed)
        return found if found.estimate > 0 and found.draws.min() > 0 else None

    @cached_property
    def latency(self) -> dict[str, Any] | None:
        """The percentile of the objective, over the loads that have a latency objective."""
        values = [
            v for m in self.measurements for load in m.loads if load.scenario != "Offline" for v in load.latency_ms
        ]
        values += [1000 * s for m in self.measurements if m.steps for s in m.steps.seconds]
        if not values:
            return None
        percentile = self.plan.objectives.percentile
        return {"percentile": percentile, "ms": float(np.percentile(values, percentile)), "n": len(values)}

    @cached_property
    def cold_start_s(self) -> float | None:
        """Slowest start of the process to its first result: the one that a scale-out waits for."""
        found = [m.cold.first_result_s for m in self.measurements if m.cold]
        return max(found) if found else None

    @cached_property
    def failed_share(self) -> float | None:
        """Queries without an answer, of all."""
        total = sum(load.queries for m in self.measurements for load in m.loads)
        return sum(load.failed for m in self.measurements for load in m.loads) / total if total else None

    @cached_property
    def samples(self) -> dict[str, Any]:
        """Mean scores by id."""
        return quality.mean_by_id([m.samples for m in self.measurements])

    @cached_property
    def logits(self) -> dict[str, np.ndarray]:
        """Logits by sample id, of the first counted start that has some."""
        for r in self.counted:
            path = (self.folder / r.path).with_suffix(LOGITS)
            if path.is_file():
                with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
                    return dict(zip(stored["ids"].tolist(), stored["logits"], strict=True))
        return {}


class Analysis:
    """A stage against the baseline."""

    def __init__(self, evaluation: Evaluation, stage: str, baseline: StageFigures | None = None) -> None:
        self.evaluation, self.plan, self.stage = evaluation, evaluation.plan, stage
        self.baseline = baseline or StageFigures(evaluation, "baseline")
        self.target = StageFigures(evaluation, stage)

    @property
    def _ledgers(self) -> list[Ledger]:
        """Those that this stage stands on: the optimised deployment includes the port."""
        stages = ("port", "optimised") if self.stage == "optimised" else (self.stage,)
        return [self.evaluation.ledgers[s] for s in stages]

    @property
    def spent_hours(self) -> float:
        """Hours in the ledgers up to this stage."""
        return sum(ledger.total_hours for ledger in self._ledgers)

    @property
    def changes(self) -> int:
        """Changes in the ledgers up to this stage."""
        return sum(len(ledger.changes) for ledger in self._ledgers)

    @property
    def ledger(self) -> list[str]:
        """Evidence ids of the changes and hours up to this stage."""
        return [e.id for ledger in self._ledgers for e in (*ledger.changes, *ledger.hours)]

    @cached_property
    def missing(self) -> list[str]:
        """What the sealed rules ask of the starts and the record lacks."""
        rules, found = self.plan.rules, []
        for figures in (self.baseline, self.target):
            if len(figures.counted) < rules.min_starts:
                found.append(f"{figures.stage}: {len(figures.counted)} counted starts of {rules.min_starts}")
        if rules.interleaved and (longest := alternation(self._order())) > 2:
            found.append(f"{self.stage}: {longest} starts of one stage in a row, not interleaved with the other")
        days = {m.started[:10] for f in (self.baseline, self.target) for m in f.measurements}
        span = (np.datetime64(max(days)) - np.datetime64(min(days))).astype(int) if days else 0
        if span < self.plan.conditions.days_apart:
            found.append(f"{self.stage}: starts span {span} days of {self.plan.conditions.days_apart}")
        return found

    def _order(self) -> list[str]:
        """Baseline and this stage by time. Starts of a third stage that lay between are left out."""
        both = self.baseline.measurements + self.target.measurements
        return [m.stage for m in sorted(both, key=lambda m: (m.started, m.session, m.position))]

    @cached_property
    def ratio(self) -> Interval | None:
        """Usable results of a device-hour, target over baseline."""
        if self.baseline.capacity is None or self.target.capacity is None:
            return None
        return ratio(self.target.capacity, self.baseline.capacity, self.plan.rules.confidence)

    @cached_property
    def quality(self) -> dict[str, Any]:
        """Paired scores."""
        rules = self.plan.rules
        return quality.paired(
            self.baseline.samples, self.target.samples, self.plan.quality.confidence, rules.resamples, rules.seed
        )

    @cached_property
    def logits(self) -> dict[str, Any]:
        """Logit distances to the baseline, and the R-ratio where both references were run."""
        rows = _aligned(self.target.logits, self.baseline.logits)
        found: dict[str, Any] = quality.logits(*rows) if rows else {}
        references = [StageFigures(self.evaluation, s).logits if s in self.plan.stages else {} for s in REFERENCES]
        if rows := _aligned(self.target.logits, *references):
            r = quality.r_ratio(*rows)
            found |= {"r_ratio_median": float(np.median(r)), "r_ratio_p95": float(np.quantile(r, 0.95))}
        return found

    @cached_property
    def value(self) -> dict[str, Any] | None:
        """The simulation of a whole move."""
        return self._simulate(1.0)

    @cached_property
    def value_of_part(self) -> dict[str, Any] | None:
        """The simulation of moving rules.keep_two_share of the volume."""
        return self._simulate(self.plan.rules.keep_two_share)

    def _simulate(self, share: float) -> dict[str, Any] | None:
        if self.baseline.capacity is None or self.target.capacity is None or share == 0:
            return None
        prices = self.evaluation.prices
        return simulate(self.plan, prices, self.baseline.capacity, self.target.capacity, self.spent_hours, share)


REFERENCES = ("reference_fp32", "reference_low")


def _aligned(*sets: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Arrays over the ids that all sets share; empty when there are none or their shapes differ."""
    ids = sorted(set.intersection(*(set(s) for s in sets)))
    arrays = [np.stack([s[i] for i in ids]) for s in sets] if ids else []
    return arrays if len({a.shape for a in arrays}) == 1 else []

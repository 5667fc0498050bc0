"""The value of a move under uncertainty: a seeded simulation over the plan's ranges, and which range matters (tornado)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from torchport.migrate.evaluate.cost import Move, Platform, break_even, cost_per_usable, month_cost, value_path
from torchport.migrate.evaluate.plan import Plan, PlatformCost, PriceFile, Range
from torchport.migrate.evaluate.prices import find_price
from torchport.migrate.evaluate.stats import Interval

Capacity = Interval  # usable results of a device-hour, with bootstrap draws
Pick = Callable[[str, Range], Any]  # (name of a figure, its range) -> the figure to use


def simulate(
    plan: Plan, prices: PriceFile, baseline: Capacity, target: Capacity, spent_hours: float, share: float = 1.0
) -> dict[str, Any]:
    """Net value at the horizon, break-even month, cost per usable result, tornado. Same seed, same figures."""
    months, rng, draws = plan.evaluation.horizon_months, np.random.default_rng(plan.rules.seed), plan.rules.draws

    def draw(_: str, r: Range) -> Any:
        return rng.triangular(r.low, r.mode, r.high, draws) if r.low < r.high else r.mode

    sampled = _model(plan, prices, draw, _resample(baseline, rng, draws), _resample(target, rng, draws), spent_hours)
    chance = draw("cost.risk_probability", plan.cost.risk_probability)
    paths = value_path(*sampled, months, (rng.random(draws) < chance).astype(float), share)
    net, even = paths[..., -1], break_even(paths)
    tail = (1 - plan.rules.confidence) / 2

    central = central_model(plan, prices, baseline.estimate, target.estimate, spent_hours)
    path = value_path(*central, months, plan.cost.risk_probability.mode, share)
    old, new, move = central
    return {
        "share": share,
        "draws": draws,
        "seed": plan.rules.seed,
        "horizon_months": months,
        "currency": plan.evaluation.currency,
        "p_net_positive": float((net > 0).mean()),
        "net": {
            "central": round(float(path[-1]), 2),
            "mean": round(float(net.mean()), 2),
            "low": round(float(np.quantile(net, tail)), 2),
            "median": round(float(np.median(net)), 2),
            "high": round(float(np.quantile(net, 1 - tail)), 2),
        },
        "break_even_month": {
            "central": _month(break_even(path)),
            **{
                name: _month(np.quantile(even, q, method="higher"))
                for name, q in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9))
            },
            "p_never_within_horizon": float(np.isinf(even).mean()),
        },
        "path": [round(float(v), 2) for v in path],
        "month_cost": {
            "baseline": round(float(month_cost(old, move.volume, move)), 2),
            "target": round(float(month_cost(new, move.volume, move)), 2),
        },
        "cost_per_usable": {"baseline": float(cost_per_usable(old, move)), "target": float(cost_per_usable(new, move))},
        "tornado": tornado(plan, prices, baseline, target, spent_hours, share),
    }


def tornado(
    plan: Plan, prices: PriceFile, baseline: Capacity, target: Capacity, spent_hours: float, share: float = 1.0
) -> list[dict[str, Any]]:
    """Net value with one figure at its low and its high end and all others at their most likely; widest swing first."""
    months = plan.evaluation.horizon_months

    def net(name: str = "", end: str = "mode") -> float:
        def pick(key: str, r: Range) -> float:
            return getattr(r, end) if key == name else r.mode

        sides = [getattr(c, end) if f"{which} capacity" == name else c.estimate
                 for which, c in (("baseline", baseline), ("target", target))]  # fmt: skip
        model = _model(plan, prices, pick, sides[0], sides[1], spent_hours)
        return float(value_path(*model, months, pick("cost.risk_probability", plan.cost.risk_probability), share)[-1])

    rows = []
    for name in [*ranges(plan), "baseline capacity", "target capacity"]:
        low, high = net(name, "low"), net(name, "high")
        if low != high:
            rows.append(
                {"figure": name, "at_low": round(low, 2), "at_high": round(high, 2), "swing": round(abs(high - low), 2)}
            )
    return sorted(rows, key=lambda row: -row["swing"])


def ranges(plan: Plan) -> Iterator[str]:
    """Names of the uncertain figures, as the plan's paths."""
    yield from (name for name, _ in _collect(plan))


def central_model(
    plan: Plan, prices: PriceFile, baseline: float, target: float, spent_hours: float
) -> tuple[Platform, Platform, Move]:
    """Every figure at its most likely value."""
    return _model(plan, prices, lambda _, r: r.mode, baseline, target, spent_hours)


def _collect(plan: Plan) -> list[tuple[str, Range]]:
    seen: list[tuple[str, Range]] = []

    def note(name: str, r: Range) -> float:
        seen.append((name, r))
        return r.mode

    _platform("baseline", plan.cost.baseline, None, note, 1.0)
    _platform("target", plan.cost.target, None, note, 1.0)
    _move(plan, note, 0.0)
    note("cost.risk_probability", plan.cost.risk_probability)
    return seen


def _model(
    plan: Plan, prices: PriceFile, pick: Pick, baseline: Any, target: Any, spent_hours: float
) -> tuple[Platform, Platform, Move]:
    old = _platform("baseline", plan.cost.baseline, prices, pick, baseline)
    new = _platform("target", plan.cost.target, prices, pick, target)
    return old, new, _move(plan, pick, spent_hours)


def _platform(side: str, cost: PlatformCost, prices: PriceFile | None, pick: Pick, usable: Any) -> Platform:
    def price(name: str) -> float:
        return find_price(prices, name, f"cost.{side}").per_device_hour if prices else 0.0

    at = f"cost.{side}"
    commitment = cost.commitment
    return Platform(
        price=price(cost.price),
        usable_per_device_hour=usable,
        utilisation=pick(f"{at}.utilisation", cost.utilisation),
        min_devices=cost.min_devices,
        fixed=pick(f"{at}.fixed_per_month", cost.fixed_per_month),
        operations_hours=pick(f"{at}.operations_hours_per_month", cost.operations_hours_per_month),
        energy=pick(f"{at}.energy_per_month", cost.energy_per_month),
        committed_devices=commitment.devices if commitment else 0.0,
        committed_price=price(commitment.price) if commitment else 0.0,
        committed_months=commitment.months_left if commitment else 0,
    )


def _move(plan: Plan, pick: Pick, spent_hours: float) -> Move:
    cost = plan.cost
    return Move(
        volume=pick("workload.results_per_month", plan.workload.results_per_month),
        day_rate=pick("cost.day_rate", cost.day_rate),
        hours_per_day=cost.hours_per_day,
        hours_per_month=cost.hours_per_month,
        spent_hours=spent_hours,
        migration_days=pick("cost.migration_days", cost.migration_days),
        migration_other=pick("cost.migration_other", cost.migration_other),
        dual_months=cost.dual_months,
        dual_share=pick("cost.dual_share", cost.dual_share),
        capacity_value=pick("cost.capacity_value_per_month", cost.capacity_value_per_month),
        risk_cost=pick("cost.risk_cost", cost.risk_cost),
        exit_days=pick("cost.exit_days", cost.exit_days),
        discount_rate=pick("cost.discount_rate", cost.discount_rate),
    )


def _resample(capacity: Capacity, rng: np.random.Generator, draws: int) -> Any:
    return capacity.draws[rng.integers(capacity.draws.size, size=draws)]


def _month(value: Any) -> float | None:
    """None for never: JSON has no infinity."""
    return float(value) if np.isfinite(value) else None

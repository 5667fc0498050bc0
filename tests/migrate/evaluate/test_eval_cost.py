"""The cost model against hand calculations, and the simulation against what it must be where nothing is uncertain."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_evaluation import plan_data, price

from torchport.migrate.evaluate import cost
from torchport.migrate.evaluate.plan import Plan, PriceFile
from torchport.migrate.evaluate.stats import Interval
from torchport.migrate.evaluate.value import simulate

CASES = tomllib.loads((Path(__file__).parent / "cost_cases.toml").read_text())["case"]
ONE = {"usable_per_device_hour": 1.0, "utilisation": 1.0, "hours_per_day": 8.0, "hours_per_month": 730.0}


def build(kind: type, given: dict[str, Any]) -> Any:
    """A Platform or Move with zero (or one, or 8 and 730 hours) where the case says nothing."""
    unknown = set(given) - {f.name for f in fields(kind)}
    assert not unknown
    return kind(**{f.name: given.get(f.name, ONE.get(f.name, 0)) for f in fields(kind)})


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_hand_computed(case: dict[str, Any]) -> None:
    old, new = (build(cost.Platform, case.get(side, {})) for side in ("baseline", "target"))
    move = build(cost.Move, case["move"])
    path = cost.value_path(old, new, move, case.get("months", 1), case.get("failed", 0.0), case.get("share", 1.0))
    computed = {
        "month_baseline": cost.month_cost(old, move.volume, move),
        "month_target": cost.month_cost(new, move.volume, move),
        "one_off": cost.one_off(move),
        "exit_cost": cost.exit_cost(move),
        "net": path[-1],
        "break_even": cost.break_even(path),
    }
    assert case["expect"]
    for name, value in case["expect"].items():
        assert round(float(computed[name]), 2) == value, f"{name}\n{case['arithmetic']}"


def test_there_are_ten_cases() -> None:
    assert len(CASES) >= 10


def certain(estimate: float) -> Interval:
    return Interval(estimate, estimate, estimate, np.full(100, estimate))


PRICES = PriceFile.model_validate({"currency": "EUR", "price": [price("old", 10.0), price("new", 2.0)]})


def test_without_uncertainty_every_draw_is_the_central_value() -> None:
    plan = Plan.model_validate(plan_data(cost__migration_days=2, cost__risk_probability=0))
    found = simulate(plan, PRICES, certain(1000), certain(1000), 0)
    # Baseline 1,000,000 / 500 = 2,000 h x 10 + 2 h x 100 = 20,200; target 2,000 x 2 + 200 = 4,200.
    # 11 months x 16,000 - 4,200 (both run in month 1) - 1,600 (2 days) = 170,200.
    assert found["net"] == {
        "central": 170200.0,
        "mean": 170200.0,
        "low": 170200.0,
        "median": 170200.0,
        "high": 170200.0,
    }
    assert found["p_net_positive"] == 1.0
    assert found["break_even_month"]["p50"] == 2.0
    assert found["tornado"] == []


def test_same_seed_same_figures_other_seed_others() -> None:
    spread = {"low": 200_000, "mode": 1e6, "high": 3e6}
    plan = Plan.model_validate(plan_data(workload__results_per_month=spread))
    other = Plan.model_validate(plan_data(workload__results_per_month=spread, rules__seed=8))
    first, second, third = (simulate(p, PRICES, certain(1000), certain(900), 5) for p in (plan, plan, other))
    assert first == second
    assert first["net"]["mean"] != third["net"]["mean"]


def test_tornado_names_the_widest_swing_first() -> None:
    wide = {"low": 100_000, "mode": 1e6, "high": 5e6}
    plan = Plan.model_validate(plan_data(workload__results_per_month=wide))
    rows = simulate(plan, PRICES, certain(1000), certain(1000), 0)["tornado"]
    assert [r["figure"] for r in rows] == ["workload.results_per_month", "cost.migration_days"]
    assert rows[0]["swing"] > rows[1]["swing"] > 0
    # Migration of 1 or 4 days of 800 is the whole difference there.
    assert rows[1]["at_low"] - rows[1]["at_high"] == pytest.approx(2400)


def test_probability_of_failure_shows_in_the_draws() -> None:
    plan = Plan.model_validate(plan_data(cost__risk_probability=0.3, rules__draws=20_000))
    found = simulate(plan, PRICES, certain(1000), certain(1000), 0)
    assert found["p_net_positive"] == pytest.approx(0.7, abs=0.01)


def test_measured_capacity_carries_its_uncertainty_into_the_value() -> None:
    plan = Plan.model_validate(plan_data(cost__migration_days=2, cost__risk_probability=0))
    noisy = Interval(1000, 600, 1400, np.linspace(500, 1500, 500))
    found = simulate(plan, PRICES, certain(1000), noisy, 0)
    assert found["net"]["low"] < found["net"]["median"] < found["net"]["high"]
    assert [r["figure"] for r in found["tornado"]] == ["target capacity"]


def test_break_even_is_the_month_from_which_it_stays() -> None:
    path = np.array([[-1.0, 1.0, -1.0, 2.0], [0.0, 1.0, 1.0, 1.0], [-1.0, -1.0, -1.0, -1.0]])
    assert cost.break_even(path).tolist() == [3.0, 0.0, np.inf]

"""Cost of a month and value of a move. Every function takes numbers or numpy arrays of draws, so that one formula
serves the hand calculation, the tornado and the simulation. Amounts in the plan's currency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Figure = Any  # float, or an array of draws


@dataclass(frozen=True)
class Platform:
    """What one platform costs to run."""

    price: Figure  # a device-hour
    usable_per_device_hour: Figure  # results that finished, met the objectives and come from a port that passed quality
    utilisation: Figure  # share of a paid hour that does useful work
    min_devices: Figure
    fixed: Figure  # a month: host, storage, egress, support
    operations_hours: Figure  # a month
    energy: Figure  # a month
    committed_devices: Figure = 0.0
    committed_price: Figure = 0.0  # a device-hour
    committed_months: int = 0  # months that are owed whatever happens


@dataclass(frozen=True)
class Move:
    """What the move itself takes."""

    volume: Figure  # usable results a month
    day_rate: Figure
    hours_per_day: float
    hours_per_month: float
    spent_hours: float  # already in the ledgers of port and optimised
    migration_days: Figure
    migration_other: Figure
    dual_months: int
    dual_share: Figure
    capacity_value: Figure  # a month
    risk_cost: Figure
    exit_days: Figure
    discount_rate: Figure  # a year


def device_hours(platform: Platform, volume: Figure, hours_per_month: float) -> Figure:
    """Hours paid for in a month: for the work at the utilisation, and never less than the devices kept running."""
    busy = volume / (platform.usable_per_device_hour * platform.utilisation)
    return np.maximum(busy, platform.min_devices * hours_per_month)


def committed_cost(platform: Platform, hours_per_month: float) -> Figure:
    """Cost of a month's commitment, used or not."""
    return platform.committed_devices * hours_per_month * platform.committed_price


def month_cost(platform: Platform, volume: Figure, move: Move) -> Figure:
    """Everything the platform costs in a month."""
    hours = device_hours(platform, volume, move.hours_per_month)
    extra = np.maximum(hours - platform.committed_devices * move.hours_per_month, 0)
    devices = committed_cost(platform, move.hours_per_month) + extra * platform.price
    operations = platform.operations_hours * move.day_rate / move.hours_per_day
    return devices + platform.fixed + operations + platform.energy


def cost_per_usable(platform: Platform, move: Move) -> Figure:
    """Running cost of one usable result: the month's cost over the month's volume."""
    return month_cost(platform, move.volume, move) / move.volume


def one_off(move: Move) -> Figure:
    """Migration: hours already spent, days still to come, other cost."""
    hours = move.spent_hours / move.hours_per_day + move.migration_days
    return hours * move.day_rate + move.migration_other


def exit_cost(move: Move) -> Figure:
    """What a failed move costs on top: the failure itself and the days to go back."""
    return move.risk_cost + move.exit_days * move.day_rate


def value_path(
    baseline: Platform, target: Platform, move: Move, months: int, failed: Figure, share: float = 1.0
) -> Figure:
    """Cumulative discounted net value after 0..months months (last axis: the month).

    Month 0: minus the migration. While both run: minus the target's share. After the cut-over: what the baseline would
    have cost for the moved share of the volume, minus the target, plus the value of capacity, minus a commitment on the
    old platform that is still owed. `failed` (0 or 1 a draw, or a probability) rolls the move back at the cut-over: no
    savings, the failure, the way back, and what is owed on a commitment to the target. With `share` below 1 the rest
    stays on the baseline (keep two platforms).
    """
    stay = month_cost(baseline, move.volume, move)
    left = month_cost(baseline, move.volume * (1 - share), move) if share < 1 else 0.0
    new = month_cost(target, move.volume * share, move)
    owed_old = committed_cost(baseline, move.hours_per_month) if share == 1 else 0.0
    owed_new = committed_cost(target, move.hours_per_month)
    total = -one_off(move)
    path = [total]
    for month in range(1, months + 1):
        factor = (1 + move.discount_rate) ** (-month / 12)
        if month <= move.dual_months:
            flow = -new * move.dual_share
        else:
            gain = stay - left - new + move.capacity_value - (owed_old if month <= baseline.committed_months else 0.0)
            loss = -(owed_new if month <= target.committed_months else 0.0)
            if month == move.dual_months + 1:
                loss = loss - exit_cost(move)
            flow = (1 - failed) * gain + failed * loss
        total = total + flow * factor
        path.append(total)
    return np.stack(np.broadcast_arrays(*path), axis=-1)


def break_even(path: np.ndarray) -> np.ndarray:
    """First month from which the cumulative value stays at or above zero; infinity where it never does."""
    below = path < 0
    last = path.shape[-1] - 1 - np.argmax(below[..., ::-1], axis=-1)
    month = np.where(below.any(axis=-1), last + 1, 0).astype(float)
    return np.where(month > path.shape[-1] - 1, np.inf, month)

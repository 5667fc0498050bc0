"""Whether two loss curves of one training run, made on two devices, agree as well as rounding lets them.

The bound is measured, not chosen. A *twin* is the run on the CPU once more, from weights that differ in the last bit
only; the distance between the twins and the run shows how far rounding alone drives this training apart, step by step.
The device may be SLACK times as far away. Measured in units of that distance, torch CPU against itself (float32):
digits CNN, 110 steps, two seeds: one thread against two 0.7, oneDNN off 2.4, float64 1.2; but a GELU 1e-5 too large 83,
products with 10-bit mantissas 340, a learning rate 0.1 % too high 2,800. GPT, its first 10 steps: learning rate 160, no
weight decay 240, products with 10-bit mantissas 22, and the tanh form of GELU 7, which only more steps would show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

SLACK = 8.0
EPSILON = 2.0**-23  # one unit in the last place of a float32, relative


@dataclass(frozen=True)
class Verdict:
    """The outcome of one comparison; `worst` is the largest difference in units of the bound."""

    agrees: bool
    worst: float
    message: str


@torch.no_grad()
def nudge(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Moves every weight by one unit in the last place, up or down by the seed."""
    source = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        sign = torch.randint(0, 2, weight.shape, generator=source) * 2 - 1
        weight.mul_(1 + sign * EPSILON)
    return model


def bounds(reference: Sequence[float], twins: Sequence[Sequence[float]]) -> list[float]:
    """For each step SLACK times the largest distance of a twin so far, never under two units in the loss's last place."""
    largest, result = 0.0, []
    for step, loss in enumerate(reference):
        largest = max(largest, 2 * EPSILON * abs(loss), *(abs(twin[step] - loss) for twin in twins))
        result.append(SLACK * largest)
    return result


def compare(what: str, reference: Sequence[float], candidate: Sequence[float], bound: Sequence[float]) -> Verdict:
    """Holds every step of the candidate against the bound; a missing step or a loss that is not finite never agrees."""
    if not reference or not len(reference) == len(candidate) == len(bound):
        lengths = f"{len(reference)}, {len(candidate)} and {len(bound)}"
        return Verdict(False, math.inf, f"{what}: must be curves and a bound of one length, got {lengths} steps")
    for step, values in enumerate(zip(reference, candidate, bound, strict=True), 1):
        if not all(map(math.isfinite, values)):
            return Verdict(False, math.inf, f"{what}: must be finite, got {values[0]} and {values[1]} at step {step}")
    ratios = [abs(c - r) / b if b else math.inf for r, c, b in zip(reference, candidate, bound, strict=True)]
    worst = max(ratios)
    at = ratios.index(worst)
    difference = abs(candidate[at] - reference[at])
    if worst > 1:
        first = next(step for step, ratio in enumerate(ratios, 1) if ratio > 1)
        message = (
            f"{what}: must agree within the bound, got {reference[at]:.7g} and {candidate[at]:.7g} at step {at + 1} "
            f"(difference {difference:.1e}, bound {bound[at]:.1e}); over the bound from step {first} on"
        )
        return Verdict(False, worst, message)
    return Verdict(True, worst, f"{what}: agree; largest use of the bound {worst:.0%}, at step {at + 1}")

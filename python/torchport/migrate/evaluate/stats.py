"""The statistics of the comparison. Seeded; sources are named at each method. No function here knows the plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

Starts = Sequence[
    np.ndarray | Sequence[float]
]  # the observations of each independent start: numbers, or rows of numbers


@dataclass(frozen=True)
class Interval:
    """An estimate with a two-sided interval."""

    estimate: float
    low: float
    high: float
    draws: np.ndarray

    def as_dict(self) -> dict[str, float]:
        """Without the draws."""
        return {"estimate": self.estimate, "low": self.low, "high": self.high}


def hierarchical_draws(
    starts: Starts, statistic: Callable[[np.ndarray], float], resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """Bootstrap over starts, then over the observations in each drawn start (Davison and Hinkley 1997, section 3.8).

    A start is the unit that repeats independently: requests alone would take one process' luck for precision.
    """
    arrays = [np.asarray(s, dtype=float) for s in starts]
    if not arrays or any(len(a) == 0 for a in arrays):
        raise ValueError("[bootstrap] must have observations in every start, got an empty one")
    out = np.empty(resamples)
    for i in range(resamples):
        chosen = rng.integers(len(arrays), size=len(arrays))
        out[i] = statistic(np.concatenate([a[rng.integers(len(a), size=len(a))] for a in (arrays[c] for c in chosen)]))
    return out


def interval(
    starts: Starts, statistic: Callable[[np.ndarray], float], resamples: int, confidence: float, seed: int
) -> Interval:
    """Percentile interval of a statistic of one stage."""
    draws = hierarchical_draws(starts, statistic, resamples, np.random.default_rng(seed))
    whole = statistic(np.concatenate([np.asarray(s, dtype=float) for s in starts]))
    return _percentiles(whole, draws, confidence)


def ratio(target: Interval, baseline: Interval, confidence: float) -> Interval:
    """Percentile interval of target / baseline; the two must come from different seeds."""
    return _percentiles(target.estimate / baseline.estimate, target.draws / baseline.draws, confidence)


def _percentiles(estimate: float, draws: np.ndarray, confidence: float) -> Interval:
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Interval(float(estimate), float(low), float(high), draws)


def drift(values: Sequence[float], limit: float, blocks: int = 20, alpha: float = 0.01) -> tuple[str, float]:
    """Whether a phase is steady: Theil-Sen slope over block medians, Mann-Kendall test (Sen 1968, Mann 1945).

    Returns the verdict and the relative change from begin to end. Drifting needs both a change above `limit` and a
    trend that is significant at `alpha`, so that a noisy phase is not called a drifting one.
    """
    x = np.asarray(values, dtype=float)
    if x.size < blocks:
        return "too_short", 0.0
    medians = np.array([np.median(part) for part in np.array_split(x, blocks)])
    i, j = np.triu_indices(blocks, 1)
    slopes = (medians[j] - medians[i]) / (j - i)
    change = float(np.median(slopes) * (blocks - 1) / np.median(medians)) if np.median(medians) else 0.0
    s = float(np.sign(medians[j] - medians[i]).sum())
    deviation = math.sqrt(blocks * (blocks - 1) * (2 * blocks + 5) / 18)
    p = 2 * (1 - NormalDist().cdf(max(abs(s) - 1, 0) / deviation))
    if p < alpha and abs(change) > limit:
        return ("drifting_up" if change > 0 else "drifting_down"), change
    return "steady", change


def percentile_margin(percentile: float, n: int, confidence: float = 0.99) -> float:
    """Half-width, as a share, within which n queries place a percentile (normal approximation to the binomial).

    MLPerf's table is the same formula turned round: 99 % confidence, 90th percentile, margin 0.5 % -> 23,886 queries.
    """
    share = percentile / 100
    return NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(share * (1 - share) / n)


def mcnemar_p(worse: int, better: int) -> float:
    """Two-sided exact McNemar test of paired answers: the chance of so uneven flips if both sides were equally good."""
    n = worse + better
    if n == 0:
        return 1.0
    tail = sum(math.comb(n, k) for k in range(min(worse, better) + 1)) / 2**n
    return min(1.0, 2 * tail)


def tango_upper_loss(worse: int, better: int, n: int, confidence: float) -> float:
    """One-sided upper bound of the loss (worse - better) / n of paired right/wrong answers: Tango's score interval.

    Tango, Statistics in Medicine 17 (1998) 891-908. Unlike a bootstrap it stays above zero when nothing flipped.
    """
    if n <= 0 or worse + better > n:
        raise ValueError(f"[tango] must have 0 <= worse + better <= n and n > 0, got {worse}, {better}, {n}")
    z = NormalDist().inv_cdf(confidence)

    def score(loss: float) -> float:
        w = -worse - better + (2 * n - worse + better) * loss
        v = -better * loss * (1 - loss)
        q = (math.sqrt(max(w * w - 8 * n * v, 0.0)) - w) / (4 * n)  # restricted estimate of P(wrong -> right)
        variance = n * (2 * q + loss * (1 - loss))
        return (worse - better - n * loss) / math.sqrt(variance) if variance > 0 else 0.0

    low, high = (worse - better) / n, 1.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if score(middle) > -z else (low, middle)
    return high


def bootstrap_upper_loss(losses: Sequence[float], confidence: float, resamples: int, seed: int) -> float:
    """One-sided upper bound of the mean paired loss of graded scores (percentile bootstrap over pairs)."""
    x = np.asarray(losses, dtype=float)
    rng = np.random.default_rng(seed)
    means = [float(x[rng.integers(x.size, size=x.size)].mean()) for _ in range(resamples)]
    return float(np.quantile(means, confidence))


def alternation(order: Sequence[str]) -> int:
    """Longest run of one stage in the order of the starts; A B B A gives 2."""
    longest = run = 0
    for i, stage in enumerate(order):
        run = run + 1 if i and order[i - 1] == stage else 1
        longest = max(longest, run)
    return longest

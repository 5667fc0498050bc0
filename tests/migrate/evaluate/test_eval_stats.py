"""The statistics against published figures and against their own definitions."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from torchport.migrate.evaluate import quality, stats
from torchport.migrate.evaluate.measurement import Sample


@pytest.mark.parametrize(
    ("percentile", "margin", "queries"),
    # MLPerf Inference rules, table of sample sizes at 99 % confidence
    [(90, 0.50, 23_886), (95, 0.25, 50_425), (97, 0.15, 85_811), (99, 0.05, 262_742)],
)
def test_precision_agrees_with_mlperf(percentile: float, margin: float, queries: int) -> None:
    assert 100 * stats.percentile_margin(percentile, queries) == pytest.approx(margin, rel=1e-4)


def restricted_loglikelihood(worse: int, better: int, n: int, loss: float) -> float:
    """Largest multinomial likelihood with P(worse) - P(better) = loss, found by a grid: Tango's score test from scratch."""
    q = np.linspace(max(0.0, -loss) + 1e-9, (1 - loss) / 2 - 1e-9, 200_001)
    likelihood = worse * np.log(q + loss) + better * np.log(q) + (n - worse - better) * np.log(1 - loss - 2 * q)
    best = q[np.argmax(likelihood)]
    return float((worse - better - n * loss) / math.sqrt(n * (2 * best + loss * (1 - loss))))


@pytest.mark.parametrize(("worse", "better", "n"), [(5, 2, 100), (12, 9, 200), (3, 1, 50), (30, 5, 1000)])
def test_tango_bound_solves_the_score_equation(worse: int, better: int, n: int) -> None:
    bound = stats.tango_upper_loss(worse, better, n, 0.95)
    assert bound > (worse - better) / n
    assert restricted_loglikelihood(worse, better, n, bound) == pytest.approx(-NormalDist().inv_cdf(0.95), abs=2e-3)


def test_tango_without_flips_is_not_zero() -> None:
    # With no discordant pair the score equation gives z^2 / (n + z^2).
    z2 = NormalDist().inv_cdf(0.95) ** 2
    assert stats.tango_upper_loss(0, 0, 100, 0.95) == pytest.approx(z2 / (100 + z2), abs=1e-9)
    with pytest.raises(ValueError, match="must have"):
        stats.tango_upper_loss(3, 3, 5, 0.95)


def test_mcnemar() -> None:
    assert stats.mcnemar_p(0, 0) == 1.0
    assert stats.mcnemar_p(0, 5) == pytest.approx(2 / 32)
    assert stats.mcnemar_p(8, 2) == pytest.approx(2 * (1 + 10 + 45) / 1024)


def test_hierarchical_interval_is_wider_than_one_that_ignores_starts() -> None:
    rng = np.random.default_rng(1)
    starts = [rng.normal(100 + shift, 1, 400) for shift in rng.normal(0, 5, 5)]
    nested = stats.interval(starts, np.mean, 1000, 0.95, 3)
    pooled = stats.interval([np.concatenate(starts)], np.mean, 1000, 0.95, 3)
    assert nested.high - nested.low > 10 * (pooled.high - pooled.low)
    assert nested.low < nested.estimate < nested.high


def test_ratio_interval_covers_the_truth() -> None:
    hits = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        arms = [[rng.normal(mean * (1 + shift), 0.5, 30) for shift in rng.normal(0, 0.02, 8)] for mean in (20, 10)]
        target, baseline = (stats.interval(a, np.mean, 1000, 0.95, [seed, n]) for n, a in enumerate(arms))
        found = stats.ratio(target, baseline, 0.95)
        hits += found.low <= 2.0 <= found.high
    assert hits >= 20  # nominally 24 of 25; a percentile bootstrap of 8 starts is known to be a little short


@pytest.mark.parametrize(
    ("series", "verdict"),
    [
        (lambda rng: rng.normal(100, 5, 400), "steady"),
        (lambda rng: rng.normal(100, 5, 400) + np.linspace(0, 40, 400), "drifting_up"),
        (lambda rng: rng.normal(100, 5, 400) - np.linspace(0, 40, 400), "drifting_down"),
        (lambda rng: rng.normal(100, 0.1, 400) + np.linspace(0, 2, 400), "steady"),  # a trend, but a small one
        (lambda rng: rng.normal(100, 5, 5), "too_short"),
    ],
)
def test_drift(series: object, verdict: str) -> None:
    assert stats.drift(series(np.random.default_rng(5)), 0.1)[0] == verdict  # type: ignore[operator]


@pytest.mark.parametrize(("order", "run"), [("ABBAABBA", 2), ("AAABBB", 3), ("ABAB", 1), ("", 0)])
def test_alternation(order: str, run: int) -> None:
    assert stats.alternation(order) == run


def samples(scores: list[float], tokens: float | None = None) -> dict[str, Sample]:
    return {str(n): Sample(id=str(n), score=s, answer_sha256=str(s), tokens=tokens) for n, s in enumerate(scores)}


def test_equal_means_still_show_flips() -> None:
    before, after = [1.0, 0.0] * 50, [0.0, 1.0] * 50
    found = quality.paired(samples(before, 10), samples(after, 12), 0.95, 1000, 1)
    assert (found["loss"], found["flips_worse"], found["flips_better"], found["answers_changed"]) == (0.0, 50, 50, 100)
    assert found["loss_upper"] > 0.1
    assert found["length_ratio"] == pytest.approx(1.2)


def test_graded_scores_take_the_bootstrap() -> None:
    rng = np.random.default_rng(2)
    before = rng.uniform(0.4, 0.9, 200)
    found = quality.paired(samples(before.tolist()), samples((before - 0.02).tolist()), 0.95, 1000, 1)
    assert found["method"] == "paired bootstrap"
    assert found["loss_upper"] == pytest.approx(0.02, abs=1e-9)
    assert quality.paired(samples([1.0]), {}, 0.95, 1000, 1) == {"n": 0}


def test_r_ratio_tells_a_bug_from_rounding() -> None:
    rng = np.random.default_rng(3)
    exact = rng.normal(size=(20, 50))
    low, port = exact + rng.normal(0, 0.01, exact.shape), exact + rng.normal(0, 0.01, exact.shape)
    assert np.quantile(quality.r_ratio(port, exact, low), 0.95) < 1.4
    assert np.median(quality.r_ratio(exact * 1.1, exact, low)) > 5


def test_logit_distances() -> None:
    rng = np.random.default_rng(4)
    base = rng.normal(size=(30, 10))
    same = quality.logits(base + 3.0, base)  # softmax does not see a shift
    assert same["kl_p99"] == pytest.approx(0, abs=1e-12)
    assert same["top1_agreement"] == 1.0
    assert quality.logits(-base, base)["kl_mean"] > 0.5

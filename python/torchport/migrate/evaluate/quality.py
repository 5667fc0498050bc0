"""Whether the target answers as well as the baseline: paired scores, flips, length, and logits where there are any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from torchport.migrate.evaluate.measurement import Sample
from torchport.migrate.evaluate.stats import bootstrap_upper_loss, mcnemar_p, tango_upper_loss

EPSILON = 1e-12


def mean_by_id(starts: Sequence[Sequence[Sample]]) -> dict[str, Sample]:
    """One sample for each id: the mean over the starts; the answer of the first start."""
    gathered: dict[str, list[Sample]] = {}
    for samples in starts:
        for sample in samples:
            gathered.setdefault(sample.id, []).append(sample)
    found = {}
    for key, group in gathered.items():
        tokens = [s.tokens for s in group if s.tokens is not None]
        mean = float(np.mean(tokens)) if tokens else None
        score = float(np.mean([s.score for s in group]))
        found[key] = Sample(id=key, score=score, answer_sha256=group[0].answer_sha256, tokens=mean)
    return found


def paired(
    baseline: Mapping[str, Sample], target: Mapping[str, Sample], confidence: float, resamples: int, seed: int
) -> dict[str, Any]:
    """Score loss with its one-sided upper bound, flips, McNemar's p, agreement and the length ratio, over shared ids.

    Right/wrong scores take Tango's interval; graded ones, which it does not cover, the bootstrap over pairs.
    """
    ids = sorted(baseline.keys() & target.keys())
    if not ids:
        return {"n": 0}
    before = np.array([baseline[i].score for i in ids])
    after = np.array([target[i].score for i in ids])
    binary = bool(np.isin(np.concatenate([before, after]), (0.0, 1.0)).all())
    worse, better = int((after < before).sum()), int((after > before).sum())
    if binary:
        upper = tango_upper_loss(worse, better, len(ids), confidence)
    else:
        upper = bootstrap_upper_loss((before - after).tolist(), confidence, resamples, seed)
    changed = sum(baseline[i].answer_sha256 != target[i].answer_sha256 for i in ids)
    both = [(b, t) for i in ids if (b := baseline[i].tokens) and (t := target[i].tokens) is not None]
    return {
        "n": len(ids),
        "unpaired": len(baseline.keys() ^ target.keys()),
        "mean_baseline": float(before.mean()),
        "mean_target": float(after.mean()),
        "loss": float((before - after).mean()),
        "loss_upper": upper,
        "method": "Tango score interval" if binary else "paired bootstrap",
        "flips_worse": worse,
        "flips_better": better,
        "answers_changed": changed,
        "mcnemar_p": mcnemar_p(worse, better),
        "length_ratio": sum(t for _, t in both) / sum(b for b, _ in both) if both else None,
    }


def log_softmax(x: np.ndarray) -> np.ndarray:
    """Over the last axis, in double precision."""
    x = np.asarray(x, dtype=np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def r_ratio(target: np.ndarray, fp32: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Error of the target in units of the unavoidable low-precision error, a figure for each sample (row).

    R = |target - fp32| / (|low - fp32| + eps), Frobenius norms; near 1 is as good as the reference in low precision.
    Published as the acceptance metric of AWS Neuron's framework equivalence guide (SDK 2.32/2.33, 2026).
    """
    t, f, b = (np.asarray(a, dtype=np.float64).reshape(len(a), -1) for a in (target, fp32, low))
    return np.linalg.norm(t - f, axis=1) / (np.linalg.norm(b - f, axis=1) + EPSILON)


def logits(target: np.ndarray, baseline: np.ndarray) -> dict[str, float]:
    """How far two sets of logits (rows: samples, last axis: classes) are apart."""
    t, b = np.asarray(target, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    log_t, log_b = log_softmax(t), log_softmax(b)
    kl = (np.exp(log_b) * (log_b - log_t)).sum(axis=-1).ravel()
    norm = np.linalg.norm(t, axis=-1) * np.linalg.norm(b, axis=-1) + EPSILON
    cosine = ((t * b).sum(axis=-1) / norm).ravel()
    return {
        "max_abs": float(np.abs(t - b).max()),
        "cosine_p5": float(np.quantile(cosine, 0.05)),
        "kl_mean": float(kl.mean()),
        "kl_p95": float(np.quantile(kl, 0.95)),
        "kl_p99": float(np.quantile(kl, 0.99)),
        "top1_agreement": float((t.argmax(axis=-1) == b.argmax(axis=-1)).mean()),
    }

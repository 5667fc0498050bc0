"""Claim: 10,000 iterations of `y = x[i] * s + t`, each with a new i, s and t, compile at most 3 programs.

The exit status is 1 when more are compiled, or when a result differs from torch CPU's.
"""

from __future__ import annotations

import random
import sys

import torch

import measure

LIMIT, CHECK_EVERY = 3, 97


def main(argv: list[str] | None = None) -> int:
    """Measures, shows, writes; returns the exit status."""
    claim = __doc__.splitlines()[0]
    parser = measure.options("recompile", claim)
    parser.add_argument("--iterations", type=int, default=10_000, help="default: %(default)s")
    options = parser.parse_args(argv)
    torch.manual_seed(0)
    source = random.Random(0)
    on_cpu = torch.randn(options.iterations, 16)
    x = on_cpu.to(options.device)
    rows = list(range(options.iterations))
    source.shuffle(rows)
    before = measure.start(options.device)
    kept = []
    for turn, i in enumerate(measure.progress(rows, "x[i] * s + t")):
        s, t = source.uniform(-2, 2), source.uniform(-2, 2)
        y = x[i] * s + t
        if turn % CHECK_EVERY == 0:
            kept.append((i, s, t, y))
    measure.synchronize(options.device)
    # Counted before the results are fetched: the loop is what the claim is about.
    spent = measure.spent(options.device, before)
    wrong = [i for i, s, t, y in kept if not torch.allclose(y.cpu(), on_cpu[i] * s + t, rtol=1e-6, atol=1e-6)]
    programs = spent["programs_compiled"]
    measure.save(options.out, "recompile", claim, options.device, {"spent": spent, "limit": LIMIT, "wrong": wrong})
    counted = "n/a: nothing counts on this device" if programs is None else f"{programs} (at most {LIMIT})"
    measure.console.print(f"{options.iterations:,} iterations, programs compiled: {counted}", markup=False)
    measure.console.print(f"{len(kept)} results held against torch CPU, {len(wrong)} wrong", markup=False)
    return 1 if wrong or (programs or 0) > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())

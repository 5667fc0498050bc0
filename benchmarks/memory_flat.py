"""Claim: over 2,000 training steps of a small model, resident memory stays flat within 3 % after step 200.

The device's own live bytes must stay flat too, where it counts them. The exit status is 1 when either does not.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import measure

WARM, LIMIT, EVERY = 200, 0.03, 20


def resident_bytes() -> int:
    """What the process holds in memory now (not the peak)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def live_bytes(device: str) -> int:
    """What live tensors hold on the device; 0 on the CPU, where nobody counts."""
    return 0 if torch.device(device).type == "cpu" else torch.accelerator.memory_allocated()


def drift(samples: list[tuple[int, int, int]], which: int) -> float:
    """The largest change after step WARM, relative to what was held then."""
    after = [sample[which] for sample in samples if sample[0] >= WARM]
    return max(abs(value - after[0]) for value in after) / after[0] if after[0] else 0.0


def main(argv: list[str] | None = None) -> int:
    """Measures, shows, writes; returns the exit status."""
    claim = __doc__.splitlines()[0]
    parser = measure.options("memory_flat", claim)
    parser.add_argument("--steps", type=int, default=2000, help="default: %(default)s")
    options = parser.parse_args(argv)
    if options.steps <= WARM:
        parser.error(f"--steps must be over {WARM}, got {options.steps}")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 10)).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    samples = []
    for step in measure.progress(range(options.steps + 1), "training"):
        if step % EVERY == 0:
            measure.synchronize(options.device)
            samples.append((step, resident_bytes(), live_bytes(options.device)))
        inputs, targets = torch.randn(32, 64).to(options.device), torch.randint(0, 10, (32,)).to(options.device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        schedule.step()
        loss.item()
    resident, live = drift(samples, 1), drift(samples, 2)
    marks = [sample for sample in samples if sample[0] in (0, 100) or sample[0] % max(WARM, options.steps // 10) == 0]
    for step, rss, held in marks:
        measure.console.print(f"step {step:>6,}  resident {rss / 2**20:8.1f} MiB  device {held / 2**20:8.2f} MiB")
    measure.console.print(f"after step {WARM}: resident {resident:.2%}, device {live:.2%} (at most {LIMIT:.0%} each)")
    content = {"samples": samples, "resident_drift": resident, "live_drift": live, "limit": LIMIT}
    measure.save(options.out, "memory_flat", claim, options.device, content)
    return 1 if max(resident, live) > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())

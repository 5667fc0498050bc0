"""Claim: eager dispatch of `a + b` on 4x4 and of nn.Linear(4, 4) costs at most 3 times torch CPU's, one thread each.

Also `view + add` and `x[i] * s`, whose offset and scalar change on every call. `--check` makes a broken claim fail.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch

import measure

LIMITS = {"add 4x4": 3.0, "Linear(4, 4)": 3.0}


def workloads(device: str, loops: int) -> dict[str, Callable[[], None]]:
    """Each runs `loops` operations on the device."""
    torch.manual_seed(0)
    a, b = torch.randn(4, 4).to(device), torch.randn(4, 4).to(device)
    rows = torch.randn(64, 4).to(device)
    linear = torch.nn.Linear(4, 4).to(device)

    def add() -> None:
        for _ in range(loops):
            a + b

    @torch.no_grad()
    def apply_linear() -> None:
        for _ in range(loops):
            linear(a)

    def view_add() -> None:
        for i in range(loops):
            rows.view(16, 4, 4)[i % 16].t() + b

    def select_scale() -> None:
        for i in range(loops):
            rows[i % 64] * (i + 0.5)

    return {"add 4x4": add, "Linear(4, 4)": apply_linear, "view + add": view_add, "x[i] * s": select_scale}


def main(argv: list[str] | None = None) -> int:
    """Measures, shows, writes; returns the exit status."""
    claim = __doc__.splitlines()[0]
    parser = measure.options("dispatch", claim, rounds=15)
    parser.add_argument("--loops", type=int, default=2000, help="operations a round (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="exit with 1 when the claim does not hold")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    before = measure.start(options.device)
    on_device, on_cpu = workloads(options.device, options.loops), workloads("cpu", options.loops)
    rows = [
        measure.interleaved(name, on_device[name], on_cpu[name], options.device, options.rounds, per=options.loops)
        for name in on_device
    ]
    measure.show("Eager dispatch", options.device, rows, "us per operation", 1)
    spent = measure.spent(options.device, before)
    broken = [row["name"] for row in rows if row["ratio"]["median"] > LIMITS.get(row["name"], float("inf"))]
    measure.save(options.out, "dispatch", claim, options.device, {"rows": rows, "broken": broken, "spent": spent})
    for name in broken:
        measure.console.print(f"claim broken: {name} is over {LIMITS[name]:.0f} times torch CPU", markup=False)
    return 1 if broken and options.check else 0


if __name__ == "__main__":
    sys.exit(main())

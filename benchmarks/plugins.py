"""Claim: the default CPU plugin is the one that passes most and runs fastest: `plugins.py a.so b.so`, or names.

Each plugin runs in processes of its own (TORCHPORT_PLATFORM), so one that crashes or hangs costs only its own row.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.markup import escape
from rich.table import Table

import measure

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 900
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.int64, torch.bool)

# What plugins are likely to differ in: one call each, on (6, 6) and the dtype, held against torch CPU.
OPS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "add": lambda x: x + x,
    "mul": lambda x: x * x,
    "matmul": lambda x: x @ x,
    "exp": torch.exp,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sqrt": lambda x: torch.sqrt(x * x),
    "floor_divide": lambda x: torch.floor_divide(x, 2),
    "where": lambda x: torch.where(x == x[0], x, x.t()),
    "sum": lambda x: x.sum(0),
    "amax": lambda x: x.amax(1),
    "argmax": lambda x: x.argmax(1),
    "cumsum": lambda x: x.cumsum(1),
    "sort": lambda x: x.sort(1).values,
    "softmax": lambda x: torch.softmax(x, 1),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (6,)),
    "conv2d": lambda x: torch.nn.functional.conv2d(x[None, None], x[None, None, :3, :3], padding=1),
    "max_pool2d": lambda x: torch.nn.functional.max_pool2d(x[None, None], 2),
    "index": lambda x: x[torch.tensor([4, 0, 4], device=x.device)],
    "index_add": lambda x: x.index_add(0, torch.tensor([1, 1, 0], device=x.device), x[:3]),
    "scatter_add": lambda x: x.scatter_add(0, torch.zeros(2, 6, dtype=torch.int64, device=x.device), x[:2]),
    "to int32": lambda x: (x.real if x.is_complex() else x).to(torch.int32),
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.mH + 6 * torch.eye(6, dtype=x.dtype, device=x.device)),
    "fft": torch.fft.fft,
    "inverse": lambda x: torch.linalg.inv(x + 6 * torch.eye(6, dtype=x.dtype, device=x.device)),
}


def try_ops(device: str) -> dict[str, str]:
    """'op dtype' -> 'ok' or what went wrong, for the pairs that torch CPU can do."""
    results = {}
    for dtype in DTYPES:
        torch.manual_seed(0)
        values = torch.randn(6, 6, dtype=torch.complex64) if dtype.is_complex else torch.randn(6, 6) * 3
        values = values.to(dtype)
        for name, op in OPS.items():
            try:
                expected = op(values)
            except (RuntimeError, ValueError):  # torch CPU does not offer this pair
                continue
            try:
                torch.testing.assert_close(op(values.to(device)).cpu(), expected)
                outcome = "ok"
            except (RuntimeError, ValueError, TypeError, AssertionError) as error:
                outcome = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
            results[f"{name} {str(dtype).removeprefix('torch.')}"] = outcome
    return results


def child(plugin: str, device: str, script: str, *args: str) -> dict[str, Any]:
    """Runs one script under a plugin; its JSON, or the reason why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        command = [sys.executable, str(HERE / script), "--device", device, "--out", str(out), *args]
        environment = {**os.environ, "TORCHPORT_PLATFORM": plugin}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"no result after {TIMEOUT_S} s"}
        if not out.exists():
            last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
            return {"failed": f"exit status {done.returncode}: {last}"}
        return json.loads(out.read_text())


def summary(results: dict[str, dict[str, Any]]) -> Table:
    """One column a plugin."""
    table = Table(title="CPU plugins: ratio to torch CPU (medians), and operations that agree with it")
    table.add_column("")
    for plugin in results:
        table.add_column(Path(plugin).name, justify="right", overflow="fold")
    names = list(
        dict.fromkeys(
            row["name"] for r in results.values() for k in ("dispatch", "models") for row in r[k].get("rows", [])
        )
    )
    for name in names:
        cells = []
        for result in results.values():
            rows = {row["name"]: row for kind in ("dispatch", "models") for row in result[kind].get("rows", [])}
            cells.append(f"{rows[name]['ratio']['median']:.2f}" if name in rows else "failed")
        table.add_row(escape(name), *cells)
    cells = []
    for result in results.values():
        ops = result["ops"].get("ops", {})
        cells.append(f"{sum(outcome == 'ok' for outcome in ops.values())} of {len(ops)}" if ops else "failed")
    table.add_row("operations", *cells)
    return table


def main(argv: list[str] | None = None) -> int:
    """Measures, shows, writes; returns the exit status."""
    claim = __doc__.splitlines()[0]
    parser = measure.options("plugins", claim, rounds=7)
    parser.add_argument("plugins", nargs="*", default=["cpu"], help="paths of plugins, or names of core/devices")
    parser.add_argument("--ops", action="store_true", help="only try the operations, in this process")
    options = parser.parse_args(argv)
    if options.ops:
        measure.save(options.out, "operations", claim, options.device, {"ops": try_ops(options.device)})
        return 0
    rounds = ("--rounds", str(options.rounds))
    tasks = {"ops": ("plugins.py", "--ops"), "dispatch": ("dispatch.py", *rounds), "models": ("models.py", *rounds)}
    results: dict[str, dict[str, Any]] = {plugin: {} for plugin in options.plugins}
    turns = [(kind, plugin) for kind in tasks for plugin in options.plugins]
    for kind, plugin in measure.progress(turns, "plugins"):
        results[plugin][kind] = child(plugin, options.device, *tasks[kind])
    measure.console.print(summary(results))
    failures = 0
    for plugin, result in results.items():
        for kind, got in result.items():
            if "failed" in got:
                failures += 1
                measure.console.print(f"{plugin}: {kind}: {got['failed']}", markup=False)
        for op, outcome in result["ops"].get("ops", {}).items():
            if outcome != "ok":
                measure.console.print(f"{plugin}: {op}: {outcome}", markup=False)
    measure.save(options.out, "plugins", claim, options.device, {"plugins": results})
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

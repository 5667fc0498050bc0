"""The options of `torchport check --model`, and what they do."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

FAIL_ON = ("compile", "fit", "count")


def parse_fail_on(text: str) -> set[str]:
    """`compile,fit`; ValueError for anything else."""
    wanted = {part.strip() for part in text.split(",") if part.strip()}
    if unknown := wanted - set(FAIL_ON):
        raise ValueError(f"[--fail-on] must be a list of {', '.join(FAIL_ON)}, got {', '.join(sorted(unknown))}")
    return wanted


def run_model(
    model: Path,
    targets: Sequence[str],
    out: Console,
    *,
    mode: str,
    batch: int,
    seq: int,
    dtype: str = "bfloat16",
    param_dtype: str | None = None,
    parallel: str | None = None,
    json_file: Path | None = None,
    fail_on: str = "compile,fit",
    **limits: Any,
) -> int:
    """Check one workload on every target, print and write what was found. Returns the exit code: 0, or 1 by fail_on."""
    from torchport.check.abstract import Workload, read_config
    from torchport.check.model import check_model, smallest
    from torchport.check.show import show

    judged = parse_fail_on(fail_on)
    workload = Workload(read_config(model), mode, batch, seq, dtype=dtype, param_dtype=param_dtype)
    say = lambda line: out.print(line, markup=False, highlight=False)
    checks = check_model(workload, targets, parallel, progress=say, **limits)
    show(checks, out)
    for c in checks:
        if c.fits is False and (found := smallest(workload, c.target.chip_name)) is not None:
            wanted, mesh = found
            axes = ",".join(f"{axis}={size}" for axis, size in mesh.sizes if size > 1)
            say(f"smallest slice that holds it by count: {wanted.name}" + (f" with --parallel {axes}" if axes else ""))
    if json_file is not None:
        text = json.dumps({"schema": 1, "checks": [c.as_dict() for c in checks]}, indent=2)
        part = json_file.with_name(json_file.name + ".part")
        part.write_text(text + "\n", encoding="utf-8")
        os.replace(part, json_file)
    failed = {
        "compile": any(not c.result.ok for c in checks),
        "fit": any(c.fits is False for c in checks),
        "count": any(not a.ok for c in checks for a in c.agreements),
    }
    return int(any(failed[name] for name in judged))

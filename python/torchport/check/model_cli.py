"""The options of `torchport check --model`, and what they do."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

FAIL_ON = ("compile", "fit", "count")  # what a model, which runs nothing, can be failed for


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
    html_file: Path | None = None,
    bundle: Path | None = None,
    fail_on: str = "compile,fit",
    **limits: Any,
) -> int:
    """Check one workload on every target, print and write what was found. Returns the exit code: 0, or 1 by fail_on."""
    from torchport.check.abstract import Workload, read_config
    from torchport.check.model import check_model
    from torchport.check.run import SCHEMA
    from torchport.check.show import page, show
    from torchport.pages import save
    from torchport.pages.page import write_whole

    judged = parse_fail_on(fail_on)
    workload = Workload(read_config(model), mode, batch, seq, dtype=dtype, param_dtype=param_dtype)
    say = lambda line: out.print(line, markup=False, highlight=False)
    checks = check_model(workload, targets, parallel, progress=say, bundle=bundle, **limits)
    show(checks, out)
    if json_file is not None:
        record = {
            "schema": SCHEMA,
            "date": datetime.date.today().isoformat(),
            "script": str(model),
            "arguments": [f"--{mode}", f"--batch={batch}", f"--seq={seq}", f"--dtype={dtype}"],
            "step": {"kind": mode, "dtype": dtype, "param_dtype": str(workload.stored_dtype).removeprefix("torch.")},
            "findings": [],
            "targets": [c.as_dict() for c in checks],
        }
        write_whole(json_file, json.dumps(record, indent=1) + "\n")
    if html_file is not None:
        save(html_file, page(checks, f"torchport check {model.name}, {mode}, batch {batch}, {seq} tokens"))
    failed = {
        "compile": any(c.compiles is False for c in checks),
        "fit": any(c.fits is False for c in checks),
        "count": any(not a.ok for c in checks for a in c.agreements),
    }
    return int(any(failed[name] for name in judged))

"""Whole models on whole slices, through the real compiler: `make check-large`. Writes docs/check-large.md.

Each workload must compile within TIME_LIMIT_S, fit, and hold what the independent count says. Needs libtpu.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from rich.console import Console

import torchport

torchport.activate()

from torchport.check.abstract import Workload, read_config
from torchport.check.model import ModelCheck, check_model
from torchport.check.show import show

ROOT = Path(__file__).resolve().parents[2]
TIME_LIMIT_S = 1200.0


@dataclass(frozen=True)
class Case:
    """One workload: a file of examples/models, what to run, where."""

    model: str
    mode: str
    batch: int
    seq: int
    target: str
    parallel: str


CASES = (
    Case("llama-3-8b", "decode", 32, 2048, "tpu:v6e:2x4", "tp=8"),
    Case("llama-3-8b", "train", 8, 2048, "tpu:v6e:2x4", "fsdp=8"),
    Case("llama-3-8b", "decode", 32, 2048, "tpu:v5e:4x4", "dp=2,tp=8"),
    Case("llama-3-8b", "train", 16, 2048, "tpu:v5e:4x4", "fsdp=16"),
    Case("llama-3-70b", "prefill", 64, 2048, "tpu:v5p:4x4x4", "dp=8,tp=8"),
    Case("llama-3-70b", "decode", 64, 4096, "tpu:v5p:4x4x4", "dp=8,tp=8"),
)


def problems(found: ModelCheck, seconds: float) -> list[str]:
    """What is wrong with one check; nothing when all is as it must be."""
    if not found.result.ok:
        return [f"must compile, got {found.result.outcome}: {found.result.words[:500]}"]
    wrong = [
        f"{a.what} must agree, got {a.compiler:.0f} for {a.counted or a.program:.0f}"
        for a in found.agreements
        if not a.ok
    ]
    if found.activations is not None and not found.activations.ok:
        wrong.append(f"kept activations must agree, got {found.kept} for {found.activations.counted:.0f}")
    if not found.fits:
        wrong.append("must fit")
    countable = found.countable_temporaries or 0.0
    if found.result.memory is None or found.result.memory.temporaries < 0.9 * countable:
        wrong.append(f"temporaries must hold what is countable, {countable:.0f} bytes")
    if seconds > TIME_LIMIT_S:
        wrong.append(f"must take {TIME_LIMIT_S:.0f} s, got {seconds:.0f} s")
    return wrong


def row(case: Case, found: ModelCheck, seconds: float) -> str:
    """One line of the page; bytes on one device in GB."""
    memory, argument = found.result.memory, found.agreements[0]
    gb = lambda value: f"{value / 1e9:,.3f}"
    bounds = found.bounds
    cells = [
        case.model, f"{case.mode}, B={case.batch}, S={case.seq}", f"`{case.target}`", case.parallel,
        gb(argument.counted or 0), gb(argument.program), gb(argument.compiler), f"{argument.deviation:.3%}",
        gb(memory.aliased), gb(found.countable_temporaries or 0), gb(memory.temporaries), gb(memory.code),
        f"{gb(memory.total)} of {gb(found.target.device_hbm)}",
        f"{bounds.seconds * 1e3:,.1f} ({bounds.limit})" if bounds else "-",
        f"{found.trace_s:.0f}", f"{found.result.seconds:.0f}", f"{seconds:.0f}", f"{found.result.host_peak_bytes / 1e9:.1f}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


COLUMNS = (
    "model", "what", "target", "mesh", "arguments counted", "program", "compiler", "deviation", "donated", "countable",
    "temporaries", "code", "total", "estimate, ms", "trace", "compile", "all", "host peak, GB",
)  # fmt: skip

PAGE = """# Whole models on whole slices

<!-- Written by `make check-large`. -->

Measured on {cores} cores and {memory:.0f} GB of memory, without a TPU, with libtpu {libtpu}: trace, emit, partition and
compile, one workload after another; times include whatever else the machine was doing. All layers stand in the
program, written out: nothing is extrapolated. Layers are rematerialised in training (AdamW, float32 parameters and
moments, bfloat16 arithmetic).

*counted* comes from the configuration alone (`torchport.check.count`), *program* is the sum over the emitted program's
arguments, *compiler* is what libtpu reports for one device. *countable* are the inputs that layers keep, gradients and
logits: temporaries hold them and the compiler's workspace. Estimates are lower bounds, not measured: see
[estimates](estimates.md). Bytes on one device in GB; times in s.

{head}
{rows}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of model, mode or target")
    parser.add_argument("--write", type=Path, help="the page to write")
    args = parser.parse_args()
    out = Console(width=120)
    rows, failed = [], 0
    for case in CASES:
        if args.only not in f"{case.model} {case.mode} {case.target}":
            continue
        config = read_config(ROOT / "examples" / "models" / f"{case.model}.json")
        workload = Workload(config, case.mode, case.batch, case.seq)
        found = check_model(workload, [case.target], case.parallel, progress=out.print, timeout_s=TIME_LIMIT_S)[0]
        seconds = found.trace_s + found.result.seconds  # a result of an earlier run keeps the time that it took then
        show([found], out)
        wrong = problems(found, seconds)
        for line in wrong:
            out.print(f"[check-large] {case.model} {case.mode} {case.target} {line}", markup=False)
        failed += bool(wrong)
        if found.result.memory is not None:
            rows.append(row(case, found, seconds))
            print(rows[-1], flush=True)
    out.print(f"check-large: {len(rows)} workloads, {failed} failed")
    if args.write and not args.only:
        from importlib.metadata import version

        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        head = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}"
        machine = {"cores": os.cpu_count(), "memory": memory, "libtpu": version("libtpu")}
        text = PAGE.format(**machine, head=head, rows="\n".join(rows))
        part = args.write.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(args.write)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Small models through the whole check for a TPU: `make check-models`. Writes docs/check-models.md.

The two examples and five families of transformers, from tiny configurations with random weights, each trained for a few
steps in emulation. Green: compiles, fits, no fallback, nothing compiled anew after the first steps. Needs libtpu.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

import torchport

torchport.activate()

from torchport.check.run import Check, check_script
from torchport.check.show_script import gigabytes, seconds
from torchport.check.targets import target

ROOT = Path(__file__).resolve().parents[2]
TRAIN = ROOT / "tests" / "check" / "train_tiny.py"
TARGET = "tpu:v6e"
FAMILIES = ("gpt2", "llama", "bert", "t5", "vit")


@dataclass(frozen=True)
class Case:
    """A script and its arguments."""

    name: str
    script: Path
    arguments: tuple[str, ...] = ()


CASES = (
    Case("digits CNN", ROOT / "examples" / "train_digits.py"),
    Case("character GPT", ROOT / "examples" / "train_gpt.py"),
    *(Case(f"transformers {family}, tiny", TRAIN, (family,)) for family in FAMILIES),
)


def problems(found: Check) -> list[str]:
    """What is not green."""
    [verdict] = found.verdicts or [None]
    if verdict is None or not verdict.compiles or not verdict.fits:
        words = verdict.result.words[:500] if verdict else "no step was captured"
        return [f"must compile and fit, got {words}"]
    every = [*found.findings, *verdict.findings]
    return [f"must have no {f.code}, got {f.what} {f.where}" for f in every if f.severity != "note"]


def row(case: Case, found: Check, took: float) -> str:
    """One line of the page."""
    [v] = found.verdicts
    step = found.step
    assert step is not None
    command = " ".join([case.script.relative_to(ROOT).as_posix(), *case.arguments])
    cells = [
        case.name, f"`{command}`", len(step.programs), sum(step.launches.values()), "yes" if v.compiles else "no",
        f"{gigabytes(v.needed_bytes)} of {gigabytes(v.target.device_hbm)}",
        sum(f.code == "fallback" for f in found.findings), seconds(v.seconds),
        f"{v.result.seconds:.0f}", f"{took:.0f}",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


COLUMNS = (
    "model", "script", "programs", "launches a step", "compiles", "memory", "fallbacks", "step at best", "compile, s",
    "whole check, s",
)  # fmt: skip

PAGE = """# Small models for a TPU v6e

<!-- Written by `make check-models`. -->

Each script trains a few steps in emulation, and one step of it (forward, backward, optimiser) is compiled by libtpu
{libtpu} for `{target}`. The step's time is an estimate, not measured: see [estimates](estimates.md). Made on a shared
machine of {cores} cores; the seconds include whatever else it was doing. A program that an earlier check compiled is
not compiled again: *compile* is then what it took at the time.

| {head} |
|{rule}
{rows}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of a model's name")
    parser.add_argument("--write", type=Path, help="the page to write")
    args = parser.parse_args()
    out = Console(width=160)
    say = lambda line: out.print(line, markup=False, highlight=False)
    rows, failed = [], 0
    for case in CASES:
        if args.only not in case.name:
            continue
        started = time.monotonic()
        found = check_script(case.script, list(case.arguments), [target(TARGET)], progress=say)
        wrong = problems(found)
        for line in wrong:
            say(f"[check-models] {case.name} {line}")
        failed += bool(wrong)
        if found.verdicts:
            rows.append(row(case, found, time.monotonic() - started))
            print(rows[-1], flush=True)
    say(f"check-models: {len(rows)} models, {failed} not green")
    if args.write and not args.only and not failed:
        import os
        from importlib.metadata import version

        text = PAGE.format(libtpu=version("libtpu"), target=TARGET, cores=os.cpu_count(), head=" | ".join(COLUMNS),
                           rule=" --- |" * len(COLUMNS), rows="\n".join(rows))  # fmt: skip
        part = args.write.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(args.write)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

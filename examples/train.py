"""The main job: train two ordinary PyTorch models on the CPU and on the device, and hold the loss curves together.

The models and their training loops (digits_cnn.py, char_gpt.py) mention torch only; `import torch` brings the device.
Exit status: 0 when the curves agree and the loss falls, 1 when not, 2 when the device is not there.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import char_gpt
import digits_cnn
import ledger
import reference
from outcome import Outcome, Run, table, write_json, write_plot
from parity import Verdict, bounds, compare, nudge

TWINS = (1, 2)  # seeds of the last-bit changes


@dataclass(frozen=True)
class Job:
    """One model of the main job."""

    name: str
    source: str
    held_out: str
    steps: int
    quick_steps: int
    build: Callable[[int], torch.nn.Module]
    train: Callable[..., dict[str, Any]]


JOBS = (
    Job("digits CNN", "scikit-learn digits, 1,797 images", "test loss", 110, 22, digits_cnn.build, digits_cnn.train),
    Job("char GPT", "CPython's pydoc_data.topics", "validation loss", 40, 6, char_gpt.build, char_gpt.train),
)


def run(job: Job, device: str, steps: int, seed: int, progress: Progress, twin: int | None = None) -> Run:
    """Trains once, from the weights of the seed (or their twin), with the batches of the seed."""
    label = f"{job.name} on {device}" if twin is None else f"{job.name} on {device}, twin {twin}"
    task = progress.add_task(label, total=steps, loss="")
    model = job.build(seed) if twin is None else nudge(job.build(seed), twin)
    before = ledger.start(device)
    marks = [time.perf_counter()]

    def on_step(step: int, loss: float) -> None:
        marks.append(time.perf_counter())
        progress.update(task, completed=step, loss=f"loss {loss:.4f}")

    got = job.train(model, device, steps, seed, on_step)
    where = {weight.device.type for weight in model.parameters()}
    if where != {torch.device(device).type}:
        raise RuntimeError(f"[train] must have trained on {device}, got weights on {', '.join(sorted(where))}")
    seconds = [end - start for start, end in itertools.pairwise(marks)]
    return Run(device, got["losses"], got["held_out_loss"], got.get("accuracy"), seconds, ledger.spent(device, before))


def on_cpu(job: Job, steps: int, seed: int, keep: Path | None, progress: Progress) -> tuple[str | None, list[Run]]:
    """The plain run on the CPU and its twins: trained now (None), or kept from that date."""
    key = reference.key(job.name, steps, seed)
    if keep is not None and (kept := reference.load(keep, key)) is not None:
        return kept
    runs = [run(job, "cpu", steps, seed, progress, twin) for twin in (None, *TWINS)]
    if keep is not None:
        reference.save(keep, key, runs)
    return None, runs


def judge(job: Job, cpu: Run, device: Run, twins: list[Run]) -> tuple[list[float], list[Verdict]]:
    """The bound of each step, and the verdicts: curves, held-out loss, accuracy, and that training got somewhere."""
    # The held-out loss is one more point of the curve, so that it gets its bound in the same way.
    reference = [*cpu.losses, cpu.held_out_loss]
    *bound, held_out_bound = bounds(reference, [[*twin.losses, twin.held_out_loss] for twin in twins])
    verdicts = [
        compare(f"{job.name}, training loss", cpu.losses, device.losses, bound),
        compare(f"{job.name}, {job.held_out}", [cpu.held_out_loss], [device.held_out_loss], [held_out_bound]),
    ]
    if cpu.accuracy is not None and device.accuracy is not None:
        # One image may stand on the border between two classes; no twin ever moved more.
        one_image = 1.01 / digits_cnn.TEST_IMAGES
        verdicts.append(compare(f"{job.name}, test accuracy", [cpu.accuracy], [device.accuracy], [one_image]))
    if not device.losses[-1] < device.losses[0]:
        got = f"{device.losses[0]:.6f} then {device.losses[-1]:.6f}"
        verdicts.append(Verdict(False, float("inf"), f"{job.name}, training: must lower the loss, got {got}"))
    return bound, verdicts


def is_there(device: str, console: Console) -> bool:
    """Whether tensors can be made on the device; says why not."""
    try:
        torch.zeros(1, device=device)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        console.print(
            f"[train] --device must name a device that is there, got {device!r}: {reason}", markup=False, soft_wrap=True
        )
        console.print("Try: make setup, then make run; or --device cpu to see the CPU against itself", markup=False)
        return False
    return True


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="tpu", help="device to hold against the CPU (default: %(default)s)")
    parser.add_argument("--steps", type=int, help="steps of each model (default: 110 for the CNN, 40 for the GPT)")
    parser.add_argument("--quick", action="store_true", help="a few steps only: 22 and 6")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and batches (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for train.json and train.png")
    parser.add_argument("--keep", type=Path, help="keep the CPU's runs in this folder, and use those that are there")
    options = parser.parse_args(argv)
    if options.steps is not None and options.steps < 2:
        parser.error(f"--steps must be at least 2, got {options.steps}")
    return options


def main(argv: list[str] | None = None, jobs: tuple[Job, ...] = JOBS) -> int:
    """Runs every job on both devices; returns the exit status."""
    options = parse(argv)
    console = Console()
    if not is_there(options.device, console):
        return 2
    started = time.perf_counter()
    outcomes = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[loss]}"), console=console) as progress:
        for job in jobs:
            steps = options.steps or (job.quick_steps if options.quick else job.steps)
            kept, (cpu, *twins) = on_cpu(job, steps, options.seed, options.keep, progress)
            device = run(job, options.device, steps, options.seed, progress)
            bound, verdicts = judge(job, cpu, device, twins)
            outcomes.append(Outcome(job.name, job.held_out, cpu, device, bound, verdicts, kept))
    console.print(table(outcomes))
    for job, outcome in zip(jobs, outcomes, strict=True):
        console.print(
            f"{job.name}: {job.source}; held-out loss is the {job.held_out}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        if outcome.kept:
            made = f"the CPU's runs are those of {outcome.kept} (same torch, machine, source and seed); make train makes them anew"
            console.print(f"  note {made}", markup=False, highlight=False, soft_wrap=True)
        for verdict in outcome.verdicts:
            mark = "ok  " if verdict.agrees else "FAIL"
            console.print(f"  {mark} {verdict.message}", markup=False, highlight=False, soft_wrap=True)
    settings = {"device": options.device, "seed": options.seed, "torch": torch.__version__}
    write_json(options.out / "train.json", settings, outcomes)
    write_plot(options.out / "train.png", outcomes)
    agrees = all(outcome.agrees for outcome in outcomes)
    console.print(
        f"{'parity holds' if agrees else 'PARITY FAILS'} after {time.perf_counter() - started:.0f} s; "
        f"see {options.out / 'train.png'} and {options.out / 'train.json'}",
        markup=False,
        soft_wrap=True,
    )
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())

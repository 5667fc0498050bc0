"""How the main job shows its result: one table, one plot, one JSON file."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from parity import SLACK, Verdict


@dataclass
class Run:
    """One model trained once on one device."""

    device: str
    losses: list[float]
    held_out_loss: float
    accuracy: float | None
    step_seconds: list[float]
    spent: dict[str, Any] = field(default_factory=dict)

    @property
    def steps_per_second(self) -> float:
        """From the median step, which leaves out compilation and what else the machine does."""
        return 1 / statistics.median(self.step_seconds)


@dataclass
class Outcome:
    """One model on the CPU and on the device, and whether they agree."""

    model: str
    held_out: str
    cpu: Run
    device: Run
    bound: list[float]
    verdicts: list[Verdict]
    kept: str | None = None  # when the CPU's runs were made, where an earlier call kept them

    @property
    def agrees(self) -> bool:
        """Whether every comparison agrees."""
        return all(verdict.agrees for verdict in self.verdicts)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        runs = {
            name: {**asdict(run), "steps_per_second": run.steps_per_second}
            for name, run in (("cpu", self.cpu), ("device", self.device))
        }
        verdicts = [asdict(verdict) for verdict in self.verdicts]
        return {
            "model": self.model,
            "agrees": self.agrees,
            "cpu_kept_from": self.kept,
            **runs,
            "bound": self.bound,
            "verdicts": verdicts,
        }


def _count(value: int | None) -> str:
    return "n/a" if value is None else f"{value:,}"


def _fallbacks(rows: list[dict[str, Any]] | None) -> str:
    if rows is None:
        return "n/a"
    return "\n".join(f"{row['op']} x{row['count']}" for row in rows) or "none"


def _cells(outcome: Outcome, run: Run) -> list[str]:
    is_device = run is outcome.device
    largest = max(outcome.verdicts, key=lambda verdict: verdict.worst).worst
    parity = f"{'yes' if outcome.agrees else 'NO'}, {largest:.0%} of it" if is_device else "reference"
    return [
        str(len(run.losses)),
        f"{run.losses[0]:.6f}",
        f"{run.losses[-1]:.6f}",
        f"{run.held_out_loss:.6f}",
        "-" if run.accuracy is None else f"{run.accuracy:.2%}",
        f"{run.steps_per_second:.2f}",
        f"{run.step_seconds[0]:.2f} s",
        f"{max(outcome.bound):.1e}" if is_device else "-",
        parity,
        _count(run.spent["programs_compiled"]),
        _count(run.spent["cache_hits"]),
        _fallbacks(run.spent["fallbacks"]),
        _count(run.spent["peak_bytes"]),
    ]


ROWS = (
    "steps",
    "first loss",
    "last loss",
    "held-out loss",
    "test accuracy",
    "steps/s",
    "first step",
    "last bound",
    "within bound",
    "programs",
    "cache hits",
    "fallbacks",
    "peak bytes",
)


def table(outcomes: list[Outcome]) -> Table:
    """One column a run."""
    result = Table(title=f"Training, cpu against the device (bound: {SLACK:.0f} x what rounding alone does)")
    result.add_column("")
    columns = []
    for outcome in outcomes:
        for run in (outcome.cpu, outcome.device):
            result.add_column(f"{outcome.model}\n{run.device}", justify="right")
            columns.append(_cells(outcome, run))
    for row in zip(ROWS, *columns, strict=True):
        result.add_row(*row)
    return result


def replace(path: Path, write: Callable[[Path], None]) -> None:
    """Writes beside the file and renames, so that a reader sees the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    try:
        write(Path(name))
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def write_json(path: Path, settings: dict[str, Any], outcomes: list[Outcome]) -> None:
    """Everything the table and the plot show."""
    content = {**settings, "slack": SLACK, "models": [outcome.as_dict() for outcome in outcomes]}
    replace(path, lambda part: part.write_text(json.dumps(content, indent=1) + "\n"))


def write_plot(path: Path, outcomes: list[Outcome]) -> None:
    """Loss curves above, their difference and the bound below; a column a model."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        2, len(outcomes), figsize=(6 * len(outcomes), 7), height_ratios=(2, 1), sharex="col", squeeze=False
    )
    for (top, bottom), outcome in zip(axes.T, outcomes, strict=True):
        steps = range(1, len(outcome.bound) + 1)
        top.plot(steps, outcome.cpu.losses, label="cpu", linewidth=3, alpha=0.5)
        top.plot(steps, outcome.device.losses, label=outcome.device.device, linestyle="--", color="black", linewidth=1)
        top.set_title(outcome.model)
        top.set_ylabel("training loss")
        top.legend()
        pairs = zip(outcome.cpu.losses, outcome.device.losses, strict=True)
        bottom.plot(steps, [abs(a - b) for a, b in pairs], label="difference", color="black", linewidth=1)
        bottom.plot(steps, outcome.bound, label="bound", color="red")
        bottom.set_yscale("symlog", linthresh=1e-7)
        bottom.set_xlabel("step")
        bottom.legend()
    figure.tight_layout()
    replace(path, lambda part: figure.savefig(part, dpi=120))
    pyplot.close(figure)

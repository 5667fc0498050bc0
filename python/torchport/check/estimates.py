"""Our estimates held against published measurements: the ratio of each, and the error band that every report prints.

`python -m torchport.check.estimates` recomputes everything from estimates.toml and targets.toml; with `--write` it
writes docs/estimates.md too. The estimate is the one of the reports: the longest of the times that arithmetic, memory
and links need at the very least. What a published step takes longer than that is the error, and its range is the
band.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import statistics
import sys
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, HttpUrl, PositiveFloat, PositiveInt, model_validator

from torchport.check.abstract import Workload
from torchport.check.count import Count, Shape, count
from torchport.check.targets import Target, target

LARGE = 2.0  # a ratio above which an explanation is due


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Strict):
    """Where a measurement stands."""

    title: str
    url: HttpUrl
    date: datetime.date


class Measurement(_Strict):
    """One published figure: tokens/s of a device, seconds a step, or seconds a token."""

    model: str
    software: str
    target: str
    mode: Literal["train", "decode"]
    peak: str
    seq: PositiveInt
    batch_per_device: PositiveInt = 1
    parallel: dict[str, PositiveInt] | None = None
    step: PositiveFloat | None = None
    throughput: PositiveFloat | None = None
    token: PositiveFloat | None = None
    source: str
    why: str | None = None

    @model_validator(mode="after")
    def _one_figure(self) -> Measurement:
        figures = [f for f in (self.step, self.throughput, self.token) if f is not None]
        if len(figures) != 1:
            raise ValueError(f"[measurement] must have one of step, throughput and token, got {len(figures)}")
        if self.throughput is None and self.parallel is None:
            raise ValueError("[measurement] must say parallel beside a step or token, got none")
        return self

    @property
    def seconds(self) -> float:
        """Seconds of a step: of batch_per_device sequences on each device, or of one token."""
        if self.throughput is not None:
            return self.batch_per_device * self.seq / self.throughput
        return self.step or self.token or 0.0


class Published(_Strict):
    """The whole of estimates.toml."""

    schema_version: Literal[1] = Field(alias="schema")
    model: dict[str, dict[str, Any]]
    source: dict[str, Source]
    measurement: tuple[Measurement, ...]


@functools.cache
def published() -> Published:
    """estimates.toml, read and checked."""
    text = resources.files("torchport.check").joinpath("estimates.toml").read_text(encoding="utf-8")
    found = Published.model_validate(tomllib.loads(text))
    for row in found.measurement:
        if row.model not in found.model or row.source not in found.source:
            raise ValueError(
                f"[estimates.toml] must name a model and a source of the table, got {row.model}, {row.source}"
            )
    return found


@dataclass(frozen=True)
class Bounds:
    """Seconds that a step needs at the very least: arithmetic at peak, memory traffic, traffic between devices."""

    compute: float
    memory: float
    links: float

    @property
    def seconds(self) -> float:
        return max(self.compute, self.memory, self.links)

    @property
    def limit(self) -> str:
        return max(("compute", "memory", "links"), key=lambda name: getattr(self, name))


def bounds(counted: Count, wanted: Target, peak: str, exchanged: float) -> Bounds:
    """exchanged: bytes that one device sends in a step. Memory: everything held is read once, what is trained is written."""
    flops = wanted.device_peak(peak)
    if flops is None:
        raise ValueError(f"[{wanted.name}] must have a peak for {peak}, got none in targets.toml")
    written = counted.parameters + counted.optimizer if counted.optimizer else 0.0
    link = wanted.chip.link
    links = exchanged * wanted.chip.devices_per_chip / (link.value * link.axes) if link and exchanged else 0.0
    return Bounds(counted.flops / flops, (counted.arguments + written) / wanted.device_bandwidth, links)


def exchanged(workload: Workload, parallel: dict[str, int]) -> float:
    """Bytes that a device sends: fsdp gathers the weights twice and scatters the gradients, tp sums activations."""
    shape, width = Shape.of(workload.config), workload.compute_dtype.itemsize
    fsdp, tp, dp = (parallel.get(axis, 1) for axis in ("fsdp", "tp", "dp"))
    tokens = workload.batch / (fsdp * dp) * (1 if workload.mode == "decode" else workload.seq)
    weights = shape.matrices / tp * width * (fsdp - 1) / fsdp
    sums = 2 * shape.L * tokens * shape.h * width * 2 * (tp - 1) / tp
    train = workload.mode == "train"
    return weights * (3 if train else 1) + sums * (3 if train else 1)


@dataclass(frozen=True)
class Compared:
    """A measurement beside our estimate. ratio: measured seconds over estimated ones; 1 is a perfect machine."""

    measurement: Measurement
    estimate: Bounds
    ratio: float
    published_mfu: float

    @property
    def note(self) -> str:
        if self.ratio <= LARGE:
            return ""
        return self.measurement.why or "unknown"


def compare(row: Measurement) -> Compared:
    """Recompute the estimate for one measurement.

    Throughputs without a mesh are held against arithmetic alone: what each device holds and sends is not known.
    """
    wanted = target(row.target)
    devices = wanted.num_devices if row.parallel is None else 1
    parallel = row.parallel or {}
    for size in parallel.values():
        devices *= size
    config = published().model[row.model]
    workload = Workload(config, row.mode, row.batch_per_device * devices, row.seq, remat=False)
    mesh = parallel or {"dp": devices}
    counted = count(workload, mesh)
    found = bounds(counted, wanted, row.peak, exchanged(workload, parallel) if parallel else 0.0)
    if not parallel:
        found = Bounds(found.compute, 0.0, 0.0)
    return Compared(row, found, row.seconds / found.seconds, found.compute / row.seconds)


@functools.cache
def compared() -> tuple[Compared, ...]:
    """Every measurement beside our estimate."""
    return tuple(compare(row) for row in published().measurement)


@dataclass(frozen=True)
class Band:
    """Published over estimated seconds: lowest, median and highest ratio, and of how many measurements."""

    low: float
    median: float
    high: float
    count: int

    def text(self) -> str:
        """One line for reports."""
        if self.count == 1:
            return f"the one published step took {self.low:.1f} times our estimate (docs/estimates.md)"
        return (
            f"published steps took {self.low:.1f} to {self.high:.1f} times our estimate "
            f"(median {self.median:.1f}, {self.count} measurements, docs/estimates.md)"
        )


def band(mode: str | None = None) -> Band:
    """The error band, of all measurements or of one mode (prefill has none of its own: that of training)."""
    ratios = [c.ratio for c in compared() if mode is None or c.measurement.mode == mode.replace("prefill", "train")]
    return Band(min(ratios), statistics.median(ratios), max(ratios), len(ratios))


def page() -> str:
    """docs/estimates.md."""
    rows = []
    for c in compared():
        m, s = c.measurement, published().source[c.measurement.source]
        rows.append(
            f"| {m.model} | {m.software} | `{m.target}` | {m.mode}, S={m.seq} | {m.seconds * 1e3:,.1f} | "
            f"{c.estimate.seconds * 1e3:,.1f} ({c.estimate.limit}) | {c.ratio:.2f} | {c.published_mfu:.0%} | "
            f"[{s.title}]({s.url}), {s.date} |"
        )
    notes = [f"- {c.measurement.model} on `{c.measurement.target}`: {c.note}." for c in compared() if c.note]
    bands = "\n".join(f"- {mode}: {band(mode).text()}." for mode in ("train", "decode"))
    return _PAGE.format(rows="\n".join(rows), bands=bands, all=band().text(), large=LARGE, notes="\n".join(notes))


_PAGE = """# Estimates and what was published

<!-- Written by `python -m torchport.check.estimates --write`. Edit estimates.toml and estimates.py, not this. -->

No chip is at hand, so no estimate here was measured by us. An estimate is the longest of three times: arithmetic at
the chip's peak, memory traffic, traffic between chips. It is what a perfect program would need, so a published step
takes longer, and by how much is our error band:

{bands}

Over everything: {all}. Reports print the band of their mode.

The times are of one step (training) or one token (decode). Arithmetic is counted without what rematerialisation repeats
and with every pair of tokens in attention, masked or not. Where a publication gives tokens/s and no mesh, the estimate
is arithmetic alone. MFU is arithmetic at peak over the published time, in the same count; publishers who count half of
causal attention give less.

| model | software | target | what | published, ms | estimate, ms | ratio | MFU | source |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
{rows}

Where the ratio is over {large}:

{notes}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the page there")
    parser.add_argument("--check", metavar="FILE", type=Path, help="fail when the page there differs")
    args = parser.parse_args()
    text = page()
    for c in compared():
        m = c.measurement
        times = f"{m.seconds:9.4f} s published, {c.estimate.seconds:9.4f} s estimated"
        print(f"{m.model:16} {m.target:16} {m.mode:7} {times}, ratio {c.ratio:.2f}")
    print(band().text())
    if args.check and args.check.read_text(encoding="utf-8") != text:
        print(f"[{args.check}] must be what estimates.toml gives. Try: make docs", file=sys.stderr)
        return 1
    if args.write:
        part = args.write.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(args.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`torchport check --model`: a transformers configuration checked for whole slices, from shapes alone.

abstract (trace) -> sharding (plan) -> emit (one program for all devices) -> compiler (a worker a target) -> the
compiler's memory beside the independent count. Layers are not compiled one by one: the program holds all of them,
written out, because that is what a compiled step of PyTorch holds; the partitioner sees one program for all devices.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from torchport.check import estimates
from torchport.check.abstract import Step, Workload, WorkloadError, kept_activations, trace
from torchport.check.compiler import CompileResult, Job, compile_many
from torchport.check.count import FAMILIES, Count, count
from torchport.check.emit import Program, emit
from torchport.check.sharding import BATCH, Mesh, check
from torchport.check.targets import Target, chips, target

AGREEMENT = 0.10  # compiler and count may differ by this share
TILE = 4096  # bytes: TPUs store tensors in tiles of 8 x 128 words, so each tensor may take up to that much more


@dataclass(frozen=True)
class Agreement:
    """Bytes on one device by three ways: counted from the configuration, summed over the program, said by the compiler."""

    what: str
    counted: float | None
    program: float
    compiler: float
    tensors: int

    @property
    def deviation(self) -> float:
        """How far the compiler is from the count, or from the program where the family is not counted."""
        base = self.program if self.counted is None else self.counted
        return 0.0 if base == self.compiler else abs(self.compiler - base) / max(base, 1.0)

    @property
    def ok(self) -> bool:
        base = self.program if self.counted is None else self.counted
        return abs(self.compiler - base) <= AGREEMENT * base + TILE * self.tensors


@dataclass(frozen=True)
class ModelCheck:
    """One workload on one target."""

    target: Target
    workload: Workload
    mesh: Mesh
    program: Program
    result: CompileResult
    counted: Count | None
    kept: int  # bytes that rematerialised layers keep, on one device, summed over the program
    trace_s: float

    @property
    def bounds(self) -> estimates.Bounds | None:
        """Roofline of the count, None where the family is not counted or the chip has no figure for the dtype."""
        peak = {"bfloat16": "bf16", "float16": "bf16", "float32": "fp32"}[self.workload.dtype]
        if self.counted is None or self.target.device_peak(peak) is None:
            return None
        sizes = dict(self.mesh.sizes)
        return estimates.bounds(self.counted, self.target, peak, estimates.exchanged(self.workload, sizes))

    @property
    def agreements(self) -> list[Agreement]:
        """Empty unless the program compiled."""
        memory, counted = self.result.memory, self.counted
        if memory is None:
            return []
        taken, given = self.program.arguments, self.program.results
        donated = [a for a in taken if a.donated]
        size = lambda placed: sum(p.shard_bytes for p in placed)
        return [
            Agreement("arguments", counted and counted.arguments, size(taken), memory.arguments, len(taken)),
            Agreement("results", None, size(given), memory.outputs, len(given)),
            Agreement("donated", None, size(donated), memory.aliased, len(donated)),
        ]

    @property
    def activations(self) -> Agreement | None:
        """Kept activations, counted and in the program. The compiler reports temporaries as one sum, so it has no part."""
        if self.counted is None or not self.kept:
            return None
        return Agreement("kept activations", self.counted.kept, self.kept, self.kept, 1)

    @property
    def countable_temporaries(self) -> float | None:
        """Bytes that the temporaries hold at the least: kept activations, gradients, logits."""
        c = self.counted
        return None if c is None else c.kept + c.gradients + c.logits

    @property
    def fits(self) -> bool | None:
        """None when it did not compile for another reason than memory."""
        if self.result.memory is None:
            return False if self.result.outcome == "too_large" else None
        return self.result.memory.total <= self.target.device_hbm

    @property
    def band(self) -> str:
        """The error band of the estimate, for the report."""
        return estimates.band(self.workload.mode).text()

    def as_dict(self) -> dict[str, Any]:
        """For JSON reports."""
        bounds = self.bounds
        return {
            "target": self.target.name,
            "mode": self.workload.mode,
            "batch": self.workload.batch,
            "seq": self.workload.seq,
            "dtype": self.workload.dtype,
            "parallel": dict(self.mesh.sizes),
            "devices": self.mesh.devices,
            "trace_s": self.trace_s,
            "compile": self.result.model_dump(),
            "fits": self.fits,
            "memory": [vars(a) | {"deviation": a.deviation, "ok": a.ok} for a in self.agreements],
            "counted": vars(self.counted) if self.counted else None,
            "kept_activations": {"counted": self.counted and self.counted.kept, "program": self.kept},
            "countable_temporaries": self.countable_temporaries,
            "estimate": vars(bounds) | {"seconds": bounds.seconds, "limit": bounds.limit} if bounds else None,
            "error_band": self.band,
            "estimate_is": "estimate, not measured",
        }


def default_mesh(workload: Workload, config: Any, devices: int) -> Mesh:
    """Training: fsdp as far as the batch goes, tp for the rest. Inference: tp up to the key-value heads, dp for the rest."""
    text = config.get_text_config()
    heads = text.num_attention_heads
    if workload.mode == "train":
        split = gcd(workload.batch, devices)
        sizes = {"fsdp": split, "tp": devices // split}
    else:
        tp = gcd(getattr(text, "num_key_value_heads", None) or heads, devices)
        if workload.batch % (devices // tp):
            tp = devices // gcd(workload.batch, devices)
        sizes = {"dp": devices // tp, "tp": tp}
    if heads % sizes["tp"]:
        raise WorkloadError(
            f"[--batch] must let {devices} devices be shared between it and the {heads} attention heads, got "
            f"{workload.batch}. Try: a batch that is a multiple of {devices // gcd(heads, devices)}"
        )
    return Mesh.parse(",".join(f"{axis}={size}" for axis, size in sizes.items()))


def counted(workload: Workload, mesh: Mesh) -> Count | None:
    """The independent count; None for families that it does not know."""
    return count(workload, dict(mesh.sizes)) if workload.config.get("model_type") in FAMILIES else None


def check_model(
    workload: Workload,
    targets: Sequence[Target | str],
    parallel: str | None = None,
    progress: Callable[[str], None] = lambda line: None,
    **limits: Any,
) -> list[ModelCheck]:
    """Trace once, emit for each target, compile, count. limits: timeout_s, memory_bytes and parallel of compile_many."""
    wanted = [t if isinstance(t, Target) else target(t) for t in targets]
    started = time.monotonic()
    progress(f"tracing {workload.mode}, batch {workload.batch}, {workload.seq} tokens")
    step = trace(workload)
    seconds = time.monotonic() - started
    progress(f"traced {len(step.graph.graph.nodes)} operations in {seconds:.0f} s")
    prepared = [_prepare(step, workload, t, parallel) for t in wanted]
    jobs = [Job(t, p.text, p.partitions) for t, (_, p) in zip(wanted, prepared, strict=True)]
    done = lambda job, result: progress(f"{job.target.name}: {result.outcome} in {result.seconds:.0f} s")
    results = compile_many(jobs, on_done=done, **limits)
    return [
        ModelCheck(t, workload, mesh, program, result, counted(workload, mesh), _kept(step, mesh), seconds)
        for t, (mesh, program), result in zip(wanted, prepared, results, strict=True)
    ]


def _kept(step: Step, mesh: Mesh) -> int:
    """The batch of what layers keep is split, the rest is whole."""
    slots = [s for s in kept_activations(step) if len(s.shape) == 3 and s.dtype.is_floating_point and s.shape[0] > 1]
    return sum(s.bytes for s in slots) // mesh.size(BATCH)


def _prepare(step: Step, workload: Workload, wanted: Target, parallel: str | None) -> tuple[Mesh, Program]:
    mesh = Mesh.parse(parallel) if parallel else default_mesh(workload, step.config, wanted.num_devices)
    if mesh.devices != wanted.num_devices:
        raise WorkloadError(
            f"[--parallel] must multiply to the {wanted.num_devices} devices of {wanted.name}, got {mesh.devices}"
        )
    check(step, mesh)
    return mesh, emit(step, wanted.chip.platform, mesh)


def smallest(workload: Workload, chip: str, reserve: float = 0.1) -> tuple[Target, Mesh] | None:
    """The smallest slice of a chip that holds a workload by count, and a mesh for it; None when 1024 chips do not.

    reserve: share of memory that is left for what cannot be counted.
    """
    from torchport.check.abstract import build

    config = build(workload.config)[1]
    axes = chips()[chip].topology.count("x") + 1
    room = 1 - reserve
    for chips_wanted in (2**k for k in range(11)):
        sides = [1] * axes
        for k in range(chips_wanted.bit_length() - 1):
            sides[-1 - k % axes] *= 2
        wanted = target(f"{chips()[chip].platform}:{chip}:{'x'.join(map(str, sides))}")
        try:
            mesh = default_mesh(workload, config, wanted.num_devices)
        except WorkloadError:
            continue
        c = counted(workload, mesh)
        if c is None:
            return None
        if c.arguments + c.kept + c.gradients + c.logits <= room * wanted.device_hbm:
            return wanted, mesh
    return None

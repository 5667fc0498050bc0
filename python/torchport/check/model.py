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
from pathlib import Path
from typing import Any

from torchport.check import estimates
from torchport.check.abstract import Step, Workload, WorkloadError, kept_activations, trace
from torchport.check.compiler import CompileResult, Job, bundle_file, compile_many, install_hint
from torchport.check.count import FAMILIES, Count, count
from torchport.check.emit import Program, emit
from torchport.check.sharding import BATCH, Mesh, check
from torchport.check.targets import Price, Target, chips, target
from torchport.check.verdict import HEADROOM, Finding, advice_for, compiled_seconds, dated, documented

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
    def compiles(self) -> bool | None:
        """None where no compiler was there to say, and its documentation names nothing in the program as refused."""
        if self.result.outcome in ("no_compiler", "no_plugin"):
            return False if self.documented else None
        return self.result.outcome in ("compiled", "too_large")

    @property
    def documented(self) -> list[Finding]:
        return documented(self.target, [("the model", "", self.program.text)])

    @property
    def needed_bytes(self) -> float | None:
        """Bytes on one device: the compiler's sum, or without a compiler the count (None where there is none)."""
        if self.result.memory is not None:
            return self.result.memory.total
        if self.counted is None or self.result.outcome not in ("no_compiler", "no_plugin"):
            return None
        return self.counted.arguments + (self.countable_temporaries or 0.0)

    @property
    def fits(self) -> bool | None:
        """None when nobody could say how much it needs."""
        if self.needed_bytes is None:
            return False if self.result.outcome == "too_large" else None
        return self.needed_bytes <= self.target.device_hbm

    @property
    def band(self) -> str:
        """The error band of the estimate, for the report."""
        return estimates.band(self.workload.mode).text()

    @property
    def compiler_seconds(self) -> float | None:
        """The compiler's own estimate of a step."""
        return self.result.cost.optimal_seconds if self.result.cost else None

    @property
    def compiled_seconds(self) -> float | None:
        return compiled_seconds(self.result, self.target)

    @property
    def mfu(self) -> float | None:
        """Upper bound of the share of the peak that the model's own products reach."""
        bounds, peak = self.bounds, self.target.device_peak("bf16")
        return self.counted.model_flops / peak / bounds.seconds if self.counted and bounds and peak else None

    @property
    def tokens_per_second(self) -> float | None:
        """Of the whole slice, at most."""
        tokens = self.workload.batch * (1 if self.workload.mode == "decode" else self.workload.seq)
        return tokens / self.bounds.seconds if self.bounds else None

    @property
    def price(self) -> Price | None:
        return self.target.price

    @property
    def usd_per_1000_steps(self) -> float | None:
        """Of the whole slice, at the least; None without a dated price."""
        if self.price is None or self.bounds is None:
            return None
        return self.bounds.seconds * 1000 / 3600 * self.price.usd * self.target.num_chips

    @property
    def usd_per_million_tokens(self) -> float | None:
        """Of the whole slice, at the least; None without a dated price."""
        if self.price is None or self.tokens_per_second is None:
            return None
        return 1e6 / self.tokens_per_second / 3600 * self.price.usd * self.target.num_chips

    @property
    def findings(self) -> list[Finding]:
        """What to know or change, the gravest first."""
        found, words = list(self.documented), self.result.words
        if self.result.outcome in ("no_compiler", "no_plugin"):
            what = "no compiler for this target here: documented ops, counted memory and roofline only"
            found.append(Finding(self.result.outcome, "warning", what, words=words, advice=install_hint(self.target)))
        elif not self.compiles:
            what = f"the compiler did not take the program ({self.result.outcome})"
            found.append(Finding(self.result.outcome, "error", what, words=words, advice=advice_for(words)))
        if self.fits is False:
            need = f"needs {self.needed_bytes / 1e9:.2f} GB of" if self.needed_bytes else "does not fit"
            what = f"{need} {self.target.device_hbm / 1e9:.2f} GB on one device"
            found.append(Finding("too_large", "error", what, words=words, advice=self.smallest_slice()))
            if self.result.hlo is not None:
                biggest = "; ".join(f"{t.shape} of {t.op}, {t.bytes / 1e9:.3g} GB" for t in self.result.hlo.biggest[:3])
                found.append(Finding("biggest", "note", f"the biggest values: {biggest}"))
        elif self.needed_bytes and self.needed_bytes > HEADROOM * self.target.device_hbm:
            found.append(
                Finding("tight", "warning", f"takes {self.needed_bytes / self.target.device_hbm:.0%} of the memory")
            )
        for a in self.agreements:
            if not a.ok:
                what = f"{a.what}: compiler and count differ by {a.deviation:.0%}"
                found.append(Finding("count", "warning", what, advice="the family may hold parts that are not counted"))
        if self.bounds is not None and self.bounds.limit == "links":
            what = "the estimate is limited by the traffic between chips"
            found.append(Finding("links", "note", what, advice="a larger batch on each chip, or another --parallel"))
        if self.bounds is not None and self.workload.mode == "decode" and self.bounds.limit == "memory":
            what = "the estimate is limited by reading weights and caches"
            found.append(Finding("memory", "note", what, advice="a larger --batch shares one reading of the weights"))
        order = {"error": 0, "warning": 1, "note": 2}
        return sorted(found, key=lambda f: order[f.severity])

    def smallest_slice(self) -> str:
        """The smallest slice and mesh that hold the workload by count, as advice."""
        found = smallest(self.workload, self.target.chip_name)
        if found is None:
            return "a smaller batch or sequence; no slice of this chip can be named by count"
        wanted, mesh = found
        axes = ",".join(f"{axis}={size}" for axis, size in mesh.sizes if size > 1)
        return f"smallest slice that holds it by count: {wanted.name}" + (f" with --parallel {axes}" if axes else "")

    def as_dict(self) -> dict[str, Any]:
        """For JSON, in the keys that the check of a script has too; every figure with its unit in its name."""
        bounds, need = self.bounds, self.needed_bytes
        return {
            "target": self.target.name,
            "title": self.target.chip.title,
            "mode": self.workload.mode,
            "batch": self.workload.batch,
            "seq": self.workload.seq,
            "dtype": self.workload.dtype,
            "parallel": dict(self.mesh.sizes),
            "devices": self.mesh.devices,
            "trace_s": self.trace_s,
            "compiles": self.compiles,
            "fits": self.fits,
            "compile": self.result.model_dump(),
            "needed_bytes": need,
            "hbm_bytes": self.target.device_hbm,
            "headroom_bytes": None if need is None else self.target.device_hbm - need,
            "memory": [vars(a) | {"deviation": a.deviation, "ok": a.ok} for a in self.agreements],
            "counted": vars(self.counted) if self.counted else None,
            "kept_activations": {"counted": self.counted and self.counted.kept, "program": self.kept},
            "countable_temporaries": self.countable_temporaries,
            "estimate": {
                "is": "estimate, not measured",
                "seconds": bounds and bounds.seconds,
                "limit": bounds and bounds.limit,
                "compute_seconds": bounds and bounds.compute,
                "memory_seconds": bounds and bounds.memory,
                "links_seconds": bounds and bounds.links,
                "compiler_seconds": self.compiler_seconds,
                "compiled_seconds": self.compiled_seconds,
                "error_band": self.band,
            },
            "mfu_upper_bound": self.mfu,
            "tokens_per_second": self.tokens_per_second,
            "usd_per_1000_steps": self.usd_per_1000_steps,
            "usd_per_million_tokens": self.usd_per_million_tokens,
            "price": dated(self.price),
            "findings": [vars(f) for f in self.findings],
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
    bundle: Path | None = None,
    **limits: Any,
) -> list[ModelCheck]:
    """Trace once, emit for each target, compile, count. limits: timeout_s, memory_bytes and parallel of compile_many.

    bundle: a folder that receives every target's text and compiled program.
    """
    wanted = [t if isinstance(t, Target) else target(t) for t in targets]
    started = time.monotonic()
    progress(f"tracing {workload.mode}, batch {workload.batch}, {workload.seq} tokens")
    step = trace(workload)
    seconds = time.monotonic() - started
    progress(f"traced {len(step.graph.graph.nodes)} operations in {seconds:.0f} s")
    prepared = [_prepare(step, workload, t, parallel) for t in wanted]
    jobs = [
        Job(t, p.text, p.partitions, bundle=bundle_file(bundle, t, p.text))
        for t, (_, p) in zip(wanted, prepared, strict=True)
    ]
    results = compile_many(jobs, progress=progress, **limits)
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

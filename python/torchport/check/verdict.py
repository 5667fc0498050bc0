"""The judgement on one target: compiles, fits, how fast at best, at what cost, and what to do next.

No figure here is measured on a chip. Times are lower bounds: arithmetic at the chip's published peak and memory traffic
at its published bandwidth, or the compiler's own estimate where that is longer.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Literal

from torchport.check import estimates
from torchport.check.compiler import CompileResult, install_hint
from torchport.check.documented import refusals, rules
from torchport.check.step import Program, Step
from torchport.check.targets import Price, Target, source

# Passes of a bf16 matrix unit for one float32 product (XLA: DEFAULT 1, HIGH 3, HIGHEST 6).
PASSES = {"f32 DEFAULT": 1, "f32 HIGH": 3, "f32 HIGHEST": 6}
HEADROOM = 0.9  # a program that takes more of the memory than this is said to be tight
EMULATED = {"tpu": ("f64", "complex<f64>"), "neuron": ("f64",)}  # complex on neuron is refused: documented.toml
Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """Something to know or to change. gain: share of the step's bound that a change could save, 0 when unknown."""

    code: str
    severity: Severity
    what: str
    where: str = ""
    words: str = ""
    advice: str = ""
    gain: float = 0.0


@dataclass
class Verdict:
    """What is known of one target."""

    target: Target
    result: CompileResult
    step: Step
    findings: list[Finding] = field(default_factory=list)
    price: Price | None = None

    @property
    def compiles(self) -> bool | None:
        """None where no compiler was there to say, and its documentation names nothing in the step as refused."""
        if self.result.outcome in ("no_compiler", "no_plugin"):
            return False if any(f.code == "documented" for f in self.findings) else None
        return self.result.outcome in ("compiled", "too_large")  # too large is said after the program was understood

    @property
    def needed_bytes(self) -> int | None:
        """Bytes on one device: the compiler's sum, or what it says in its refusal, or the count over the step."""
        if self.result.memory is not None:
            return self.result.memory.total
        return self.step.peak_bytes

    @property
    def fits(self) -> bool | None:
        if self.result.outcome == "too_large":
            return False
        if self.result.outcome in ("compiled", "no_compiler", "no_plugin"):
            return (self.needed_bytes or 0) <= self.target.device_hbm
        return None

    @property
    def compute_seconds(self) -> float | None:
        """Matrix products at peak; None when the chip has no published peak for one of their types."""
        total = 0.0
        for kind, flops in self.step.flops.items():
            peak = rate(self.target, kind)
            if peak is None:
                return None
            total += flops / peak
        return total

    @property
    def memory_seconds(self) -> float:
        """Arguments read once and results written once, at the published bandwidth."""
        return (self.step.argument_bytes + self.step.result_bytes) / self.target.device_bandwidth

    @property
    def eager_seconds(self) -> float:
        """The bound when every op is launched by itself: each reads and writes memory, none overlaps another."""
        total = 0.0
        for index, times in self.step.launches.items():
            program = self.step.programs[index]
            compute = sum(n / (rate(self.target, kind) or float("inf")) for kind, n in program.flops.items())
            total += times * max(compute, program.bytes / self.target.device_bandwidth)
        return total

    @property
    def compiler_seconds(self) -> float | None:
        return self.result.cost.optimal_seconds if self.result.cost else None

    @property
    def compiled_seconds(self) -> float | None:
        return compiled_seconds(self.result, self.target)

    @property
    def seconds(self) -> float:
        """The estimate of a step: the longest of the bounds that are known."""
        return max(self.compute_seconds or 0.0, self.memory_seconds, self.compiler_seconds or 0.0)

    @property
    def limit(self) -> str:
        if (self.compiler_seconds or 0.0) >= self.seconds:
            return "compiler"
        return "compute" if (self.compute_seconds or 0.0) >= self.memory_seconds else "memory"

    @property
    def mfu(self) -> float | None:
        """Upper bound of the share of the bf16 peak that the step's products can reach."""
        peak = self.target.device_peak("bf16")
        flops = sum(self.step.flops.values())
        return flops / peak / self.seconds if peak and flops and self.seconds else None

    @property
    def usd_per_1000_steps(self) -> float | None:
        """Of one chip, at the dated price; None without one."""
        return self.seconds * 1000 / 3600 * self.price.usd / self.target.chip.devices_per_chip if self.price else None

    @property
    def usd_per_million_tokens(self) -> float | None:
        """None when the step has no tokens, or the chip no dated price."""
        cost = self.usd_per_1000_steps
        return cost * 1000 / self.step.tokens if cost is not None and self.step.tokens else None

    @property
    def ok(self) -> bool:
        return self.compiles is not False and self.fits is not False

    def as_dict(self) -> dict[str, Any]:
        """For JSON: every figure with its unit in its name."""
        per_second = lambda n: n / self.seconds if n and self.seconds else None
        return {
            "target": self.target.name,
            "title": self.target.chip.title,
            "compiles": self.compiles,
            "fits": self.fits,
            "compile": self.result.model_dump(),
            "needed_bytes": self.needed_bytes,
            "hbm_bytes": self.target.device_hbm,
            "headroom_bytes": None if self.needed_bytes is None else self.target.device_hbm - self.needed_bytes,
            "estimate": {
                "is": "estimate, not measured",
                "seconds": self.seconds,
                "limit": self.limit,
                "compute_seconds": self.compute_seconds,
                "memory_seconds": self.memory_seconds,
                "links_seconds": 0.0,  # a script's step is a program of one device: it sends nothing to another
                "eager_seconds": self.eager_seconds,
                "compiler_seconds": self.compiler_seconds,
                "compiled_seconds": self.compiled_seconds,
                "error_band": estimates.band("train" if self.step.kind == "train" else None).text(),
            },
            "mfu_upper_bound": self.mfu,
            "samples_per_second": per_second(self.step.samples),
            "tokens_per_second": per_second(self.step.tokens),
            "usd_per_1000_steps": self.usd_per_1000_steps,
            "usd_per_million_tokens": self.usd_per_million_tokens,
            "price": dated(self.price),
            "findings": [vars(f) for f in self.findings],
        }


def compiled_seconds(result: CompileResult, wanted: Target) -> float | None:
    """The compiler's own estimate of its program; where it gives none, the program's memory traffic at the bandwidth.

    The traffic is the compiler's count, or ours of its optimised program. It holds what a fast memory on the chip may
    save, so it is no lower bound. None without a compiled program.
    """
    if result.cost is not None and result.cost.optimal_seconds is not None:
        return result.cost.optimal_seconds
    moved = result.cost.bytes if result.cost is not None else result.hlo.bytes_accessed if result.hlo else None
    return None if moved is None else moved / wanted.device_bandwidth


def dated(price: Price | None) -> dict[str, Any] | None:
    """A price with the date and address of its source, for JSON."""
    if price is None:
        return None
    origin = source(price.source)
    return price.model_dump() | {"date": origin.date.isoformat(), "url": str(origin.url)}


def rate(wanted: Target, kind: str) -> float | None:
    """FLOP/s of one device for products of a kind; None where nobody publishes it or no unit does them."""
    if kind in ("bf16", "f16"):
        return wanted.device_peak("bf16")
    if kind.startswith("f8"):
        return wanted.device_peak("fp8") or wanted.device_peak("bf16")
    if kind.startswith("f32"):
        if wanted.chip.platform in ("cuda", "rocm", "neuron"):
            exact = wanted.device_peak("fp32")
            return exact if kind == "f32 HIGHEST" else wanted.device_peak("tf32") or exact
        bf16 = wanted.device_peak("bf16")
        return bf16 / PASSES[kind] if bf16 else None
    return wanted.device_peak("int8") if kind in ("i8", "ui8") else None


def documented(wanted: Target, programs: list[tuple[str, str, str]]) -> list[Finding]:
    """What the documentation of a compiler that is not here says it refuses; programs: name, Python line, text."""
    page = rules().source
    return [
        Finding(
            "documented", "error", f"{', '.join(r.names[:3])}: {r.rule.what} ({r.rule.code})", ", ".join(r.lines[:3]),
            f"{page.title}, {page.date}, {page.url}", r.rule.advice,
        )
        for r in refusals(wanted, programs)
    ]  # fmt: skip


def place(program: Program) -> str:
    """Where in the script a program comes from."""
    return program.line or "a backward op, which has no Python line of its own"


def suspects(step: Step, words: str) -> list[Program]:
    """Programs of a step that a refusal of the whole may be about, by the operation it names."""
    named = re.findall(r"= \S+ ([a-z][a-z-]+)\(", words)
    ops = {name.replace("-", "_") for name in named} | {"dot_general" for name in named if name == "dot"}
    elements = {short.replace("s", "i") for short in re.findall(r"= ([su]\d+)\[", words)}
    found = [p for p in step.programs if any(f"stablehlo.{op}" in p.text for op in ops)]
    narrow = [p for p in found if any(f"x{e}>" in p.text for e in elements)]
    return narrow or found


def advice_for(words: str) -> str:
    """What to change, by the compiler's words."""
    if "X{64|128}" in words:
        return "the chip has no 64-bit matrix unit: use int32, or float32 where the values allow it"
    if "RESOURCE_EXHAUSTED" in words:
        return "a smaller batch, bfloat16, torch.utils.checkpoint, or a slice of several chips"
    if "dynamic" in words.lower():
        return "give tensors a fixed shape: pad, or mask instead of selecting"
    return "the whole program is kept by --save-bundle; `torchport explain` takes the compiler's words"


def slice_for(verdict: Verdict) -> str:
    """The smallest slice that holds the step when its arguments and values are shared out evenly (fsdp)."""
    need = verdict.needed_bytes or 0
    shares = max(2, ceil(need / (HEADROOM * verdict.target.device_hbm)))
    chips = 1
    while chips * verdict.target.chip.devices_per_chip < shares:
        chips *= 2
    axes = len(verdict.target.topology.split("x")) if verdict.target.chip.topology_prefix else 1
    sides = [1] * axes
    for k in range(chips.bit_length() - 1):
        sides[k % axes] *= 2
    parts = verdict.target.name.split(":")
    return f"{parts[0]}:{parts[1]}:{'x'.join(map(str, sides))} with fsdp={chips * verdict.target.chip.devices_per_chip}"


def judge(
    wanted: Target, result: CompileResult, step: Step, own: dict[int, CompileResult], price: Price | None
) -> Verdict:
    """own: results of single programs of the step, where the whole was refused and they were tried one by one."""
    verdict = Verdict(wanted, result, step, price=price)
    add = verdict.findings.append
    outcome = result.outcome
    if outcome in ("no_compiler", "no_plugin"):
        what = "no compiler for this target here: documented ops, dtypes, memory and roofline only"
        add(Finding(outcome, "warning", what, words=result.words, advice=install_hint(wanted)))
        verdict.findings += documented(wanted, [(p.name, p.line, p.text) for p in step.programs])
    elif outcome == "too_large":
        advice = f"smallest slice that holds it by count: {slice_for(verdict)}; or {advice_for(result.words)}"
        add(Finding("too_large", "error", "does not fit the memory of one device", words=result.words, advice=advice))
    elif outcome != "compiled":
        bad = [(step.programs[i], r) for i, r in own.items() if not r.ok]
        if not bad and outcome == "refused":
            bad = [(p, result) for p in suspects(step, result.words)[:3]]
        for program, r in bad:
            what = f"the compiler refuses {program.name}"
            add(Finding(r.outcome, "error", what, place(program), r.words, advice_for(r.words)))
        if not bad:
            add(Finding(outcome, "error", f"the compiler did not finish ({outcome})", words=result.words,
                        advice=advice_for(result.words)))  # fmt: skip
    if verdict.fits is False and result.hlo is not None:
        biggest = "; ".join(f"{t.shape} of {t.op}, {t.bytes / 1e9:.3g} GB" for t in result.hlo.biggest[:3])
        add(Finding("biggest", "note", f"the biggest values: {biggest}"))
    if verdict.fits is False and outcome != "too_large":
        what = f"needs {(verdict.needed_bytes or 0) / 1e9:.2f} GB of {wanted.device_hbm / 1e9:.2f} GB"
        add(Finding("too_large", "error", what, advice=f"smallest slice that holds it: {slice_for(verdict)}"))
    elif result.memory and result.memory.total > HEADROOM * wanted.device_hbm:
        add(Finding("tight", "warning", f"takes {result.memory.total / wanted.device_hbm:.0%} of the memory"))
    verdict.findings += _dtypes(verdict)
    if verdict.eager_seconds > 1.2 * verdict.seconds > 0:
        what = f"op by op the step moves {step.eager_bytes / 1e9:.3g} GB, as one program at the least {(step.argument_bytes + step.result_bytes) / 1e9:.3g} GB"
        advice = "torch.compile(step, backend='torchport')"
        add(Finding("eager", "note", what, advice=advice, gain=1 - verdict.seconds / verdict.eager_seconds))
    order = {"error": 0, "warning": 1, "note": 2}
    verdict.findings.sort(key=lambda f: (order[f.severity], -f.gain))
    return verdict


def _dtypes(verdict: Verdict) -> list[Finding]:
    found = []
    platform, elements = verdict.target.chip.platform, verdict.step.elements()
    for element in EMULATED.get(platform, ()):
        if elements[element]:
            where = next((p.line for p in verdict.step.programs if f"{element}>" in p.text and p.line), "")
            what = f"{elements[element]} launches of a step use {element}, which the chip does not have"
            found.append(
                Finding(
                    "emulated", "warning", what, where, advice="float32 (or complex64), or keep that part on the host"
                )
            )
    if platform == "tpu" and (flops := verdict.step.flops["f32 HIGHEST"] + verdict.step.flops["f32 HIGH"]):
        now = verdict.compute_seconds or 0.0
        bf16 = verdict.target.device_peak("bf16") or 1.0
        saved = now - (sum(verdict.step.flops.values()) / bf16)
        gain = min(saved, verdict.seconds - verdict.memory_seconds) / verdict.seconds if verdict.seconds else 0.0
        what = f"{flops / sum(verdict.step.flops.values()):.0%} of the matrix arithmetic is float32 at full precision: 6 passes of the bf16 unit"
        advice = (
            "torch.autocast(device_type='tpu', dtype=torch.bfloat16), or torch.set_float32_matmul_precision('medium')"
        )
        found.append(Finding("float32", "note", what, advice=advice, gain=max(gain, 0.0)))
    return found


def run_findings(capture: dict[str, Any], ends: list[dict[str, int]]) -> list[Finding]:
    """What the run in emulation showed, whatever the target: crash, fallbacks, recompiles, waits of the host."""
    found = []
    if capture["crash"]:
        found.append(Finding("crash", "error", "the script did not finish", words=capture["crash"]))
    for row in capture["report"].get("fallbacks", []):
        what = f"{row['op']} has no lowering and ran on the CPU {row['count']} times ({row['bytes']:,} bytes)"
        found.append(
            Finding(
                "fallback",
                "warning",
                what,
                ", ".join(row["lines"][:3]),
                advice="another op, or keep that part on the host",
            )
        )
    steady = [(b["compiled"] - a["compiled"]) for a, b in itertools.pairwise(ends[1:])]
    if steady and steady[-1] > 0:
        late = capture["programs"][ends[-2]["compiled"] : ends[-1]["compiled"]]
        names = Counter(p["name"] for p in late)
        listed = ", ".join(f"{name} x {n}" for name, n in names.most_common(4))
        where = next((p["line"] for p in late if p["line"]), "")
        what = f"step {len(ends)} still compiled {steady[-1]} new programs ({listed}): shapes that change from step to step"
        found.append(
            Finding("recompile", "warning", what, where, advice="pad to fixed shapes or buckets; drop_last=True")
        )
    if len(ends) > 1 and (syncs := ends[-1]["syncs"] - ends[-2]["syncs"]):
        what = f"the host waits for the device {syncs} times a step (.item(), .cpu(), print, bool(tensor))"
        found.append(Finding("host_sync", "note", what, advice="read losses every k steps"))
    for where, line, what, to, times in capture["redirections"]:
        found.append(
            Finding(
                "redirected",
                "note",
                f"{what} was taken for {to} ({times} times)",
                f"{where}:{line}",
                advice="torchport port",
            )
        )
    return found

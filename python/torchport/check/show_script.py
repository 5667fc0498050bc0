"""The check of a script on the terminal, and as one HTML page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from torchport.check import estimates
from torchport.check.run import Check
from torchport.check.targets import Price, Source, Target, source
from torchport.check.verdict import Finding, Verdict

if TYPE_CHECKING:
    from torchport.check.plots import Place

YES = {True: "yes", False: "NO", None: "not judged"}


def seconds(value: float | None) -> str:
    """Three figures and a unit."""
    if value is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def gigabytes(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e9:.3g} GB"


def _dollars(v: Verdict) -> str:
    if v.usd_per_1000_steps is None or v.price is None:
        return "no dated price"
    tokens = "" if v.usd_per_million_tokens is None else f", ${v.usd_per_million_tokens:.3g} a million tokens"
    return f"${v.usd_per_1000_steps:.3g}{tokens} ({v.price.usd:g}/h, {source(v.price.source).date})"


def _rate(v: Verdict) -> str:
    count, what = (v.step.tokens, "tokens") if v.step.tokens else (v.step.samples, "samples")
    return f"{count / v.seconds:,.0f} {what}/s" if count and v.seconds else "-"


COLUMNS = (
    ("target", lambda v: v.target.name),
    ("compiles", lambda v: YES[v.compiles]),
    ("fits", lambda v: f"{YES[v.fits]}, {gigabytes(v.needed_bytes)} of {gigabytes(v.target.device_hbm)}"),
    ("step at best", lambda v: f"{seconds(v.seconds)} ({v.limit})"),
    ("as compiled", lambda v: seconds(v.compiled_seconds)),
    ("op by op", lambda v: seconds(v.eager_seconds)),
    ("MFU at most", lambda v: "-" if v.mfu is None else f"{v.mfu:.0%}"),
    ("at most", _rate),
    ("1,000 steps at least", _dollars),
)


def rows(check: Check) -> list[dict[str, str]]:
    """One row a target, as text."""
    return [{name: cell(v) for name, cell in COLUMNS} for v in check.verdicts]


def band(check: Check) -> str:
    mode = "train" if check.step is not None and check.step.kind == "train" else None
    return estimates.band(mode).text()


def show(check: Check, out: Console) -> None:
    """Verdicts in one table, then what was found, the gravest and most gainful first."""
    if check.verdicts:
        table = Table(title=f"{check.script}: estimate, not measured")
        for name, _ in COLUMNS:
            table.add_column(name, overflow="fold", no_wrap=name == "target")
        for row in rows(check):
            table.add_row(*row.values())
        out.print(table)
        out.print(f"Error band: {band(check)}.", highlight=False)
    for title, found in [("in emulation", check.findings), *((v.target.name, v.findings) for v in check.verdicts)]:
        if found:
            out.print(f"\n{title}", style="bold", highlight=False)
        for f in found:
            out.print(finding_text(f), markup=False, highlight=False)


def finding_text(f: Finding) -> str:
    """A finding on the terminal: what, where, whose words, what to do."""
    gain = f" (up to {f.gain:.0%} of the bound)" if f.gain >= 0.01 else ""
    text = f"  {f.severity:8}{f.code:12}{f.what}" + (f", at {f.where}" if f.where else "")
    text += f"\n{'':22}compiler or script: {f.words.strip()[:1200]}" if f.words else ""
    return text + (f"\n{'':22}try: {f.advice}{gain}" if f.advice else "")


# ---- HTML ----------------------------------------------------------------------------------------------------------


def page(check: Check) -> str:
    """One page that loads nothing: verdicts, roofline, memory over the step, cost against utilisation."""
    from torchport.check import plots as draw
    from torchport.pages import pages

    judged = [v for v in check.verdicts if v.seconds]
    plots = {}
    if judged and check.step is not None:
        plots = {
            "roofline": draw.roofline([(v.target, _places(v)) for v in judged]),
            "memory": draw.memory_curve(check.step.live, [v.target for v in judged]),
            "cost": draw.cost(lines_of_cost(judged, "usd_per_1000_steps"), "USD for 1,000 steps"),
        }
    return pages("torchport.check").render(
        "check.html.j2",
        title=f"torchport check {Path(check.script).name}",
        lead="The script ran in emulation, and one step of it was compiled by each target's own compiler for one device.",
        columns=[name for name, _ in COLUMNS],
        rows=rows(check),
        band=band(check),
        groups=[("In emulation", check.findings), *((v.target.name, v.findings) for v in check.verdicts)],
        biggest=[(v.target.name, v.result.hlo.biggest) for v in check.verdicts if v.result.hlo],
        parts=[(v.target.name, v.result.memory) for v in check.verdicts if v.result.memory],
        sources=sources([(v.target, v.price) for v in check.verdicts]),
        plots=plots,
        memory_title="Memory over the step",
    )


def sources(targets: Iterable[tuple[Target, Price | None]]) -> list[tuple[str, Source]]:
    """Every source whose figure is on the page, once."""
    found = {}
    for wanted, price in targets:
        chip = wanted.chip
        for fact in [chip.hbm, chip.bandwidth, *chip.peak.values(), *([price] if price else [])]:
            found[fact.source] = source(fact.source)
    return sorted(found.items())


def lines_of_cost(checks: Iterable[Any], figure: str) -> list[tuple[str, float]]:
    """Target and cost of those that have a dated price."""
    return [(c.target.name, getattr(c, figure)) for c in checks if getattr(c, figure) is not None]


def _places(v: Verdict) -> list[Place]:
    """The step as one program, and op by op; nothing where it has no matrix product."""
    from torchport.check.plots import Place

    flops = sum(v.step.flops.values())
    if not flops:
        return []
    whole = Place("as one program", flops / (v.step.argument_bytes + v.step.result_bytes), flops / v.seconds)
    return [whole, Place("op by op", flops / v.step.eager_bytes, flops / v.eager_seconds)]

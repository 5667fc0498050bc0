"""The check of a script on the terminal, and as one HTML page."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from torchport.check import estimates
from torchport.check.run import Check
from torchport.check.targets import source
from torchport.check.verdict import Finding, Verdict

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
    return f"${v.usd_per_1000_steps:.3g} ({v.price.usd:g}/h, {source(v.price.source).date})"


def _rate(v: Verdict) -> str:
    count, what = (v.step.tokens, "tokens") if v.step.tokens else (v.step.samples, "samples")
    return f"{count / v.seconds:,.0f} {what}/s" if count and v.seconds else "-"


COLUMNS = (
    ("target", lambda v: v.target.name),
    ("compiles", lambda v: YES[v.compiles]),
    ("fits", lambda v: f"{YES[v.fits]}, {gigabytes(v.needed_bytes)} of {gigabytes(v.target.device_hbm)}"),
    ("step at best", lambda v: f"{seconds(v.seconds)} ({v.limit})"),
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
            out.print(_line(f), markup=False, highlight=False)


def _line(f: Finding) -> str:
    gain = f" (up to {f.gain:.0%} of the bound)" if f.gain >= 0.01 else ""
    text = f"  {f.severity:8}{f.code:12}{f.what}" + (f", at {f.where}" if f.where else "")
    text += f"\n{'':22}compiler or script: {f.words.strip()[:1200]}" if f.words else ""
    return text + (f"\n{'':22}try: {f.advice}{gain}" if f.advice else "")


# ---- HTML ----------------------------------------------------------------------------------------------------------


def page(check: Check) -> str:
    """One page that loads nothing: verdicts, roofline, memory over the step, cost against utilisation."""
    from torchport.pages import pages

    judged = [v for v in check.verdicts if v.seconds]
    plots = {"roofline": _roofline(judged), "memory": _memory(check), "cost": _cost(judged)} if judged else {}
    return pages("torchport.check").render(
        "check.html.j2",
        title=f"torchport check {Path(check.script).name}",
        check=check,
        columns=[name for name, _ in COLUMNS],
        rows=rows(check),
        band=band(check),
        groups=[("In emulation", check.findings), *((v.target.name, v.findings) for v in check.verdicts)],
        biggest=[(v.target.name, v.result.hlo.biggest) for v in check.verdicts if v.result.hlo],
        parts=[(v.target.name, v.result.memory) for v in check.verdicts if v.result.memory],
        sources=_sources(check),
        plots=plots,
    )


def _sources(check: Check) -> list[tuple[str, Any]]:
    """Every source whose figure is on the page, once."""
    found = {}
    for v in check.verdicts:
        chip = v.target.chip
        for fact in [chip.hbm, chip.bandwidth, *chip.peak.values(), *([v.price] if v.price else [])]:
            found[fact.source] = source(fact.source)
    return sorted(found.items())


def _roofline(verdicts: list[Verdict]) -> Any:
    import plotly.graph_objects as go

    from torchport.pages import plot

    figure = go.Figure()
    for v in verdicts:
        peak, width = v.target.device_peak("bf16"), v.target.device_bandwidth
        flops = sum(v.step.flops.values())
        if not peak or not flops:
            continue
        ridge = peak / width
        name = v.target.name
        figure.add_scatter(
            x=[0.1, ridge, 10000], y=[0.1 * width, peak, peak], mode="lines", name=name, legendgroup=name
        )
        at = flops / (v.step.argument_bytes + v.step.result_bytes)
        eager = flops / v.step.eager_bytes
        figure.add_scatter(
            x=[eager, at], y=[flops / v.eager_seconds, flops / v.seconds], mode="markers+text",
            text=["op by op", "one program"],
            textposition="bottom right", name=f"{name}, the step", legendgroup=name, showlegend=False, marker={"size": 9},
        )  # fmt: skip
    figure.update_xaxes(type="log", title="FLOP per byte of memory traffic")
    figure.update_yaxes(type="log", title="FLOP/s")
    return plot(
        "roofline", figure, "Roofline: attainable FLOP/s of each target against FLOP per byte, and the step's place"
    )


def _memory(check: Check) -> Any:
    import plotly.graph_objects as go

    from torchport.pages import plot

    assert check.step is not None
    curve = check.step.live
    figure = go.Figure()
    figure.add_scatter(x=list(range(len(curve))), y=[b / 1e9 for b, _ in curve], mode="lines", fill="tozeroy",
                       text=[html.escape(name) for _, name in curve], name="held")  # fmt: skip
    top = max((b for b, _ in curve), default=0)
    for v in check.verdicts:
        if v.target.device_hbm < 20 * top:  # a line far above would flatten the curve
            figure.add_hline(y=v.target.device_hbm / 1e9, line_dash="dot", annotation_text=f"{v.target.name} has")
    figure.update_xaxes(title="launch within the step")
    figure.update_yaxes(title="GB")
    return plot("memory", figure, "Memory held over the launches of one step, in GB")


def _cost(verdicts: list[Verdict]) -> Any:
    import plotly.graph_objects as go

    from torchport.pages import plot

    figure = go.Figure()
    shares = [n / 20 for n in range(1, 21)]
    for v in verdicts:
        if v.usd_per_1000_steps is not None:
            figure.add_scatter(
                x=[s * 100 for s in shares],
                y=[v.usd_per_1000_steps / s for s in shares],
                mode="lines",
                name=v.target.name,
            )
    figure.update_xaxes(title="share of the estimate's speed that is reached, per cent")
    figure.update_yaxes(type="log", title="USD for 1,000 steps")
    return plot("cost", figure, "Cost of 1,000 steps against the share of the estimated speed that is reached")

"""A model check on the terminal, and as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from torchport.check.model import ModelCheck
from torchport.check.show_script import YES, finding_text, gigabytes, lines_of_cost, seconds, sources
from torchport.check.targets import source


def _bytes(value: float | None) -> str:
    """1.234 GB; - for what is not known."""
    if value is None:
        return "-"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:,.3f} {unit}"
    return f"{value:.0f} B"


def _mesh(c: ModelCheck) -> str:
    return ",".join(f"{axis}={size}" for axis, size in c.mesh.sizes if size > 1) or "one device"


def _dollars(c: ModelCheck) -> str:
    if c.price is None or c.usd_per_million_tokens is None:
        return "no dated price"
    return f"${c.usd_per_million_tokens:.3g} a million tokens ({c.price.usd:g}/h a chip, {source(c.price.source).date})"


def _estimate(c: ModelCheck) -> str:
    return "-" if c.bounds is None else f"{seconds(c.bounds.seconds)} ({c.bounds.limit})"


COLUMNS = (
    ("target", lambda c: c.target.name),
    ("mesh", _mesh),
    ("compiles", lambda c: YES[c.compiles]),
    ("fits", lambda c: f"{YES[c.fits]}, {gigabytes(c.needed_bytes)} of {gigabytes(c.target.device_hbm)} a device"),
    ("step at best", _estimate),
    ("as compiled", lambda c: seconds(c.compiled_seconds)),
    ("MFU at most", lambda c: "-" if c.mfu is None else f"{c.mfu:.0%}"),
    ("at most", lambda c: "-" if c.tokens_per_second is None else f"{c.tokens_per_second:,.0f} tokens/s"),
    ("at least", _dollars),
)


def rows(checks: Sequence[ModelCheck]) -> list[dict[str, str]]:
    """One row a target, as text."""
    return [{name: cell(c) for name, cell in COLUMNS} for c in checks]


def _memory_table(c: ModelCheck) -> Table:
    """Memory of one device by three ways."""
    table = Table("on one device", "counted", "program", "compiler", "deviation", title=f"{c.target.name}, {_mesh(c)}")
    for row in c.agreements:
        deviation = f"{row.deviation:.2%}" if row.ok else f"[red]{row.deviation:.0%}[/red]"
        table.add_row(row.what, _bytes(row.counted), _bytes(row.program), _bytes(row.compiler), deviation)
    if (kept := c.activations) is not None:
        table.add_row(kept.what, _bytes(kept.counted), _bytes(kept.program), "-", f"{kept.deviation:.2%}")
    if (memory := c.result.memory) is not None:
        table.add_row(
            "temporaries", _bytes(c.countable_temporaries), "-", _bytes(memory.temporaries), "at least the count"
        )
        table.add_row("code", "-", "-", _bytes(memory.code), "")
        table.add_row("total", "-", "-", _bytes(memory.total), f"of {_bytes(c.target.device_hbm)}")
    return table


def show(checks: Sequence[ModelCheck], out: Console) -> None:
    """Verdicts in one table, then memory by three ways and the findings of each target."""
    table = Table(title="estimate, not measured")
    for name, _ in COLUMNS:
        table.add_column(name, overflow="fold", no_wrap=name == "target")
    for row in rows(checks):
        table.add_row(*row.values())
    out.print(table)
    out.print(f"Error band: {checks[0].band}.", highlight=False)
    for c in checks:
        if c.result.memory is not None:
            out.print(_memory_table(c))
        if c.findings:
            out.print(f"\n{c.target.name}", style="bold", highlight=False)
        for f in c.findings:
            out.print(finding_text(f), markup=False, highlight=False)


# ---- HTML ----------------------------------------------------------------------------------------------------------


def page(checks: Sequence[ModelCheck], title: str) -> str:
    """One page that loads nothing: verdicts, roofline, memory of one device, cost against utilisation."""
    from torchport.pages import pages

    judged = [c for c in checks if c.bounds is not None]
    plots = {"memory": _memory(checks)}
    if judged:
        plots |= {"roofline": _roofline(judged), "cost": _cost(judged)}
    return pages("torchport.check").render(
        "check.html.j2",
        title=title,
        lead="The model was traced from shapes alone and compiled for each target as one program of all its devices.",
        columns=[name for name, _ in COLUMNS],
        rows=rows(checks),
        band=checks[0].band,
        groups=[(c.target.name, c.findings) for c in checks],
        biggest=[(c.target.name, c.result.hlo.biggest) for c in checks if c.result.hlo],
        parts=[(c.target.name, c.result.memory) for c in checks if c.result.memory],
        sources=sources([(c.target, c.price) for c in checks]),
        plots=plots,
        memory_title="Memory of one device",
    )


def _roofline(checks: Sequence[ModelCheck]) -> Any:
    from torchport.check.plots import Place, roofline

    places = []
    for c in checks:
        assert c.counted is not None and c.bounds is not None
        moved = c.bounds.memory * c.target.device_bandwidth
        place = Place("the step", c.counted.flops / moved, c.counted.flops / c.bounds.seconds)
        places.append((c.target, [place] if c.counted.flops and moved else []))
    return roofline(places)


def _memory(checks: Sequence[ModelCheck]) -> Any:
    from torchport.check.plots import memory_parts

    parts = []
    for c in checks:
        if (m := c.result.memory) is not None:
            split = {"arguments": m.arguments, "new results": m.outputs - m.aliased, "temporaries": m.temporaries}
            parts.append((c.target, split | {"code": m.code}))
        elif c.counted is not None:
            split = {"arguments": c.counted.arguments, "temporaries": c.countable_temporaries or 0.0}
            parts.append((c.target, split))
    return memory_parts(parts)


def _cost(checks: Sequence[ModelCheck]) -> Any:
    from torchport.check.plots import cost

    return cost(lines_of_cost(checks, "usd_per_million_tokens"), "USD for a million tokens")

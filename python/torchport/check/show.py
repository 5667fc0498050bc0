"""A model check on the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from torchport.check.model import ModelCheck


def _bytes(value: float | None) -> str:
    """1.234 GB; - for what is not known."""
    if value is None:
        return "-"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:,.3f} {unit}"
    return f"{value:.0f} B"


def show(checks: Iterable[ModelCheck], out: Console) -> None:
    """One block a target: verdict, memory by three ways, estimate with its band."""
    for c in checks:
        mesh = ",".join(f"{axis}={size}" for axis, size in c.mesh.sizes if size > 1) or "one device"
        fits = {True: "fits", False: "does not fit", None: "not judged"}[c.fits]
        out.print(f"\n{c.target.name}  {c.workload.mode}  {mesh}: {c.result.outcome}, {fits}", highlight=False)
        if c.result.words:
            out.print(c.result.words, markup=False, highlight=False)
        if c.result.memory is None:
            continue
        table = Table("on one device", "counted", "program", "compiler", "deviation")
        for row in c.agreements:
            table.add_row(
                row.what,
                _bytes(row.counted),
                _bytes(row.program),
                _bytes(row.compiler),
                f"{row.deviation:.2%}" if row.ok else f"[red]{row.deviation:.0%}[/red]",
            )
        if (kept := c.activations) is not None:
            table.add_row(kept.what, _bytes(kept.counted), _bytes(kept.program), "-", f"{kept.deviation:.2%}")
        memory = c.result.memory
        table.add_row(
            "temporaries", _bytes(c.countable_temporaries), "-", _bytes(memory.temporaries), "at least the count"
        )
        table.add_row("code", "-", "-", _bytes(memory.code), "")
        table.add_row("total", "-", "-", _bytes(memory.total), f"of {_bytes(c.target.device_hbm)}")
        out.print(table)
        if (bounds := c.bounds) is not None:
            out.print(
                f"estimate, not measured: {bounds.seconds * 1e3:,.2f} ms a step, limited by {bounds.limit}; {c.band}",
                highlight=False,
            )

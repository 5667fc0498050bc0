"""A model check on the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from torchport.check.model import ModelCheck


def _gb(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e9:,.3f}"


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
        table = Table("GB on one device", "counted", "program", "compiler", "deviation")
        for row in c.agreements:
            table.add_row(row.what, _gb(row.counted), _gb(row.program), _gb(row.compiler), f"{row.deviation:.2%}")
        memory = c.result.memory
        table.add_row("temporaries", _gb(c.countable_temporaries), "-", _gb(memory.temporaries), "at least the count")
        table.add_row("code", "-", "-", _gb(memory.code), "")
        table.add_row("total", "-", "-", _gb(memory.total), f"of {_gb(c.target.device_hbm)}")
        out.print(table)
        if (bounds := c.bounds) is not None:
            out.print(
                f"estimate, not measured: {bounds.seconds * 1e3:,.2f} ms a step, limited by {bounds.limit}; {c.band}",
                highlight=False,
            )

"""The three plots of a check's page: roofline, memory, cost against utilisation."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torchport.check.targets import Target
from torchport.pages import plot
from torchport.pages.page import COLOURS

FAR = 20  # a machine with more times the memory than is used would flatten the curve: its line is left out


@dataclass(frozen=True)
class Place:
    """Where a step stands on the roofline: FLOP per byte, FLOP/s."""

    name: str
    intensity: float
    rate: float


def roofline(rows: Sequence[tuple[Target, Sequence[Place]]]) -> Any:
    """Each target's roof at its bf16 peak, and the places of the step under it, in the target's colour."""
    import plotly.graph_objects as go

    figure = go.Figure()
    marks = ("circle", "diamond", "square")
    for number, (wanted, places) in enumerate(rows):
        peak, width = wanted.device_peak("bf16"), wanted.device_bandwidth
        colour = COLOURS[number % len(COLOURS)]
        if peak:
            figure.add_scatter(
                x=[0.1, peak / width, 10000], y=[0.1 * width, peak, peak], mode="lines", name=wanted.name,
                legendgroup=wanted.name, line={"color": colour}, hovertemplate="%{x:.3g} FLOP/byte: %{y:.3g} FLOP/s",
            )  # fmt: skip
        for mark, place in zip(marks, places, strict=False):
            figure.add_scatter(
                x=[place.intensity], y=[place.rate], mode="markers", name=f"{wanted.name}, {place.name}",
                legendgroup=wanted.name, marker={"size": 10, "color": colour, "symbol": mark},
                hovertemplate="%{x:.3g} FLOP/byte: %{y:.3g} FLOP/s",
            )  # fmt: skip
    figure.update_layout(height=420)
    figure.update_xaxes(type="log", title="FLOP per byte of memory traffic", dtick=1)
    figure.update_yaxes(type="log", title="FLOP/s of one device", dtick=1, exponentformat="power")
    return plot(
        "roofline", figure, "Roofline: attainable FLOP/s of each target against FLOP per byte, and the step's place"
    )


def memory_curve(held: Sequence[tuple[int, str]], targets: Sequence[Target]) -> Any:
    """Bytes held after each launch of a step; held: bytes, name of the launch."""
    import plotly.graph_objects as go

    top = max((b for b, _ in held), default=0)
    name, scale = ("GB", 1e9) if top >= 1e9 else ("MB", 1e6)
    figure = go.Figure()
    figure.add_scatter(x=list(range(1, len(held) + 1)), y=[b / scale for b, _ in held], mode="lines", fill="tozeroy",
                       text=[html.escape(launch) for _, launch in held], name="held",
                       hovertemplate="%{text}: %{y:.3g} " + name)  # fmt: skip
    for wanted in targets:
        if wanted.device_hbm < FAR * top:
            figure.add_hline(
                y=wanted.device_hbm / scale, line_dash="dot", annotation_text=f"one device of {wanted.name}"
            )
    figure.update_xaxes(title="launch within the step")
    figure.update_yaxes(title=name, rangemode="tozero")
    return plot("memory", figure, f"Memory held over the launches of one step, in {name}")


def memory_parts(rows: Sequence[tuple[Target, dict[str, float]]]) -> Any:
    """A bar a target, of the parts of one device's memory in bytes, with the memory that it has."""
    import plotly.graph_objects as go

    figure = go.Figure()
    names = [wanted.name for wanted, _ in rows]
    for part in dict.fromkeys(part for _, parts in rows for part in parts):
        figure.add_bar(x=names, y=[parts.get(part, 0.0) / 1e9 for _, parts in rows], name=part)
    has = [wanted.device_hbm / 1e9 for wanted, _ in rows]
    figure.add_scatter(x=names, y=has, mode="markers", name="it has",
                       marker={"symbol": "line-ew", "size": 60, "line": {"width": 3, "color": "#000000"}})  # fmt: skip
    figure.update_layout(barmode="stack")
    figure.update_yaxes(title="GB", rangemode="tozero")
    return plot("memory", figure, "Memory of one device of each target by parts, in GB, and what the device has")


def cost(rows: Sequence[tuple[str, float]], what: str) -> Any:
    """rows: target, cost when the whole estimated speed is reached."""
    import plotly.graph_objects as go

    figure = go.Figure()
    shares = [n / 20 for n in range(1, 21)]
    for name, least in rows:
        figure.add_scatter(x=[100 * s for s in shares], y=[least / s for s in shares], mode="lines", name=name,
                           hovertemplate="%{x:.0f} %: $%{y:.3g}")  # fmt: skip
    if not rows:
        figure.add_annotation(text="no target of this check has a dated price", showarrow=False)
    figure.update_xaxes(title="share of the estimate's speed that is reached, per cent")
    figure.update_yaxes(type="log", title=what, exponentformat="power")
    return plot("cost", figure, f"{what} against the share of the estimated speed that is reached")

"""The report's plots. Each function gives a figure, or None where there is nothing to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from torchport.migrate.report.words import Words
from torchport.pages.page import COLOURS, needs

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

POINTS = 200  # of a distribution's curve: enough for the eye, and the page stays small


def _figure(*traces: Any, title: str, **layout: Any) -> Figure:
    go = needs("plotly.graph_objects", "report")
    figure = go.Figure(list(traces))
    figure.update_layout(title={"text": title, "font": {"size": 15}}, **layout)
    return figure


def capacity(stages: dict[str, dict[str, float]], words: Words) -> Figure | None:
    """Bars by stage; stages: name -> estimate, low, high."""
    if not stages:
        return None
    go = needs("plotly.graph_objects", "report")
    estimates = [row["estimate"] for row in stages.values()]
    bars = go.Bar(
        x=[words(f"stage.{name}") for name in stages],
        y=estimates,
        marker={"color": list(COLOURS[: len(stages)])},
        width=0.5,
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [row["high"] - row["estimate"] for row in stages.values()],
            "arrayminus": [row["estimate"] - row["low"] for row in stages.values()],
        },
    )
    return _figure(bars, title=words("plot.capacity"), yaxis={"rangemode": "tozero"})


def latency(stages: dict[str, list[float]], objective: float, words: Words) -> Figure | None:
    """Distribution by stage, with the objective; stages: name -> latencies in ms."""
    if not any(stages.values()):
        return None
    go = needs("plotly.graph_objects", "report")
    shares = np.linspace(0, 1, POINTS)
    curves = [
        go.Scatter(x=np.quantile(values, shares), y=shares, mode="lines", name=words(f"stage.{name}"))
        for name, values in stages.items()
        if values
    ]
    figure = _figure(
        *curves,
        title=words("plot.latency"),
        xaxis={"title": words("plot.latency_x"), "rangemode": "tozero"},
        yaxis={"title": words("plot.latency_y"), "range": [0, 1.02]},
    )
    figure.add_vline(x=objective, line_dash="dash", annotation_text=words("plot.objective"))
    return figure


def value(path: list[float], currency: str, words: Words) -> Figure:
    """The most likely net value, month by month."""
    go = needs("plotly.graph_objects", "report")
    line = go.Scatter(x=list(range(len(path))), y=path, mode="lines+markers", line={"color": COLOURS[0]})
    figure = _figure(line, title=words("plot.value", currency=currency), xaxis={"title": words("plot.month")})
    figure.add_hline(y=0, line_color="#5b6572")
    return figure


def tornado(rows: list[dict[str, Any]], central: float, currency: str, words: Words) -> Figure | None:
    """What each uncertain figure does to the net value; widest swing on top, at most twelve."""
    if not rows:
        return None
    go = needs("plotly.graph_objects", "report")
    rows = rows[:12][::-1]
    bars = [
        go.Bar(
            y=[row["figure"] for row in rows],
            x=[row[key] - central for row in rows],
            base=central,
            orientation="h",
            name=words(f"plot.{name}"),
        )
        for key, name in (("at_low", "low_end"), ("at_high", "high_end"))
    ]
    return _figure(
        *bars,
        title=words("plot.tornado", currency=currency),
        barmode="overlay",
        yaxis={"automargin": True},
        height=180 + 30 * len(rows),
    )

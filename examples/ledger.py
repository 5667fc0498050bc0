"""What a run cost on a device: programs, cache hits, fallbacks, peak memory. The one place that asks for counters."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch


def snapshot(device: str) -> dict[str, Any] | None:
    """The counters so far, or None where nothing counts (the CPU, or a backend other than TorchPort)."""
    if torch.device(device).type == "cpu" or importlib.util.find_spec("torchport") is None:
        return None
    import torchport

    return dict(torchport.report())


def start(device: str) -> dict[str, Any] | None:
    """Resets the memory peak and returns the counters to measure from."""
    if torch.device(device).type != "cpu":
        torch.accelerator.reset_peak_memory_stats()
    return snapshot(device)


def spent(device: str, before: dict[str, Any] | None) -> dict[str, Any]:
    """What was used since `before`; None stands for a figure that nobody counts here."""
    on_cpu = torch.device(device).type == "cpu"
    peak = None if on_cpu else torch.accelerator.max_memory_allocated()
    after = snapshot(device)
    if before is None or after is None:
        return {"programs_compiled": None, "cache_hits": None, "fallbacks": None, "peak_bytes": peak}
    return {
        "programs_compiled": after["programs_compiled"] - before["programs_compiled"],
        "cache_hits": after["cache_hits"] - before["cache_hits"],
        "fallbacks": new_fallbacks(before["fallbacks"], after["fallbacks"]),
        "peak_bytes": peak,
    }


def new_fallbacks(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fallbacks that were counted between two reports, most frequent first."""
    known = {row["op"]: row for row in before}
    rows = []
    for row in after:
        old = known.get(row["op"], {"count": 0, "bytes": 0, "ms": 0.0})
        if row["count"] > old["count"]:
            rows.append({**row, **{key: row[key] - old[key] for key in ("count", "bytes", "ms")}})
    return sorted(rows, key=lambda row: -row["count"])

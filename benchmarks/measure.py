"""What the benchmarks share: interleaved timing against torch CPU, the machine's description, JSON and tables."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))

import ledger

start, spent = ledger.start, ledger.spent  # the main job's counters: programs, cache hits, fallbacks, peak memory

console = Console(soft_wrap=True, highlight=False)


def progress(items: Collection[Any], what: str) -> Iterable[Any]:
    """The items, with a progress bar where someone watches."""
    return track(items, escape(what), console=console, transient=True, disable=not console.is_terminal)


def options(name: str, claim: str, *, rounds: int | None = None) -> argparse.ArgumentParser:
    """A command line with the arguments that every benchmark has."""
    parser = argparse.ArgumentParser(prog=f"benchmarks/{name}.py", description=claim)
    parser.add_argument("--device", default="tpu", help="device to measure (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / f"{name}.json", help="result (default: %(default)s)")
    if rounds is not None:
        parser.add_argument(
            "--rounds", type=int, default=rounds, help="rounds, device and cpu in turn (default: %(default)s)"
        )
    return parser


def synchronize(device: str) -> None:
    """Waits for the device; the CPU has nothing to wait for."""
    if torch.device(device).type != "cpu":
        torch.accelerator.synchronize()


def seconds(work: Callable[[], object], device: str) -> float:
    """Wall time of one call, until the device is done."""
    begin = time.perf_counter()
    work()
    synchronize(device)
    return time.perf_counter() - begin


def interleaved(
    name: str, on_device: Callable[[], object], on_cpu: Callable[[], object], device: str, rounds: int, per: int = 1
) -> dict[str, Any]:
    """Times both in turn, so that what else the machine does meets both alike; microseconds per single operation."""
    first = seconds(on_device, device)
    on_cpu()
    pairs = [(seconds(on_device, device), seconds(on_cpu, "cpu")) for _ in progress(range(rounds), name)]
    device_us, cpu_us = ([pair[i] * 1e6 / per for pair in pairs] for i in (0, 1))
    return {
        "name": name,
        "first_ms": first * 1e3,
        "device_us": {"median": statistics.median(device_us), "min": min(device_us)},
        "cpu_us": {"median": statistics.median(cpu_us), "min": min(cpu_us)},
        "ratio": {
            "median": statistics.median(device_us) / statistics.median(cpu_us),
            "min": min(device_us) / min(cpu_us),
        },
    }


def machine() -> dict[str, Any]:
    """Where and from what the figures come."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "platform": os.environ.get("TORCHPORT_PLATFORM", "auto"),
        "commit": _commit(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    return names[0].partition(": ")[2] if names else platform.machine()


def _commit() -> str:
    def git(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=False)

    head = git("rev-parse", "--short=12", "HEAD")
    if head.returncode:
        return "unknown"
    return head.stdout.strip() + ("+changes" if git("status", "--porcelain", "--untracked-files=no").stdout else "")


def save(path: Path, name: str, claim: str, device: str, content: dict[str, Any]) -> None:
    """Writes the result as JSON; a reader sees the old file or the whole new one."""
    text = json.dumps({"benchmark": name, "claim": claim, "device": device, "machine": machine(), **content}, indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=".json", dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text + "\n")
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
    console.print(f"written: {path}", markup=False)


def show(title: str, device: str, rows: Iterable[dict[str, Any]], unit: str, scale: float) -> None:
    """A table of what `interleaved` returned; `scale` turns microseconds into `unit`."""
    table = Table(title=f"{title} ({unit}; the machine is shared: trust the ratios)")
    table.add_column("", no_wrap=True)
    for column in (f"{device}: median / min", "cpu: median / min", "ratio of them", "first round"):
        table.add_column(column, justify="right")
    for row in rows:
        pairs = [
            " / ".join(f"{row[where][kind] * scale:.4g}" for kind in ("median", "min"))
            for where in ("device_us", "cpu_us")
        ]
        ratio = " / ".join(f"{row['ratio'][kind]:.2f}" for kind in ("median", "min"))
        table.add_row(escape(row["name"]), *pairs, ratio, f"{row['first_ms']:.0f} ms")
    Console().print(table)

"""Compiling StableHLO for a machine that is not here, in worker processes with limits of time and memory.

A compiler that refuses, aborts, hangs, eats memory or is killed gives a `CompileResult` with its own words, never an
exception. Results are kept on disk by a hash of program, target, plugin and options.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from torchport.check.process import Failed, Outcome, Worker
from torchport.check.targets import Target, target

CACHE_VERSION = 1  # part of every key: a change here forgets what older versions kept
TIMEOUT_S = 1200.0
WORKER = (sys.executable, "-m", "torchport.check.worker")
START_S = 120.0  # what loading torch and a plugin may take

_REPEATABLE = {"compiled", "refused", "too_large"}  # the others depend on the moment and are not kept


class Memory(BaseModel):
    """Bytes on one device. Outputs that reuse arguments are in `aliased` and count once."""

    arguments: int
    outputs: int
    aliased: int = 0
    temporaries: int
    code: int
    peak: int = 0

    @property
    def total(self) -> int:
        """What the device must hold while the program runs."""
        return self.arguments + self.outputs - self.aliased + self.temporaries + self.code


class Cost(BaseModel):
    """The compiler's own estimate for one device; None where it gives none."""

    flops: float | None = None
    bytes: float | None = None
    optimal_seconds: float | None = None


class Tensor(BaseModel):
    """A big value of the compiled program."""

    name: str
    op: str
    shape: str
    bytes: int


class Hlo(BaseModel):
    """What was counted in the optimised program; loops count their body as often as it runs where that is known."""

    bytes_accessed: float
    collective_bytes: float
    collectives: dict[str, int]
    biggest: list[Tensor]


class CompileResult(BaseModel):
    """What one target's compiler made of one program."""

    model_config = ConfigDict(extra="ignore")

    target: str
    outcome: Outcome
    words: str = ""
    memory: Memory | None = None
    cost: Cost | None = None
    hlo: Hlo | None = None
    seconds: float = 0.0
    host_peak_bytes: int = 0
    plugin: str = ""
    cached: bool = False

    @property
    def ok(self) -> bool:
        return self.outcome == "compiled"


@dataclass(frozen=True)
class Job:
    """One program for one target."""

    target: Target
    text: str
    num_partitions: int = 1
    bundle: Path | None = None  # where the serialised executable goes
    hlo: bool = True
    label: str = ""
    key: str = field(default="", compare=False)


# ---- the cache -----------------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """The folder that keeps results, readable by its owner only."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "torchport" / "check"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _platform(name: str) -> dict[str, Any] | None:
    """What the device's file says of a platform."""
    import torchport

    torchport.activate()
    return next((p for p in torchport.platforms() if p["name"] == name), None)


def install_hint(wanted: Target) -> str:
    """How to get the compiler of a target; empty where none can be had without the machine."""
    row = _platform(wanted.chip.platform) if wanted.chip.compiler else None
    if row is None:
        return ""
    terms = {"tpu": " (Google Cloud terms, not open source)", "rocm": ", on a machine with the ROCm 7 libraries"}
    return row["install"] + terms.get(row["name"], "")


def plugin_file(platform: str) -> Path | None:
    """The plugin that the core would load for a platform; None when it is not installed."""
    from torchport import discover

    row = _platform(platform)
    for place in row["plugin"] if row else []:
        kind, _, rest = place.partition(":")
        found = [Path(os.environ.get(rest, ""))] if kind == "env" else [Path(place)]
        if kind == "python":
            found = [Path(folder) / rest for folder in discover.search_path()]
        for path in found:
            if path.is_file():
                return path
    return None


def _plugin_id(platform: str) -> str:
    """Name, size and time of the plugin's file: a newer compiler gives new results."""
    path = plugin_file(platform)
    if path is None:
        return ""
    stat = path.stat()
    return f"{path.name}:{stat.st_size}:{stat.st_mtime_ns}"


def _key(job: Job, plugin: str) -> str:
    parts = [CACHE_VERSION, job.target.name, job.target.options, plugin, job.num_partitions, job.hlo, job.text]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _load(key: str) -> CompileResult | None:
    path = cache_folder() / f"{key}.json"
    try:
        return CompileResult.model_validate_json(path.read_text(encoding="utf-8")).model_copy(update={"cached": True})
    except FileNotFoundError:
        return None
    except ValueError:  # a file that another version or a full disk left: compile again
        path.unlink(missing_ok=True)
        return None


def _save(key: str, result: CompileResult) -> None:
    folder = cache_folder()
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".part", delete=False, encoding="utf-8") as part:
        part.write(result.model_dump_json())
    os.replace(part.name, folder / f"{key}.json")


# ---- one target ----------------------------------------------------------------------------------------------------


def _first_paragraphs(words: str, limit: int = 4000) -> str:
    return words if len(words) <= limit else words[:limit] + " [...]"


def _refusal(words: str) -> Outcome:
    """Too large for the device, or not accepted."""
    return "too_large" if re.search(r"RESOURCE_EXHAUSTED|Ran out of memory|out of memory", words) else "refused"


class _Line:
    """The jobs of one target, one after another in one worker that is started again after a failure."""

    def __init__(self, wanted: Target, command: Sequence[str], timeout_s: float, memory_bytes: int) -> None:
        self.target, self.command, self.timeout_s, self.memory_bytes = wanted, command, timeout_s, memory_bytes
        self.worker: Worker | None = None
        self.plugin = ""

    def run(self, job: Job, waiting: Callable[[Job, float, int], None]) -> CompileResult:
        if not self.target.chip.compiler:
            words = "no compiler for this chip can be had without the machine: judged by ops, dtypes, memory and roofline only"
            return CompileResult(target=self.target.name, outcome="no_compiler", words=words)
        result = CompileResult(target=self.target.name, outcome="compiled")
        with tempfile.NamedTemporaryFile("w", suffix=".mlir", encoding="utf-8") as text:
            text.write(job.text)
            text.flush()
            try:
                if self.worker is None:
                    self.worker = Worker(self.target, self.command, self.memory_bytes)
                    hello = self.worker.ask(None, min(self.timeout_s, START_S))
                    if not hello["ok"]:
                        raise Failed("no_plugin", hello["words"])
                    self.plugin = hello.get("plugin", "")
                bundle = str(job.bundle.resolve()) if job.bundle else None
                request = {"text": text.name, "partitions": job.num_partitions, "hlo": job.hlo, "bundle": bundle}
                reply = self.worker.ask(request, self.timeout_s, functools.partial(waiting, job))
            except Failed as failure:
                peak = self.worker.peak if self.worker else 0
                self.close()
                update = {"outcome": failure.outcome, "words": str(failure), "host_peak_bytes": peak}
                return result.model_copy(update=update)
        result.host_peak_bytes = self.worker.peak
        result.plugin = Path(self.plugin).name
        if not reply["ok"]:
            words = reply["words"]
            return result.model_copy(update={"outcome": _refusal(words), "words": _first_paragraphs(words)})
        cost = reply["cost"]
        result.memory = Memory.model_validate(reply["memory"])
        result.seconds = reply["seconds"]
        result.hlo = Hlo.model_validate(reply["hlo"]) if reply.get("hlo") else None
        # The names are XLA's. A negative figure is its way to say that it does not know.
        names = {"flops": "flops", "bytes": "bytes accessed", "optimal_seconds": "optimal_seconds"}
        known = {mine: cost[theirs] for mine, theirs in names.items() if cost.get(theirs, -1) >= 0}
        result.cost = Cost.model_validate(known) if known else None
        return result

    def close(self) -> None:
        if self.worker is not None:
            self.worker.close()
            self.worker = None


def bundle_file(folder: Path | None, wanted: Target, text: str) -> Path | None:
    """Where a target's compiled program goes in a bundle; its text is written beside it now. None without a folder."""
    if folder is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{wanted.name.replace(':', '-')}.pjrt"
    path.with_suffix(".mlir").write_text(text, encoding="utf-8")
    return path


# ---- many jobs -----------------------------------------------------------------------------------------------------


def host_memory() -> int:
    """Bytes of host memory that are free to use now."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError("[/proc/meminfo] must have a line MemAvailable, got none")


def compile_many(
    jobs: Iterable[Job],
    timeout_s: float = TIMEOUT_S,
    memory_bytes: int | None = None,
    progress: Callable[[str], None] | None = None,
    command: Sequence[str] | None = None,
    parallel: int | None = None,
) -> list[CompileResult]:
    """Compiles every job; targets in parallel, each in its own process, as many as memory and processors allow.

    timeout_s: seconds for one program. memory_bytes: host memory of all workers together (default: 80 % of what is
    free). progress gets a line for each program that is done, and now and then one for those that are not; the calls
    come from worker threads, one at a time. The results come in the order of the jobs.
    """
    todo = list(jobs)
    results: dict[int, CompileResult] = {}
    lock = threading.Lock()

    def finish(position: int, result: CompileResult) -> None:
        with lock:
            results[position] = result
            if progress:
                how = "kept from before" if result.cached else f"in {result.seconds:.1f} s"
                progress(f"{result.target}: {result.outcome} ({how})")

    def waiting(job: Job, seconds: float, resident: int) -> None:
        with lock:
            if progress:
                progress(f"{job.target.name}: still compiling, {seconds:.0f} s, {resident / 1e9:.1f} GB of host memory")

    plugins = {platform: _plugin_id(platform) for platform in {job.target.chip.platform for job in todo}}
    lines: dict[str, list[tuple[int, str]]] = {}
    for position, job in enumerate(todo):
        key = _key(job, plugins[job.target.chip.platform])
        known = _load(key) if job.bundle is None else None
        if known is not None:
            finish(position, known)
        else:
            lines.setdefault(job.target.name, []).append((position, key))
    if not lines:
        return [results[i] for i in range(len(todo))]

    budget = memory_bytes or int(host_memory() * 0.8)
    at_once = max(1, min(len(lines), parallel or os.cpu_count() or 1, budget // (2 << 30)))

    def work(positions: list[tuple[int, str]]) -> None:
        first = todo[positions[0][0]]
        line = _Line(first.target, command or WORKER, timeout_s, budget // at_once)
        try:
            for position, key in positions:
                result = line.run(todo[position], waiting)
                if result.outcome in _REPEATABLE:
                    _save(key, result)
                finish(position, result)
        finally:
            line.close()

    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(work, positions) for positions in lines.values()]:
            done.result()
    return [results[i] for i in range(len(todo))]


def compile_for(
    wanted: Target | str,
    stablehlo_text: str,
    num_partitions: int = 1,
    timeout_s: float = TIMEOUT_S,
    memory_bytes: int | None = None,
    bundle: Path | None = None,
    command: Sequence[str] | None = None,
) -> CompileResult:
    """Compiles one program for one target in a worker process; never raises for what the compiler does.

    num_partitions: 1, or the target's `num_devices`. timeout_s: seconds. memory_bytes: host memory of the worker.
    """
    machine = target(wanted) if isinstance(wanted, str) else wanted
    job = Job(machine, stablehlo_text, num_partitions, bundle=bundle)
    return compile_many([job], timeout_s, memory_bytes, command=command)[0]

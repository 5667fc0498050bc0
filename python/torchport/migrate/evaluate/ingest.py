"""Results of other tools as measurements: vLLM `bench serve`, GuideLLM, AIPerf, and `torchport check`.

Only durations and counts are taken; generated texts stay where they are. What a tool does not say becomes a note, and
the report lists it among what is not shown.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchport.migrate.evaluate.chain import Entry, now
from torchport.migrate.evaluate.durable import canonical, digest, digest_file, write_atomic
from torchport.migrate.evaluate.errors import EvalError
from torchport.migrate.evaluate.identity import identify
from torchport.migrate.evaluate.measurement import LoadResult, Measurement, Steadiness
from torchport.migrate.evaluate.plan import Plan
from torchport.migrate.evaluate.stats import drift
from torchport.migrate.evaluate.writer import opened, record


@dataclass(frozen=True)
class Found:
    """What an importer took from a file."""

    loads: list[LoadResult]
    notes: list[str]
    software: dict[str, str]


def _load(
    latency_ms: list[float], failed: int, duration_s: float, rate: float | None, limit: float, extra: dict[str, Any]
) -> LoadResult:
    verdict, change = drift(latency_ms, limit)
    return LoadResult(
        scenario="Server" if rate else "closed loop",
        rate_per_s=rate,
        queries=len(latency_ms) + failed,
        failed=failed,
        duration_s=duration_s,
        latency_ms=latency_ms,
        throughput_per_s=len(latency_ms) / duration_s,
        steadiness=Steadiness(verdict=verdict, change=change),
        loadgen=extra,
    )


CLOSED = "closed-loop load: latencies hide the wait of requests that were never sent (coordinated omission)"


def from_vllm(raw: Any, _: Path, limit: float) -> Found:
    """`vllm bench serve --save-result --save-detailed`: latencies in seconds, errors as texts (vllm/benchmarks/serve.py)."""
    errors = raw["errors"]
    queued = raw.get("queue_times") or [0.0] * len(errors)
    latency = [1000 * (s + q) for s, q, e in zip(raw["latencies"], queued, errors, strict=True) if not e]
    rate = None if raw.get("request_rate") in (None, "inf") else float(raw["request_rate"])
    extra = {
        k: raw[k]
        for k in ("p99_ttft_ms", "p99_tpot_ms", "output_throughput", "request_goodput")
        if raw.get(k) is not None
    }
    load = _load(latency, sum(bool(e) for e in errors), raw["duration"], rate, limit, extra)
    return Found([load], [] if rate else [CLOSED], {})


def from_guidellm(raw: Any, _: Path, limit: float) -> Found:
    """GuideLLM's benchmarks.json, report version 2: every benchmark in it, latencies in seconds."""
    loads, notes = [], []
    for benchmark in raw["benchmarks"]:
        requests = benchmark["requests"]
        # From the targeted start where the tool has it: then a late client hides nothing.
        done = sorted(requests["successful"], key=lambda r: r["request_start_time"])
        latency = [1000 * (r.get("request_scheduled_latency") or r["request_latency"]) for r in done]
        strategy = benchmark["config"].get("strategy", {})
        rate = strategy.get("rate") if strategy.get("type_") in ("constant", "poisson") else None
        failed = len(requests.get("errored", [])) + len(requests.get("incomplete", []))
        loads.append(_load(latency, failed, benchmark["duration"], rate, limit, {"strategy": strategy.get("type_")}))
        notes += [] if rate else [CLOSED]
    return Found(loads, sorted(set(notes)), {"guidellm": str(raw["metadata"]["guidellm_version"])})


def from_aiperf(raw: Any, path: Path, limit: float) -> Found:
    """AIPerf's profile_export_aiperf.json with profile_export.jsonl beside it, which holds the single requests."""
    records = path.parent / "profile_export.jsonl"
    if not records.is_file():
        raise EvalError(
            "eval import",
            "find profile_export.jsonl beside the summary",
            f"none in {path.parent}",
            "--export-level records",
        )
    rows = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines() if line.strip()]
    rows.sort(key=lambda r: r["metadata"]["request_start_ns"])
    latency = []
    for row in rows:
        if row.get("error") is None:
            metric = row["metrics"]["request_latency"]
            if metric["unit"] != "ms":
                raise EvalError("eval import", "find request_latency in ms", metric["unit"])
            latency.append(float(metric["value"]))
    phases = [p for p in (raw.get("input_config") or {}).get("phases", []) if p.get("kind", "profiling") == "profiling"]
    rate = next((float(p["rate"]) for p in phases if isinstance(p.get("rate"), int | float)), None)
    duration = raw["benchmark_duration"]
    if duration["unit"] not in ("sec", "s"):
        raise EvalError("eval import", "find benchmark_duration in sec", duration["unit"])
    load = _load(latency, len(rows) - len(latency), float(duration["avg"]), rate, limit, {})
    notes = [] if rate else [CLOSED]
    notes += (
        [] if raw.get("is_complete", True) else [f"AIPerf says the run is incomplete: {raw.get('incomplete_reason')}"]
    )
    return Found([load], notes, {"aiperf": str(raw.get("aiperf_version"))})


READERS: dict[str, Callable[[Any, Path, float], Found]] = {
    "vllm": from_vllm,
    "guidellm": from_guidellm,
    "aiperf": from_aiperf,
}


def kind_of(raw: Any) -> str:
    """Which tool wrote the file, by the fields that only it has."""
    if isinstance(raw, dict):
        if "benchmarks" in raw and "guidellm_version" in raw.get("metadata", {}):
            return "guidellm"
        if "aiperf_version" in raw:
            return "aiperf"
        if {"duration", "completed", "request_throughput", "latencies", "errors"} <= raw.keys():
            return "vllm"
        if str(raw.get("schema", "")).startswith("torchport.check/"):
            return "check"
    raise EvalError(
        "eval import",
        f"be given a result of {', '.join(READERS)} or torchport check",
        f"fields {', '.join(sorted(raw)[:8]) if isinstance(raw, dict) else type(raw).__name__}",
        "vllm bench serve needs --save-result --save-detailed",
    )


def ingest(folder: Path, stage: str, path: Path, reported: dict[str, Any]) -> Entry:
    """Adds a tool's result to a stage. `reported` says where it ran: device, emulated, framework, software, ..."""
    raw = _read(path)
    kind = kind_of(raw)
    if kind == "check":
        return ingest_check(folder, stage, path, raw)
    with opened(folder) as evaluation:
        plan: Plan = evaluation.plan
        if stage not in plan.stages:
            raise EvalError("eval import", f"name a stage of the plan: {', '.join(plan.stages)}", stage)
        try:
            found = READERS[kind](raw, path, plan.workload.drift_limit)
        except (KeyError, TypeError, ValueError) as error:
            raise EvalError(
                "eval import", f"find the fields of {kind} in {path.name}", f"{type(error).__name__} {error}"
            ) from error
        if not any(load.latency_ms for load in found.loads):
            raise EvalError("eval import", "find at least one answered request", "none")
        software = {**found.software, **reported.get("software", {})}
        measurement = Measurement(
            stage=stage,
            source=f"{kind} {digest_file(path)[:16]}",
            session=f"import-{secrets.token_hex(4)}",
            position=0,
            started=now(),
            identity=identify(folder, plan, stage, [], {**reported, "software": software}),
            loads=found.loads,
            notes=found.notes,
        )
        return record(evaluation, measurement)


def ingest_check(folder: Path, stage: str, path: Path, raw: Any) -> Entry:
    """`torchport check` measures nothing: its estimates become evidence to cite, never a result of a stage."""
    with opened(folder) as evaluation:
        target = folder / "evidence" / f"check-{digest_file(path)[:16]}.json"
        name = target.relative_to(folder).as_posix()
        content = canonical(raw)
        write_atomic(target, content)
        data = {"stage": stage, "path": name, "what": "torchport check: compiled for the target without the chip"}
        return evaluation.chain.append("check", data, {name: digest(content)})


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EvalError("eval import", "be given a file", path) from error
    except ValueError as error:
        raise EvalError("eval import", "be given a JSON file", f"{path.name}: {error}") from error

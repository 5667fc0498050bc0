"""Measures: interleaved starts of the stages, each through its phases, each stored before the next one begins."""

from __future__ import annotations

import io
import json
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np

from torchport.migrate.evaluate import client
from torchport.migrate.evaluate.analysis import LOGITS
from torchport.migrate.evaluate.chain import now
from torchport.migrate.evaluate.durable import canonical, digest
from torchport.migrate.evaluate.errors import EvalError, need
from torchport.migrate.evaluate.folder import Evaluation, load_folder
from torchport.migrate.evaluate.identity import from_report, identify
from torchport.migrate.evaluate.measurement import Cold, LoadResult, Measurement, Sample, Steadiness, Steps
from torchport.migrate.evaluate.plan import Load, Plan, Service
from torchport.migrate.evaluate.process import Process, filled, running
from torchport.migrate.evaluate.stats import drift
from torchport.migrate.evaluate.writer import opened, record

NULL_QUERIES = 200
Progress = Callable[[str, int, int], None]  # what, done, of how many


def order(stages: list[str], starts: dict[str, int]) -> list[str]:
    """A B B A A B ...: rounds in turn forwards and backwards, so that a slow drift of the machine hits all alike."""
    rounds = max(starts.values(), default=0)
    forth = [[s for s in stages if starts[s] > r] for r in range(rounds)]
    return [stage for r, names in enumerate(forth) for stage in (names if r % 2 == 0 else reversed(names))]


def run(folder: Path, stages: list[str], starts: int | None, progress: Progress) -> list[str]:
    """Measures the stages; `starts` each, or as many as the plan still lacks. Returns the evidence ids."""
    with opened(folder) as evaluation:
        plan = evaluation.plan
        if unknown := [s for s in stages if s not in plan.stages]:
            raise EvalError("eval run", f"name stages of the plan: {', '.join(plan.stages)}", ", ".join(unknown))
        left = starts_left(evaluation)
        wanted = {s: starts or left[s] for s in stages}
        sequence = order(stages, wanted)
        if not sequence:
            raise EvalError(
                "eval run",
                "have starts left to make",
                f"{plan.rules.min_starts} of each already",
                "--starts 1 for more",
            )
        session = f"{now().translate({ord(c): None for c in '-:.Z'})}-{secrets.token_hex(2)}"
        evidence = []
        for position, stage in enumerate(sequence):
            progress(f"{stage}, start {position + 1}", position, len(sequence))
            try:
                measurement, attachments = measure(folder, plan, stage, session, position)
            except EvalError as error:
                facts = {
                    "stage": stage,
                    "session": session,
                    "position": position,
                    "where": error.where,
                    "must": error.must,
                }
                evaluation.chain.append("failure", facts)  # without the output, which may quote requests
                raise
            evidence.append(record(load_folder(folder), measurement, attachments).id)
        progress("done", len(sequence), len(sequence))
        return evidence


def measure(folder: Path, plan: Plan, stage: str, session: str, position: int) -> tuple[Measurement, dict[str, bytes]]:
    """One start through cold, warm-up, quality and steady phases."""
    started = now()
    with running(folder, stage, plan.stages[stage]) as process:
        found = _service(folder, plan, process) if plan.workload.kind == "service" else _training(plan, process)
        reported = {
            k: v for e in process.events() if e.get("event") == "identity" for k, v in e.items() if k != "event"
        }
        reported |= found.pop("identity", {})
        process.stop()  # the device writes its report at exit
        report = process.report()
        command = [str(part) for part in process.popen.args]
        _finite(process, "logits", list(found["logits"].values()))
    logits = found.pop("logits")
    measurement = Measurement(
        stage=stage,
        session=session,
        position=position,
        started=started,
        identity=identify(folder, plan, stage, command, {**from_report(report), **reported}),
        device_report={k: v for k, v in report.items() if k not in ("lines", "pid")},
        **found,
    )
    return measurement, {LOGITS: _npz(logits)} if logits else {}


def _npz(logits: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, ids=np.array(list(logits)), logits=np.array(list(logits.values()), dtype=np.float32))
    return buffer.getvalue()


# services


def _service(folder: Path, plan: Plan, process: Process) -> dict[str, Any]:
    service, workload = plan.workload.service, plan.workload
    assert service is not None
    fill = {"port": str(process.port)}
    url = filled(service.url, fill)
    requests = read_requests(folder / service.requests)
    process.wait(workload.timeout_s, lambda: _healthy(filled(service.health, fill)), "answer at its health address")
    ready = time.monotonic() - process.started
    poster = client.Poster(url, workload.timeout_s)
    _post(poster, requests[0], process)
    cold = Cold(ready_s=ready, first_result_s=time.monotonic() - process.started)
    warm_up = []
    for i in range(workload.warm_up):
        begin = time.perf_counter()
        _post(poster, requests[i % len(requests)], process)
        warm_up.append(time.perf_counter() - begin)
    samples, logits = _quality_pass(service, poster, requests, process)
    loads = [_load(plan, service, url, load, requests, process) for load in workload.load]
    identity: dict[str, Any] = {}
    if service.identity:
        with urlopen(filled(service.identity, fill), timeout=10) as response:
            identity = json.loads(response.read())
    return {
        "cold": cold,
        "warm_up_s": warm_up,
        "samples": samples,
        "logits": logits,
        "loads": loads,
        "identity": identity,
    }


def read_requests(path: Path) -> list[dict[str, Any]]:
    """The requests of a service: id, body, expected; ids distinct."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            rows.append({"id": str(row["id"]), "body": row["body"], "expected": row["expected"]})
        except (ValueError, KeyError, TypeError) as error:
            raise EvalError(
                f"{path.name} line {number}", "be a JSON object with id, body and expected", error
            ) from error
    if not rows or len({r["id"] for r in rows}) != len(rows):
        raise EvalError(path.name, "hold requests with distinct ids", f"{len(rows)} rows")
    return rows


def _healthy(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as response:
            return response.status == 200
    except OSError:  # not listening yet, or not ready
        return False


def _post(poster: client.Poster, request: dict[str, Any], process: Process) -> Any:
    try:
        return json.loads(poster.post(json.dumps(request["body"]).encode()))
    except (OSError, ValueError) as error:
        raise EvalError(
            f"eval run {process.name}", f"answer request {request['id']}", f"{error}\n{process.tail()}"
        ) from error


def _quality_pass(
    service: Service, poster: client.Poster, requests: list[dict[str, Any]], process: Process
) -> tuple[list[Sample], dict[str, Any]]:
    """Every request once, by the process that is then loaded: quality and speed are of the same code."""
    samples, logits = [], {}
    for request in requests:
        answer = _post(poster, request, process)
        value = _at(answer, service.answer, process.name)
        tokens = float(_at(answer, service.tokens, process.name)) if service.tokens else None
        samples.append(sample(request["id"], float(value == request["expected"]), value, tokens))
        if service.logits:
            logits[request["id"]] = _at(answer, service.logits, process.name)
    return samples, logits


def sample(key: str, score: float, answer: Any, tokens: float | None) -> Sample:
    """A sample without its answer's text."""
    return Sample(id=key, score=score, answer_sha256=digest(canonical(answer))[:16], tokens=tokens)


def _at(answer: Any, path: str, stage: str) -> Any:
    for key in path.split("."):
        if not isinstance(answer, dict) or key not in answer:
            raise EvalError(f"eval run {stage}", f"answer with the field {path}", f"none at {key}")
        answer = answer[key]
    return answer


def _load(
    plan: Plan, service: Service, url: str, load: Load, requests: list[dict[str, Any]], process: Process
) -> LoadResult:
    """One LoadGen load, and the same client against a server that does nothing."""
    need("mlperf_loadgen", "mlcommons-loadgen")
    config = {
        "url": url,
        "bodies": [r["body"] for r in requests],
        "workers": service.workers,
        "timeout_s": plan.workload.timeout_s,
        "seed": plan.rules.seed,
        "latency_ms": plan.objectives.latency_ms,
        "percentile": plan.objectives.percentile,
        **load.model_dump(),
    }
    result = _client(config, process.name, plan.workload.timeout_s)
    process.check()
    with _null_server() as port:
        null = {**config, "url": f"http://127.0.0.1:{port}/", "queries": min(load.queries, NULL_QUERIES)}
        alone = _client(null, "null server", plan.workload.timeout_s)
    latency = result["latency_ms"]
    # Offline latencies grow by construction; what has to be steady there is the time between completions.
    series = np.diff(np.sort(latency)).tolist() if load.scenario == "Offline" else latency
    verdict, change = drift(series, plan.workload.drift_limit)
    return LoadResult(
        scenario=load.scenario,
        rate_per_s=load.rate_per_s,
        queries=result["queries"],
        failed=result["failed"],
        duration_s=result["duration_s"],
        latency_ms=latency,
        throughput_per_s=(result["queries"] - result["failed"]) / result["duration_s"],
        steadiness=Steadiness(verdict=verdict, change=change),
        loadgen=result["summary"],
        client_cpu_share=result["client_cpu_share"],
        null_p99_ms=float(np.percentile(alone["latency_ms"], 99)) if alone["latency_ms"] else None,
    )


def _client(config: dict[str, Any], name: str, timeout_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="torchport-eval-") as scratch:
        given, result = Path(scratch) / "config.json", Path(scratch) / "result.json"
        given.write_text(json.dumps(config))
        command = [sys.executable, "-I", client.__file__, str(given), str(result)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=scratch)
        except subprocess.TimeoutExpired as error:
            raise EvalError(f"eval run {name}", f"finish a load within {timeout_s:g} s", "a longer one") from error
        if done.returncode != 0 or not result.exists():
            raise EvalError(
                f"eval run {name}", "carry the load", f"client status {done.returncode}\n{done.stderr[-2000:]}"
            )
        return json.loads(result.read_text())


@contextmanager
def _null_server() -> Iterator[int]:
    command = [sys.executable, "-I", client.__file__, "--null-server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as popen:
        try:
            assert popen.stdout is not None
            yield int(popen.stdout.readline())
        finally:
            popen.kill()


# training


def _training(plan: Plan, process: Process) -> dict[str, Any]:
    """Reads the events of a workload that times its own steps after synchronising the device."""
    process.wait(plan.workload.timeout_s, lambda: process.popen.poll() == 0, "end")
    end = time.monotonic()
    events = process.events()
    steps = [e for e in events if e.get("event") == "step"]
    ready = [e["t"] for e in events if e.get("event") == "ready"]
    where = f"eval run {process.name}"
    needed = plan.workload.warm_up + 2
    if not ready or len(steps) < needed:
        raise EvalError(
            where, f"write a ready event and at least {needed} step events", f"{len(ready)} and {len(steps)}"
        )
    times = [ready[0], *(s["t"] for s in steps)]
    if not (process.started <= times[0] and times[-1] <= end and np.all(np.diff(times) > 0)):
        raise EvalError(where, "write t = time.monotonic() with every event", f"{times[0]} to {times[-1]}")
    seconds = np.diff(times).tolist()
    warm = plan.workload.warm_up
    verdict, change = drift(seconds[warm:], plan.workload.drift_limit)
    answered = [e for e in events if e.get("event") == "sample"]
    _finite(process, "loss", [s["loss"] for s in steps if "loss" in s])
    _finite(process, "score", [e["score"] for e in answered])
    return {
        "cold": Cold(ready_s=times[0] - process.started, first_result_s=times[1] - process.started),
        "warm_up_s": seconds[:warm],
        "steps": Steps(
            seconds=seconds[warm:],
            items=[float(s["items"]) for s in steps[warm:]],
            steadiness=Steadiness(verdict=verdict, change=change),
        ),
        "losses": [float(s["loss"]) for s in steps if "loss" in s],
        "samples": [sample(str(e["id"]), float(e["score"]), e.get("answer"), e.get("tokens")) for e in answered],
        "logits": {str(e["id"]): e["logits"] for e in answered if "logits" in e},
    }


def _finite(process: Process, what: str, values: list[Any]) -> None:
    """A start that gives NaN or infinity is a failed one, not a measurement."""
    try:
        fine = bool(np.isfinite(np.asarray(values, dtype=np.float64)).all())
    except (TypeError, ValueError) as error:
        raise EvalError(f"eval run {process.name}", f"give {what} as numbers of one shape", error) from error
    if not fine:
        raise EvalError(f"eval run {process.name}", f"give finite {what}", "NaN or infinity")


def starts_left(evaluation: Evaluation) -> dict[str, int]:
    """Starts that the plan still asks for, by stage."""
    plan = evaluation.plan
    return {s: max(plan.rules.min_starts - len(evaluation.ledgers[s].results), 0) for s in plan.stages}

"""Evaluation folders to test with: small, with a workload that needs neither torch nor a device, and made-up starts."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import tomlkit

from torchport.migrate.evaluate import writer
from torchport.migrate.evaluate.measurement import Cold, Identity, LoadResult, Measurement, Sample, Steadiness
from torchport.migrate.evaluate.plan import Plan, PriceFile
from torchport.migrate.evaluate.template import render

TODAY = datetime.now(UTC).date()
HERE = Path(__file__).parent
TEXTS = [f"{word} {n}" for n in range(25) for word in ("good", "fine", "bad", "poor")]


def stage(*extra: str, device: str = "toy") -> dict[str, Any]:
    command = ["{python}", "workload.py", "serve", "{port}", "{events}", "--device", device, *extra]
    identity = {"region": "here", "purchase": "owned", "source_revision": "r1"}
    return {"label": "toy", "command": command, "expect_device": device, "identity": identity}


def plan_data(**changes: Any) -> dict[str, Any]:
    """A plan as data; a change is given by its path with two underscores for a dot."""
    gate = {"kind": "gate", "at_least": 1, "measure": "answer"}
    score = {"kind": "score", "measure": "answer", "worst": 0, "best": 1, "weight": 1}
    data: dict[str, Any] = {
        "evaluation": {"title": "Toy", "question": "Move?", "owner": "owner", "horizon_months": 12, "currency": "EUR"},
        "workload": {
            "kind": "service", "name": "toy", "model": "toy-1", "result": "one text",
            "results_per_month": 1e6, "warm_up": 2, "timeout_s": 30,
            "service": {
                "url": "http://127.0.0.1:{port}/", "health": "http://127.0.0.1:{port}/", "requests": "requests.jsonl",
                "answer": "label", "logits": "logits", "workers": 4,
            },
            "load": [{"scenario": "SingleStream", "queries": 25}],
        },
        "objectives": {"latency_ms": 200, "cold_start_s": 20},
        "quality": {"metric": "accuracy", "margin": 0.05, "min_samples": 50, "max_flips": 0.02},
        "conditions": {"regions": ["here"], "max_rate_per_s": 50},
        "stages": {"baseline": stage(), "port": stage()},
        "cost": {
            "day_rate": 800, "discount_rate": 0.0, "migration_days": {"low": 1, "mode": 2, "high": 4}, "dual_months": 1,
            "dual_share": 1, "risk_probability": 0.1, "risk_cost": 1000, "exit_days": 1,
            "baseline": {"price": "old", "utilisation": 0.5, "operations_hours_per_month": 2},
            "target": {"price": "new", "utilisation": 0.5, "operations_hours_per_month": 2},
        },
        "criteria": [
            {"id": "region", "family": "data_protection", "question": "In the region?", **gate},
            {"id": "libraries", "family": "compatibility", "question": "All there?", "on_fail": "keep_two", **gate},
            {"id": "quality", "family": "performance", "question": "As good?", **gate,
             "measure": "quality_non_inferior"},
            {"id": "effort", "family": "adaptation_time", "question": "Hours?", **score, "measure": "adaptation_hours",
             "worst": 100, "best": 0},
            {"id": "price", "family": "operating_cost", "question": "Cost?", **score, "measure": "cost_ratio",
             "worst": 1, "best": 0.2},
            {"id": "debugging", "family": "supervision", "question": "Debuggable?", **score},
        ],
        "rules": {
            "seed": 7, "resamples": 1000, "draws": 2000, "move_probability": 0.8, "keep_two_probability": 0.8,
            "keep_two_share": 0.5, "min_score": 0.3, "valid_days": 90,
        },
        "fallback": {"maintainer": "platform team", "how_back": "redeploy", "separate": "model code"},
        "triggers": {"price_change": 0.2, "volume_factor": 2, "quality_drop": 0.01, "releases": ["torch"],
                     "regions": ["there"]},
    }  # fmt: skip
    for path, value in changes.items():
        at = data
        *parents, last = path.split("__")
        for key in parents:
            at = at[int(key)] if isinstance(at, list) else at[key]
        at[last] = value
    return data


def price(name: str, amount: float, **changes: Any) -> dict[str, Any]:
    row = {
        "id": name, "provider": "P", "sku": f"sku-{name}", "region": "here", "purchase": "on_demand",
        "unit": "device-hour",
        "devices_per_unit": 1, "amount": amount, "seen": TODAY - timedelta(days=3), "source": "price list, page 1",
    }  # fmt: skip
    return {**row, **changes}


def write_folder(folder: Path, data: dict[str, Any], prices: list[dict[str, Any]] | None = None) -> Path:
    """A folder with plan, prices, requests and the workload."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.toml").write_text(render(Plan.model_validate(data)))
    rows = prices or [price("old", 10.0), price("new", 2.0)]
    (folder / "prices.toml").write_text(render(PriceFile.model_validate({"currency": "EUR", "price": rows})))
    lines = [{"id": t, "body": {"text": t}, "expected": "positive" if t[0] in "gf" else "negative"} for t in TEXTS]
    (folder / "requests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    shutil.copy(HERE / "workload.py", folder / "workload.py")
    return folder


def edit(path: Path, keys: str, value: Any) -> None:
    """Changes one value of a TOML file, as a hand would."""
    document = tomlkit.parse(path.read_text())
    at: Any = document
    *parents, last = keys.split(".")
    for key in parents:
        at = at[int(key)] if key.isdigit() else at[key]
    at[last] = value
    path.write_text(tomlkit.dumps(document))


def made(
    stage: str,
    position: int,
    latency_ms: float,
    session: str = "s",
    wrong: int = 0,
    device: str = "toy",
    **identity: Any,
) -> Measurement:
    """A measurement as a run would make it, with figures from a seeded generator."""
    rng = np.random.default_rng([position, sum(stage.encode())])
    latency = (latency_ms * rng.lognormal(0, 0.05, 40)).tolist()
    samples = [Sample(id=t, score=float(n >= wrong), answer_sha256=str(n < wrong)) for n, t in enumerate(TEXTS)]
    load = LoadResult(
        scenario="SingleStream", queries=40, failed=0, duration_s=sum(latency) / 1000, latency_ms=latency,
        throughput_per_s=1000 / latency_ms, steadiness=Steadiness(verdict="steady", change=0.0),
    )  # fmt: skip
    who = {"device": device, "region": "here", "emulated": False, "software": {"torch": "2.13.0"}, **identity}
    return Measurement(
        stage=stage, session=session, position=position, started=f"2026-01-01T00:00:{position:02d}.000Z",
        identity=Identity(model="toy-1", **who), cold=Cold(ready_s=1, first_result_s=2), loads=[load], samples=samples,
    )  # fmt: skip


def record_all(
    folder: Path, port_ms: float = 100.0, wrong: int = 0, stages: tuple[str, ...] = ("baseline", "port")
) -> None:
    """Five interleaved starts of each stage: the baseline at 100 ms, the others as given."""
    order = [s for r in range(5) for s in (stages if r % 2 == 0 else reversed(stages))]
    with writer.opened(folder) as evaluation:
        for position, name in enumerate(order):
            ms, errors = (100.0, 0) if name == "baseline" else (port_ms, wrong)
            writer.record(evaluation, made(name, position, ms, wrong=errors))


def answer_all(folder: Path, **values: float) -> None:
    """Answers the three questions; 1 unless given."""
    for name in ("region", "libraries", "debugging"):
        writer.add_answer(folder, name, values.get(name, 1.0), "ticket 1", "owner")


def day(n: int) -> date:
    """n days from today."""
    return TODAY + timedelta(days=n)

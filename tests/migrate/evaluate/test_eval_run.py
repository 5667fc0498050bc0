"""Real starts of a toy workload: phases, LoadGen's scenarios, training steps, failures, identity, other tools' results."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_evaluation import TEXTS, TODAY, made, plan_data, record_all, stage, write_folder
from typer.testing import CliRunner

from torchport.migrate.evaluate import EvalError, client, load_folder, writer
from torchport.migrate.evaluate.analysis import Analysis
from torchport.migrate.evaluate.changes import add_log
from torchport.migrate.evaluate.cli import app
from torchport.migrate.evaluate.ingest import ingest
from torchport.migrate.evaluate.measures import MEASURES
from torchport.migrate.evaluate.parse import load_plan
from torchport.migrate.evaluate.plan import Plan
from torchport.migrate.evaluate.run import order, run, starts_left
from torchport.migrate.evaluate.template import init, render


def quiet(*_: object) -> None:
    """No progress."""


def sealed_with(path: Path, **changes: Any) -> Path:
    folder = write_folder(path / "evaluation", plan_data(**changes))
    writer.seal(folder, "owner", TODAY)
    return folder


def test_order_interleaves() -> None:
    assert "".join(order(["A", "B"], {"A": 3, "B": 3})) == "ABBAAB"
    assert "".join(order(["A", "B", "C"], {"A": 2, "B": 2, "C": 1})) == "ABCBA"


def test_a_service_through_its_phases(tmp_path: Path) -> None:
    loads = [
        {"scenario": "Server", "queries": 60, "rate_per_s": 100},
        {"scenario": "Offline", "queries": 80},
        {"scenario": "SingleStream", "queries": 30},
    ]
    stages = {
        "baseline": stage("--delay", "0.005"),
        "port": stage("--wrong", TEXTS[0], TEXTS[1], "--delay", "0.005"),
        "reference_fp32": stage(),
        "reference_low": stage(),
    }
    folder = sealed_with(tmp_path, workload__load=loads, stages=stages)
    evidence = run(folder, list(stages), 1, quiet)
    evaluation = load_folder(folder)
    assert evaluation.findings == []
    assert len(evidence) == 4
    m = evaluation.ledgers["port"].results[0].measurement
    assert m.cold is not None
    assert 0 < m.cold.ready_s < m.cold.first_result_s
    assert len(m.warm_up_s) == 2
    server, offline, single = m.loads
    assert [load.scenario for load in m.loads] == ["Server", "Offline", "SingleStream"]
    assert [len(load.latency_ms) for load in m.loads] == [60, 80, 30]
    assert all(load.failed == 0 for load in m.loads)
    assert min(server.latency_ms) > 5  # the workload sleeps for 5 ms
    assert server.duration_s > 0.3  # 60 Poisson arrivals, 100 a second
    # Offline counts from one common arrival: latencies overlap. Single stream: one after another, within the duration.
    assert max(offline.latency_ms) == pytest.approx(1000 * offline.duration_s, rel=1e-3)
    assert sum(offline.latency_ms) > 10_000 * offline.duration_s
    assert sum(single.latency_ms) <= 1001 * single.duration_s
    assert all(load.null_p99_ms is not None for load in m.loads)
    assert server.loadgen["Scenario"] == "Server"
    assert m.mean_score() == 0.98
    assert m.identity.device == "toy"
    assert m.identity.system["host_processor_core_count"] > 0
    assert m.identity.data_sha256["requests.jsonl"] == evaluation.seals[0].files["requests.jsonl"]
    analysis = Analysis(evaluation, "port")
    assert analysis.quality["flips_worse"] == 2
    assert analysis.logits["top1_agreement"] == 0.98
    assert analysis.logits["r_ratio_p95"] == pytest.approx(0)  # 98 of 100 equal the reference
    values = {name: function(analysis) for name, function in MEASURES.items()}
    # No TorchPort device, no training: nothing is made up for these two.
    assert {name for name, value in values.items() if value is None} == {"fallback_ops", "final_loss_ratio"}
    assert values["r_ratio_within"] == 1.0
    assert values["quality_loss_upper"] == analysis.quality["loss_upper"] > 0.02
    assert values["latency_over_objective"] == pytest.approx(analysis.target.latency["ms"] / 200)
    assert values["cold_start_over_objective"] == pytest.approx(m.cold.first_result_s / 20)
    stored = " ".join(p.read_text() for p in (folder / "results").rglob("*.json"))
    assert '"positive"' not in stored  # answers are stored as hashes


def test_the_client_adds_no_stall_of_its_own(tmp_path: Path) -> None:
    """40 ms a request is what a socket without TCP_NODELAY costs; the client alone stays well below at the median."""
    given, result = tmp_path / "config.json", tmp_path / "result.json"
    with subprocess.Popen(
        [sys.executable, client.__file__, "--null-server"], stdout=subprocess.PIPE, text=True
    ) as server:
        config = {
            "url": f"http://127.0.0.1:{server.stdout.readline().strip()}/",
            "bodies": [{}],
            "workers": 1,
            "seed": 1,
        }
        given.write_text(json.dumps({**config, "timeout_s": 9, "scenario": "SingleStream", "queries": 50}))
        subprocess.run([sys.executable, client.__file__, given, result], check=True)
        server.kill()
    assert np.median(json.loads(result.read_text())["latency_ms"]) < 20


def test_training_steps(tmp_path: Path) -> None:
    def trains(*extra: str) -> dict[str, Any]:
        return {**stage(), "command": ["{python}", "workload.py", "train", "{events}", *extra]}

    data = plan_data(stages={"baseline": trains("--delay", "0.004"), "port": trains("--delay", "0.002")})
    data["workload"] |= {"kind": "training", "service": None, "load": []}
    folder = write_folder(tmp_path / "e", data)
    writer.seal(folder, "owner", TODAY)
    run(folder, ["baseline", "port"], 2, quiet)
    analysis = Analysis(load_folder(folder), "port")
    m = analysis.target.measurements[0]
    assert m.steps is not None
    assert len(m.warm_up_s) == 2
    assert len(m.steps.seconds) == 28
    assert m.losses[0] == 1.0
    assert analysis.ratio is not None
    assert min(m.steps.seconds) >= 0.002  # the workload sleeps that long; 8 items a step
    seconds = sum(sum(x.steps.seconds) for x in analysis.target.measurements)
    assert analysis.target.capacity.estimate == pytest.approx(3600 * 8 * 2 * 28 / seconds)
    assert analysis.quality["n"] == 40
    assert MEASURES["final_loss_ratio"](analysis) == 1.0


def test_a_killed_run_keeps_its_starts_and_leaves_no_process(tmp_path: Path) -> None:
    slow = stage("--delay", "0.003")
    folder = sealed_with(tmp_path, stages={"baseline": slow, "port": slow})
    marker = f"{folder / 'workload.py'}"
    code = f"""
import sys
from pathlib import Path
from torchport.migrate.evaluate.run import run
run(Path({str(folder)!r}), ["baseline", "port"], 5, lambda what, done, total: print(done, flush=True))
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.strip() == "2":  # the third start has begun: two are finished
                time.sleep(0.5)
                process.kill()
    evaluation = load_folder(folder)
    assert evaluation.findings == []
    assert sum(len(ledger.results) for ledger in evaluation.ledgers.values()) == 2
    deadline = time.monotonic() + 10
    while alive := [p for p in Path("/proc").glob("[0-9]*/cwd") if _points_to(p, folder)]:
        assert time.monotonic() < deadline, f"{alive} still run {marker}"
        time.sleep(0.05)
    left = starts_left(load_folder(folder))
    assert sum(left.values()) == 8
    with writer.opened(folder) as evaluation:  # another writer may go on: the lock went with the process
        writer.record(evaluation, made("port", 9, 1.0))


def _points_to(link: Path, folder: Path) -> bool:
    try:
        return link.resolve() == folder.resolve()
    except OSError:  # another user's process, or one that has just ended
        return False


def test_a_system_description_is_sealed_and_recorded(tmp_path: Path) -> None:
    data = plan_data(stages={"baseline": {**stage(), "system_desc": "system.json"}, "port": stage()})
    folder = write_folder(tmp_path / "e", data)
    with pytest.raises(EvalError, match="no system.json"):
        writer.seal(folder, "owner", TODAY)
    (folder / "system.json").write_text(json.dumps({"cooling": "air", "accelerators_per_node": 8, "nodes": [{}]}))
    entry = writer.seal(folder, "owner", TODAY)
    assert "system.json" in entry.files
    run(folder, ["baseline"], 1, quiet)
    system = load_folder(folder).ledgers["baseline"].results[0].measurement.identity.system
    assert (system["cooling"], system["accelerators_per_node"]) == ("air", 8)
    assert "nodes" not in system


@pytest.mark.parametrize(("how", "words"), [("--crash", "exit status 3"), ("--nan", "finite loss, got NaN")])
def test_a_workload_that_fails_leaves_a_note_and_no_figures(tmp_path: Path, how: str, words: str) -> None:
    crash = {**stage(), "command": ["{python}", "workload.py", "train", "{events}", how]}
    data = plan_data(stages={"baseline": crash, "port": crash})
    data["workload"] |= {"kind": "training", "service": None, "load": []}
    folder = write_folder(tmp_path / "e", data)
    writer.seal(folder, "owner", TODAY)
    with pytest.raises(EvalError, match=words):
        run(folder, ["baseline"], 1, quiet)
    evaluation = load_folder(folder)
    assert [e.kind for e in evaluation.entries] == ["seal", "failure"]
    assert evaluation.ledgers["baseline"].results == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["no-such-command"], "be a command that starts"),
        (["{python}", "-c", "print('hello')"], "a process that has ended"),
        (["{python}", "-c", "import sys; sys.exit('wrong weights')"], "wrong weights"),
        (["{python}", "-c", "import time; time.sleep(60)"], "within 1 s"),
    ],
)
def test_a_service_that_never_answers(tmp_path: Path, command: list[str], words: str) -> None:
    broken = {**stage(), "command": command}
    folder = sealed_with(tmp_path, stages={"baseline": broken, "port": broken}, workload__timeout_s=1)
    with pytest.raises(EvalError, match=words):
        run(folder, ["baseline"], 1, quiet)


def test_a_missing_answer_field_is_named(tmp_path: Path) -> None:
    folder = sealed_with(tmp_path, workload__service__answer="result.label")
    with pytest.raises(EvalError, match=r"answer with the field result\.label, got none at result"):
        run(folder, ["baseline"], 1, quiet)


# other tools


def vllm() -> dict[str, Any]:
    latencies = [0.1 + 0.001 * n for n in range(50)]
    return {
        "duration": 10.0, "completed": 49, "failed": 1, "request_throughput": 4.9, "request_rate": 5.0,
        "latencies": latencies, "queue_times": [0.01] * 50, "errors": [""] * 49 + ["timeout"], "p99_ttft_ms": 12.0,
        "generated_texts": ["a secret"] * 50, "start_times": [0.0] * 50,
    }  # fmt: skip


def guidellm() -> dict[str, Any]:
    done = [
        {
            "request_id": str(n),
            "request_start_time": 100 - n,
            "request_latency": 0.2,
            "request_scheduled_latency": 0.2 + n / 1000,
        }
        for n in range(30)
    ]
    requests = {"successful": done, "incomplete": [], "errored": [{"request_id": "x"}]}
    benchmark = {"config": {"strategy": {"type_": "poisson", "rate": 3.0}}, "duration": 12.0, "requests": requests}
    return {"metadata": {"version": 2, "guidellm_version": "0.8.0"}, "benchmarks": [benchmark]}


def test_vllm(sealed: Path, tmp_path: Path) -> None:
    path = tmp_path / "vllm.json"
    path.write_text(json.dumps(vllm()))
    ingest(sealed, "port", path, {"device": "toy", "emulated": False, "framework": "vLLM"})
    r = load_folder(sealed).ledgers["port"].results[0]
    (load,) = r.measurement.loads
    assert (load.queries, load.failed, load.rate_per_s, load.duration_s) == (50, 1, 5.0, 10.0)
    assert load.latency_ms[0] == pytest.approx(110)  # the wait in the client's queue counts
    assert r.measurement.source.startswith("vllm ")
    assert "a secret" not in (sealed / r.path).read_text()
    # 49 answers in 10 s on one device, all within 200 ms
    assert Analysis(load_folder(sealed), "port").target.capacity.estimate == pytest.approx(49 / 10 * 3600)


def test_guidellm(sealed: Path, tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.json"
    path.write_text(json.dumps(guidellm()))
    ingest(sealed, "port", path, {"device": "toy"})
    (load,) = load_folder(sealed).ledgers["port"].results[0].measurement.loads
    assert (load.queries, load.failed, load.rate_per_s) == (31, 1, 3.0)
    assert load.latency_ms[0] == pytest.approx(229)  # ordered by start; counted from the targeted start


def test_aiperf(sealed: Path, tmp_path: Path) -> None:
    summary = {
        "schema_version": "1.4", "aiperf_version": "0.13.0", "is_complete": True,
        "benchmark_duration": {"unit": "sec", "avg": 5.0}, "request_latency": {"unit": "ms", "avg": 20.0},
        "input_config": {"phases": [{"kind": "profiling", "type": "concurrency", "concurrency": 4}]},
    }  # fmt: skip
    path = tmp_path / "profile_export_aiperf.json"
    path.write_text(json.dumps(summary))
    with pytest.raises(EvalError, match="profile_export.jsonl beside"):
        ingest(sealed, "port", path, {"device": "toy"})
    rows = [
        {
            "metadata": {"request_start_ns": n},
            "metrics": {"request_latency": {"value": 20.0 + n, "unit": "ms"}},
            "error": None,
        }
        for n in range(20)
    ]
    rows.append({"metadata": {"request_start_ns": 99}, "metrics": {}, "error": {"code": 500}})
    (tmp_path / "profile_export.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ingest(sealed, "port", path, {"device": "toy"})
    m = load_folder(sealed).ledgers["port"].results[0].measurement
    assert (m.loads[0].queries, m.loads[0].failed, m.loads[0].latency_ms[1]) == (21, 1, 21.0)
    assert "closed-loop" in m.notes[0]  # concurrency is no arrival rate


def test_check_is_evidence_and_no_result(sealed: Path, tmp_path: Path) -> None:
    path = tmp_path / "check.json"
    path.write_text(json.dumps({"schema": "torchport.check/1", "targets": []}))
    entry = ingest(sealed, "port", path, {})
    evaluation = load_folder(sealed)
    assert entry.kind == "check"
    assert evaluation.findings == []
    assert evaluation.ledgers["port"].results == []


@pytest.mark.parametrize("content", ["{", '{"foo": 1}', "[]"])
def test_an_unknown_file_is_refused(sealed: Path, tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(EvalError, match="eval import"):
        ingest(sealed, "port", path, {})


def test_a_damaged_result_names_the_field(sealed: Path, tmp_path: Path) -> None:
    raw = vllm()
    raw["errors"] = raw["errors"][:3]
    path = tmp_path / "vllm.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(EvalError, match=r"find the fields of vllm in vllm\.json, got ValueError"):
        ingest(sealed, "port", path, {})


def test_the_change_log_of_a_port(sealed: Path, tmp_path: Path) -> None:
    path = tmp_path / "changes.json"
    changes = [
        {"rule": "TP-CUDA-001", "path": "train.py", "line": n, "before": "x.cuda()", "after": "x.to(d)"} for n in (3, 9)
    ]
    log = {"schema_version": "torchport.port/1", "applied": False, "changes": changes}
    path.write_text(json.dumps(log))
    with pytest.raises(EvalError, match="a dry run"):
        add_log(sealed, "port", path)
    path.write_text(json.dumps({**log, "applied": True}))
    add_log(sealed, "port", path)
    ledger = load_folder(sealed).ledgers["port"]
    assert [(e.data["what"], e.data["rule"]) for e in ledger.changes] == [
        ("train.py:3", "TP-CUDA-001"),
        ("train.py:9", "TP-CUDA-001"),
    ]


# files and commands


def test_the_example_explains_every_field_and_reads_back(tmp_path: Path) -> None:
    init(tmp_path)
    text = (tmp_path / "plan.toml").read_text()
    plan = load_plan(tmp_path / "plan.toml")
    assert tomllib.loads(render(plan)) == tomllib.loads(text)

    def descriptions(model: Any) -> list[str]:
        return [f.description for f in type(model).model_fields.values()]

    criterion = plan.criteria[0]
    for part in (
        plan,
        plan.evaluation,
        plan.workload,
        plan.workload.service,
        plan.quality,
        plan.cost,
        plan.cost.baseline,
        criterion,
    ):
        for description in descriptions(part):
            assert description
            assert f"# {description}" in text


def test_unknown_keys_and_wrong_ranges_are_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "e", plan_data())
    path = folder / "plan.toml"
    good = path.read_text()
    for old, new, words in (
        ("margin = 0.05", "margin = 0.05\nmargine = 1", r"quality\.margine: Extra inputs"),
        ("day_rate = 800.0", "day_rate = { low = 5, mode = 4, high = 9 }", r"cost\.day_rate: .*low <= mode <= high"),
        ('kind = "service"', 'kind = "batch"', r"workload\.kind: "),
        ("[rules]", "[rules", "must be TOML"),
    ):
        assert old in good
        path.write_text(good.replace(old, new, 1))
        with pytest.raises(EvalError, match=words):
            load_plan(path)


def test_a_score_cannot_pose_as_a_gate() -> None:
    data = plan_data(criteria__0__weight=3)
    with pytest.raises(ValueError, match="gate region must give at_least or at_most, and no worst, best or weight"):
        Plan.model_validate(data)


def test_commands(sealed: Path, tmp_path: Path) -> None:
    runner, name = CliRunner(), str(sealed)
    record_all(sealed)
    for criterion in ("region", "libraries", "debugging"):
        done = runner.invoke(app, ["answer", name, criterion, "--value", "1", "--evidence", "ticket 7"])
        assert done.exit_code == 0
    assert runner.invoke(app, ["hours", name, "--stage", "port", "--hours", "3", "--what", "port"]).exit_code == 0
    state = json.loads(runner.invoke(app, ["status", name, "--json"]).stdout)
    assert state["stages"][1] == {
        "stage": "port",
        "starts": 5,
        "counted": 5,
        "wanted": 5,
        "changes": 0,
        "hours": 3.0,
        "failures": 0,
    }
    assert "p_net_positive" in runner.invoke(app, ["cost", name, "--json"]).stdout
    decision = json.loads(runner.invoke(app, ["decide", name, "--json"]).stdout)
    assert decision["outcome"] == "move"
    assert json.loads(runner.invoke(app, ["decide", name, "--json"]).stdout)["reproduced"] is True
    assert runner.invoke(app, ["recheck", name]).exit_code == 0
    assert runner.invoke(app, ["recheck", name, "--volume", "9e6"]).exit_code == 1
    assert runner.invoke(app, ["export", name, "--out", str(tmp_path / "focus.csv")]).exit_code == 0
    assert (tmp_path / "focus.csv").read_text().startswith("BillingAccountId,")
    verified = runner.invoke(app, ["verify", name, "--head", state["head"]])
    assert verified.exit_code == 0
    assert runner.invoke(app, ["verify", name, "--head", "f" * 64]).exit_code == 1
    (sealed / "requests.jsonl").write_text("")
    tampered = runner.invoke(app, ["verify", name])
    assert tampered.exit_code == 1
    assert "requests.jsonl: changed" in tampered.stdout
    assert "requests.jsonl: changed" in runner.invoke(app, ["status", name]).stdout
    refused = runner.invoke(app, ["hours", name, "--stage", "port", "--hours", "3", "--what", "x"])
    assert refused.exit_code == 2


def test_nothing_imports_torch() -> None:
    """The evaluator's modules, one by one, in a process where importing torch is an error."""
    package = Path(writer.__file__).parent
    names = sorted(p.stem for p in package.glob("*.py") if p.stem != "__init__")
    code = f"""
import importlib, sys, types
sys.modules["torch"] = None
parent = types.ModuleType("torchport")
parent.__path__ = [{str(package.parents[1])!r}]
sys.modules["torchport"] = parent
for name in {names!r}:
    importlib.import_module("torchport.migrate.evaluate." + name)
"""
    subprocess.run([sys.executable, "-c", code], check=True)

"""The harness itself: it survives crashes and hangs, counts them, and groups what it saw."""

from pathlib import Path

import pytest
import torch

from conformance import pool
from conformance.compare import assert_same, undetermined
from conformance.pool import Pool, Task
from conformance.summary import Summary, group_key, grouped_failures

FAKE = """
import json, os, sys, time
def emit(**row): print(json.dumps(row), flush=True)
emit(ready=True)
for line in sys.stdin:
    task = json.loads(line)
    for mode in task["modes"]:
        emit(begin=mode)
        if task["op"] == "crash" and mode == "forward": os.abort()
        if task["op"] == "exit" and mode == "out": os._exit(3)
        if task["op"] == "hang" and mode == "out": time.sleep(60)
        emit(op=task["op"], dtype=task["dtype"], mode=mode, result="pass", message="", samples=1, fallbacks=[])
    emit(done=True)
"""


def run(tmp_path: Path, ops: list[str], script: str = FAKE) -> list[dict]:
    path, rows = tmp_path / "fake.py", []
    path.write_text(script)
    Pool(2, 0.5, {}, tmp_path / "out", rows.append, lambda task: None, path).run(
        [Task(op, "float32", ["forward", "out"]) for op in ops]
    )
    return rows


def results(rows: list[dict]) -> dict[tuple[str, str], str]:
    return {(row["op"], row["mode"]): row["result"] for row in rows}


def test_crash_and_hang_cost_one_case(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "GRACE_SECONDS", 0.5)
    rows = run(tmp_path, ["a", "crash", "b", "hang", "exit", "c"])
    got = results(rows)
    assert len(rows) == len(got) == 12
    assert got.pop(("crash", "forward")) == "crash"
    assert got.pop(("hang", "out")) == "hang"
    assert got.pop(("exit", "out")) == "crash"
    assert set(got.values()) == {"pass"}
    summary = Summary.of(rows)
    assert (summary.agree, summary.cases, summary.crashed, summary.hung) == (9, 12, 2, 1)
    assert summary.line().startswith("conformance: 9 of 12 agree (75.0 %), 0 failed, 2 crashed, 1 hung; ops needing")
    assert "signal SIGABRT" in grouped_failures(rows)


def test_worker_that_cannot_start(tmp_path):
    with pytest.raises(RuntimeError, match=r"could not start:\n(.|\n)*no such luck"):
        run(tmp_path, ["a"], "raise SystemExit('no such luck')")


def test_summary_rounds_down_and_ignores_skips():
    row = {"op": "x", "dtype": "float32", "mode": "forward", "message": "", "fallbacks": []}
    rows = [{**row, "result": "pass"}] * 9499 + [{**row, "result": "fail"}] * 501 + [{**row, "result": "skip"}] * 9
    summary = Summary.of(rows)
    assert (summary.cases, summary.skipped) == (10000, 9)
    assert "(94.9 %)" in summary.line()


def test_messages_group_without_their_numbers():
    first = group_key("RuntimeError: aten::foo.out wants 'a' (3, 4) at 1.5e-3\nmore")
    assert first == group_key("RuntimeError: aten::bar wants 'b' (7,) at 2")


def test_comparison_is_strict():
    x = torch.ones(2, 3)
    for other in (x.T, x.double(), x + 1e-3, None):
        with pytest.raises(AssertionError):
            assert_same(x, other, torch.float32)
    with pytest.raises(AssertionError):
        assert_same((x, x), (x,), torch.float32)
    assert_same(x, x + 1e-5, torch.float32)
    assert_same(x, x + 1, torch.float32, values=False)


def test_undetermined_ops_are_named_exactly():
    assert all(map(undetermined, ("rand_like", "nn.functional.dropout2d", "normal.number_mean", "empty_strided")))
    assert not any(map(undetermined, ("__rand__", "nn.functional.normalize", "linalg.norm", "diag_embed")))

"""The benchmarks' own verdicts can fail: memory that grows, a loop that recompiles, a plugin that does not run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import compare
import measure
import memory_flat
import plugins
import recompile


def test_memory_that_grows_is_seen() -> None:
    flat = [(step, 1000 + step // 500, 50) for step in range(0, 2001, 100)]
    assert memory_flat.drift(flat, 1) < memory_flat.LIMIT
    leak = [(step, 1000 + step // 20, 50) for step in range(0, 2001, 100)]
    assert memory_flat.drift(leak, 1) > memory_flat.LIMIT
    assert memory_flat.drift(leak, 2) == 0


def test_growth_before_the_warm_step_is_not_held_against() -> None:
    samples = [(0, 100, 0), (memory_flat.WARM, 1000, 0), (2000, 1001, 0)]
    assert memory_flat.drift(samples, 1) == pytest.approx(0.001)


@pytest.mark.parametrize(("programs", "status"), [(None, 0), (3, 0), (4, 1)])
def test_a_loop_that_recompiles_fails(
    programs: int | None, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "spent", lambda device, before: {"programs_compiled": programs})
    out = tmp_path / "recompile.json"
    assert recompile.main(["--device", "cpu", "--iterations", "200", "--out", str(out)]) == status
    assert json.loads(out.read_text())["spent"]["programs_compiled"] == programs


def row(name: str, device_us: float, cpu_us: float) -> dict:
    """A row as measure.interleaved returns it."""
    both = {"median": device_us, "min": device_us}
    return {"name": name, "device_us": both, "ratio": {key: value / cpu_us for key, value in both.items()}}


def test_compare_divides_head_by_base() -> None:
    base, head = {"rows": [row("a", 4.0, 2.0), row("gone", 1.0, 1.0)]}, {"rows": [row("a", 3.0, 1.0)]}
    [found] = compare.ratios(base, head)
    assert (found["name"], found["time"]["median"], found["to_cpu"]["median"]) == ("a", 0.75, 1.5)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rows": []}'])
def test_compare_says_what_is_no_result(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(SystemExit, match="must"):
        compare.load(path)


def test_interleaved_measures_both_sides() -> None:
    calls = []
    found = measure.interleaved("x", lambda: calls.append("d"), lambda: calls.append("c"), "cpu", 3)
    assert calls == ["d", "c"] * 4
    assert found["ratio"]["median"] > 0


def test_a_plugin_that_crashes_costs_its_own_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "crash.py").write_text("import os\nos.abort()\n")
    monkeypatch.setattr(plugins, "HERE", tmp_path)
    assert "exit status -6" in plugins.child("none.so", "cpu", "crash.py")["failed"]


def test_the_operations_agree_with_themselves() -> None:
    found = plugins.try_ops("cpu")
    assert set(found.values()) == {"ok"}
    assert {name.rpartition(" ")[0] for name in found} == set(plugins.OPS)

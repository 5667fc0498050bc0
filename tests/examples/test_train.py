"""The main job's comparison can fail: what is wrong leaves the bound, what is only rounding does not."""

from __future__ import annotations

import ast
import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch

import digits_cnn
import ledger
import parity
import train

EXAMPLES = Path(train.__file__).parent
REFERENCE = [2.3, 1.9, 1.4, 1.1]
TWIN = [2.3, 1.9000002, 1.4000003, 1.1000001]
BOUND = parity.bounds(REFERENCE, [TWIN])


def test_the_bound_never_shrinks_and_has_a_floor() -> None:
    floor = parity.SLACK * 2 * parity.EPSILON * 2.3
    assert [floor, *sorted(BOUND)[1:]] == pytest.approx(BOUND)
    assert parity.bounds([1.0], []) == [parity.SLACK * 2 * parity.EPSILON]


def test_equal_curves_agree() -> None:
    assert parity.compare("loss", REFERENCE, REFERENCE, BOUND).agrees


def test_rounding_agrees() -> None:
    verdict = parity.compare("loss", REFERENCE, [r + 3e-6 for r in REFERENCE], BOUND)
    assert verdict.agrees
    assert 0 < verdict.worst < 1


@pytest.mark.parametrize("step", range(4))
def test_one_perturbed_step_fails_and_is_named(step: int) -> None:
    curve = [r + (1e-4 if i == step else 0) for i, r in enumerate(REFERENCE)]
    verdict = parity.compare("loss", REFERENCE, curve, BOUND)
    assert not verdict.agrees
    assert f"at step {step + 1} " in verdict.message


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("side", ["reference", "candidate", "bound"])
def test_a_value_that_is_not_finite_fails(side: str, bad: float) -> None:
    curves = {"reference": REFERENCE, "candidate": REFERENCE, "bound": BOUND}
    curves[side] = [*curves[side][:2], bad, *curves[side][3:]]
    assert not parity.compare("loss", **curves).agrees


@pytest.mark.parametrize(("reference", "candidate"), [(REFERENCE, REFERENCE[:3]), (REFERENCE[:3], REFERENCE), ([], [])])
def test_missing_steps_fail(reference: list[float], candidate: list[float]) -> None:
    assert not parity.compare("loss", reference, candidate, BOUND[: len(reference)]).agrees


def test_a_twin_differs_in_the_last_bit_only() -> None:
    plain, twin = digits_cnn.build(3), parity.nudge(digits_cnn.build(3), 1)
    for a, b in zip(plain.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=2 * parity.EPSILON, atol=0)
    assert not torch.equal(plain.conv1.weight, twin.conv1.weight)


def test_new_fallbacks_are_differences() -> None:
    old = [{"op": "aten::a", "count": 2, "bytes": 8, "ms": 1.0}, {"op": "aten::b", "count": 1, "bytes": 4, "ms": 1.0}]
    new = [{"op": "aten::a", "count": 5, "bytes": 20, "ms": 1.5}, old[1], {**old[1], "op": "aten::c", "count": 9}]
    found = [(row["op"], row["count"], row["bytes"]) for row in ledger.new_fallbacks(old, new)]
    assert found == [("aten::c", 9, 4), ("aten::a", 3, 12)]


@pytest.mark.parametrize("name", ["digits_cnn.py", "char_gpt.py"])
def test_the_models_import_nothing_of_torchport(name: str) -> None:
    source = (EXAMPLES / name).read_text()
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= {"__future__", "collections", "pydoc_data", "sklearn", "torch"}
    assert "torchport" not in source.lower()


def job(change: str | None = None) -> train.Job:
    """The digits job for ten steps; with a change, what runs after both twins (the device's run) is wrong by it."""
    runs = []

    def build(seed: int) -> torch.nn.Module:
        model = digits_cnn.build(seed)
        runs.append(model)
        if change == "weights" and len(runs) == 2 + len(train.TWINS):
            with torch.no_grad():
                model.out.weight *= 1 + 1e-4
        return model

    def fit(*args, **kwargs) -> dict:
        got = digits_cnn.train(*args, **kwargs)
        if len(runs) == 2 + len(train.TWINS):
            if change == "nan":
                got["losses"][-1] = math.nan
            if change == "accuracy":
                got["accuracy"] -= 0.01
            if change == "held-out":
                got["held_out_loss"] *= 1.001
        if change == "stuck":
            got["losses"] = [2.3] * len(got["losses"])
        return got

    return dataclasses.replace(train.JOBS[0], steps=10, build=build, train=fit)


@pytest.mark.parametrize(
    ("change", "status"),
    [(None, 0), ("weights", 1), ("nan", 1), ("accuracy", 1), ("held-out", 1), ("stuck", 1)],
)
def test_exit_status(change: str | None, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--device", "cpu", "--out", str(tmp_path)], jobs=(job(change),)) == status
    printed = capsys.readouterr().out
    assert ("PARITY FAILS" in printed, "FAIL " in printed) == (status == 1, status == 1)
    [model] = json.loads((tmp_path / "train.json").read_text())["models"]
    assert model["agrees"] == (status == 0)
    assert len(model["device"]["losses"]) == 10
    # The temporary names are gone.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.json", "train.png"]


def test_a_missing_device_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--device", "nosuch"]) == 2
    assert "--device must name a device that is there, got 'nosuch'" in capsys.readouterr().out

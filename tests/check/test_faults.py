"""Ten ways in which a check can go wrong: each ends in its finding and its exit code, never in a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytestmark = pytest.mark.port
pytest.importorskip("torchport")

from torchport.check import run
from torchport.cli import app

GOOD = """
import torch
model = torch.nn.Linear(64, 64).to("tpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    loss = model(torch.randn(16, 64).to("tpu")).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
DYNAMIC = """
import torch
model = torch.nn.Linear(8, 8).to("tpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    batch = torch.randn(4 + step, 8).to("tpu")
    loss = model(batch).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
WIDE = """
import torch
x = torch.randn(8, 8).to("tpu")
y = {what}
print((y + y).sum().item())
"""
CRASH = """
import torch
x = torch.ones(3, device="tpu") + 1
raise KeyError("no such column")
"""


@pytest.fixture(scope="module")
def captured(tmp_path_factory) -> dict:
    """One good script, run once for all tests that are about compilers."""
    script = tmp_path_factory.mktemp("script") / "good.py"
    script.write_text(GOOD)
    return run.capture(script, [])


@pytest.fixture
def good(tmp_path: Path, captured: dict, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run, "capture", lambda script, arguments, steps: captured)
    path = tmp_path / "good.py"
    path.write_text(GOOD)
    return path


def check(script: Path, *options: str, target: str = "tpu:v6e") -> tuple[int, dict, str]:
    """Exit code, JSON and what was printed."""
    record = script.with_suffix(".json")
    done = CliRunner().invoke(app, ["check", "--target", target, "--json", str(record), *options, str(script)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, json.loads(record.read_text()) if record.is_file() else {}, done.output


def codes(record: dict) -> dict[str, dict]:
    """Findings of the run and of the only target, by code."""
    [target] = record["targets"] or [{"findings": []}]
    return {f["code"]: f for f in [*record["findings"], *target["findings"]]}


def test_a_good_script_is_green(good: Path, fake) -> None:
    fake("compile")
    code, record, printed = check(good)
    assert code == 0
    assert not {f["severity"] for f in codes(record).values()} & {"error", "warning"}
    assert record["targets"][0]["estimate"]["compiled_seconds"] == 1e-3  # what the compiler says itself
    assert "estimate, not measured" in printed and "Error band: published steps took" in printed


def test_1_an_op_that_the_compiler_refuses(good: Path, fake) -> None:
    fake("refuse")
    code, record, _ = check(good)
    assert code == 1
    found = [f for f in record["targets"][0]["findings"] if f["code"] == "refused"]
    places = {f["what"]: f["where"] for f in found}
    assert places["the compiler refuses addmm"].endswith("good.py:6")
    assert "no Python line" in places["the compiler refuses mm"]  # the backward pass runs outside the script's lines
    assert all("UNIMPLEMENTED: dot of s64" in f["words"] and f["advice"] for f in found)
    assert record["targets"][0]["compiles"] is False
    assert check(good, "--fail-on", "fit")[0] == 0


def test_2_too_large_for_the_memory(good: Path, fake) -> None:
    fake("too large")
    code, record, _ = check(good)
    assert code == 1
    assert "exceeds (31.24G)" in codes(record)["too_large"]["words"]
    assert "smallest slice that holds it by count: tpu:v6e:" in codes(record)["too_large"]["advice"]
    assert (record["targets"][0]["compiles"], record["targets"][0]["fits"]) == (True, False)
    assert check(good, "--fail-on", "compile")[0] == 0


def test_3_shapes_that_change_in_a_loop(tmp_path: Path, fake) -> None:
    fake("compile")
    script = tmp_path / "dynamic.py"
    script.write_text(DYNAMIC)
    code, record, _ = check(script, "--fail-on", "recompile")
    assert code == 1
    assert "shapes that change from step to step" in codes(record)["recompile"]["what"]
    assert codes(record)["recompile"]["where"].endswith("dynamic.py:7")


@pytest.mark.parametrize(
    ("number", "what", "target", "finding", "code"),
    [
        (4, "x.double() @ x.double()", "tpu:v6e", "emulated", 0),
        (5, "torch.complex(x, x).to(torch.complex128)", "tpu:v6e", "emulated", 0),
        (5, "torch.complex(x, x)", "trn:trn2", "documented", 1),
    ],
)
def test_4_and_5_float64_and_complex(
    number: int, what: str, target: str, finding: str, code: int, tmp_path: Path, fake
) -> None:
    fake("compile")
    script = tmp_path / f"wide{number}.py"
    script.write_text(WIDE.format(what=what))
    status, record, _ = check(script, target=target)
    found = codes(record)[finding]
    assert status == code
    assert f"{script.name}:4" in found["where"]
    assert found["advice"]


@pytest.mark.parametrize(
    ("number", "how", "finding", "words"),
    [
        (6, "abort", "aborted", "SIGABRT: F0000 00:00 compiler.cc:41] Check failed"),
        (7, "hang", "timed_out", "the compiler gave no answer in 2 s"),
        (8, "killed", "killed", "the compiler's process ended by SIGKILL"),
    ],
)
def test_6_to_8_a_compiler_that_does_not_answer(
    number: int, how: str, finding: str, words: str, good: Path, fake
) -> None:
    fake(how)
    code, record, _ = check(good, "--timeout", "2")
    assert code == 1
    assert words in codes(record)[finding]["words"]
    assert record["targets"][0]["compiles"] is False


def test_9_an_unknown_target(good: Path) -> None:
    code, record, printed = check(good, target="tpu:v99")
    assert (code, record) == (2, {})
    assert "[--target] must be one of tpu:v4, " in printed and "got 'tpu:v99'" in printed


def test_10_a_script_that_crashes(tmp_path: Path, fake) -> None:
    fake("compile")
    script = tmp_path / "crash.py"
    script.write_text(CRASH)
    code, record, _ = check(script, "--fail-on", "")
    assert code == 1
    words = codes(record)["crash"]["words"]
    assert "KeyError: 'no such column'" in words and "crash.py:4" in words
    assert record["targets"], "what ran before the crash is checked all the same"


def test_a_bundle_holds_every_program(good: Path, fake, tmp_path: Path) -> None:
    fake("compile")
    assert check(good, "--save-bundle", str(tmp_path / "bundle"))[0] == 0
    assert "stablehlo.dot_general" in (tmp_path / "bundle" / "tpu-v6e-2x2.mlir").read_text()
    assert (tmp_path / "bundle" / "tpu-v6e-2x2.pjrt").read_bytes() == b"executable"


CUDA = """
import torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(16, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = model(torch.randn(8, 16, device=device)).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    torch.cuda.synchronize()
"""


def test_a_script_for_cuda_runs_and_its_redirections_are_listed(tmp_path: Path, fake) -> None:
    fake("compile")
    script = tmp_path / "cuda.py"
    script.write_text(CUDA)
    code, record, printed = check(script)
    assert code == 0, printed
    moved = [f for f in record["findings"] if f["code"] == "redirected"]
    assert {f["where"].rpartition(":")[2] for f in moved} >= {"3", "4", "9"}
    assert all("cuda.py:" in f["where"] and f["advice"] == "torchport port" for f in moved)
    assert "was taken for" in printed

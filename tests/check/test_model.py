"""`check --model` around the compiler: meshes by default, agreement of compiler and count, verdicts and exit codes."""

import io
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
from rich.console import Console

pytestmark = pytest.mark.port
pytest.importorskip("torchport")

from torchport.check.abstract import Workload, WorkloadError, build
from torchport.check.count import count
from torchport.check.model import check_model, default_mesh, smallest
from torchport.check.model_cli import run_model

TINY = {
    "model_type": "llama", "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64,
}  # fmt: skip
L70B = TINY | {
    "vocab_size": 128256, "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
    "num_key_value_heads": 8, "intermediate_size": 28672,
}  # fmt: skip
WORKER = (sys.executable, str(Path(__file__).with_name("fake_memory.py")))
LIMITS = {"command": WORKER, "timeout_s": 60.0}


def memory(**change: int) -> str:
    workload = Workload(TINY, "decode", 4, 16)
    given = {"arguments": int(count(workload, {"tp": 2, "dp": 2}).arguments), "aliased": 512, "outputs": 1200}
    return json.dumps(given | {"temporaries": 64, "code": 0} | change)


@pytest.mark.parametrize(
    ("mode", "batch", "devices", "mesh"),
    [
        ("train", 8, 8, "fsdp=8"),
        ("train", 2, 8, "fsdp=2,tp=4"),
        ("decode", 8, 8, "dp=4,tp=2"),  # as far as the key-value heads
        ("decode", 1, 4, "tp=4"),  # nothing else to split
    ],
)
def test_meshes_by_default(mode, batch, devices, mesh):
    made = default_mesh(Workload(TINY, mode, batch, 8), build(TINY)[1], devices)
    assert ",".join(f"{axis}={size}" for axis, size in made.sizes if size > 1) == mesh


def test_a_workload_that_cannot_be_shared():
    with pytest.raises(WorkloadError, match=r"\[--batch\] must let 8 devices be shared .* got 1"):
        default_mesh(Workload(TINY, "train", 1, 8), build(TINY)[1], 8)


def test_a_mesh_of_another_size():
    with pytest.raises(WorkloadError, match=r"\[--parallel\] must multiply to the 4 devices of tpu:v6e:2x2, got 2"):
        check_model(Workload(TINY, "decode", 4, 16), ["tpu:v6e:2x2"], "tp=2", **LIMITS)


def test_heads_that_do_not_divide():
    with pytest.raises(WorkloadError, match=r"\[--parallel\] tp must divide the model's 4 attention heads, got 8"):
        check_model(Workload(TINY, "decode", 4, 16), ["tpu:v6e:2x4"], "tp=8", **LIMITS)


def test_compiler_and_count_agree(monkeypatch):
    monkeypatch.setenv("FAKE_MEMORY", memory())
    [found] = check_model(Workload(TINY, "decode", 4, 16), ["tpu:v6e:2x2"], "tp=2,dp=2", **LIMITS)
    assert found.result.ok
    assert found.fits
    assert all(a.ok for a in found.agreements)
    assert found.bounds.limit in ("memory", "links")
    assert "times our estimate" in found.band


def test_compiler_and_count_disagree(monkeypatch):
    monkeypatch.setenv("FAKE_MEMORY", memory(arguments=10_000_000))
    [found] = check_model(Workload(TINY, "decode", 4, 16), ["tpu:v6e:2x2"], "tp=2,dp=2", **LIMITS)
    assert [a.what for a in found.agreements if not a.ok] == ["arguments"]


def run(tmp_path: Path, fail_on: str = "compile,fit,count", **given) -> tuple[int, str, dict]:
    (tmp_path / "model.json").write_text(json.dumps(TINY))
    stream = io.StringIO()
    options = {"mode": "decode", "batch": 4, "seq": 16, "parallel": "tp=2,dp=2", "json_file": tmp_path / "out.json"}
    console = Console(file=stream, width=200)
    code = run_model(tmp_path / "model.json", ["tpu:v6e:2x2"], console, fail_on=fail_on, **(options | given), **LIMITS)
    return code, stream.getvalue(), json.loads((tmp_path / "out.json").read_text())


def test_a_model_that_fits(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_MEMORY", memory())
    code, text, found = run(tmp_path)
    assert code == 0
    assert "estimate, not measured" in text
    assert found["schema"] == "torchport.check/1"
    assert found["targets"][0]["fits"] is True
    assert found["targets"][0]["parallel"] == {"dp": 2, "fsdp": 1, "tp": 2}


def test_a_model_that_does_not_fit(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_MEMORY", memory(temporaries=40_000_000_000))
    code, text, found = run(tmp_path, fail_on="fit")
    assert (code, found["targets"][0]["fits"]) == (1, False)
    assert "smallest slice that holds it by count: tpu:v6e:1x1" in text
    assert run(tmp_path, fail_on="compile")[0] == 0


def test_a_model_that_the_compiler_finds_too_large(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_MEMORY", "null")
    code, text, found = run(tmp_path, fail_on="fit")
    assert (code, found["targets"][0]["fits"]) == (1, False)
    assert "RESOURCE_EXHAUSTED" in text


def test_what_fail_on_takes(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_MEMORY", memory())
    with pytest.raises(ValueError, match=r"\[--fail-on\] must be a list of compile, fit, count, got speed"):
        run(tmp_path, fail_on="speed")


def test_the_smallest_slice():
    # 141 GB of weights and 21 GB of cache: two chips of 95 GiB are filled to 85 %, one is not enough
    found = smallest(Workload(L70B, "decode", 16, 4096), "v5p")
    assert found is not None
    assert found[0].num_chips == 2
    assert smallest(Workload(TINY, "decode", 1, 8), "v5e")[0].num_chips == 1


def test_activations_that_layers_keep(monkeypatch):
    monkeypatch.setenv("FAKE_MEMORY", memory())
    [found] = check_model(Workload(TINY, "train", 4, 16), ["tpu:v6e:2x2"], "tp=2,fsdp=2", **LIMITS)
    assert found.activations.ok
    assert found.activations.program == found.activations.counted == 4 // 2 * 16 * 32 * 2

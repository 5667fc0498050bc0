"""Refusals by the real TPU compiler: `make check-faults`. Not part of `make test`, which goes without libtpu."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torchport

torchport.activate()

from torchport.check.abstract import Workload, read_config
from torchport.check.compiler import plugin_file
from torchport.check.model import check_model
from torchport.check.run import Check, check_script
from torchport.check.targets import target

ROOT = Path(__file__).resolve().parents[2]
DOUBLE_FFT = """
import torch
x = torch.randn(8, 8).to("tpu").double()
y = torch.fft.fft(x)
"""
# Two layers of Llama 3 8 B, whose caches for 64 sequences of 65,536 tokens take 34 GB: no chip of 34.4 GB holds them
# beside the weights, and from shapes alone nobody has to hold them here.
LLAMA = ROOT / "examples" / "models" / "llama-3-8b.json"


@pytest.fixture(autouse=True, scope="module")
def libtpu() -> None:
    if plugin_file("tpu") is None:
        pytest.fail("[check-faults] must have libtpu, got none. Try: pip install libtpu (Google Cloud terms)")


def check(tmp_path: Path, text: str) -> Check:
    script = tmp_path / "script.py"
    script.write_text(text)
    os.environ["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    return check_script(script, [], [target("tpu:v6e")], steps=2, timeout_s=300)


def test_an_op_that_the_compiler_refuses(tmp_path: Path) -> None:
    found = check(tmp_path, DOUBLE_FFT)
    [verdict] = found.verdicts
    assert verdict.compiles is False
    refused = next(f for f in verdict.findings if f.code == "refused")
    assert "Unexpected operand type for FFT" in refused.words
    assert refused.where.endswith("script.py:4")
    assert found.failed(["compile"]) and not found.failed(["fit"])


def test_a_step_too_large_for_the_memory() -> None:
    workload = Workload(read_config(LLAMA) | {"num_hidden_layers": 2}, "decode", 64, 65536)
    [found] = check_model(workload, ["tpu:v6e:1x1"], timeout_s=300)
    assert found.fits is False, (found.result.outcome, found.needed_bytes)
    assert found.findings[0].code == "too_large"
    assert found.findings[0].advice.startswith("smallest slice that holds it by count: tpu:v6e:1x2 with --parallel")

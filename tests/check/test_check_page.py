"""The pages of a check in headless Chromium: drawn, silent, with every figure a reader needs; and what imports them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

pytestmark = pytest.mark.port
pytest.importorskip("torchport")

from torchport.check import run
from torchport.check.model_cli import run_model
from torchport.check.show_script import page
from torchport.check.targets import target
from torchport.migrate.kb.ingest import entries
from torchport.pages import look, save

PNG = b"\x89PNG\r\n\x1a\n"
SCRIPT = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8)).to("tpu")
optimizer = torch.optim.AdamW(model.parameters())
for step in range(4):
    loss = model(torch.randn(32, 64).to("tpu")).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
TINY = {
    "model_type": "llama", "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64,
}  # fmt: skip


def seen_in_chromium(file: Path) -> str:
    """The document after its scripts ran; the screenshot beside it must show more than an empty page."""
    picture = file.with_suffix(".png")
    seen = look(file, picture, 1200, 3000)
    assert seen.console == ()
    assert picture.read_bytes().startswith(PNG) and picture.stat().st_size > 60_000
    return seen.document


def test_the_page_of_a_script(tmp_path: Path, fake) -> None:
    fake("compile")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    found = run.check_script(script, [], [target("tpu:v6e"), target("cuda:h100"), target("trn:trn2")])
    save(tmp_path / "check.html", page(found))
    document = seen_in_chromium(tmp_path / "check.html")
    for name in ("roofline", "memory", "cost"):
        assert f'id="{name}"' in document
    assert document.count('class="main-svg"') >= 3
    assert "Error band: published steps took" in document and "Estimates, not measured" in document
    assert "tpu:v6e:2x2" in document and "not judged" in document  # Trainium has no compiler here
    assert "Google Cloud TPU documentation" in document  # sources of the figures
    record = json.dumps(found.as_dict()).encode()
    claims = [entry.claim for entry in entries(record, "check.json")]
    assert any("on tpu:v6e:2x2: compiles yes, fits yes" in claim for claim in claims)


def test_the_page_of_a_model(tmp_path: Path, fake) -> None:
    fake("compile")
    (tmp_path / "model.json").write_text(json.dumps(TINY))
    files = {"json_file": tmp_path / "out.json", "html_file": tmp_path / "out.html", "bundle": tmp_path / "bundle"}
    code = run_model(
        tmp_path / "model.json", ["tpu:v6e", "trn:trn2:4"], Console(quiet=True),
        mode="decode", batch=4, seq=16, fail_on="compile,fit", **files,
    )  # fmt: skip
    assert code == 0
    document = seen_in_chromium(tmp_path / "out.html")
    for name in ("roofline", "memory", "cost"):
        assert f'id="{name}"' in document
    assert "Memory of one device" in document and "a million tokens" in document
    found = json.loads((tmp_path / "out.json").read_text())
    tpu, trainium = found["targets"]
    assert (tpu["compiles"], trainium["compiles"], trainium["fits"]) == (True, None, True)
    assert tpu["price"]["date"] == "2024-12-23" and tpu["usd_per_million_tokens"] > 0
    assert tpu["estimate"]["is"] == "estimate, not measured" and "times our estimate" in tpu["estimate"]["error_band"]
    assert list(entries((tmp_path / "out.json").read_bytes(), "out.json"))
    assert (tmp_path / "bundle" / "tpu-v6e-2x2.mlir").is_file()

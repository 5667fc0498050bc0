"""torchport port: what is rewritten and how, that nothing else changes, and that a failure loses nothing."""

import json
import os
import subprocess
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from torchport import migrate
from torchport.cli import app

LINE = 'ACCELERATOR = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")'


def ported(tmp_path, text, name="a.py"):
    """The lines of a module after a port, without its imports and the device's line."""
    path = tmp_path / name
    path.write_text(text)
    migrate.port(path, apply=True)
    return path.read_text()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.cuda()", "x.to(ACCELERATOR)"),
        ("x.cuda(1)", "x.to(torch.device(ACCELERATOR.type, 1))"),
        ("x.cuda(rank)", "x.to(rank)"),
        ("x.cuda(non_blocking=True)", "x.to(ACCELERATOR, non_blocking=True)"),
        ("x.cuda(device=d)", "x.to(device=d)"),
        ('torch.device("cuda")', "ACCELERATOR"),
        ('torch.zeros(2, device="cuda")', "torch.zeros(2, device=ACCELERATOR.type)"),
        ('x.to("cuda:1")', 'x.to(f"{ACCELERATOR.type}:1")'),
        ('d = "cuda" if torch.cuda.is_available() else "cpu"', "d = ACCELERATOR.type"),
        ('torch.device("cuda:0" if torch.cuda.is_available() else "cpu")', "torch.device(ACCELERATOR.type, 0)"),
        ("ok = torch.cuda.is_available()", "ok = torch.accelerator.is_available()"),
        (
            "use_cuda = not no_cuda and torch.cuda.is_available()",
            "use_cuda = not no_cuda and torch.accelerator.is_available()",
        ),
        (
            'torch.load("a", map_location={"cuda:0": "cuda:1"})',
            'torch.load("a", map_location={"cuda:0": f"{ACCELERATOR.type}:1"})',
        ),
        ("torch.cuda.synchronize()", "torch.get_device_module(ACCELERATOR).synchronize()"),
        ("torch.cuda.manual_seed_all(s)", "torch.manual_seed(s)"),
        ("with torch.cuda.amp.autocast(False): pass", "with torch.autocast(ACCELERATOR.type, enabled=False): pass"),
        ('torch.load("a")', 'torch.load("a", map_location="cpu")'),
        ("x.type(torch.cuda.LongTensor)", "x.to(ACCELERATOR, torch.int64)"),
        ("x.is_cuda", '(x.device.type != "cpu")'),
        (
            'torch.compile(f, mode="max-autotune", dynamic=True)',
            (
                'torch.compile(f, mode="max-autotune" if ACCELERATOR.type == "cuda" else None, '
                'dynamic=True if ACCELERATOR.type == "cuda" else None)'
            ),
        ),
        ('torch.distributed.init_process_group("nccl", rank=0)', "torch.distributed.init_process_group(rank=0)"),
        ("torch.optim.SGD(p, foreach=True)", 'torch.optim.SGD(p, foreach=ACCELERATOR.type == "cuda" or None)'),
        ('load(attn_implementation="flash_attention_2")', 'load(attn_implementation="sdpa")'),
        (
            "x.to(memory_format=torch.channels_last)",
            'x.to(memory_format=torch.channels_last if ACCELERATOR.type == "cuda" else torch.contiguous_format)',
        ),
        (
            "torch.backends.cudnn.benchmark = True",
            'if ACCELERATOR.type == "cuda":\n    torch.backends.cudnn.benchmark = True',
        ),
        ("torch.cuda.empty_cache()", "if torch.accelerator.is_available():\n    torch.accelerator.empty_cache()"),
    ],
)
def test_rewrites(tmp_path, before, after):
    text = ported(tmp_path, f"import torch\n{before}\n")
    line = f"\n{LINE}\n" if "ACCELERATOR" in after else ""
    assert text == f"import torch\n{line}{after}\n"


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nif device.type == 'cuda':\n    torch.cuda.synchronize()\n",
        "import torch\nif torch.cuda.is_available():\n    torch.cuda.empty_cache()\n",
        "import torch\nfast = torch.cuda.is_available()\nif fast:\n    x.cuda()\n",
        "import torch\nx = torch.cuda.Stream()\n",
        "DEVICE = 'cuda'\n",  # no torch here to ask
        "if found('torch'):\n    import torch\nx = torch.ones(2).cuda()\n",  # torch may not be there
        "def f():\n    import torch\n    return torch.ones(2).cuda()\n",
        "import torch\nparser.add_argument('--device', choices=['cuda', 'cpu'])\n",
    ],
)
def test_left_as_it_is(tmp_path, text):
    assert ported(tmp_path, text) == text
    assert migrate.scan(tmp_path)


def test_format_and_comments_stay(tmp_path):
    text = ported(
        tmp_path,
        '#!/usr/bin/env python\n"""Doc."""\nfrom __future__ import annotations\n\nimport torch  # the framework\n\n\n'
        "def f( x ):   # odd spacing\n    # a comment\n    y = x.cuda()  # to the GPU\n    return {  'a' :y }\n",
    )
    assert text == (
        '#!/usr/bin/env python\n"""Doc."""\nfrom __future__ import annotations\n\nimport torch  # the framework\n\n'
        f"{LINE}\n\n\n"
        "def f( x ):   # odd spacing\n    # a comment\n    y = x.to(ACCELERATOR)  # to the GPU\n    return {  'a' :y }\n"
    )


def test_line_ends_stay(tmp_path):
    (tmp_path / "a.py").write_bytes(b"import torch\r\nx = torch.ones(2)\r\ntorch.cuda.manual_seed_all(3)\r\n")
    migrate.port(tmp_path, apply=True)
    assert (tmp_path / "a.py").read_bytes() == b"import torch\r\nx = torch.ones(2)\r\ntorch.manual_seed(3)\r\n"


def test_other_names_for_torch_and_for_the_device(tmp_path):
    text = ported(tmp_path, "import torch as th\nACCELERATOR = 3\nx = th.ones(2).cuda()\n")
    assert "TORCH_ACCELERATOR = th.accelerator.current_accelerator(check_available=True)" in text
    assert text.endswith("x = th.ones(2).to(TORCH_ACCELERATOR)\n")
    compile(text, "a.py", "exec")


def test_the_ported_line_runs_where_there_is_no_accelerator(tmp_path):
    text = ported(tmp_path, "import torch\nx = torch.ones(2).cuda()\ntorch.cuda.synchronize()\nprint(x.device)\n")
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run([os.sys.executable, "-c", text], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "cpu\n"


def test_configuration_gets_the_device_it_is_asked_for(tmp_path):
    (tmp_path / "a.yaml").write_text("device: cuda:1  # first\nname: cuda\n")
    (tmp_path / "b.json").write_text('{\n  "device": "cuda"\n}\n')
    (tmp_path / "c.toml").write_text("device = 'cuda'\n")
    migrate.port(tmp_path, apply=True, device="neuron")
    assert (tmp_path / "a.yaml").read_text() == "device: neuron:1  # first\nname: cuda\n"
    assert (tmp_path / "b.json").read_text() == '{\n  "device": "neuron"\n}\n'
    assert (tmp_path / "c.toml").read_text() == "device = 'neuron'\n"


def test_notebook_keeps_magics_outputs_and_other_cells(tmp_path):
    cells = [
        nbformat.v4.new_markdown_cell("x.cuda()"),
        nbformat.v4.new_code_cell("%matplotlib inline\nimport torch\nif True:\n    !nvidia-smi"),
        nbformat.v4.new_code_cell("%%bash\nnvidia-smi"),
        nbformat.v4.new_code_cell("torch.ones(2).cuda()", outputs=[nbformat.v4.new_output("stream", text="é")]),
    ]
    path = tmp_path / "a.ipynb"
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)) + "\n")
    before = json.loads(path.read_text())
    result = migrate.port(path, apply=True)
    after = json.loads(path.read_text())
    nbformat.validate(nbformat.from_dict(after))
    assert [f.rule for f in result.by_hand] == ["CU013", "CU013"]
    source = "".join(after["cells"][1]["source"])
    assert source == f"%matplotlib inline\nimport torch\n\n{LINE}\nif True:\n    !nvidia-smi"
    assert "".join(after["cells"][3]["source"]) == "torch.ones(2).to(ACCELERATOR)"
    for cell in (before, after):
        cell["cells"][1]["source"] = cell["cells"][3]["source"] = ""
    assert before == after


@pytest.mark.parametrize(("indent", "end"), [(1, "\n"), (4, ""), (None, ""), ("\t", "\n")])
def test_notebook_keeps_its_layout(tmp_path, indent, end):
    cell = {"cell_type": "code", "execution_count": None, "id": "a", "metadata": {}, "outputs": []}
    cell["source"] = ["import torch\n", "torch.cuda.manual_seed_all(3)"]
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"b": 1, "a": "\u00e9"}, "cells": [cell]}
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(book, indent=indent) + end)
    before = path.read_text()
    migrate.port(path, apply=True)
    assert path.read_text() == before.replace("torch.cuda.manual_seed_all", "torch.manual_seed")


def test_dry_run_writes_nothing_and_the_diff_applies(tmp_path):
    (tmp_path / "sub").mkdir()
    path = tmp_path / "sub" / "a.py"
    path.write_text("import torch\nx = torch.ones(2).cuda()")  # no newline at the end
    before = path.read_text()
    shown = CliRunner().invoke(app, ["port", str(tmp_path)])
    assert path.read_text() == before
    (tmp_path / "p.diff").write_text(shown.stdout)
    subprocess.run(["git", "apply", "-p1", "p.diff"], cwd=tmp_path, check=True)
    assert path.read_text().startswith(f"import torch\n\n{LINE}\nx = torch.ones(2).to(ACCELERATOR)")
    assert migrate.port(tmp_path).diff == ""


def test_change_log(tmp_path):
    (tmp_path / "a.py").write_text("import torch\nx = torch.ones(2).cuda()\ns = torch.cuda.Stream()\n")
    log = tmp_path / "log.json"
    done = CliRunner().invoke(app, ["port", str(tmp_path), "--apply", "--log", str(log)])
    assert done.exit_code == 0
    data = json.loads(log.read_text())
    assert data["schema_version"] == "torchport.port/1"
    assert data["applied"] is True
    (change,) = data["changes"]
    assert (change["rule"], change["line"]) == ("CU001", 2)
    assert (change["before"], change["after"]) == ("torch.ones(2).cuda()", "torch.ones(2).to(ACCELERATOR)")
    assert [f["rule"] for f in data["by_hand"]] == ["CU020"]
    assert "by hand: a.py:3: CU020" in done.output


def test_a_failure_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "a.py"
    path.write_text("import torch\nx = torch.ones(2).cuda()\n")
    before = path.read_text()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        migrate.port(tmp_path, apply=True)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_stay(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("import torch\nx = torch.ones(2).cuda()\n")
    path.chmod(0o755)
    migrate.port(path, apply=True)
    assert path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "TPU", ""])
def test_device_names_are_checked(tmp_path, device):
    with pytest.raises(ValueError, match=r"\[port\] device must be a device name"):
        migrate.port(tmp_path, device=device)


def test_api_returns_paths_relative_to_the_root(tmp_path):
    folder = tmp_path / "pkg"
    folder.mkdir()
    (folder / "a.py").write_text("import torch\ntorch.cuda.synchronize()\n")
    (finding,) = migrate.scan(Path(tmp_path))
    assert finding.path == "pkg/a.py"
    assert finding.place == "pkg/a.py:2"

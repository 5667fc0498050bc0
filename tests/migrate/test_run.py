"""torchport run: CUDA-flavoured scripts on the device, unmodified, with every redirection written down."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import torch
from typer.testing import CliRunner

from torchport import migrate
from torchport.cli import app

DEVICE = torch._C._get_privateuse1_backend_name()
DEMO = Path(__file__).parents[2] / "examples" / "cuda_service"

SCRIPT = """
import json, sys, threading
import torch
import torch.cuda as C
from torch.cuda.amp import autocast

seen = {}
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
seen["chosen"] = device.type
x = torch.ones(2, device=device)
seen["factory"] = x.device.type
net = torch.nn.Linear(2, 2).cuda()
seen["is_cuda"] = net.weight.is_cuda
seen["count"] = C.device_count() > 0
with autocast(dtype=torch.bfloat16):
    seen["autocast"] = str(net(x).dtype)
with torch.autocast("cuda", dtype=torch.bfloat16):
    seen["autocast by name"] = str(net(x).dtype)
seen["generator"] = torch.Generator(device="cuda").device.type
seen["type"] = x.type("torch.cuda.DoubleTensor").device.type
torch.cuda.synchronize()
torch.cuda.nvtx.range_push("step")
torch.save({"x": torch.ones(1)}, sys.argv[1])
seen["load"] = torch.load(sys.argv[1], map_location="cuda")["x"].device.type
thread = threading.Thread(target=lambda: seen.update(thread=torch.ones(1).cuda().device.type))
thread.start(); thread.join()
torch.distributed.init_process_group("nccl", init_method="file://" + sys.argv[2], rank=0, world_size=1)
seen["group"] = torch.distributed.get_backend()
torch.distributed.destroy_process_group()
print(json.dumps(seen))
raise SystemExit(7)
"""


def run(script, *arguments, log=None, cwd=None):
    command = [sys.executable, "-W", "ignore", "-m", "torchport.cli", "run", *(["--log", log] if log else []), script]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=cwd, env=os.environ, check=False)


def test_everything_a_script_asks_of_cuda(tmp_path):
    script, log = tmp_path / "script.py", tmp_path / "log.json"
    script.write_text(SCRIPT)
    done = run(script, tmp_path / "x.pt", tmp_path / "rendezvous", log=log)
    assert done.returncode == 7, done.stderr
    seen = json.loads(done.stdout)
    assert seen["chosen"] in ("cuda", DEVICE)
    for what in ("factory", "generator", "type", "load", "thread"):
        assert seen[what] == DEVICE, what
    assert seen["is_cuda"] is True
    assert seen["count"] is True
    assert seen["autocast"] == seen["autocast by name"] == "torch.bfloat16"
    assert seen["group"] != "nccl"

    data = json.loads(log.read_text())
    assert (data["schema"], data["exit_status"], data["device"]) == ("torchport.run/1", 7, DEVICE)
    lines = SCRIPT.splitlines()
    owed = {(row["rule"], lines[row["line"] - 1].strip()) for row in data["redirections"]}
    assert {rule for rule, _ in owed} >= {
        "CU001",
        "CU002",
        "CU004",
        "CU005",
        "CU008",
        "CU016",
        "CU033",
        "CU079",
        "CU088",
    }
    assert ("CU016", "torch.cuda.synchronize()") in owed
    assert all(row["file"] == "script.py" for row in data["redirections"])
    assert all(row["rule"] for row in data["redirections"])
    assert "changes still owed" in done.stderr
    assert f"{len(data['redirections'])} redirections" in done.stderr


def test_a_library_hears_the_truth_about_cuda(tmp_path):
    library = tmp_path / "site-packages" / "library.py"
    library.parent.mkdir()
    library.write_text("import torch\ndef asks():\n    return torch.cuda.is_available()\n")
    script = tmp_path / "project" / "script.py"
    script.parent.mkdir()
    script.write_text(
        f"import sys\nsys.path.append({str(library.parent)!r})\nimport library, torch\n"
        "print(library.asks(), torch.cuda.is_available())\n"
    )
    assert run(script).stdout.split() == [str(torch.cuda.is_available()), "True"]


def test_a_failing_script_keeps_its_traceback_and_its_log(tmp_path):
    script, log = tmp_path / "script.py", tmp_path / "log.json"
    script.write_text("import torch\ntorch.ones(1).cuda()\nraise ValueError('mine')\n")
    done = run(script, log=log)
    assert done.returncode == 1
    assert "ValueError: mine" in done.stderr
    assert 'script.py", line 3' in done.stderr
    assert "redirect.py" not in done.stderr
    assert [row["rule"] for row in json.loads(log.read_text())["redirections"]] == ["CU001"]


def test_what_has_no_counterpart_raises(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import torch\ntorch.cuda.CUDAGraph()\n")
    assert run(script).returncode == 1


def test_torch_is_as_before_afterwards(tmp_path):
    from torchport.migrate.redirect import run_script

    before = {name: getattr(torch, name) for name in ("load", "compile", "autocast", "Generator", "set_default_device")}
    kind = type(torch.cuda)
    script = tmp_path / "script.py"
    script.write_text("import torch\ntorch.ones(1).cuda()\n")
    assert run_script(script, [], None) == 0
    assert {name: getattr(torch, name) for name in before} == before
    assert type(torch.cuda) is kind
    assert not torch.overrides._get_current_function_mode()


def test_demo_passes_its_own_tests_unmodified(tmp_path, monkeypatch):
    """A module, here pytest, with the service and its threads; the original sources, not a port."""
    monkeypatch.setenv("TICKETS_DEVICE", DEVICE)
    log = tmp_path / "log.json"
    command = [sys.executable, "-m", "torchport.cli", "run", "--log", log, "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=DEMO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout
    owed = {(row["file"], row["rule"]) for row in json.loads(log.read_text())["redirections"]}
    assert owed >= {("service.py", "CU016"), ("service.py", "CU033"), ("model.py", "CU001"), ("train.py", "CU017")}
    findings = migrate.verified(migrate.scan_tree(DEMO), log.read_text()).findings
    assert {f.rule for f in findings if f.verified_by} >= {"CU001", "CU016", "CU017", "CU018", "CU033", "CU044"}
    assert not any(f.verified_by for f in findings if f.path == "explore.ipynb")  # not run


def test_a_terminated_script_keeps_its_log(tmp_path):
    script, log = tmp_path / "script.py", tmp_path / "log.json"
    script.write_text(
        "import os, signal, time, torch\ntorch.ones(1).cuda()\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)\n"
    )
    assert run(script, log=log).returncode == 128 + signal.SIGTERM
    assert json.loads(log.read_text())["redirections"]


def test_bad_script(tmp_path):
    refused = CliRunner().invoke(app, ["run", str(tmp_path / "none.py")])
    assert refused.exit_code == 2
    assert "[run] must be a Python script that exists, got" in refused.output

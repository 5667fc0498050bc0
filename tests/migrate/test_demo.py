"""The demo application: scanned, ported, and its own tests on the CPU and on the device."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from torchport import migrate

DEMO = Path(__file__).parents[2] / "examples" / "cuda_service"
DEVICE = torch._C._get_privateuse1_backend_name()


@pytest.fixture(scope="module")
def ported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "service"
    shutil.copytree(DEMO, folder, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache", "*.pt"))
    result = migrate.port(folder, apply=True, device=DEVICE)
    assert len(result.changes) >= 20
    return folder


def test_scan_finds_something_in_every_kind_of_file():
    kinds = {Path(f.path).suffix or f.path for f in migrate.scan(DEMO)}
    assert kinds >= {".py", ".ipynb", ".yaml", ".txt", ".sh", "Dockerfile"}


def test_second_port_changes_nothing(ported):
    assert migrate.port(ported).diff == ""


def test_edits_of_the_optimised_deployment_fit_the_ported_application(ported):
    demo = runpy.run_path(str(DEMO.parent / "eval_demo.py"))
    demo["optimise"](ported.parent)
    optimised = ported.parent / "service-optimised"
    for name, old, new in demo["OPTIMISED"]:
        assert old in (ported / name).read_text()
        assert new in (optimised / name).read_text()
    compile((optimised / "service.py").read_text(), "service.py", "exec")


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_ported_application_passes_its_own_tests(ported, device):
    env = {**os.environ, "TICKETS_DEVICE": device}
    plugin = ["-p", "torchport"]  # registers the device where no entry point is installed
    if device == "cpu":
        env["TORCH_DEVICE_BACKEND_AUTOLOAD"], plugin = "0", []
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin], cwd=ported, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


def test_the_original_needs_cuda():
    env = {**os.environ, "TICKETS_DEVICE": "cuda"}
    command = [sys.executable, "-c", "import settings, train; train.train(settings.load(), None)"]
    done = subprocess.run(command, cwd=DEMO, env=env, capture_output=True, text=True, check=False)
    assert "Torch not compiled with CUDA enabled" in done.stderr

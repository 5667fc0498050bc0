"""The `torchport` command and `python -m torchport.explain`, in processes of their own."""

import json

import pytest
import torch

import target
from agree import python

pytestmark = pytest.mark.skipif(target.IS_CPU, reason="about the device's own tools")


def command(*arguments: str, **env: str):
    return python(f"import sys; sys.argv = ['torchport', *{arguments!r}]; from torchport.cli import app; app()", **env)


def test_explain_knows_every_code():
    done = command("explain", "TP0103")
    assert done.returncode == 0
    assert "index_out_of_range" in done.stdout
    assert "IndexError" in done.stdout
    assert command("explain", "103").stdout == done.stdout


def test_explain_says_which_codes_there_are():
    done = command("explain", "TP9999")
    assert done.returncode == 2
    assert "TP0101" in done.stderr


def test_ops_by_part_of_a_name():
    assert "core/ops/" in command("ops", "cumsum").stdout
    assert command("ops", "no_such_op").returncode == 2


def test_devices_names_the_one_in_use():
    done = command("devices")
    assert done.returncode == 0
    assert f"{target.DEVICE.type}:0" in done.stdout


def test_env_shows_what_the_user_set():
    lines = command("env", TORCHPORT_EAGER="debug").stdout.splitlines()
    assert any("TORCHPORT_EAGER" in line and "debug" in line and "strict" in line for line in lines)


def test_version():
    assert torch.__version__ in command("version").stdout


def test_a_missing_plugin_is_said():
    done = command("devices", TORCHPORT_PLATFORM="/no/such/plugin.so")
    assert done.returncode != 0
    assert "TP0300" in done.stderr


def test_a_call_is_explained_stage_by_stage():
    code = "import sys; from torchport.explain import main; sys.exit(main(['torch.cumsum(x, 1)']))"
    done = python(code)
    stages = [line for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    assert stages == ["aten", "trace", "graph", "ops", "hlo", "exec", "pjrt"]
    assert "stablehlo.add" in done.stdout


def test_report_at_exit(tmp_path):
    path = tmp_path / "report.json"
    code = f"import torch, torchport; torch.ones(3, device='{target.DEVICE.type}').sum().item()"
    assert python(code, TORCHPORT_REPORT=str(path)).returncode == 0
    assert json.loads(path.read_text())["launches"] >= 1
    done = python(code, TORCHPORT_REPORT=str(tmp_path / "missing" / "report.json"))
    assert done.returncode == 0
    assert "TORCHPORT_REPORT" in done.stderr


def test_commands_that_read_files_start_without_torch():
    code = (
        "import sys; from torchport.cli import app; app(['explain', 'TP0102'], standalone_mode=False); "
        "assert 'torch' not in sys.modules"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr

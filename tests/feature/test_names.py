"""The device's name is chosen at load; autoload can be turned off."""

import importlib.metadata
import sys

import pytest

from agree import python, python_ok

pytestmark = pytest.mark.port

INSTALLED = any(entry.name == "torchport" for entry in importlib.metadata.entry_points(group="torch.backends"))


@pytest.mark.parametrize("name", ["neuron", "tpu", "mychip"])
def test_chosen_name(name):
    code = f"""
import torch, torchport
x = torch.ones(3, device="{name}")
assert str(x.device) == "{name}:0", x.device
assert torch._C._get_privateuse1_backend_name() == "{name}"
module = torch.get_device_module("{name}")
assert module is torch.{name}
assert torch.{name}.is_available() and torch.{name}.device_count() == 4
assert (x.{name}(2) + 1).device.index == 2 and x.is_{name}
assert torch.accelerator.current_accelerator().type == "{name}"
torch.{name}.manual_seed(1)
torch.{name}.synchronize()
with torch.{name}.amp.autocast(dtype=torch.bfloat16):
    assert (x[None] @ x[:, None]).dtype == torch.bfloat16
net = torch.nn.Linear(3, 2).{name}()
net(x).sum().backward()
assert net.weight.grad.device.type == "{name}"
import io
file = io.BytesIO()
torch.save(net.state_dict(), file)
file.seek(0)
assert torch.load(file)["weight"].device.type == "{name}"
print(repr(x))
"""
    assert f"device='{name}:0'" in python_ok(code, TORCHPORT_DEVICE=name)


@pytest.mark.parametrize("name", ["cpu1", "cuda2", "Not A Name", "cuda"])
def test_names_that_would_break_torch_are_refused(name):
    done = python("import torch, torchport; torchport.activate()", TORCHPORT_DEVICE=name)
    assert done.returncode != 0
    assert "TORCHPORT_DEVICE" in done.stderr


def test_number_of_devices():
    code = "import torch, torchport; print(torch.accelerator.device_count())"
    assert python_ok(code, TORCHPORT_DEVICES="2").strip() == "2"


def test_autoload_can_be_turned_off():
    code = """
import torch
try:
    torch.ones(2, device="tpu")
except RuntimeError as error:
    print("no device")
assert "torchport" not in __import__("sys").modules
import torchport
assert torch.ones(2, device="tpu").sum().item() == 2
"""
    assert "no device" in python_ok(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


@pytest.mark.skipif(not INSTALLED, reason="autoload is an entry point, which only an installed package has")
def test_import_torch_alone_makes_the_device_available():
    assert python_ok("import torch; print(torch.ones(2, device='tpu').sum().item())").strip() == "2.0"


def test_import_opens_no_device():
    code = """
import torch, torchport
assert not torch.tpu.is_initialized()
torch.manual_seed(3)
torch.tpu.is_available()
assert not torch.tpu.is_initialized()
torch.ones(1, device="tpu")
assert torch.tpu.is_initialized()
"""
    python_ok(code)


def test_hugging_face_reads_the_name():
    code = "import os, torch, torchport; print(os.environ['ACCELERATE_TORCH_DEVICE'])"
    assert python_ok(code, TORCHPORT_DEVICE="neuron").strip() == "neuron"


def test_no_function_of_torch_is_replaced():
    code = """
import types, torch
def functions(module):
    return {k: id(v) for k, v in vars(module).items() if isinstance(v, (types.FunctionType, types.BuiltinFunctionType))}
F, S, U = torch.nn.functional, torch.serialization, torch.utils.data
places = [torch, torch.Tensor, F, torch.nn.Module, torch.autograd, S, U]
before = [functions(p) for p in places]
import torchport
torch.ones(2, device="tpu") + 1
for place, old in zip(places, before):
    new = functions(place)
    changed = [k for k, v in old.items() if new.get(k) != v]
    assert not changed, (place, changed)
"""
    python_ok(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_the_interpreter_is_the_one_under_test():
    assert python_ok("import sys; print(sys.executable)").strip() == sys.executable

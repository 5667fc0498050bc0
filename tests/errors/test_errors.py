"""Bad calls raise what CPU PyTorch raises, in a form that helps, and the process lives on."""

import re

import pytest
import torch

import target
from agree import data, python, python_ok
from errors.calls import CALLS

FORM = re.compile(r"^\[.+\] .+ \(TP\d{4}\)", re.DOTALL)


def alive(device: torch.device) -> None:
    """The device still computes."""
    assert (torch.ones(3, device=device) + 1).tolist() == [2, 2, 2]


def failure(call, device: torch.device) -> Exception:
    """What a call raises."""
    with pytest.raises(Exception) as caught:
        call(device)
    return caught.value


def pytorchs_own_words(got: Exception, want: Exception) -> bool:
    """Whether PyTorch's own check spoke, before any kernel of the device: the same first line as on the CPU."""
    first = [str(error).strip().partition("\n")[0] for error in (got, want)]
    name = target.DEVICE.type
    return first[0].replace(f"{name}:0", "cpu").replace(f"{name}FloatType", "torch.FloatTensor") == first[1]


@pytest.mark.parametrize("name", CALLS)
def test_bad_call(dev, name):
    want = failure(CALLS[name], torch.device("cpu"))
    got = failure(CALLS[name], dev)
    assert type(got) is type(want), f"CPU raises {type(want).__name__}: {want}\nthe device {type(got).__name__}: {got}"
    assert FORM.match(str(got)) or pytorchs_own_words(got, want), f"CPU says: {want}\nthe device says: {got}"
    alive(dev)


@pytest.mark.parametrize(
    "name", ["add_shapes", "mm_inner", "embedding_high", "inplace_cast", "mean_of_int", "view_numel"]
)
def test_bad_call_under_autograd_leaves_earlier_work_intact(dev, name):
    x = data(dev, 3, grad=True)
    y = (x * x).sum()
    failure(CALLS[name], dev)
    y.backward()
    assert torch.allclose(x.grad.cpu(), 2 * data("cpu", 3))


def test_a_failed_in_place_call_changes_nothing(dev):
    x = data(dev, 3)
    version = x._version
    for call in (lambda: x.add_(torch.ones(4, device=dev)), lambda: x.mul_(torch.ones(2, 3, device=dev))):
        with pytest.raises(RuntimeError):
            call()
    assert torch.equal(x.cpu(), data("cpu", 3))
    assert x._version == version
    out = torch.zeros(2, device=dev)
    with pytest.raises(RuntimeError):
        torch.mm(data(dev, 2, 3), data(dev, 2, 3), out=out)
    assert out.tolist() == [0, 0]


@pytest.mark.port
@pytest.mark.parametrize(
    "call",
    [
        lambda d: torch.ones(2, device=d) + torch.ones(2),
        lambda d: torch.ones(2) * torch.ones(2, device=d),
        lambda d: torch.mm(torch.ones(2, 2, device=d), torch.ones(2, 2)),
        lambda d: torch.cat([torch.ones(2, device=d), torch.ones(2)]),
        lambda d: torch.nn.Linear(2, 2)(torch.ones(2, device=d)),
        lambda d: torch.nn.Linear(2, 2).to(d)(torch.ones(2)),
        lambda d: torch.ones(3, device=d).index_select(0, torch.tensor([0])),
        lambda d: torch.ones(3, device=d).gather(0, torch.tensor([0])),
        lambda d: torch.nn.functional.embedding(torch.tensor([0]), torch.ones(3, 2, device=d)),
        lambda d: torch.add(torch.ones(2, device=d), 1, out=torch.ones(2)),
        lambda d: torch.where(torch.ones(2).bool(), torch.ones(2, device=d), torch.ones(2, device=d)),
    ],
)
def test_devices_do_not_mix(dev, call):
    error = failure(call, dev)
    assert type(error) is RuntimeError
    assert FORM.match(str(error)) or "same device" in str(error), error
    alive(dev)


@pytest.mark.port
@pytest.mark.parametrize("shape", [(1 << 50,), (1 << 30, 1 << 20), (3, 1 << 48)])
@pytest.mark.parametrize("make", [torch.empty, torch.zeros, torch.ones, torch.rand])
def test_out_of_memory(dev, shape, make):
    with pytest.raises(torch.OutOfMemoryError, match=r"^\[.+\] .+ \(TP0200\)"):
        make(shape, device=dev)
    alive(dev)


@pytest.mark.port
def test_out_of_memory_in_an_op_and_by_a_limit():
    code = f"""
import torch, torchport
x = torch.ones(1 << 20, device={target.NAME!r})
held = []
try:
    for _ in range(100):
        held.append(x + len(held))
except torch.OutOfMemoryError as error:
    print(error)
assert 2 <= len(held) < 16, len(held)
del held
assert (x + 1).sum().item() == 2 << 20
try:
    torch.ones(1 << 12, 1, device={target.NAME!r}) + torch.ones(1 << 12, device={target.NAME!r})
except torch.OutOfMemoryError as error:
    print(error)
assert (x + 1).sum().item() == 2 << 20
"""
    lines = python_ok(code, TORCHPORT_MEMORY_LIMIT=str(64 << 20)).splitlines()
    assert len([line for line in lines if "(TP0200)" in line]) == 2, lines


@pytest.mark.port
def test_overflowing_sizes(dev):
    for shape in ((1 << 62, 1 << 62), ((1 << 63) - 1, 2)):
        want = failure(lambda d, s=shape: torch.empty(s, device=d), torch.device("cpu"))
        got = failure(lambda d, s=shape: torch.empty(s, device=d), dev)
        assert isinstance(got, type(want)), f"CPU raises {want!r}, the device {got!r}"
    alive(dev)


USE = f"""
import torch, torchport
try:
    torch.ones(2, device={target.NAME!r}) + 1
except (RuntimeError, ValueError) as error:
    print(type(error).__name__, error)
else:
    raise SystemExit("no error")
print("alive", (torch.ones(2) + 1).tolist())
"""


@pytest.mark.port
@pytest.mark.parametrize(
    "platform, code",
    [("/no/such/plugin.so", "TP0300|TP0301"), ("nonsense", "TP0300|TP0340"), ("neuron", "TP0300"), ("tpu", "TP0300")],
)
def test_a_missing_plugin(platform, code):
    if platform == "tpu" and python("import libtpu").returncode == 0:
        pytest.skip("libtpu is installed here, and opening it without a chip is a test of its own")
    output = python_ok(USE, TORCHPORT_PLATFORM=platform)
    assert re.match(rf"\w+Error \[.+\] .+ \(({code})\)", output), output
    assert "alive [2.0, 2.0]" in output


@pytest.mark.port
@pytest.mark.parametrize("kind", ["text", "library", "directory", "empty"])
def test_a_plugin_that_is_not_one(kind, tmp_path):
    path = tmp_path / "plugin.so"
    if kind == "text":
        path.write_text("not a library")
    elif kind == "empty":
        path.touch()
    elif kind == "directory":
        path.mkdir()
    else:  # a library without GetPjrtApi
        import _ctypes

        path = _ctypes.__file__
    output = python_ok(USE, TORCHPORT_PLATFORM=str(path))
    assert re.match(r"RuntimeError \[.+\] .+ \(TP030[012]\)", output), output
    assert str(path) in output
    assert "alive [2.0, 2.0]" in output


@pytest.mark.port
@pytest.mark.parametrize(
    "variable, value",
    [("TORCHPORT_EAGER", "turbo"), ("TORCHPORT_DEVICES", "many"), ("TORCHPORT_MEMORY_LIMIT", "lots")],
)
def test_a_wrong_setting(variable, value):
    done = python(USE, **{variable: value})
    text = done.stdout + done.stderr
    assert "TP0340" in text, text
    assert variable in text
    assert value in text


@pytest.mark.port
def test_every_code_is_explained():
    import torchport

    table = torchport.error_table()
    codes = [row["code"] for row in table]
    assert len(set(codes)) == len(codes)
    assert all(row["cause"] and row["cure"] for row in table)


@pytest.mark.port
def test_sparse_and_quantised_tensors_are_refused_clearly(dev):
    x = torch.eye(3)
    for make in (lambda: x.to_sparse().to(dev), lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).to(dev)):
        with pytest.raises((NotImplementedError, RuntimeError)):
            make()
    alive(dev)

"""The device as PyTorch sees it: names, properties, current device, tensors moving to and fro."""

import pytest
import torch

import target
from agree import agree, data

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.complex128,
]


@pytest.mark.port
def test_accelerator_api(dev):
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device(dev.type)
    assert torch.accelerator.device_count() == 4
    before = torch.accelerator.current_device_index()
    torch.accelerator.set_device_index(1)
    try:
        assert torch.accelerator.current_device_index() == 1
        assert torch.ones(2, device=dev.type).device.index == 1
    finally:
        torch.accelerator.set_device_index(before)
    torch.accelerator.synchronize()


@pytest.mark.port
def test_device_module(port, dev):
    assert port.is_available()
    assert port.device_count() == 4
    assert port.current_device() == 0
    with port.device(2):
        assert port.current_device() == 2
        assert torch.zeros(1, device=dev.type).get_device() == 2
    assert port.current_device() == 0
    with port.device_of(torch.zeros(1, device=f"{dev.type}:3")):
        assert port.current_device() == 3
    assert port.current_device() == 0
    properties = port.get_device_properties(0)
    assert properties.total_memory > 0
    assert properties.name == port.get_device_name(0)
    port.synchronize()
    assert port.is_initialized()


@pytest.mark.port
def test_every_public_name_of_torch_cuda_has_an_answer(port):
    from torchport.device.names import REFUSED

    public = [name for name in torch.cuda.__all__ if not name.startswith("_")]
    missing = [name for name in public if name not in REFUSED and not hasattr(port, name)]
    assert missing == []
    assert [name for name in REFUSED if name in vars(port)] == []
    with pytest.raises(AttributeError, match="has no CUDAGraph: "):
        _ = port.CUDAGraph


@pytest.mark.port
def test_bad_device_index(dev, port):
    with pytest.raises(RuntimeError, match=r"^\[.+\] .+ \(TP0121\)"):
        torch.ones(1, device=f"{dev.type}:99")
    with pytest.raises(RuntimeError):
        port.set_device(99)
    assert port.current_device() == 0


@pytest.mark.port
def test_generated_methods(dev):
    x = torch.ones(2)
    moved = getattr(x, dev.type)()
    assert moved.device == torch.device(dev.type, 0)
    assert getattr(moved, f"is_{dev.type}")
    assert not getattr(x, f"is_{dev.type}")
    module = getattr(torch.nn.Linear(2, 2), dev.type)()
    assert module.weight.device.type == dev.type


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip(dev, dtype):
    x = data("cpu", 3, 5, dtype=dtype) if not dtype.is_complex else torch.randn(3, 5).to(dtype)
    for source in (x, x.T, x[:, 1:4:2], x[0, 0], x[:0]):
        there = source.to(dev)
        assert there.device.type == dev.type
        assert there.dtype == dtype
        assert there.stride() == source.stride() or source.numel() == 0 or not source.is_contiguous()
        assert torch.equal(there.cpu(), source)
        assert torch.equal(there.to("cpu", copy=True), source)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_conversion_on_the_way(dev, dtype):
    x = torch.tensor([0.0, 1.0, 2.0, -3.0])
    assert torch.equal(x.to(dev, dtype).cpu(), x.to(dtype)) or dtype is torch.uint8
    assert torch.equal(x.to(dev).to(dtype).cpu()[:3], x.to(dtype)[:3])


def test_copy_into_strided(dev):
    def program(d):
        base = torch.zeros(4, 6, device=d)
        base[:, ::2].copy_(torch.arange(12.0).view(4, 3))  # from the host
        host = torch.zeros(4, 6)
        host[:, 1::2].copy_(base[:, ::2])  # to the host
        base.T[1].copy_(torch.tensor(7.0, device=d))  # broadcast
        return base, host

    agree(program)


def test_non_blocking_copies(dev):
    x = torch.randn(1000)
    y = x.to(dev, non_blocking=True)
    x_again = (y * 2).to("cpu", non_blocking=True)
    if dev.type != "cpu":
        torch.accelerator.synchronize()
    assert torch.equal(x_again, x * 2)


def test_item_and_python_values(dev):
    assert torch.tensor(3.5, device=dev).item() == 3.5
    assert torch.tensor(True, device=dev).item() is True
    assert torch.tensor([[1, 2], [3, 4]], device=dev).tolist() == [[1, 2], [3, 4]]
    assert bool(torch.tensor([5], device=dev))
    assert int(torch.tensor(2**62, device=dev)) == 2**62
    assert [float(v) for v in torch.arange(3.0, device=dev)] == [0.0, 1.0, 2.0]
    assert [10, 20, 30][torch.tensor(1, device=dev)] == 20
    with pytest.raises(RuntimeError):
        torch.ones(2, device=dev).item()
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(torch.ones(2, device=dev))


def test_printing(dev):
    suffix = "" if dev.type == "cpu" else f", device='{dev.type}:0'"
    assert repr(torch.tensor([1.0, 2.5], device=dev)) == f"tensor([1.0000, 2.5000]{suffix})"
    assert repr(torch.arange(3, device=dev)) == f"tensor([0, 1, 2]{suffix})"
    assert repr(torch.tensor(True, device=dev)) == f"tensor(True{suffix})"
    assert f"{torch.tensor(2.5, device=dev):.2f}" == "2.50"
    assert "requires_grad=True" in repr(torch.ones(2, device=dev, requires_grad=True))
    assert "nan" in repr(torch.tensor([float("nan"), float("inf"), 1e30], device=dev))


def test_device_as_context(dev):
    with torch.device(dev):
        assert torch.ones(2).device.type == dev.type
        assert torch.nn.Linear(2, 2).weight.device.type == dev.type
    assert torch.ones(2).device.type == "cpu"


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.complex128])
def test_wide_types_are_not_narrowed(dev, dtype):
    value = {torch.int64: 2**53 + 1, torch.float64: 1 + 2**-50, torch.complex128: complex(1 + 2**-50, 2**-50)}[dtype]
    x = torch.full((4,), value, dtype=dtype, device=dev)
    assert (x + 0).cpu().tolist() == [value] * 4
    assert (x * 1).cpu()[0].item() == value


def test_like_factories_stay_on_the_device(dev):
    x = torch.ones(2, 3, device=dev)
    made = (torch.zeros_like(x), torch.rand_like(x), x.new_tensor([1.0]), x.new_full((2,), 3), torch.empty_like(x))
    assert all(t.device == x.device for t in made)


def test_host_scalar_tensors_mix(dev):
    def program(d):
        x = data(d, 3, 3)
        return (
            x * torch.tensor(2.0),
            torch.tensor(3) - x,
            torch.where(x > 0, x, torch.tensor(0.0)),
            x.clamp(torch.tensor(-1.0)),
        )

    agree(lambda d: program(d)[:3])
    if not target.IS_CPU:
        with pytest.raises(RuntimeError):
            data(target.DEVICE, 3) + torch.ones(3)

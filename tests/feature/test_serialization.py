"""Saving, loading, copying and exchanging tensors."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from agree import data


def saved(value: object, **options) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
@pytest.mark.parametrize("zipped", [True, False])
def test_save_and_load(dev, dtype, zipped):
    x = data("cpu", 3, 4, dtype=dtype) if not dtype.is_complex else torch.randn(3, 4).to(dtype)
    back = torch.load(saved(x.to(dev), _use_new_zipfile_serialization=zipped), weights_only=True)
    assert back.device == x.to(dev).device
    assert back.dtype == dtype
    assert torch.equal(back.cpu(), x)


@pytest.mark.parametrize("weights_only", [True, False])
def test_map_location_both_ways(dev, weights_only):
    x = data("cpu", 3, 4)
    options = {"weights_only": weights_only}
    assert torch.load(saved(x.to(dev)), map_location="cpu", **options).device.type == "cpu"
    there = torch.load(saved(x), map_location=dev, **options)
    assert there.device.type == dev.type
    assert torch.equal(there.cpu(), x)
    by_dict = torch.load(saved(x), map_location={"cpu": str(there.device)}, **options)
    assert by_dict.device == there.device
    by_function = torch.load(saved(x.to(dev)), map_location=lambda storage, place: storage, **options)
    assert torch.equal(by_function.cpu(), x)


@pytest.mark.port
def test_index_is_kept_and_can_be_mapped(dev):
    x = torch.arange(4.0, device=f"{dev.type}:2")
    assert torch.load(saved(x)).device.index == 2
    assert torch.load(saved(x), map_location=f"{dev.type}:1").device.index == 1
    assert torch.load(saved(x), map_location={f"{dev.type}:2": f"{dev.type}:3"}).device.index == 3
    with pytest.raises(RuntimeError):
        torch.load(saved(x), map_location=f"{dev.type}:77")


def test_shared_storage_stays_shared(dev):
    base = torch.arange(12.0, device=dev).view(3, 4)
    a, b = torch.load(saved([base[1], base.t()]))
    a.fill_(-1)
    assert b.cpu()[:, 1].tolist() == [-1] * 4
    assert b.stride() == (1, 4)


def test_mmap_and_file(dev, tmp_path):
    x = data(dev, 100)
    torch.save({"x": x, "n": 3}, tmp_path / "f.pt")
    loaded = torch.load(tmp_path / "f.pt", mmap=True, map_location="cpu")
    assert torch.equal(loaded["x"], x.cpu())
    with torch.serialization.skip_data():
        torch.save({"x": x}, tmp_path / "g.pt")


def test_module_and_optimizer_state(dev):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(dev)
    opt = torch.optim.AdamW(net.parameters())
    net(data(dev, 5, 3)).sum().backward()
    opt.step()
    state = torch.load(saved({"net": net.state_dict(), "opt": opt.state_dict()}), map_location="cpu", weights_only=True)
    twin = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(dev)
    twin.load_state_dict(state["net"])
    other = torch.optim.AdamW(twin.parameters())
    other.load_state_dict(state["opt"])
    for module, optimizer in ((net, opt), (twin, other)):
        optimizer.zero_grad()
        module(data(dev, 5, 3, seed=1)).pow(2).sum().backward()
        optimizer.step()
    for p, q in zip(net.state_dict().values(), twin.state_dict().values(), strict=True):
        assert torch.allclose(p.cpu(), q.cpu(), atol=1e-6)
    whole = torch.load(saved(net), weights_only=False)
    assert whole[0].weight.device == net[0].weight.device


def test_deepcopy(dev):
    x = torch.arange(6.0, device=dev)
    a, b = copy.deepcopy((x, x[2:4]))
    b.fill_(9)
    assert a.tolist() == [0, 1, 9, 9, 4, 5]
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    p = nn.Parameter(x.clone())
    q = copy.deepcopy(p)
    assert isinstance(q, nn.Parameter)
    assert q.device == p.device
    assert q.data_ptr() != p.data_ptr()
    net = nn.Linear(3, 3).to(dev)
    assert torch.equal(copy.deepcopy(net).weight, net.weight)
    g = torch.Generator(device=dev).manual_seed(5)
    assert torch.equal(
        torch.rand(4, device=dev, generator=g),
        torch.rand(4, device=dev, generator=torch.Generator(device=dev).manual_seed(5)),
    )


def test_pickle(dev):
    x = data(dev, 3, 4)
    back = pickle.loads(pickle.dumps(x.t()))
    assert back.device == x.device
    assert back.stride() == (1, 4)
    assert torch.equal(back.cpu(), x.t().cpu())
    p = pickle.loads(pickle.dumps(nn.Parameter(x)))
    assert isinstance(p, nn.Parameter)
    assert p.requires_grad
    y = data(dev, 2, grad=True)
    assert pickle.loads(pickle.dumps(y)).requires_grad


def test_numpy_needs_the_host(dev):
    x = data(dev, 3)
    if dev.type == "cpu":
        assert isinstance(x.numpy(), np.ndarray)
        return
    for call in (lambda: x.numpy(), lambda: np.asarray(x), lambda: np.add(x, 1)):
        with pytest.raises(
            TypeError, match=rf"can't convert {dev.type}:0 device type tensor to numpy. Use Tensor.cpu\(\)"
        ):
            call()
    assert np.allclose(x.numpy(force=True), x.cpu().numpy())
    assert np.allclose(np.asarray(x.cpu()), x.tolist())


def test_numpy_to_device(dev):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = torch.from_numpy(array).to(dev)
    array[:] = -1
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]] or dev.type == "cpu"
    assert torch.tensor(np.float64(2.5), device=dev).item() == 2.5
    assert torch.as_tensor([np.int64(3)], device=dev).tolist() == [3]


def test_dlpack_between_tensors_of_the_device(dev):
    # Tensor.__dlpack_device__ of PyTorch knows no renamed PrivateUse1 device, so the capsule is made by hand.
    x = data(dev, 3, 4)
    y = torch.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    assert y.device == x.device
    y.mul_(2)
    assert torch.equal(x.cpu(), y.cpu())
    # A capsule carries an address only: a view that begins inside its storage has none that says which storage it is.
    inside = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x[1:]))
    with pytest.raises(RuntimeError, match="from its beginning"):
        inside.cpu()
    assert torch.equal(x.cpu(), 2 * data("cpu", 3, 4))


@pytest.mark.port
def test_dlpack_to_numpy_is_refused_or_copied(dev):
    x = data(dev, 3)
    with pytest.raises((BufferError, TypeError, RuntimeError, ValueError)):
        np.from_dlpack(x)
    assert torch.equal(x + 0, x)


def test_buffers_and_lists(dev):
    assert torch.frombuffer(bytearray(8), dtype=torch.float32).to(dev).tolist() == [0, 0]
    assert torch.tensor([[1, 2], [3, 4]], device=dev).tolist() == [[1, 2], [3, 4]]
    x = data(dev, 2, 3)
    assert [row.tolist() for row in x] == x.tolist()

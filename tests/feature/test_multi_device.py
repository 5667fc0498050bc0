"""Several devices in one process: copies between them, and no mixing."""

import pytest
import torch
from torch import nn

from agree import data

pytestmark = pytest.mark.port


@pytest.fixture
def devices(dev) -> list[torch.device]:
    return [torch.device(dev.type, i) for i in range(4)]


def test_copies_between_devices(devices):
    x = data("cpu", 4, 6)
    for a in devices:
        there = x.to(a)
        for b in devices:
            moved = there.to(b)
            assert moved.device == b
            assert (moved is there) == (a == b)
            assert torch.equal(moved.cpu(), x)
    strided = x.to(devices[0]).t()[::2]
    assert torch.equal(strided.to(devices[3]).cpu(), x.t()[::2])


def test_copy_into_a_view_on_another_device(devices):
    base = torch.zeros(4, 6, device=devices[2])
    base[:, 1::2].copy_(data(devices[1], 4, 3))
    assert torch.equal(base.cpu()[:, 1::2], data("cpu", 4, 3))
    base[0].copy_(data(devices[0], 6, dtype=torch.int64))
    assert torch.equal(base.cpu()[0], data("cpu", 6, dtype=torch.int64).float())


def test_results_stay_where_the_inputs_are(devices):
    for device in devices:
        x = data(device, 3, 3)
        assert (x @ x).device == device
        assert torch.zeros_like(x).device == device
        assert x.sum().device == device
        assert x.nonzero().device == device
        assert torch.cat([x, x]).device == device


def test_devices_do_not_mix(devices):
    with pytest.raises(RuntimeError, match="TP0120|same device"):
        torch.ones(2, device=devices[0]) + torch.ones(2, device=devices[1])
    with pytest.raises(RuntimeError, match="TP0120|same device"):
        torch.ones(2, 2, device=devices[0]) @ torch.ones(2, 2, device=devices[1])
    with pytest.raises(RuntimeError, match="TP0120|same device"):
        torch.cat([torch.ones(2, device=devices[0]), torch.ones(2, device=devices[1])])
    assert (torch.ones(2, device=devices[1]) + 1).sum().item() == 4


def test_gradients_cross_devices(devices):
    w0, w1 = data(devices[0], 3, 3, grad=True), data(devices[1], 3, 3, seed=1, grad=True)
    ((data(devices[0], 2, 3) @ w0).relu().to(devices[1]) @ w1).pow(2).sum().backward()
    v0, v1 = data("cpu", 3, 3, grad=True), data("cpu", 3, 3, seed=1, grad=True)
    ((data("cpu", 2, 3) @ v0).relu() @ v1).pow(2).sum().backward()
    assert w0.grad.device == devices[0]
    assert w1.grad.device == devices[1]
    assert torch.allclose(w0.grad.cpu(), v0.grad, atol=1e-4)
    assert torch.allclose(w1.grad.cpu(), v1.grad, atol=1e-4)


def test_pipeline_of_modules(devices):
    torch.manual_seed(0)
    stages = [nn.Linear(4, 4).to(device) for device in devices]
    opt = torch.optim.AdamW([p for stage in stages for p in stage.parameters()], foreach=False)
    x = data(devices[0], 2, 4)
    for stage, device in zip(stages, devices, strict=True):
        x = stage(x.to(device)).tanh()
    x.sum().backward()
    opt.step()
    assert all(torch.isfinite(p).all() for stage in stages for p in stage.parameters())


def test_module_moves_between_devices(devices):
    net = nn.Linear(3, 3).to(devices[1])
    weight = net.weight.detach().cpu()
    assert net.to(devices[2]).weight.device == devices[2]
    assert torch.equal(net.weight.cpu(), weight)


def test_peer_access(devices, port):
    assert port.can_device_access_peer(0, 1)
    assert not port.can_device_access_peer(1, 1)


def test_synchronize_every_device(devices, port):
    results = [data(device, 50, 50) @ data(device, 50, 50) for device in devices]
    for device in devices:
        port.synchronize(device)
    assert all(torch.equal(r.cpu(), results[0].cpu()) for r in results)

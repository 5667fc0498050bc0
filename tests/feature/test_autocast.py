"""Mixed precision: autocast's casts, nesting, caching, and GradScaler."""

import pytest
import torch
from torch import nn

import target
from agree import agree, data

HALVES = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_matmul_family_runs_in_low_precision(dev, dtype):
    a, b = data(dev, 4, 4), data(dev, 4, 4, seed=1)
    expected = a.cpu() @ b.cpu()
    image, kernel = data(dev, 1, 2, 5, 5), data(dev, 3, 2, 3, 3, seed=1)
    with torch.autocast(dev.type, dtype=dtype):
        for result in (a @ b, torch.mm(a, b), nn.functional.linear(a, b.T), torch.bmm(a[None], b[None])):
            assert result.dtype == dtype
            assert torch.allclose(result.float().cpu().flatten(), expected.flatten(), atol=0.1)
        assert nn.functional.conv2d(image, kernel).dtype == dtype
        assert torch.addmm(a, a, b).dtype == dtype
        assert torch.einsum("ij,jk->ik", a, b).dtype == dtype


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_precise_ops_run_in_float32(dev, dtype):
    x = data(dev, 4, 4, dtype=dtype)
    with torch.autocast(dev.type, dtype=dtype):
        if not target.IS_CPU:  # the CPU's own list is shorter
            assert torch.softmax(x, -1).dtype == torch.float32
            assert torch.exp(x).dtype == torch.float32
            assert x.abs().log().dtype == torch.float32
            assert x.sum().dtype == torch.float32
            assert nn.functional.layer_norm(x, (4,)).dtype == torch.float32
        assert nn.functional.mse_loss(x, x).dtype == torch.float32
        assert torch.cat([x, x.float()]).dtype == torch.float32
        assert (x + x).dtype == dtype
        assert torch.relu(x).dtype == dtype


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_training_under_autocast_agrees(dev, dtype):
    def program(d):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(d)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            opt.zero_grad()
            with torch.autocast(d.type, dtype=dtype):
                loss = nn.functional.cross_entropy(net(data(d, 6, 8)), torch.arange(6, device=d) % 4)
            loss.backward()
            opt.step()
        assert all(p.dtype == torch.float32 and p.grad.dtype == torch.float32 for p in net.parameters())
        return loss, list(net.parameters())

    agree(program, tol=2e-2)


def test_nesting_and_disabling(dev):
    a = data(dev, 4, 4)
    assert not torch.is_autocast_enabled(dev.type)
    with torch.autocast(dev.type, dtype=torch.bfloat16):
        assert torch.is_autocast_enabled(dev.type)
        assert torch.get_autocast_dtype(dev.type) == torch.bfloat16
        with torch.autocast(dev.type, enabled=False):
            assert (a @ a).dtype == torch.float32
        with torch.autocast(dev.type, dtype=torch.float16):
            assert (a @ a).dtype == torch.float16
        assert (a @ a).dtype == torch.bfloat16
    assert (a @ a).dtype == torch.float32

    @torch.autocast(dev.type, dtype=torch.bfloat16)
    def decorated(x):
        return x @ x

    assert decorated(a).dtype == torch.bfloat16


def test_explicit_outputs_and_double_are_left_alone(dev):
    a = data(dev, 4, 4)
    with torch.autocast(dev.type, dtype=torch.bfloat16):
        out = torch.empty(4, 4, device=dev)
        torch.mm(a, a, out=out)
        assert out.dtype == torch.float32
        d = a.double()
        assert (d @ d).dtype == torch.float64
        assert (data(dev, 3, dtype=torch.int64) + 1).dtype == torch.int64


@pytest.mark.port
def test_unsupported_dtype_warns_and_disables(dev, port):
    assert set(HALVES) <= set(port.get_amp_supported_dtype())
    with pytest.warns(UserWarning), torch.autocast(dev.type, dtype=torch.float64):
        assert (data(dev, 2, 2) @ data(dev, 2, 2)).dtype == torch.float32


@pytest.mark.port
def test_module_amp(dev, port):
    with port.amp.autocast(dtype=torch.bfloat16):
        assert (data(dev, 2, 2) @ data(dev, 2, 2)).dtype == torch.bfloat16
    assert isinstance(port.amp.GradScaler(), torch.amp.GradScaler)


def test_custom_function_decorators(dev):
    class Square(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type=target.DEVICE.type, cast_inputs=torch.float32)
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.amp.custom_bwd(device_type=target.DEVICE.type)
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    x = data(dev, 3, dtype=torch.bfloat16, grad=True)
    with torch.autocast(dev.type, dtype=torch.bfloat16):
        y = Square.apply(x)
    assert y.dtype == torch.float32
    y.sum().backward()
    assert torch.allclose(x.grad.float().cpu(), 2 * x.detach().float().cpu())


def test_grad_scaler_steps_and_skips(dev):
    def program(d):
        torch.manual_seed(0)
        net = nn.Linear(4, 2).to(d)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(d.type, init_scale=1024.0, growth_interval=2)
        seen = []
        for step in range(5):
            opt.zero_grad()
            loss = net(data(d, 3, 4, seed=step)).pow(2).mean()
            if step == 2:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            seen.append((scaler.get_scale(), net.weight.detach().clone()))
        assert [scale for scale, _ in seen] == [1024, 2048, 1024, 1024, 2048]
        assert torch.equal(seen[1][1], seen[2][1]), "a step with infinite gradients is skipped"
        return seen, scaler.state_dict()["scale"]

    agree(program)


def test_weights_are_cast_once(dev):
    weight = data(dev, 4, 4, grad=True)
    with torch.autocast(dev.type, dtype=torch.bfloat16):
        x = data(dev, 4, 4)
        (x @ weight + x @ weight).float().sum().backward()
    assert weight.grad.dtype == torch.float32
    assert torch.allclose(weight.grad.cpu(), 2 * x.cpu().sum(0)[:, None].expand(4, 4), atol=0.1)

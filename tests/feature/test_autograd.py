"""Autograd on the device: hooks, double backward, checkpointing, custom functions, anomaly mode, accumulation."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from agree import agree, data


def mlp(device, seed: int = 0) -> nn.Sequential:
    """A small network with the same weights on every device."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).to(device)


def grads(module: nn.Module) -> list[torch.Tensor]:
    return [p.grad for p in module.parameters()]


def test_backward_and_accumulation(dev):
    def program(d):
        net, x = mlp(d), data(d, 5, 6, grad=True)
        for k in range(3):
            (net(x).pow(2).mean() * (k + 1)).backward()
        return x.grad, grads(net)

    agree(program)


def test_retain_graph_and_grad_of_grad(dev):
    def program(d):
        x = data(d, 4, grad=True)
        y = (x**3).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        (h,) = torch.autograd.grad((g * data(d, 4, seed=1)).sum(), x, create_graph=True)
        (t,) = torch.autograd.grad(h.sum(), x)
        y.backward(retain_graph=True)
        y.backward()
        return g, h, t, x.grad

    agree(program)


@pytest.mark.parametrize(
    "function",
    [
        torch.tanh,
        torch.sigmoid,
        nn.functional.gelu,
        nn.functional.silu,
        lambda x: torch.softmax(x, -1),
        torch.logsumexp,
    ],
)
def test_double_backward(dev, function):
    call = (lambda x: function(x, -1)) if function is torch.logsumexp else function

    def program(d):
        x, v = data(d, 3, 4, grad=True), data(d, 3, 4, seed=1)
        weight = v if call(x).shape == v.shape else v[:, 0]
        (g,) = torch.autograd.grad((call(x) * weight).sum(), x, create_graph=True)
        return g, torch.autograd.grad(g.pow(2).sum(), x)

    agree(program)


def test_gradcheck_in_double(dev):
    x = data(dev, 3, 4, dtype=torch.float64, grad=True)
    w = data(dev, 4, 2, dtype=torch.float64, seed=1, grad=True)
    assert torch.autograd.gradcheck(lambda a, b: torch.tanh(a @ b).cumsum(0), (x, w))
    assert torch.autograd.gradgradcheck(lambda a: torch.sin(a).prod(1), (x,))


def test_tensor_hooks(dev):
    def program(d):
        x, seen = data(d, 3, grad=True), []
        y = x * 2
        y.register_hook(lambda g: g * 10)
        handle = x.register_hook(lambda g: seen.append(g.clone()))
        x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
        y.sum().backward()
        handle.remove()
        (x * 3).sum().backward()
        return x.grad, seen

    agree(program)


def test_module_hooks(dev):
    def program(d):
        net, x, seen = mlp(d), data(d, 5, 6, grad=True), []
        net[0].register_forward_pre_hook(lambda m, args: (args[0] * 2,))
        net[1].register_forward_hook(lambda m, args, out: out + 1)
        net[3].register_full_backward_hook(lambda m, gi, go: seen.extend([gi[0], go[0]]))
        net[3].register_full_backward_pre_hook(lambda m, go: (go[0] * 3,))
        net(x).sum().backward()
        return seen, x.grad, grads(net)

    agree(program)


def test_saved_tensor_hooks_can_offload(dev):
    def program(d):
        x = data(d, 4, 4, grad=True)
        with torch.autograd.graph.save_on_cpu():
            y = (x.exp() @ x).tanh()
        y.sum().backward()
        return x.grad

    agree(program)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(dev, reentrant):
    def program(d):
        net, x = mlp(d), data(d, 5, 6, grad=True)
        checkpoint(net, x, use_reentrant=reentrant).pow(2).sum().backward()
        got = x.grad.clone(), [g.clone() for g in grads(net)]
        checkpoint_sequential(net, 2, x, use_reentrant=reentrant).sum().backward()
        return got, grads(net)

    agree(program)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_replays_dropout(dev, reentrant):
    torch.manual_seed(3)
    x = torch.ones(64, 64, device=dev, requires_grad=True)
    y = checkpoint(lambda t: nn.functional.dropout(t, 0.5) * t, x, use_reentrant=reentrant)
    y.sum().backward()
    # d(mask * t * t) = 2 * mask * t: the recomputed mask must be the one that made y.
    assert torch.equal(x.grad, 2 * y.detach())


def test_custom_function(dev):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x**2

    def program(d):
        x = data(d, 5, grad=True)
        y = Cube.apply(x)
        y.sum().backward(create_graph=True)
        return y, x.grad

    agree(program)


def test_mark_dirty_and_in_place_in_graph(dev):
    class AddOne(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.add_(1)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def program(d):
        leaf = data(d, 4, grad=True)
        x = leaf * 1
        y = AddOne.apply(x)
        z = y.mul_(3)
        z[1:3].exp_()
        z.sum().backward()
        return x, leaf.grad

    agree(program)


def test_in_place_on_saved_tensor_is_noticed(dev):
    x = data(dev, 4, grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x.add_(1)


def test_modes(dev):
    x = data(dev, 4, grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        y = x * 2
        assert y.is_inference()
        y.add_(1)
    assert torch.allclose(y.cpu(), x.detach().cpu() * 2 + 1)
    with torch.enable_grad():
        assert (x * 2).requires_grad
    assert not x.detach().requires_grad
    assert x.detach().data_ptr() == x.data_ptr()


def test_anomaly_mode_names_the_function(dev):
    x = torch.zeros(2, device=dev, requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=True), pytest.raises(RuntimeError, match="returned nan"):
        (torch.sqrt(x) * 0).sum().backward()


def test_jacobian_and_hessian(dev):
    def program(d):
        x = data(d, 3)
        f = lambda t: torch.stack([t.prod(), t.sin().sum(), (t * t).sum()])
        g = lambda t: (t**3).sum() + t.prod()
        return torch.autograd.functional.jacobian(f, x), torch.autograd.functional.hessian(g, x)

    agree(program)


def test_forward_mode(dev):
    def program(d):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(data(d, 3, 4), data(d, 3, 4, seed=1))
            return torch.autograd.forward_ad.unpack_dual((dual.sin() @ dual.T).sum(0)).tangent

    agree(program)


def test_grad_stays_on_its_device_across_copies(dev):
    def program(d):
        x = data("cpu", 4, grad=True)
        y = x.to(d)
        z = (y * y).cpu() * 2
        z.to(d).sum().backward()
        return x.grad

    agree(program)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "Adamax", "Adadelta"])
@pytest.mark.parametrize("foreach", [False, True])
def test_optimizers(dev, optimizer, foreach):
    def program(d):
        net, x = mlp(d), data(d, 5, 6)
        options = {"momentum": 0.9, "nesterov": True} if optimizer == "SGD" else {}
        opt = getattr(torch.optim, optimizer)(net.parameters(), lr=0.01, foreach=foreach, **options)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 4)
        for _ in range(4):
            opt.zero_grad()
            net(x).pow(2).mean().backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
            schedule.step()
        return list(net.parameters())

    agree(program)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
def test_fused_optimizers(dev, optimizer):
    def program(d):
        net, x = mlp(d), data(d, 5, 6)
        options = {"momentum": 0.9} if optimizer == "SGD" else {}
        opt = getattr(torch.optim, optimizer)(net.parameters(), lr=0.01, weight_decay=0.1, fused=True, **options)
        for _ in range(3):
            opt.zero_grad(set_to_none=False)
            net(x).pow(2).mean().backward()
            opt.step()
        return list(net.parameters())

    agree(program)

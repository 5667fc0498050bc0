"""torch.func: vmap, grad, jvp, vjp, jacobians, hessians, functional_call."""

import pytest
import torch
from torch import nn
from torch.func import (
    functional_call,
    functionalize,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

from agree import agree, data

VMAPPED = {
    "dot": (lambda x, y: (x * y).sum(), (0, 0)),
    "matmul": (lambda x, y: x @ y, (0, 0)),
    "broadcast": (lambda x, y: x + y.sum(), (0, None)),
    "softmax": (lambda x, y: torch.softmax(x, 0) * y, (0, 0)),
    "index": (lambda x, y: x[1] - y[0], (0, 0)),
    "where": (lambda x, y: torch.where(x > y, x, y), (0, 0)),
    "cumsum": (lambda x, y: x.cumsum(0).flip(0) + y, (0, 0)),
    "sort": (lambda x, y: torch.sort(x).values + y.max(), (0, 0)),
    "gather": (lambda x, y: x.gather(0, y.argsort()), (0, 0)),
    "norm": (lambda x, y: nn.functional.layer_norm(x, (5,)) + y, (0, 0)),
    "last_dim": (lambda x, y: x.sin() + y, (1, 1)),
}


@pytest.mark.parametrize("name", VMAPPED)
def test_vmap(dev, name):
    function, dims = VMAPPED[name]

    def program(d):
        shape = (5, 5)
        return vmap(function, in_dims=dims)(data(d, *shape), data(d, *shape, seed=1))

    agree(program)


def test_vmap_options(dev):
    def program(d):
        x = data(d, 6, 3)
        inner = vmap(vmap(lambda a, b: a * b, (0, None)), (None, 0))(x[0], x[:, 0])
        return inner, vmap(lambda a: (a, a.sum()), out_dims=(1, 0))(x), vmap(lambda a: a.exp(), chunk_size=2)(x)

    agree(program)


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_vmap_randomness(dev, randomness):
    torch.manual_seed(0)
    y = vmap(lambda x: torch.rand(4, device=dev) + 0 * x, randomness=randomness)(torch.zeros(3, device=dev)).cpu()
    assert torch.equal(y[0], y[1]) == (randomness == "same")
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda x: torch.rand(4, device=dev) + x)(torch.zeros(3, device=dev))


def test_per_sample_gradients(dev):
    def program(d):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).to(d)
        parameters = {k: v.detach() for k, v in net.named_parameters()}

        def loss(p, x, y):
            return nn.functional.cross_entropy(functional_call(net, p, (x[None],)), y[None])

        return vmap(grad(loss), in_dims=(None, 0, 0))(parameters, data(d, 5, 4), torch.arange(5, device=d) % 2)

    agree(program)


def test_ensembles(dev):
    def program(d):
        torch.manual_seed(0)
        nets = [nn.Linear(3, 2).to(d) for _ in range(4)]
        params, buffers = stack_module_state(nets)
        call = lambda p, b, x: functional_call(nets[0], (p, b), (x,))
        return vmap(call, (0, 0, None))(params, buffers, data(d, 5, 3))

    agree(program)


def test_jvp_vjp_and_linearize(dev):
    def program(d):
        f = lambda x, w: torch.tanh(x @ w).sum(0)
        x, w, dx, dw = data(d, 3, 4), data(d, 4, 2, seed=1), data(d, 3, 4, seed=2), data(d, 4, 2, seed=3)
        out, pull = vjp(f, x, w)
        _, push = linearize(lambda a: f(a, w), x)
        return jvp(f, (x, w), (dx, dw)), out, pull(torch.ones_like(out)), push(dx)

    agree(program)


def test_jacobians_and_hessian(dev):
    def program(d):
        x = data(d, 4)
        f = lambda t: torch.sin(t) * t.sum()
        return jacrev(f)(x), jacfwd(f)(x), hessian(lambda t: f(t).prod())(x), vmap(jacrev(f))(data(d, 3, 4))

    agree(program)


def test_grad_of_grad_and_aux(dev):
    def program(d):
        x = data(d, 3)
        f = lambda t: (t**3).sum()
        with_aux = grad(lambda t: (f(t), t * 2), has_aux=True)(x)
        return grad(lambda t: grad(f)(t).sum())(x), with_aux

    agree(program)


def test_functionalize(dev):
    def program(d):
        def f(x):
            y = x.clone()
            y[1:].add_(x[:-1])
            y.view(-1)[0] = 5
            return y

        return functionalize(f)(data(d, 4))

    agree(program)


def test_functional_call_swaps_buffers_and_tied_weights(dev):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3, bias=False)
            self.b = nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight
            self.register_buffer("scale", torch.ones(1))

        def forward(self, x):
            return self.b(self.a(x)) * self.scale

    def program(d):
        torch.manual_seed(0)
        net = Tied().to(d)
        replaced = {"a.weight": torch.eye(3, device=d) * 2, "scale": torch.full((1,), 3.0, device=d)}
        return functional_call(net, replaced, (data(d, 2, 3),)), net(data(d, 2, 3))

    agree(program)

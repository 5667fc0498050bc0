"""Random numbers: seeds, states, generators, distributions, dropout."""

import math

import pytest
import torch
from torch import nn

import target
from agree import python_ok

N = 40_000


def sample(device, **kwargs) -> torch.Tensor:
    return torch.rand(100, device=device, **kwargs).cpu()


def test_a_seed_gives_the_same_numbers(dev):
    torch.manual_seed(7)
    a, b = sample(dev), sample(dev)
    torch.manual_seed(7)
    assert torch.equal(a, sample(dev))
    assert torch.equal(b, sample(dev))
    assert not torch.equal(a, b)
    torch.manual_seed(8)
    assert not torch.equal(a, sample(dev))


@pytest.mark.port
def test_state(dev, port):
    torch.manual_seed(1)
    sample(dev)
    state = port.get_rng_state()
    assert state.dtype == torch.uint8
    assert state.device.type == "cpu"
    a = sample(dev)
    port.set_rng_state(state)
    assert torch.equal(a, sample(dev))
    assert torch.equal(a, sample(dev)) is False
    with pytest.raises((RuntimeError, TypeError)):
        port.set_rng_state(torch.zeros(3, dtype=torch.uint8))


@pytest.mark.port
def test_manual_seed_all_and_states_of_every_device(dev, port):
    port.manual_seed_all(5)
    assert port.initial_seed() == 5
    first = [sample(f"{dev.type}:{i}") for i in range(port.device_count())]
    assert all(torch.equal(first[0], other) for other in first)
    states = port.get_rng_state_all()
    assert len(states) == port.device_count()
    after = [sample(f"{dev.type}:{i}") for i in range(port.device_count())]
    port.set_rng_state_all(states)
    assert all(torch.equal(a, sample(f"{dev.type}:{i}")) for i, a in enumerate(after))
    torch.manual_seed(5)
    assert torch.equal(first[0], sample(dev))
    port.seed()
    assert not torch.equal(first[0], sample(dev))
    port.seed_all()
    assert len({port.default_generators[i].initial_seed() for i in range(port.device_count())}) == 1


@pytest.mark.port
def test_fork_rng(dev):
    torch.manual_seed(2)
    with torch.random.fork_rng(devices=[0], device_type=dev.type):
        torch.manual_seed(99)
        inside = sample(dev)
    after = sample(dev)
    torch.manual_seed(2)
    assert torch.equal(after, sample(dev))
    assert not torch.equal(after, inside)


def test_generator_objects(dev):
    torch.manual_seed(0)
    before = sample(dev)
    g = torch.Generator(device=dev)
    assert g.device.type == dev.type
    g.manual_seed(3)
    assert g.initial_seed() == 3
    state = g.get_state()
    a = sample(dev, generator=g)
    g.set_state(state)
    assert torch.equal(a, sample(dev, generator=g))
    twin = torch.Generator(device=dev).manual_seed(3)
    assert torch.equal(a, sample(dev, generator=twin))
    copied = g.clone_state()
    assert torch.equal(sample(dev, generator=g), sample(dev, generator=copied))
    torch.manual_seed(0)
    assert torch.equal(before, sample(dev)), "a generator object must leave the default one alone"
    assert g.seed() == g.initial_seed()


@pytest.mark.port
def test_generator_of_another_device_is_refused(dev):
    with pytest.raises(RuntimeError, match=r"[Ee]xpected a"):
        torch.rand(2, device=dev, generator=torch.Generator("cpu"))


def within(value: torch.Tensor, expected: float, sigma: float) -> None:
    """A mean of N draws lies within five standard errors."""
    assert abs(value.double().mean().item() - expected) < 5 * sigma / math.sqrt(N)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_uniform_and_normal(dev, dtype):
    torch.manual_seed(0)
    u = torch.rand(N, device=dev, dtype=dtype).cpu()
    assert u.min() >= 0
    assert u.max() < 1 or dtype in (torch.bfloat16, torch.float16)
    assert u.max() <= 1
    within(u, 0.5, 0.3 + (0.2 if dtype is torch.bfloat16 else 0))
    z = torch.randn(N, device=dev, dtype=dtype).cpu()
    within(z, 0, 1)
    within(z.double() ** 2, 1, 1.5)
    within(z.double() ** 4, 3, 10)
    assert abs(torch.corrcoef(torch.stack([z[:-1], z[1:]]).double())[0, 1]) < 0.03


MOMENTS = {
    "uniform": (lambda x: x.uniform_(-2, 4), 1.0, 1.8),
    "normal": (lambda x: x.normal_(3, 2), 3.0, 2.0),
    "exponential": (lambda x: x.exponential_(2.0), 0.5, 0.5),
    "bernoulli": (lambda x: x.bernoulli_(0.3), 0.3, 0.46),
    "geometric": (lambda x: x.geometric_(0.25), 4.0, 3.5),
    "log_normal": (lambda x: x.log_normal_(0, 0.5), math.exp(0.125), 0.61),
    "random": (lambda x: x.random_(0, 10), 4.5, 2.9),
    "bernoulli_tensor": (lambda x: torch.bernoulli(torch.full_like(x, 0.7)), 0.7, 0.46),
    "randint": (lambda x: torch.randint(-5, 6, x.shape, device=x.device), 0.0, 3.2),
    "poisson": (lambda x: torch.poisson(torch.full_like(x, 2.0)), 2.0, 1.5),
    "normal_tensors": (lambda x: torch.normal(torch.ones_like(x), torch.ones_like(x)), 1.0, 1.0),
    "rand_like": (torch.rand_like, 0.5, 0.3),
    "randn_like": (torch.randn_like, 0.0, 1.0),
    "cauchy_bounded": (lambda x: x.cauchy_().atan(), 0.0, 0.91),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments(dev, name):
    torch.manual_seed(0)
    draw, mean, sigma = MOMENTS[name]
    drawn = draw(torch.empty(N, device=dev)).cpu()
    within(drawn, mean, sigma)
    assert drawn.double().std().item() == pytest.approx(sigma, rel=0.1)


def test_multinomial(dev):
    torch.manual_seed(0)
    weights = torch.tensor([1.0, 0.0, 3.0, 6.0], device=dev)
    drawn = torch.multinomial(weights, N, replacement=True).cpu()
    share = torch.bincount(drawn, minlength=4) / N
    assert torch.allclose(share, torch.tensor([0.1, 0, 0.3, 0.6]), atol=0.015)
    picked = torch.multinomial(weights.expand(50, 4), 3, replacement=False).cpu()
    assert all(sorted(row) == [0, 2, 3] for row in picked.tolist())


def test_randperm(dev):
    torch.manual_seed(0)
    p = torch.randperm(1000, device=dev).cpu()
    assert torch.equal(p.sort().values, torch.arange(1000))
    assert not torch.equal(p, torch.arange(1000))
    firsts = torch.stack([torch.randperm(4, device=dev)[0] for _ in range(400)]).cpu()
    assert torch.bincount(firsts, minlength=4).min() > 60


def test_torch_distributions(dev):
    torch.manual_seed(0)
    d = torch.distributions
    one = torch.ones((), device=dev)
    within(d.Normal(one, one).sample((N,)).cpu(), 1, 1)
    within(d.Categorical(probs=torch.tensor([0.5, 0.5], device=dev)).sample((N,)).float().cpu(), 0.5, 0.5)
    within(d.Gamma(one * 2, one).sample((N,)).cpu(), 2, 1.5)
    within(d.Beta(one * 2, one * 2).sample((N,)).cpu(), 0.5, 0.3)
    within(d.Laplace(one, one).rsample((N,)).cpu(), 1, 1.5)
    within(d.Binomial(10, one * 0.5).sample((2000,)).repeat(20).cpu(), 5, 9)


@pytest.mark.parametrize("p", [0.0, 0.25, 0.9, 1.0])
def test_dropout(dev, p):
    torch.manual_seed(0)
    x = torch.ones(200, 200, device=dev, requires_grad=True)
    y = nn.functional.dropout(x, p)
    y.sum().backward()
    kept = (y != 0).cpu()
    within(kept.flatten().float(), 1 - p, max(math.sqrt(p * (1 - p)), 1e-9) + 1e-6)
    assert torch.equal(x.grad, y.detach()), "the gradient passes where the value passed"
    if p < 1:
        assert torch.allclose(y.detach().cpu()[kept], torch.tensor(1 / (1 - p)))
    assert torch.equal(nn.functional.dropout(x, p, training=False), x)


def test_dropout_differs_from_call_to_call_and_repeats_with_the_seed(dev):
    x = torch.ones(1000, device=dev)
    torch.manual_seed(4)
    a, b = nn.functional.dropout(x), nn.functional.dropout(x)
    torch.manual_seed(4)
    assert torch.equal(a, nn.functional.dropout(x))
    assert not torch.equal(a, b)


@pytest.mark.parametrize("layer", [nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_dropout_layers(dev, layer):
    torch.manual_seed(0)
    x = torch.randn(64, 32, 8) if layer is nn.Dropout1d else torch.randn(64, 32, 4, 4)
    y = layer(0.5)(x.to(dev)).cpu()
    assert y.shape == x.shape
    assert not torch.equal(y, x)
    if layer in (nn.Dropout1d, nn.Dropout2d):
        zero = (y == 0).flatten(2)
        assert torch.equal(zero.all(-1), zero.any(-1)), "whole channels drop"
        assert 0.4 < zero.all(-1).float().mean() < 0.6


def test_initialisers(dev):
    torch.manual_seed(0)
    w = torch.empty(256, 256, device=dev)
    assert nn.init.xavier_uniform_(w).std().item() == pytest.approx(math.sqrt(2 / 512), rel=0.05)
    assert nn.init.kaiming_normal_(w).std().item() == pytest.approx(math.sqrt(2 / 256), rel=0.05)
    assert nn.init.trunc_normal_(w, std=1.0, a=-1, b=1).abs().max().item() <= 1
    q = nn.init.orthogonal_(torch.empty(16, 16, device=dev)).cpu()
    assert torch.allclose(q @ q.T, torch.eye(16), atol=1e-4)


def test_numbers_do_not_depend_on_the_process(dev):
    code = f"import torch\nif {target.NAME!r} != 'cpu': import torchport\ntorch.manual_seed(11)\n"
    code += f"print(torch.rand(3, device={target.NAME!r}).tolist(), torch.randn(3, device={target.NAME!r}).tolist())"
    assert python_ok(code) == python_ok(code)

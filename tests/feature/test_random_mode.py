"""torchport.random_mode("cpu"): after one seed the device gives the numbers of torch's CPU generator, bit for bit."""

import pytest
import torch
from torch.nn import functional as F

import target
import torchport

probabilities = torch.linspace(0.05, 0.95, 20)
DRAWS = {
    "rand": lambda d: torch.rand(5, 7, device=d),
    "rand bf16": lambda d: torch.rand(33, device=d, dtype=torch.bfloat16),
    "randn": lambda d: torch.randn(5, 7, device=d),
    "randn few": lambda d: torch.randn(3, device=d),
    "randn f64": lambda d: torch.randn(19, device=d, dtype=torch.float64),
    "randint": lambda d: torch.randint(-5, 1000, (50,), device=d),
    "randperm": lambda d: torch.randperm(97, device=d),
    "rand_like": lambda d: torch.rand_like(torch.ones(4, 4, device=d)),
    "bernoulli": lambda d: torch.bernoulli(probabilities.to(d)),
    "bernoulli_": lambda d: torch.empty(100, device=d).bernoulli_(0.3),
    "normal_": lambda d: torch.empty(40, device=d).normal_(2, 3),
    "normal_ of a view": lambda d: torch.zeros(6, 8, device=d)[::2, 1:5].normal_(),
    "uniform_": lambda d: torch.empty(40, device=d).uniform_(-1, 4),
    "exponential_": lambda d: torch.empty(40, device=d).exponential_(2.0),
    "multinomial": lambda d: torch.multinomial(probabilities.to(d), 6),
    "multinomial again": lambda d: torch.multinomial(probabilities.to(d), 40, replacement=True),
    "dropout": lambda d: F.dropout(torch.ones(10, 10, device=d), 0.4),
    "feature dropout": lambda d: F.dropout2d(torch.ones(4, 6, 2, 2, device=d), 0.4),
    "attention dropout": lambda d: F.scaled_dot_product_attention(
        *[torch.ones(1, 2, 6, 4, device=d)] * 3, dropout_p=0.4
    ),
    "poisson": lambda d: torch.poisson(torch.full((30,), 4.0, device=d)),
    "layer": lambda d: torch.nn.Linear(4, 4, device=d).weight.detach(),
}


def draw(device: str, names: list[str]) -> list[torch.Tensor]:
    torch.manual_seed(11)
    return [DRAWS[name](device).cpu() for name in names]


@pytest.mark.parametrize("name", DRAWS)
def test_one_draw(name):
    with torchport.random_mode("cpu"):
        (got,) = draw(target.DEVICE, [name])
    (want,) = draw("cpu", [name])
    assert torch.equal(got, want)


def test_a_sequence_of_draws_and_no_fallback():
    target.reset_fallbacks()
    with torchport.random_mode("cpu"):
        got = draw(target.DEVICE, list(DRAWS))
    for name, a, b in zip(DRAWS, got, draw("cpu", list(DRAWS)), strict=True):
        assert torch.equal(a, b), name
    assert not target.fallbacks()


def test_the_generator_of_the_cpu_stays_where_it_was():
    torch.manual_seed(3)
    want = torch.rand(4)
    with torchport.random_mode("cpu"):
        torch.manual_seed(3)
        torch.rand(4, device=target.DEVICE)
        assert torch.equal(torch.rand(4), want)


def test_generators_and_states():
    with torchport.random_mode("cpu"):
        mine, theirs = torch.Generator(target.DEVICE).manual_seed(5), torch.Generator().manual_seed(5)
        rand = lambda g: torch.rand(3, generator=g, device=g.device).cpu()
        assert torch.equal(rand(mine), rand(theirs))
        state = mine.get_state()
        assert torch.equal(state, theirs.get_state())
        first = rand(mine)
        mine.set_state(state)
        assert torch.equal(rand(mine), first)
        module = torch.get_device_module(target.DEVICE)
        with torch.random.fork_rng(devices=[0], device_type=target.DEVICE):
            inside = torch.rand(3, device=target.DEVICE)
        assert torch.equal(torch.rand(3, device=target.DEVICE), inside)
        assert module.get_rng_state().numel() == torch.get_rng_state().numel()


def test_a_compiled_function_draws_the_same():
    with torchport.random_mode("cpu"):
        torch.manual_seed(2)
        compiled = torch.compile(lambda x: F.dropout(x * 2, 0.5) + torch.rand_like(x), backend="torchport")
        got = compiled(torch.ones(8, 8, device=target.DEVICE)).cpu()
    torch.manual_seed(2)
    mask = torch.empty(8, 8).bernoulli_(0.5)
    assert torch.equal(got, 2 * mask / 0.5 + torch.rand(8, 8))


def test_a_graph_of_the_other_mode_is_refused():
    compiled = torch.compile(lambda x: torch.rand_like(x), backend="torchport")
    x = torch.ones(3, device=target.DEVICE)
    compiled(x)
    with torchport.random_mode("cpu"), pytest.raises(ValueError, match="random_mode"):
        compiled(x)


def test_mode_is_put_back_and_checked():
    assert torchport.random_mode() == "device"
    with torchport.random_mode("cpu"):
        assert torchport.random_mode() == "cpu"
    assert torchport.random_mode() == "device"
    with pytest.raises((RuntimeError, ValueError), match="must be 'device' or 'cpu', got 'gpu'"):
        torchport.random_mode("gpu")

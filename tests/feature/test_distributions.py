"""Every sampler draws from the distribution that it names: Kolmogorov-Smirnov and chi-square tests at fixed seeds.

A wrong sampler gives p-values of 0 to machine precision; a right one falls below LEAST once in 10,000 draws, and the
seeds are fixed, so a test that passes always passes.
"""

import json
import math
from collections.abc import Callable

import pytest
import torch
from scipy import stats

import target
from agree import python_ok

N = 20_000
LEAST = 1e-4
LOW = (torch.bfloat16, torch.float16)


def full(device: torch.device, value: float, dtype: torch.dtype = torch.float32, n: int = N) -> torch.Tensor:
    return torch.full((n,), value, device=device, dtype=dtype)


def empty(device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(N, device=device, dtype=dtype)


def filled(name: str, *args: float, dtype: torch.dtype = torch.float32) -> Callable:
    """An in-place sampler on a tensor of N."""
    return lambda device: getattr(empty(device, dtype), name)(*args)


def beta(device: torch.device) -> torch.Tensor:
    return torch.distributions.Beta(full(device, 2.0), full(device, 0.7)).sample()


def dirichlet(device: torch.device) -> torch.Tensor:
    """The first of three parts, whose marginal is Beta(a, b + c)."""
    return torch._sample_dirichlet(torch.tensor([0.8, 1.5, 2.0], device=device).expand(N, 3).contiguous())[:, 0]


CONTINUOUS: dict[str, tuple[Callable, Callable]] = {
    "rand": (lambda d: torch.rand(N, device=d), stats.uniform.cdf),
    "rand_like": (lambda d: torch.rand_like(empty(d, torch.float64)), stats.uniform.cdf),
    "uniform_": (filled("uniform_", -2, 3), stats.uniform(-2, 5).cdf),
    "uniform_.double": (filled("uniform_", -2, 3, dtype=torch.float64), stats.uniform(-2, 5).cdf),
    "randn": (lambda d: torch.randn(N, device=d), stats.norm.cdf),
    "randn.double": (lambda d: torch.randn(N, device=d, dtype=torch.float64), stats.norm.cdf),
    "normal_": (filled("normal_", 1.5, 2), stats.norm(1.5, 2).cdf),
    "normal.tensors": (lambda d: torch.normal(full(d, -1), full(d, 0.5)), stats.norm(-1, 0.5).cdf),
    "trunc_normal_": (
        lambda d: torch.nn.init.trunc_normal_(empty(d), 0, 1, -1, 2),
        stats.truncnorm(-1, 2).cdf,
    ),
    "exponential_": (filled("exponential_", 2.5), stats.expon(scale=1 / 2.5).cdf),
    "cauchy_": (filled("cauchy_", 1, 2), stats.cauchy(1, 2).cdf),
    "log_normal_": (filled("log_normal_", 0.5, 0.75), stats.lognorm(0.75, scale=math.exp(0.5)).cdf),
    "gamma.small": (lambda d: torch._standard_gamma(full(d, 0.3)), stats.gamma(0.3).cdf),
    "gamma.large": (lambda d: torch._standard_gamma(full(d, 7.5)), stats.gamma(7.5).cdf),
    "gamma.double": (lambda d: torch._standard_gamma(full(d, 2.0, torch.float64)), stats.gamma(2.0).cdf),
    "dirichlet": (dirichlet, stats.beta(0.8, 3.5).cdf),
    "beta": (beta, stats.beta(2.0, 0.7).cdf),
    "gumbel": (lambda d: torch.distributions.Gumbel(full(d, 1.0), full(d, 2.0)).sample(), stats.gumbel_r(1, 2).cdf),
    "student_t": (lambda d: torch.distributions.StudentT(full(d, 4.0)).sample(), stats.t(4).cdf),
}

DISCRETE: dict[str, tuple[Callable, Callable]] = {
    "bernoulli": (lambda d: torch.bernoulli(full(d, 0.3)), stats.bernoulli(0.3).pmf),
    "bernoulli_.float": (filled("bernoulli_", 0.8), stats.bernoulli(0.8).pmf),
    "bernoulli_.tensor": (lambda d: empty(d).bernoulli_(full(d, 0.05)), stats.bernoulli(0.05).pmf),
    "bernoulli.bool": (lambda d: empty(d, torch.bool).bernoulli_(0.5), stats.bernoulli(0.5).pmf),
    "geometric_": (filled("geometric_", 0.25), stats.geom(0.25).pmf),
    "geometric_.int64": (filled("geometric_", 0.6, dtype=torch.int64), stats.geom(0.6).pmf),
    "poisson.small": (lambda d: torch.poisson(full(d, 0.7)), stats.poisson(0.7).pmf),
    "poisson.large": (lambda d: torch.poisson(full(d, 30.0)), stats.poisson(30).pmf),
    "binomial.small": (lambda d: torch.binomial(full(d, 6.0), full(d, 0.4)), stats.binom(6, 0.4).pmf),
    "binomial.large": (lambda d: torch.binomial(full(d, 200.0), full(d, 0.35)), stats.binom(200, 0.35).pmf),
    "randint": (lambda d: torch.randint(-3, 9, (N,), device=d), stats.randint(-3, 9).pmf),
    "randint_like": (lambda d: torch.randint_like(empty(d, torch.int32), 5), stats.randint(0, 5).pmf),
    "random_": (filled("random_", 2, 12, dtype=torch.int64), stats.randint(2, 12).pmf),
    "multinomial": (
        lambda d: torch.multinomial(torch.tensor([1.0, 4, 2, 3], device=d), N, replacement=True),
        lambda k: stats.rv_discrete(values=([0, 1, 2, 3], [0.1, 0.4, 0.2, 0.3])).pmf(k),
    ),
    "multinomial.first_of_two": (
        lambda d: torch.multinomial(torch.tensor([1.0, 4, 2, 3], device=d).expand(N, 4), 2)[:, 0],
        lambda k: stats.rv_discrete(values=([0, 1, 2, 3], [0.1, 0.4, 0.2, 0.3])).pmf(k),
    ),
    "randperm": (
        lambda d: torch.stack([torch.randperm(6, device=d) for _ in range(200)])[:, 2],
        stats.randint(0, 6).pmf,
    ),
    "dropout": (lambda d: torch.nn.functional.dropout(full(d, 3.0), 0.25) / 4, stats.bernoulli(0.75).pmf),
    "rrelu": (
        lambda d: (torch.nn.functional.rrelu(full(d, -8.0), 0.0, 1.0, True) < -4).int(),
        stats.bernoulli(0.5).pmf,
    ),
}


def p_value(values: list[float], mass: Callable) -> float:
    """Chi-square test of counts; values expected fewer than five times are counted together."""
    last = int(max(values))
    expected = {k: len(values) * float(mass(k)) for k in range(int(min(values)), last + 1)}
    often = [k for k, count in expected.items() if count >= 5]
    counts = [values.count(k) for k in often]
    wanted = [expected[k] for k in often]
    rest = len(values) - sum(wanted)
    if rest >= 5:
        counts, wanted = [*counts, len(values) - sum(counts)], [*wanted, rest]
    scale = sum(counts) / sum(wanted)
    return stats.chisquare(counts, [count * scale for count in wanted]).pvalue


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name: str, dev: torch.device):
    sampler, cdf = CONTINUOUS[name]
    torch.manual_seed(11)
    values = sampler(dev).cpu().double()
    assert values.isfinite().all()
    assert stats.kstest(values.numpy(), cdf).pvalue > LEAST


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name: str, dev: torch.device):
    sampler, mass = DISCRETE[name]
    torch.manual_seed(12)
    values = sampler(dev).cpu().double()
    assert torch.equal(values, values.round())
    assert p_value(values.tolist(), mass) > LEAST


@pytest.mark.parametrize("dtype", LOW, ids=str)
@pytest.mark.parametrize("name", ["uniform_", "normal_"])
def test_low_precision_draws_are_rounded_ones(name: str, dtype: torch.dtype, dev: torch.device):
    """Mean and variance within five standard errors: a rounded distribution is no longer continuous."""
    torch.manual_seed(13)
    values = getattr(empty(dev, dtype), name)().cpu().double()
    mean, variance, fourth = (0.5, 1 / 12, 1 / 80) if name == "uniform_" else (0.0, 1.0, 3.0)
    assert abs(values.mean() - mean) < 5 * math.sqrt(variance / N) + torch.finfo(dtype).eps
    assert abs(values.var() - variance) < 5 * math.sqrt((fourth - variance**2) / N) + torch.finfo(dtype).eps
    assert name != "uniform_" or (values.min() >= 0 and values.max() < 1 + torch.finfo(dtype).eps)


def test_pairs_are_independent(dev: torch.device):
    torch.manual_seed(14)
    x, y = torch.rand(2, N, device=dev).cpu()
    cells = ((x * 8).long() * 8 + (y * 8).long()).tolist()
    assert p_value(cells, stats.randint(0, 64).pmf) > LEAST
    assert p_value(((x[1:] * 8).long() * 8 + (x[:-1] * 8).long()).tolist(), stats.randint(0, 64).pmf) > LEAST


def test_dropout_scales_what_it_keeps(dev: torch.device):
    torch.manual_seed(15)
    x = torch.ones(N, device=dev, requires_grad=True)
    kept = torch.nn.functional.dropout(x, 0.2)
    kept.sum().backward()
    assert set(kept.unique().tolist()) <= {0.0, 1.25}
    assert torch.equal(x.grad, kept.detach()), "the gradient uses the same mask"


def test_multinomial_without_replacement_draws_each_once(dev: torch.device):
    torch.manual_seed(16)
    drawn = torch.multinomial(torch.tensor([0.0, 4, 2, 3], device=dev).expand(500, 4), 3).cpu()
    assert drawn.sort(1).values.tolist() == [[1, 2, 3]] * 500


def test_randperm_is_a_permutation(dev: torch.device):
    torch.manual_seed(17)
    assert torch.randperm(1000, device=dev).sort().values.tolist() == list(range(1000))


SEEDED = """
import json, torch
def draw(device):
    torch.manual_seed(21)
    a = torch.rand(5, device=device)
    found = [a, torch.randn(5, device=device), torch.bernoulli(a), torch.randperm(7, device=device),
             torch.randint(0, 99, (5,), device=device), torch.empty(5, device=device).exponential_(),
             torch._standard_gamma(a + 1), torch.poisson(a * 9), torch.multinomial(a, 3),
             torch.nn.functional.dropout(torch.ones(20, device=device))]
    return [t.cpu().tolist() for t in found]
"""


@pytest.mark.port
def test_a_seed_gives_the_same_in_every_mode_process_and_device():
    scope: dict = {}
    exec(SEEDED, scope)  # noqa: S102
    here = scope["draw"](target.DEVICE)
    assert scope["draw"](target.DEVICE) == here
    assert scope["draw"](torch.device(target.DEVICE.type, 1)) == here
    there = python_ok(f"{SEEDED}\nprint(json.dumps(draw('{target.DEVICE}')))", TORCHPORT_EAGER="debug")
    assert json.loads(there) == here


def test_the_tests_see_a_wrong_sampler():
    torch.manual_seed(18)
    x = torch.rand(N).double()
    assert stats.kstest((x * 1.03).numpy(), stats.uniform.cdf).pvalue < LEAST
    assert p_value((x < 0.52).double().tolist(), stats.bernoulli(0.5).pmf) < LEAST

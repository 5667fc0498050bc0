"""What is part of a program and what is an operand: loops with new numbers and new offsets compile nothing new."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from agree import agree, data

pytestmark = pytest.mark.port


def programs(run: Callable[[], object]) -> int:
    """How many programs a call compiles."""
    import torchport

    torchport.reset_report()
    run()
    torch.accelerator.synchronize()
    return torchport.report()["programs_compiled"]


def test_new_index_scale_and_shift_each_time(dev):
    x = data(dev, 50, 13)

    def loop():
        return [x[i % 50] * (i * 0.37 + 0.1) + (i - 3.25) for i in range(300)]

    host = data("cpu", 50, 13)
    assert programs(loop) <= 3
    results = loop()
    for i in (0, 1, 49, 50, 299):
        assert torch.allclose(results[i].cpu(), host[i % 50] * (i * 0.37 + 0.1) + (i - 3.25), rtol=1e-4, atol=1e-4)


def test_moving_slices_compile_once(dev):
    x = data(dev, 64, 17)
    x[3:7].sum(0)
    assert programs(lambda: [x[i : i + 4].sum(0) for i in range(60)]) <= 1
    assert programs(lambda: [x[i : i + 4].fill_(i) for i in range(60)]) <= 2
    assert x[63].cpu()[0].item() in (59.0, data("cpu", 64, 17)[63, 0].item())


def test_a_new_learning_rate_never_recompiles(dev):
    net = nn.Linear(7, 9).to(dev)
    opt = torch.optim.AdamW(net.parameters(), lr=0.1)

    def steps(first):
        for i in range(5):
            for group in opt.param_groups:
                group["lr"] = 0.1 / (first + i)
            opt.zero_grad()
            net(data(dev, 3, 7)).pow(2).mean().backward()
            opt.step()

    steps(1)
    assert programs(lambda: steps(10)) == 0


def test_zero_dim_host_tensors_are_operands(dev):
    x = data(dev, 11)
    x * torch.tensor(1.5)
    assert programs(lambda: [x * torch.tensor(float(k) + 0.5) for k in range(50)]) == 0


def test_random_numbers_compile_once(dev):
    x = torch.zeros(19, device=dev)
    x.uniform_(-0.5, 3.5)  # the bounds 0 and 1 have programs of their own
    nn.functional.dropout(x, 0.3)
    assert programs(lambda: [x.uniform_(-k - 2, k + 2) for k in range(20)]) == 0
    assert programs(lambda: [nn.functional.dropout(x, 0.3) for _ in range(20)]) == 0


def test_python_int_and_float_of_one_value_do_not_collide(dev):
    def program(d):
        x = data(d, 6, dtype=torch.int64)
        return [x + 1, x + 1.0, x * 2, x * 2.0, x + True, x / 2, x // 2, x // 2.0, x**2, x.float() ** 0.5]

    agree(program)


def test_static_arguments_are_told_apart(dev):
    def program(d):
        x = data(d, 4, 6)
        sums = [
            x.sum(dim, keepdim=keep) for dim in (0, 1, None) for keep in (False, True) if dim is not None or not keep
        ]
        return sums, x.sum(0, dtype=torch.float64), x.cumsum(0), x.cumsum(1), x.sort(0), x.sort(1, descending=True)

    agree(program)
    agree(program)


def test_layouts_are_told_apart(dev):
    def program(d):
        x = data(d, 6, 6)
        return [v + 1 for v in (x, x.t(), x[::2], x[:, ::2], x[:3], x[3:], x.expand(2, 6, 6), x.diagonal(), x.flip(0))]

    agree(program)


def test_second_call_hits(dev):
    import torchport

    f = lambda: torch.softmax(data(dev, 5, 7) @ data(dev, 7, 3), -1).sum(0)
    f()
    torchport.reset_report()
    f()
    report = torchport.report()
    assert report["programs_compiled"] == 0
    assert report["cache_hits"] > 0

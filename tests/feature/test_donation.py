"""Buffers are reused by in-place ops when nobody else holds them, and never when somebody does."""

import gc

import pytest
import torch
from torch import nn

from agree import agree, data

MB = 1 << 20


def test_holders_are_never_overwritten(dev):
    def program(d):
        x = data(d, 100)
        clone, detached, view = x.clone(), x.detach(), x[10:20]
        copy = x.to(d, copy=True)
        y = x + 0
        for _ in range(3):
            x.mul_(2).add_(1)
        y.add_(x)
        clone.add_(1)
        return x, clone, detached, view, copy, y

    agree(program)


def test_clones_of_clones(dev):
    def program(d):
        chain = [data(d, 16)]
        for k in range(5):
            chain.append(chain[-1].clone())
            chain[-1 - k % 2].add_(k + 1)
        return chain

    agree(program)


def test_tensors_saved_for_backward(dev):
    def program(d):
        x = data(d, 8, grad=True)
        y = x * 2
        z = y * y
        w = z.detach().clone()
        w.mul_(5)
        z.sum().backward()
        return x.grad, w

    agree(program)


def test_the_same_tensor_as_target_and_operand(dev):
    def program(d):
        x = data(d, 6)
        x.add_(x)
        x.mul_(x)
        x[:3].sub_(x[3:])
        torch.add(x, x, out=x)
        x.copy_(x)
        return x

    agree(program)


def test_results_read_while_the_loop_runs_on(dev):
    x, seen = torch.zeros(1000, device=dev), []
    for i in range(20):
        x.add_(1)
        seen.append(x.clone() if i % 3 else x.to("cpu", copy=True))
    assert [s[0].item() for s in seen] == list(range(1, 21))


def test_optimizer_state_is_not_shared(dev):
    def program(d):
        torch.manual_seed(0)
        net = nn.Linear(4, 4).to(d)
        before = [p.detach().clone() for p in net.parameters()]
        opt = torch.optim.AdamW(net.parameters(), lr=0.1)
        history = []
        for i in range(4):
            opt.zero_grad()
            net(data(d, 3, 4, seed=i)).pow(2).sum().backward()
            opt.step()
            history.append([p.detach().clone() for p in net.parameters()])
        return before, history, [s["exp_avg"] for s in opt.state.values()]

    agree(program)


@pytest.mark.port
def test_in_place_ops_need_no_second_buffer(dev, port):
    x = torch.ones(4 * MB, device=dev)
    x.add_(1)
    x.mul_(0.5)
    gc.collect()
    port.synchronize()
    port.reset_peak_memory_stats()
    start = port.memory_allocated()
    for _ in range(10):
        x.add_(1)
        x.mul_(0.5)
    port.synchronize()
    assert port.max_memory_allocated() - start < x.nbytes
    assert torch.isfinite(x).all()


@pytest.mark.port
def test_a_fused_optimizer_step_needs_no_second_copy_of_the_state(dev, port):
    p = nn.Parameter(torch.ones(MB, device=dev))
    opt = torch.optim.AdamW([p], fused=True)
    p.grad = torch.ones_like(p)
    for _ in range(2):
        opt.step()
    gc.collect()
    port.synchronize()
    port.reset_peak_memory_stats()
    start = port.memory_allocated()
    for _ in range(3):
        opt.step()
    port.synchronize()
    assert port.max_memory_allocated() - start < p.nbytes

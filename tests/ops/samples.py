"""Argument tuples for the ops that PyTorch's database has no samples for; each function takes a dtype."""

from collections.abc import Callable, Iterator

import torch
from torch.testing import make_tensor

Samples = Callable[[torch.dtype], Iterator[tuple]]


def tensors(*shapes: tuple[int, ...], more: tuple = (), low: float = -2, high: float = 2) -> Samples:
    """One sample: a tensor a shape, then the other arguments."""

    def make(dtype: torch.dtype) -> Iterator[tuple]:
        yield (*(make_tensor(shape, dtype=dtype, device="cpu", low=low, high=high) for shape in shapes), *more)

    return make


def recurrent(gates: int, cells: int) -> Samples:
    """Input, initial state and flat weights of a two-layer recurrent network of torch.lstm, torch.gru and kin."""

    def make(dtype: torch.dtype) -> Iterator[tuple]:
        width, hidden, layers = 5, 4, 2
        shapes = []
        for layer in range(layers):
            shapes += [(gates * hidden, width if layer == 0 else hidden), (gates * hidden, hidden)]
            shapes += [(gates * hidden,)] * 2
        x, *weights = (
            make_tensor(shape, dtype=dtype, device="cpu", low=-1, high=1) for shape in ((3, 2, width), *shapes)
        )
        states = [make_tensor((layers, 2, hidden), dtype=dtype, device="cpu", low=-1, high=1) for _ in range(cells)]
        # has_biases, num_layers, dropout, train, bidirectional, batch_first
        yield x, states if cells > 1 else states[0], weights, True, layers, 0.0, False, False, False

    return make


def optimizer(states: int) -> Samples:
    """Parameters, gradients and as many state lists as a fused optimizer step takes, none below zero."""

    def make(dtype: torch.dtype) -> Iterator[tuple]:
        shapes = ((3, 4), (5,), ())
        yield tuple(
            [make_tensor(s, dtype=dtype, device="cpu", low=0.1, high=1) for s in shapes] for _ in range(2 + states)
        )

    return make


def fused_adam(step: Callable) -> Callable:
    """A fused Adam step as a function of its tensors."""

    def run(params: list, grads: list, exp_avgs: list, exp_avg_sqs: list) -> list:
        steps = [torch.ones((), device=p.device) for p in params]
        step(
            params,
            grads,
            exp_avgs,
            exp_avg_sqs,
            [],
            steps,
            lr=0.1,
            beta1=0.9,
            beta2=0.99,
            weight_decay=0.1,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )
        return [*params, *exp_avgs, *exp_avg_sqs]

    return run


def fused_sgd(params: list, grads: list, momenta: list) -> list:
    """A fused SGD step as a function of its tensors."""
    torch._fused_sgd_(
        params,
        grads,
        momenta,
        weight_decay=0.1,
        momentum=0.9,
        lr=0.1,
        dampening=0.0,
        nesterov=True,
        maximize=False,
        is_first_step=False,
    )
    return [*params, *momenta]

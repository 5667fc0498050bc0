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


def fused_adagrad(params: list, grads: list, sums: list) -> list:
    """A fused Adagrad step as a function of its tensors."""
    steps = [torch.ones((), device=p.device) for p in params]
    torch._fused_adagrad_(params, grads, sums, steps, lr=0.1, lr_decay=0.01, weight_decay=0.1, eps=1e-8, maximize=False)
    return [*params, *sums]


def rows(x: torch.Tensor) -> torch.Tensor:
    """Two row numbers on the tensor's device."""
    return torch.tensor([3, 0], device=x.device)


def unsafe_index(x: torch.Tensor) -> torch.Tensor:
    """Rows by number, unchecked."""
    return torch.ops.aten._unsafe_index(x, [rows(x)])


def unsafe_index_put(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Adds to rows by number, unchecked."""
    return torch.ops.aten._unsafe_index_put(x, [rows(x)], values, True)


def masked_softmax(x: torch.Tensor) -> torch.Tensor:
    """Attention weights under a causal mask."""
    mask = torch.ones(x.shape, dtype=torch.bool, device=x.device).triu(1)
    return torch._masked_softmax(x, mask, 3, 2)


def batch_norm(op: Callable, *rest: object) -> Callable:
    """A batch norm of aten with running statistics, which are returned too when it changes them."""

    def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> tuple:
        mean, var = (torch.full(weight.shape, value, device=x.device, dtype=torch.float32) for value in (0.5, 2.0))
        if op in (torch.ops.aten._native_batch_norm_legit_no_training, torch.ops.aten._batch_norm_no_update):
            mean, var = mean.to(x.dtype), var.to(x.dtype)
        # What an implementation saves for its own backward is its own affair.
        result = op(x, weight, bias, mean, var, *rest)
        changed = result[-2:] if "functional" in str(op) else ()
        return result[0], *changed, mean, var

    return run


def update_stats(x: torch.Tensor) -> tuple:
    """Mean, variance and the running statistics they change."""
    mean, var = torch.zeros(x.shape[1], device=x.device), torch.ones(x.shape[1], device=x.device)
    return *torch.batch_norm_update_stats(x, mean, var, 0.1), mean, var


def interpolate(mode: str, size: object, **options: object) -> Callable:
    """An interpolation to a size."""
    return lambda x: torch.nn.functional.interpolate(x, size=size, mode=mode, **options)


def nll_loss2d(x: torch.Tensor) -> torch.Tensor:
    """A loss a pixel, one class ignored."""
    target = torch.arange(x[:, 0].numel(), device=x.device).view(x[:, 0].shape) % x.shape[1]
    return torch.nn.functional.nll_loss(x, target, ignore_index=2)


def embedding_renorm(x: torch.Tensor) -> torch.Tensor:
    """Rows scaled to a largest norm."""
    return torch.embedding_renorm_(x.clone(), rows(x), 0.5, 2.0)


def glu_jvp(x: torch.Tensor, tangent: torch.Tensor) -> torch.Tensor:
    """Forward-mode derivative of glu."""
    return torch.ops.aten.glu_jvp(torch.nn.functional.glu(x), x, tangent, -1)


def glu_backward_jvp(x: torch.Tensor, tangent: torch.Tensor) -> torch.Tensor:
    """Forward-mode derivative of glu's backward."""
    grad = torch.nn.functional.glu(tangent)
    grad_x = torch.ops.aten.glu_backward(grad, x, -1)
    return torch.ops.aten.glu_backward_jvp(grad_x, grad, x, grad * 2, tangent, -1)

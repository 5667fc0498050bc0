"""Marks that a traced step carries for the compiler, and rematerialisation, which is made of one of them.

`barrier`: nothing is moved or merged across. `mark`: the value has a role that says how it lies on the devices of a
mesh.

Rematerialisation: a layer keeps its inputs alone and runs again in the backward pass, as large models are trained.
The second run hangs behind a barrier together with the gradient that asks for it. Without one the compiler would find
that it computes what the forward pass has computed, merge the two and keep every intermediate value after all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

ACTIVATIONS = "activations"


@torch.library.custom_op("torchport::barrier", mutates_args=())
def barrier(values: list[Tensor], kept: int) -> list[Tensor]:
    """The same values; nothing is moved or merged across. kept: how many of them a layer keeps for its second run."""
    return [value.clone() for value in values]


@barrier.register_fake
def _(values: list[Tensor], kept: int) -> list[Tensor]:
    return [torch.empty_like(value) for value in values]


@torch.library.custom_op("torchport::mark", mutates_args=())
def mark(value: Tensor, role: str) -> Tensor:
    """The same value, placed on the mesh as values of that role are; so is its gradient."""
    return value.clone()


@mark.register_fake
def _(value: Tensor, role: str) -> Tensor:
    return torch.empty_like(value)


mark.register_autograd(
    lambda ctx, grad: (mark(grad, ctx.role), None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "role", inputs[1]),
)


class _Rematerialised(torch.autograd.Function):
    """run(inputs, weights) -> tuple of tensors."""

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Any], count: int, *tensors: Tensor) -> Any:
        ctx.run, ctx.count = run, count
        ctx.save_for_backward(*tensors)
        with torch.no_grad():
            return run(tensors[:count], tensors[count:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        tensors, count = ctx.saved_tensors, ctx.count
        asked = [i for i, needed in enumerate(ctx.needs_input_grad[2:]) if needed]
        behind = barrier([*tensors[:count], *(g for g in grads if g is not None)], count)
        again = [t.detach() for t in (*behind[:count], *tensors[count:])]
        for i in asked:
            again[i].requires_grad_()
        ready = iter(behind[count:])
        grads = tuple(None if g is None else next(ready) for g in grads)
        with torch.enable_grad():
            outputs = ctx.run(again[:count], again[count:])
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if g is not None and o.requires_grad]
        results, seeds = zip(*pairs, strict=True)
        found = torch.autograd.grad(results, [again[i] for i in asked], seeds, allow_unused=True)
        by_place = dict(zip(asked, found, strict=True))
        return None, None, *(by_place.get(i) for i in range(len(tensors)))


def checkpoint(function: Any, *args: Any) -> Any:
    """For transformers' `_gradient_checkpointing_func`: function is partial(forward, layer, **kwargs) of one layer."""
    layer: nn.Module = function.args[0]
    names, weights = zip(*layer.named_parameters(), strict=True)
    leaves, tree = pytree.tree_flatten((args, function.keywords))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    form: list[Any] = []

    def run(inputs: Any, parameters: Any) -> tuple[Tensor, ...]:
        given = list(leaves)
        for place, value in zip(places, inputs, strict=True):
            given[place] = value
        arguments, keywords = pytree.tree_unflatten(given, tree)
        with nn.utils.stateless._reparametrize_module(layer, dict(zip(names, parameters, strict=True))):
            outputs, shape = pytree.tree_flatten(function.func(layer, *arguments, **keywords))
        form.append(shape)
        return tuple(outputs)

    outputs = _Rematerialised.apply(run, len(places), *(leaves[i] for i in places), *weights)
    return pytree.tree_unflatten(list(outputs), form[0])

"""Fused optimizer steps on parameters of any layout; PyTorch's CPU kernels take every layout as contiguous."""

import pytest
import torch

import target
from ops import samples

STEPS = {
    "adam": (samples.fused_adam(torch._fused_adam_), 2),
    "adamw": (samples.fused_adam(torch._fused_adamw_), 2),
    "sgd": (samples.fused_sgd, 1),
    "adagrad": (samples.fused_adagrad, 1),
}


def gapped(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in every second place of a buffer of sevens."""
    wide = torch.full((*tensor.shape, 2), 7.0, device=tensor.device)
    wide[..., 0] = tensor
    return wide[..., 0]


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, first axis innermost."""
    return tensor.movedim(0, -1).contiguous().movedim(-1, 0) if tensor.dim() else tensor.clone()


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("layout", [gapped, transposed])
def test_a_fused_step_follows_the_strides(name, layout):
    step, states = STEPS[name]
    torch.manual_seed(0)
    (lists,) = samples.optimizer(states)(torch.float32)
    want = step(*[[t.clone() for t in each] for each in lists])
    strided = [[layout(t.to(target.DEVICE)) for t in each] for each in lists]
    got = step(*strided)
    for expected, actual in zip(want, got, strict=True):
        torch.testing.assert_close(actual.cpu(), expected)


def test_a_fused_step_leaves_the_gaps_alone():
    step, states = STEPS["adam"]
    (lists,) = samples.optimizer(states)(torch.float32)
    strided = [[gapped(t.to(target.DEVICE)) for t in each] for each in lists]
    step(*strided)
    gaps = [t.as_strided(t.shape, t.stride(), 1).cpu() for t in strided[0]]
    assert all(bool((gap == 7).all()) for gap in gaps)

"""New tensors lie in memory as on the CPU: pointwise results follow their operands, channels_last is kept."""

import pytest
import torch
from torch.nn import functional as F

import target

torch.manual_seed(0)
WEIGHT = torch.rand(4, 3, 2, 2)


def weight(x: torch.Tensor) -> torch.Tensor:
    return WEIGHT.to(x.device)


def gradient(x: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().requires_grad_()
    F.conv2d(leaf, weight(x)).relu().sum().backward()
    return leaf.grad


CHANNELS_LAST = {
    "convolution": lambda x: F.conv2d(x, weight(x)),
    "weight": lambda x: F.conv2d(x.contiguous(), weight(x).to(memory_format=torch.channels_last)),
    "both contiguous": lambda x: F.conv2d(x.contiguous(), weight(x)),
    "gradient": gradient,
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 2),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "add and multiply": lambda x: x * 2 + x,
    "broadcast": lambda x: x + torch.ones(3, 1, 1, device=x.device),
    "mixed": lambda x: x + x.contiguous(),
    "where": lambda x: torch.where(x > 0.5, x, 0.0),
    "cat": lambda x: torch.cat([x, x]),
    "out": lambda x: torch.mul(x, x, out=torch.empty(0, device=x.device)),
    "cast": lambda x: x.bfloat16(),
    "clone": lambda x: x.clone(),
    "zeros_like": lambda x: torch.zeros_like(x),
    "dropout": lambda x: F.dropout(x, 0.0),
    "gelu": lambda x: F.gelu(x),
    "softmax": lambda x: x.softmax(1),
    "sum": lambda x: x.sum(1),
    "foreach": lambda x: torch._foreach_add([x, x.contiguous()], 1)[0],
}
ORDERS = {
    "permuted": lambda x: x.permute(2, 0, 3, 1).abs(),
    "transposed": lambda x: x[0, 0].T.exp(),
    "expanded": lambda x: x[:, :1].expand(2, 3, 4, 5) * 2,
    "gaps": lambda x: x[..., ::2] * 2,
    "two orders": lambda x: x + x.transpose(2, 3).contiguous().transpose(2, 3),
    "qr": lambda x: torch.linalg.qr(x)[1],
    "fft": lambda x: torch.fft.fft(x, dim=1),
    "cholesky": lambda x: torch.linalg.cholesky(torch.eye(3, device=x.device)),
}


def both(function, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    want = function(x)
    got = function(x.to(target.DEVICE))
    torch.testing.assert_close(got.cpu(), want)
    return want, got


@pytest.mark.parametrize("name", CHANNELS_LAST)
def test_channels_last(name):
    x = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert x.to(target.DEVICE).stride() == x.stride()
    want, got = both(CHANNELS_LAST[name], x)
    assert got.stride() == want.stride()


@pytest.mark.parametrize("name", ORDERS)
def test_order(name):
    want, got = both(ORDERS[name], torch.rand(2, 3, 4, 5))
    assert got.stride() == want.stride()


def test_a_result_in_another_order_is_a_tensor_like_any_other():
    x = torch.rand(3, 4, device=target.DEVICE).T
    y = x * 2
    assert y.stride() == (1, 4)
    y[1] = 7
    y.T.add_(1)
    view = y.T.view(-1)  # memory in order seen from the other side
    want = x.cpu() * 2
    want[1] = 7
    torch.testing.assert_close(view.cpu(), (want + 1).T.reshape(-1))

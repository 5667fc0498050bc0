"""Lines for ops whose sizes depend on values, and for overloads that are another op under a second name."""

import torch

from ops import samples as sample
from ops.case import FLOAT, FLOATS, INT, custom

aten = torch.ops.aten
FIXED = {"differentiable": False}


def repeated(x: torch.Tensor) -> torch.Tensor:
    """Small whole numbers, so that rows repeat, the last row like the first."""
    x = x.round().clamp(0, 1)
    return torch.cat([x, x[:1]])


def unique_rows(x: torch.Tensor) -> tuple:
    """Distinct rows in order, where each row went, how many there are."""
    return aten.unique_dim(repeated(x), 0, True, True, True)


def unique_runs(x: torch.Tensor) -> tuple:
    """Runs of equal columns."""
    return aten.unique_dim_consecutive(repeated(x), 1, True, True)


def weighted_counts(x: torch.Tensor) -> torch.Tensor:
    """Sums of weights, more bins than numbers."""
    numbers = x.abs()
    return torch.bincount(numbers, weights=numbers * 0.5, minlength=9)


def spread(x: torch.Tensor) -> list[torch.Tensor]:
    """Edges and counts in two dimensions, by count and by edge."""
    edges = aten._histogramdd_bin_edges(x, [3, 4], range=[-2.0, 2.0, -1.0, 1.0])
    return [*edges, aten._histogramdd_from_bin_tensors(x, edges, density=True)]


def least_squares(driver: str | None):
    """Everything that the driver gives."""
    return lambda a, b: tuple(torch.linalg.lstsq(a, b, driver=driver))


def written(op, size: tuple[int, ...], *rest: object):
    """What an out= overload leaves in its target."""
    return lambda *x: op(*x, *rest, out=torch.empty(size, dtype=x[0].dtype, device=x[0].device))


def closed_range(x: torch.Tensor) -> torch.Tensor:
    """Both ends included."""
    return aten.range(1, 4, 0.5, out=torch.empty(0, dtype=x.dtype, device=x.device))


def running(x: torch.Tensor) -> tuple:
    """Batch norm into given tensors, with the statistics that it moves."""
    ones, zeros = (torch.full((3,), float(v), device=x.device) for v in (1, 0))
    mean, var = zeros.clone(), ones.clone()
    out = [torch.empty(0, device=x.device) for _ in range(3)]
    aten._native_batch_norm_legit.out(
        x, ones, zeros, mean, var, True, 0.1, 1e-5, out=out[0], save_mean=out[1], save_invstd=out[2]
    )
    return *out, mean, var


def padded(x: torch.Tensor) -> torch.Tensor:
    """Three ragged rows of 9 in all, one of them empty, one cut."""
    offsets = torch.tensor([0, 2, 2, 9], device=x.device)
    return aten._jagged_to_padded_dense_forward(x, [offsets], [4], -1.0)


CONVOLUTION = sample.tensors((2, 3, 7, 6), (4, 3, 3, 2), more=([3, 2], None, [2, 1], [1, 0]))

DYNAMIC = [
    custom("unique_dim", FLOATS, unique_rows, sample.tensors((9, 3)), **FIXED),
    custom("unique_dim_consecutive", FLOATS, unique_runs, sample.tensors((1, 12)), **FIXED),
    custom("bincount.weights", INT, weighted_counts, sample.tensors((20,)), **FIXED),
    custom("_histogramdd_from_bin_tensors", FLOAT, spread, sample.tensors((30, 2)), **FIXED),
    *(
        custom(f"linalg_lstsq.{driver}", FLOAT, least_squares(driver), sample.tensors((2, 5, 3), (2, 5, 2)), **FIXED)
        for driver in ("gels", "gelsy", "gelsd", "gelss")
    ),
    custom("linalg_lstsq.wide", FLOAT, least_squares("gels"), sample.tensors((3, 5), (3, 2)), **FIXED),
    custom(
        "adaptive_avg_pool2d.out",
        FLOATS,
        written(aten.adaptive_avg_pool2d, (0,), [2, 3]),
        sample.tensors((2, 5, 4)),
        **FIXED,
    ),
    custom("narrow_copy.out", FLOATS, written(aten.narrow_copy, (0,), 1, 1, 2), sample.tensors((3, 4)), **FIXED),
    custom("range.out", FLOAT, closed_range, sample.tensors((1,)), **FIXED),
    custom(
        "_native_batch_norm_legit.out",
        FLOAT,
        running,
        sample.tensors((2, 3, 4)),
        without=("strided",),
        why="the CPU's own result is off by 0.5 from float64 for an input with gaps, the device's by 2e-7",
        **FIXED,
    ),
    custom("_jagged_to_padded_dense_forward", FLOAT, padded, sample.tensors((9, 3)), **FIXED),
    custom(
        "_transform_bias_rescale_qkv",
        FLOATS,
        aten._transform_bias_rescale_qkv,
        sample.tensors((2, 3, 24), (24,), more=(2,)),
        **FIXED,
    ),
    custom("_slow_conv2d_forward", FLOAT, aten._slow_conv2d_forward, CONVOLUTION),
    custom("slow_conv_dilated2d", FLOAT, aten.slow_conv_dilated2d, CONVOLUTION),
    custom(
        "slow_conv_transpose2d",
        FLOAT,
        aten.slow_conv_transpose2d,
        sample.tensors((2, 3, 5, 4), (3, 2, 3, 2), more=([3, 2], None, [2, 1])),
    ),
]

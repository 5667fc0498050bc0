"""Lines for the products with quantised weights, in groups, and for rounding to a quantised grid."""

from collections.abc import Callable, Iterator

import torch

from ops import samples as sample
from ops.case import FLOAT, FLOATS, custom

aten = torch.ops.aten
LOW, HIGH = -8, 7  # of the grid
GROUP = 32  # columns that share a scale in the 4-bit product


def offsets(x: torch.Tensor) -> torch.Tensor:
    """Ends of four groups of 40 rows: an ordinary one, an empty one, a longer one, what is left."""
    return torch.tensor([8, 8, 24, 40], dtype=torch.int32, device=x.device)


def grouped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A product in groups; no offsets for two batches."""
    return torch._grouped_mm(x, y, offs=None if x.dim() == y.dim() == 3 else offsets(x))


def int8_weights(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """A product with int8 weights."""
    weights = torch.arange(-40, 40, dtype=torch.int8, device=x.device).reshape(5, 16)
    return torch._weight_int8pack_mm(x, weights, scales)


def int4_weights(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """A product with 4-bit weights, packed by whichever op the device has."""
    numbers = (torch.arange(16 * x.shape[1], dtype=torch.int32, device=x.device) % 16).reshape(16, -1)
    if x.device.type == "cpu":
        packed = torch._convert_weight_to_int4pack_for_cpu(numbers, 2)
        return torch._weight_int4pack_mm_for_cpu(x, packed, GROUP, scales)
    pairs = (numbers[:, ::2] << 4 | numbers[:, 1::2]).to(torch.uint8)
    return torch._weight_int4pack_mm(x, torch._convert_weight_to_int4pack(pairs, 2), GROUP, scales)


def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A product of scaled float8 matrices."""
    scales = (torch.tensor(s, device=x.device) for s in (0.5, 0.25))
    x, y = (v.to(torch.float8_e4m3fn) for v in (x, y))
    return torch._scaled_mm(x, y.t(), *scales, out_dtype=torch.bfloat16)


def grid(x: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and zero points, the latter no whole numbers."""
    return torch.linspace(0.1, 0.4, size, device=x.device), torch.linspace(-2.2, 3.7, size, device=x.device)


def per_tensor(op: Callable, *rest: float) -> Callable:
    """A rounding with one scale for all."""
    return lambda *x: op(*x, *grid(x[0], 1), LOW, HIGH, *rest)


def per_channel(op: Callable, *rest: float) -> Callable:
    """A rounding with a scale a column."""
    return lambda *x: op(*x, *grid(x[0], x[0].shape[1]), 1, LOW, HIGH, *rest)


def switched(x: torch.Tensor) -> list[torch.Tensor]:
    """With the scale in a tensor, on and off."""
    scale, zero = torch.tensor([0.1], device=x.device), torch.tensor([2], dtype=torch.int32, device=x.device)
    op = aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams
    return [t for on in (0, 1) for t in op(x, scale, zero, torch.tensor([on], device=x.device), LOW, HIGH)]


def observed(rows: bool, symmetric: bool) -> Callable:
    """Three steps of an observer: what it rounds to and what it remembers."""

    def run(x: torch.Tensor) -> list[torch.Tensor]:
        size = x.shape[0] if rows else 1
        least, most = (torch.full((size,), float(v), device=x.device) for v in ("inf", "-inf"))
        scale, zero = torch.ones(size, device=x.device), torch.zeros(size, dtype=torch.int32, device=x.device)
        on, results = torch.tensor([1], device=x.device), []
        for factor in (1, 2, -0.5):
            results += aten._fused_moving_avg_obs_fq_helper(
                x * factor, on, on, least, most, scale, zero, 0.01, 0, 255, 0, rows, symmetric
            )
            results += [t.clone() for t in (least, most, scale, zero)]
        return results

    return run


def products(dtype: torch.dtype) -> Iterator[tuple]:
    """The four pairs of ranks that a product in groups takes."""
    for shapes in (((40, 16), (4, 16, 32)), ((16, 40), (40, 32)), ((4, 32, 16), (16, 40)), ((4, 8, 16), (4, 16, 32))):
        yield from sample.tensors(*shapes)(dtype)


MATRIX = sample.tensors((4, 6), low=-3, high=3)
TWO = sample.tensors((4, 6), (4, 6), low=-3, high=3)
FIXED = {"differentiable": False}

QUANTIZED = [
    custom("_grouped_mm", FLOATS, grouped, products),
    custom("_weight_int8pack_mm", FLOATS, int8_weights, sample.tensors((3, 16), (5,)), **FIXED),
    custom("_weight_int4pack_mm", FLOATS, int4_weights, sample.tensors((3, 128), (4, 16, 2)), **FIXED),
    custom("_scaled_mm", FLOAT, scaled, sample.tensors((16, 32), (16, 32)), **FIXED),
    custom(
        "fake_quantize_per_tensor_affine",
        FLOAT,
        lambda x: aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 2, LOW, HIGH),
        MATRIX,
    ),
    custom("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", FLOAT, switched, MATRIX, **FIXED),
    custom(
        "fake_quantize_per_channel_affine",
        FLOAT,
        per_channel(aten.fake_quantize_per_channel_affine_cachemask),
        MATRIX,
    ),
    custom(
        "_fake_quantize_learnable_per_tensor_affine",
        FLOAT,
        per_tensor(aten._fake_quantize_learnable_per_tensor_affine, 0.5),
        MATRIX,
    ),
    custom(
        "_fake_quantize_learnable_per_tensor_affine_backward",
        FLOAT,
        per_tensor(aten._fake_quantize_learnable_per_tensor_affine_backward, 0.5),
        TWO,
        **FIXED,
    ),
    custom(
        "_fake_quantize_learnable_per_channel_affine",
        FLOAT,
        per_channel(aten._fake_quantize_learnable_per_channel_affine, 0.5),
        MATRIX,
    ),
    custom(
        "_fake_quantize_learnable_per_channel_affine_backward",
        FLOAT,
        per_channel(aten._fake_quantize_learnable_per_channel_affine_backward, 0.5),
        TWO,
        **FIXED,
    ),
    *(
        custom(
            f"_fused_moving_avg_obs_fq_helper.{rows:d}{symmetric:d}", FLOAT, observed(rows, symmetric), MATRIX, **FIXED
        )
        for rows in (False, True)
        for symmetric in (False, True)
    ),
]

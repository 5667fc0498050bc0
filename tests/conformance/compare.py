"""When two results count as equal: structure, shape and dtype always, values within a tolerance of the dtype.

Where PyTorch's documentation leaves a result open (the order of equal elements in sort, topk, kthvalue, argsort, median
and mode; signs of singular vectors), invariants.py says what of it is compared: indices by the elements they point at.
"""

import re

import torch
from torch.utils._pytree import tree_leaves

# (rtol, atol); a dtype that is not here must match exactly.
TOLERANCES = {
    torch.float32: (1e-4, 1e-4),
    torch.float64: (1e-6, 1e-6),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float16: (4e-3, 4e-3),
    torch.complex64: (1e-3, 1e-3),
    torch.complex128: (1e-6, 1e-6),
}
WIDE = (torch.float32, torch.float64, torch.complex64, torch.complex128)
NARROW = (torch.bfloat16, torch.float16)

# Results are random numbers or uninitialised memory, so only structure, shape and dtype can be compared.
UNDETERMINED = re.compile(
    r"^(bernoulli|cauchy|empty\w*|exponential|geometric|log_normal|multinomial|new_empty\w*|normal\w*|rand|rand_like|randint"
    r"|randint_like|randn|randn_like|uniform|nn\.functional\.(\w*dropout\w*|gumbel_softmax|rrelu))(\.|$)"
)


class ValuesDiffer(AssertionError):
    """Structure, shape and dtype are the CPU's, but numbers are not."""


class StridesDiffer(AssertionError):
    """Everything else of a result is the CPU's, but not its memory format."""


class NotComparable(Exception):
    """The reference's result has no dense values to compare."""


def undetermined(op_name: str) -> bool:
    """True for ops whose values differ from run to run by design."""
    return UNDETERMINED.match(op_name) is not None


def tolerance(result: torch.dtype, tested: torch.dtype) -> tuple[float, float]:
    """Tolerance for a result of one dtype in a case that tests another: a bfloat16 case may return float32."""
    if result in WIDE and tested in NARROW:
        return TOLERANCES[tested]
    return TOLERANCES.get(result, (0.0, 0.0))


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """A strided copy on the CPU, whatever the layout and device."""
    tensor = tensor.detach().cpu()
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def assert_tensor(want: torch.Tensor, got: object, tested: torch.dtype, values: bool, tol: tuple | None) -> None:
    """One tensor against its reference."""
    assert isinstance(got, torch.Tensor), f"a {type(got).__name__} where a tensor was expected"
    assert tuple(got.shape) == tuple(want.shape), f"shape {tuple(got.shape)} wants {tuple(want.shape)}"
    assert got.dtype == want.dtype, f"dtype {got.dtype} wants {want.dtype}"
    if want.is_quantized:
        raise NotComparable("quantized")
    actual = dense(got)
    if values:
        rtol, atol = tol or tolerance(want.dtype, tested)
        try:
            torch.testing.assert_close(
                actual, dense(want), rtol=rtol, atol=atol, equal_nan=True, check_device=False, check_stride=False
            )
        except AssertionError as difference:
            raise ValuesDiffer(str(difference)) from None


def nearer(exact: object, want: object, got: object) -> bool:
    """Whether no tensor of the device is further from the exact result than the CPU's own is.

    Errors count as tolerances do, whose rtol and atol are equal: by the largest |error| / (1 + |exact|).
    """
    for true, host, port in zip(tree_leaves(exact), tree_leaves(want), tree_leaves(got), strict=True):
        if not isinstance(true, torch.Tensor):
            continue
        if true.dtype not in (torch.float64, torch.complex128) or true.shape != host.shape:
            if not torch.equal(dense(host), dense(port)):
                return False
            continue
        reference, own, its = dense(true), dense(host).to(true.dtype), dense(port).to(true.dtype)
        finite = reference.isfinite() & own.isfinite()
        if not torch.equal(own[~finite].nan_to_num(), its[~finite].nan_to_num()):
            return False
        off = [((part - reference).abs() / (1 + reference.abs()))[finite] for part in (own, its)]
        if off[0].numel() and not off[1].max() <= off[0].max():
            return False
    return True


def assert_same(want: object, got: object, tested: torch.dtype, values: bool = True, tol: tuple | None = None) -> None:
    """A pytree of results against its reference."""
    wants, gots = tree_leaves(want), tree_leaves(got)
    assert len(wants) == len(gots), f"{len(gots)} outputs, wants {len(wants)}"
    for expected, actual in zip(wants, gots, strict=False):
        if isinstance(expected, torch.Tensor):
            assert_tensor(expected, actual, tested, values, tol)
        elif isinstance(expected, (bool, int, float, complex)) and values:
            torch.testing.assert_close(
                torch.tensor(actual), torch.tensor(expected), rtol=1e-4, atol=1e-4, equal_nan=True
            )


def strides(tensor: torch.Tensor) -> list[int] | None:
    """The strides that matter: none for sparse and empty tensors, and none of dimensions of one element."""
    if tensor.layout is not torch.strided or tensor.numel() == 0:
        return None
    return [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def assert_strides(want: object, got: object) -> None:
    """The memory format of a pytree of results against its reference; shapes are known to agree."""
    for expected, actual in zip(tree_leaves(want), tree_leaves(got), strict=True):
        if isinstance(expected, torch.Tensor) and strides(expected) != strides(actual):
            raise StridesDiffer(f"strides {actual.stride()} want {expected.stride()}, shape {tuple(expected.shape)}")

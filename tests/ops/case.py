"""What a line of the table in cases.py stands for."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import islice
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations as database
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from conformance.compare import TOLERANCES
from conformance.modes import SEED, supports

FLOAT = (torch.float32,)
FLOATS = (torch.float32, torch.bfloat16)
FLOAT_INT = (torch.float32, torch.int64)
INT = (torch.int64,)
INT_BOOL = (torch.int64, torch.bool)
INT8 = (torch.int8,)
BOOL = (torch.bool,)
COMPLEX = (torch.complex64,)

MODES = ("forward", "strided", "backward", "out", "inplace")
SAMPLES = 2  # in forward mode plus a 0-d and an empty one where the op has them
SCANNED = 20  # samples looked through for those two


class Custom:
    """An op that PyTorch's database lacks, with the part of OpInfo's interface that the modes use."""

    def __init__(
        self, name: str, function: Callable, samples: Callable, inplace: Callable | None, differentiable: bool
    ):
        self.name = self.full_name = name
        self.function, self.samples, self.inplace = function, samples, inplace
        self.supports_autograd, self.supports_out = differentiable, False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def supported_dtypes(self, device: str) -> Iterable[torch.dtype]:
        """Every dtype that a line may name."""
        return {*FLOATS, *INT_BOOL, *INT8, *COMPLEX}

    supported_backward_dtypes = supported_dtypes

    def get_inplace(self) -> Callable | None:
        """The in-place form, if any."""
        return self.inplace

    def sample_inputs(self, device: str, dtype: torch.dtype, requires_grad: bool = False) -> Iterator[SampleInput]:
        """Samples made of the argument tuples that the line's function yields; floating tensors want gradients."""
        for first, *rest in self.samples(dtype):
            sample = SampleInput(first, args=tuple(rest))
            for tensor in torch.utils._pytree.tree_leaves((sample.input, sample.args)):
                if requires_grad and isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                    tensor.requires_grad_()
            yield sample


@cache
def op_infos() -> dict[str, OpInfo]:
    """PyTorch's op database by full name, the `_foreach_` ops included."""
    tables = [
        getattr(database, name)
        for name in dir(database)
        if name.endswith("op_db") and name.startswith(("op", "foreach"))
    ]
    return {op.full_name: op for table in tables for op in table}


@dataclass(eq=False)
class Case:
    """One op and how strictly each of its modes is compared with the CPU."""

    name: str
    dtypes: tuple[torch.dtype, ...]
    tol: float | None = None
    why: str = ""
    fallback: bool = False
    without: tuple[str, ...] = ()
    custom: Custom | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        loosest = min(TOLERANCES.get(dtype, (0.0, 0.0))[0] for dtype in self.dtypes)
        loose = self.tol is not None and self.tol > loosest
        if (loose or self.without) and not self.why:
            raise ValueError(f"case {self.name}: a tolerance above the default or a mode left out needs why=")
        if unknown := set(self.without) - set(MODES):
            raise ValueError(f"case {self.name}: without= must name modes of {MODES}, got {sorted(unknown)}")

    @property
    def op(self) -> OpInfo:
        """The op and its samples."""
        return self.custom or op_infos()[self.name]

    @property
    def tolerance(self) -> tuple[float, float] | None:
        """(rtol, atol) of the line, None for the dtype's own."""
        return None if self.tol is None else (self.tol, self.tol)

    def modes(self, dtype: torch.dtype) -> list[str]:
        """The modes that CPU PyTorch has for this dtype."""
        names = {"strided": "forward"}
        return [mode for mode in MODES if mode not in self.without and supports(self.op, dtype, names.get(mode, mode))]

    def samples(self, dtype: torch.dtype, mode: str) -> list[SampleInput]:
        """The first samples; in forward mode also the first 0-d and the first empty one."""
        found = first_samples(self, dtype, mode == "backward", SCANNED if mode == "forward" else SAMPLES)
        chosen = found[:SAMPLES]
        for special in (lambda t: t.dim() == 0, lambda t: t.numel() == 0):
            if mode == "forward" and not any(is_tensor_with(sample, special) for sample in chosen):
                chosen += [sample for sample in found[SAMPLES:] if is_tensor_with(sample, special)][:1]
        return chosen


@lru_cache(maxsize=2)
def first_samples(case: "Case", dtype: torch.dtype, grad: bool, count: int) -> list[SampleInput]:
    """The first samples of the op; the modes of a line share them, each works on copies."""
    torch.manual_seed(SEED)
    return list(islice(case.op.sample_inputs("cpu", dtype, requires_grad=grad), count))


def is_tensor_with(sample: SampleInput, condition: Callable[[torch.Tensor], bool]) -> bool:
    """Whether the sample's input is a tensor and the condition holds for it."""
    return isinstance(sample.input, torch.Tensor) and condition(sample.input)


def case(name: str, dtypes: tuple[torch.dtype, ...], **options: Any) -> Case:
    """A line for an op of PyTorch's database, named as there (with its variant after a dot)."""
    return Case(name, dtypes, **options)


def custom(
    name: str,
    dtypes: tuple[torch.dtype, ...],
    function: Callable,
    samples: Callable[[torch.dtype], Iterable[tuple]],
    inplace: Callable | None = None,
    differentiable: bool = True,
    **options: Any,
) -> Case:
    """A line for an op that the database lacks: its function and its samples' arguments."""
    return Case(name, dtypes, custom=Custom(name, function, samples, inplace, differentiable), **options)

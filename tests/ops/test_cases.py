"""Runs each line of cases.py in every mode that PyTorch has for it, and watches for fallbacks."""

import warnings
from collections import Counter

import pytest
import torch

import target
from conformance import modes
from ops.case import Case
from ops.cases import CASES
from ops.gaps import GAPS


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """The same values with gaps between them in memory."""
    if tensor.layout is not torch.strided or tensor.dim() == 0:
        return tensor
    wide = tensor.new_empty((*tensor.shape, 2))
    wide[..., 0], wide[..., 1] = tensor, 1
    return wide[..., 0]


RUN = {
    **modes.MODES,
    "strided": lambda *args, **kw: modes.forward(*args, layout=strided, **kw),
    "out": lambda *args: modes.out(*args, outputs=modes.OUTPUTS[:1]),  # the others: make conformance
}


def parameters() -> list:
    """A test an op, dtype and mode."""
    ids = {
        f"{case.name}-{str(dtype).removeprefix('torch.')}-{mode}": (case, dtype, mode)
        for case in CASES
        for dtype in case.dtypes
        for mode in case.modes(dtype)
    }
    known = {i: [pytest.mark.xfail(reason=GAPS[i], strict=True)] for i in ids if i in GAPS}
    return [pytest.param(*ids[i], id=i, marks=known.get(i, [])) for i in ids]


@pytest.mark.parametrize("case,dtype,mode", parameters())
def test_case(case: Case, dtype: torch.dtype, mode: str):
    target.reset_fallbacks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compared = [
            RUN[mode](case.op, sample, dtype, target.DEVICE, case.tolerance) for sample in case.samples(dtype, mode)
        ]
    # The CPU has no out= for tuples, no in-place form that broadcasts, and some ops that want dense inputs.
    assert any(compared) or mode not in ("forward", "backward"), "the CPU refuses every sample"
    assert case.fallback or not target.fallbacks(), f"fell back to the CPU: {', '.join(target.fallbacks())}"


def test_every_line_has_something_to_run():
    idle = [(case.name, dtype) for case in CASES for dtype in case.dtypes if "forward" not in case.modes(dtype)]
    assert idle == [], "the CPU has no such op for these dtypes"


def test_no_op_has_two_lines():
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []


def test_a_loose_tolerance_needs_a_reason():
    with pytest.raises(ValueError, match="needs why="):
        Case("tan", (torch.float32,), tol=1e-2)
    with pytest.raises(ValueError, match="needs why="):
        Case("tan", (torch.float32,), without=("out",))

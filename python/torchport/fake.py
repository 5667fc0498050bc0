"""What torch's shape functions say of CUDA alone and this device does more widely; read while torch.compile traces."""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten


def register() -> None:
    """Adds the shape functions below to FakeTensor mode. Other devices keep torch's own."""
    from torch._subclasses import fake_impls

    fake_impls.register_op_impl(lambda op: op is aten._grouped_mm.default)(_grouped_mm)


def _grouped_mm(
    mode: Any,
    op: Any,
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """torch's own asks for bfloat16; the CPU, and so this device, takes float32 and float16 as well."""
    if a.device.type != torch._C._get_privateuse1_backend_name():
        return NotImplemented
    groups = [offs.shape[0]] if a.dim() == 2 and b.dim() == 2 and offs is not None else []
    batch = [a.shape[0]] if a.dim() == 3 and b.dim() == 3 else []
    return a.new_empty([*groups, *batch, a.shape[-2], b.shape[-1]], dtype=out_dtype or a.dtype)

"""FloatTensor, FloatStorage and the like: PyTorch's first names for tensors of one element type on one device."""

from __future__ import annotations

from typing import Any

import torch
from torch.storage import _LegacyStorage

from torchport.device._utils import NAME

_TYPES = {
    "BFloat16": torch.bfloat16,
    "Bool": torch.bool,
    "Byte": torch.uint8,
    "Char": torch.int8,
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "Int": torch.int32,
    "Long": torch.int64,
    "Short": torch.int16,
}
_STORAGES = _TYPES | {"ComplexDouble": torch.complex128, "ComplexFloat": torch.complex64}


class _TensorType(type):
    """A type that tensors of one element type on this device are instances of, and whose call makes one."""

    dtype: torch.dtype

    def __call__(cls, *args: Any, device: Any = NAME) -> torch.Tensor:
        if len(args) == 1 and not isinstance(args[0], (int, torch.Size)):
            if isinstance(args[0], torch.Tensor):
                return args[0].to(device=device, dtype=cls.dtype)
            return torch.tensor(args[0], dtype=cls.dtype, device=device)
        size = args[0] if args and isinstance(args[0], torch.Size) else args or (0,)
        return torch.empty(size, dtype=cls.dtype, device=device)

    def __instancecheck__(cls, obj: object) -> bool:
        return isinstance(obj, torch.Tensor) and obj.device.type == NAME and obj.dtype == cls.dtype


def _tensor_type(name: str, dtype: torch.dtype) -> type:
    # x.type(torch.tpu.FloatTensor) takes the type's bare name for the whole name.
    space = {"__module__": f"torch.{NAME}", "__qualname__": name, "dtype": dtype, "is_cuda": False, "is_sparse": False}
    return _TensorType(f"torch.{NAME}.{name}", (), space)


def _storage_type(name: str, dtype: torch.dtype) -> type:
    return type(name, (_LegacyStorage,), {"__module__": f"torch.{NAME}", "dtype": dtype, "_dtype": dtype})


for _name, _dtype in _TYPES.items():
    globals()[f"{_name}Tensor"] = _tensor_type(f"{_name}Tensor", _dtype)
for _name, _dtype in _STORAGES.items():
    globals()[f"{_name}Storage"] = _storage_type(f"{_name}Storage", _dtype)

__all__ = [f"{name}Tensor" for name in _TYPES] + [f"{name}Storage" for name in _STORAGES]

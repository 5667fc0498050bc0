"""torch.<device>: every name of torch.cuda that makes sense, with torch.cuda's meaning.

torch.<device> is this module. names.py lists the names of torch.cuda that are refused; `__getattr__` gives the reason.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import AcceleratorError, OutOfMemoryError

from torchport import _C
from torchport.device import _utils as _utils  # torch.serialization looks for it
from torchport.device import amp, legacy, memory, random, streams
from torchport.device._utils import NAME, Device, _get_device_index
from torchport.device.legacy import *
from torchport.device.memory import *
from torchport.device.names import REFUSED
from torchport.device.random import *
from torchport.device.streams import *

SUBMODULES = ("amp", "memory", "random", "streams")
has_half = True
has_magma = False

__all__ = [
    "AcceleratorError",
    "OutOfMemoryError",
    "amp",
    "can_device_access_peer",
    "current_device",
    "default_generators",
    "device",
    "device_count",
    "device_of",
    "get_allocator_backend",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "has_half",
    "has_magma",
    "init",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "memory",
    "random",
    "set_device",
    "streams",
    "synchronize",
]
__all__ += legacy.__all__ + memory.__all__ + random.__all__ + streams.__all__


class DeviceProperties(NamedTuple):
    """What the platform says of one device."""

    name: str
    platform: str
    kind: str
    total_memory: int
    index: int
    plugin: str
    version: str
    api_version: str
    host_memory: bool
    multi_processor_count: int = 1  # asked for by torch's compilers; a PJRT device is one unit to its user


def is_available() -> bool:
    """Whether a plugin can be found; opens nothing."""
    return _C.is_available()


def device_count() -> int:
    """How many devices there are; 0 when no plugin can be found. Opens the platform."""
    return _C.device_count() if _C.is_available() else 0


def init() -> None:
    """Open the platform now instead of at the first use."""
    _C.device_count()


def is_initialized() -> bool:
    """Whether the platform is open in this process."""
    return _C.is_open() and not _C.in_bad_fork()


def _is_in_bad_fork() -> bool:
    return _C.in_bad_fork()


def _is_compiled() -> bool:
    return True


def _lazy_init() -> None:
    init()


def current_device() -> int:
    """Index of the current device."""
    return _C.current_device()


def set_device(device: Device) -> None:
    """Make a device the current one; a negative index changes nothing."""
    index = _get_device_index(device)
    if index >= 0:
        _C.set_device(index)


class device:
    """Context manager: another current device for the block. None or a negative index changes nothing."""

    def __init__(self, device: Device) -> None:
        self.idx = -1 if device is None else _get_device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _C.exchange_device(self.idx) if self.idx >= 0 else -1

    def __exit__(self, *error: object) -> bool:
        if self.prev_idx >= 0:
            _C.maybe_exchange_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager: the device of a tensor or storage, or no change if that lives elsewhere."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.device.type == NAME else None)


def synchronize(device: Device = None) -> None:
    """Wait until all work of a device is done."""
    _C.synchronize(_get_device_index(device))


def get_device_properties(device: Device = None) -> DeviceProperties:
    """Name, platform, memory and plugin of a device."""
    return DeviceProperties(**_C.device_properties(_get_device_index(device)))


def get_device_name(device: Device = None) -> str:
    """Name of a device, as its platform gives it."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> dict[str, Any]:
    """The properties as a dict: there is no CUDA compute capability to give."""
    return get_device_properties(device)._asdict()


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether tensors can be copied between two different devices; between devices of one platform always."""
    count = device_count()
    pair = [_get_device_index(device), _get_device_index(peer_device)]
    for index in pair:
        if not 0 <= index < count:
            raise AssertionError(f"[torch.{NAME}] must be a device index below {count}, got {index}")
    return pair[0] != pair[1]


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Element types that torch.autocast accepts here."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Every PJRT platform computes in bfloat16."""
    return True


def is_tf32_supported() -> bool:
    """No: float32 is float32 unless torch.set_float32_matmul_precision says otherwise."""
    return False


def is_current_stream_capturing() -> bool:
    """No stream is ever being captured: there are no CUDA graphs here."""
    return False


def get_allocator_backend() -> str:
    """Who holds the memory: the PJRT platform."""
    return "pjrt"


def ipc_collect() -> None:
    """Device memory is never shared between processes, so nothing is waiting to be released."""


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return tuple(_C.default_generator(i) for i in range(device_count()))
    if name == "_initialized":  # torch.utils.checkpoint reads it
        return is_initialized()
    if name in REFUSED:
        raise AttributeError(f"[torch.{NAME}] has no {name}: {REFUSED[name]}")
    raise AttributeError(f"module 'torch.{NAME}' has no attribute {name!r}")

"""From what users write for a device (index, string, torch.device, nothing) to its index."""

from __future__ import annotations

import torch

from torchport import _C

NAME: str = torch._C._get_privateuse1_backend_name()
Device = torch.device | str | int | None


def _get_device_index(device: Device = None, optional: bool = True, allow_cpu: bool = False) -> int:
    """The index; without one the current device if `optional`. torch.serialization calls it by this name."""
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    index = None
    if device is not None:
        device = torch.device(device)
        if device.type == "cpu" and allow_cpu:
            return -1
        if device.type != NAME:
            raise ValueError(f"[torch.{NAME}] must be given a {NAME} device, got {device}")
        index = device.index
    if index is None and not optional:
        raise ValueError(f"[torch.{NAME}] must be given a device with an index, got {device}")
    return _C.current_device() if index is None else index

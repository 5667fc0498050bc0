"""torch.<device>.amp: mixed precision under the names that torch.cuda.amp gives it."""

from __future__ import annotations

import functools
from typing import Any

import torch

from torchport.device._utils import NAME

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast):
    """torch.autocast for this device; without a dtype, torch.get_autocast_dtype of the device."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool = True) -> None:
        super().__init__(NAME, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler for this device."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(NAME, *args, **kwargs)


custom_fwd = functools.partial(torch.amp.custom_fwd, device_type=NAME)
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type=NAME)

"""Memory figures, under the names and keys that torch.cuda gives them."""

from __future__ import annotations

import warnings
from typing import Any

from torchport import _C
from torchport.device._utils import NAME, Device, _get_device_index

__all__ = [
    "device_memory_used",
    "empty_cache",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
]


def memory_stats(device: Device = None) -> dict[str, int]:
    """Counters such as "allocated_bytes.all.peak"; empty while the platform is not open."""
    return dict(sorted(_C.memory_stats(_get_device_index(device)).items())) if _C.is_open() else {}


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """memory_stats with each dot of a key as a level."""
    nested: dict[str, Any] = {}
    for key, value in memory_stats(device).items():
        *levels, last = key.split(".")
        place = nested
        for level in levels:
            place = place.setdefault(level, {})
        place[last] = value
    return nested


def memory_allocated(device: Device = None) -> int:
    """Bytes that live tensors hold."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Device = None) -> int:
    """Most bytes that live tensors held since the start or the last reset_peak_memory_stats."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Device = None) -> int:
    """Bytes taken from the platform, live or kept for reuse."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Device = None) -> int:
    """Most bytes taken from the platform since the start or the last reset_peak_memory_stats."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Free and total bytes of a device."""
    index = _get_device_index(device)
    total = _C.device_properties(index)["total_memory"]
    return max(total - memory_reserved(index), 0), total


def device_memory_used(device: Device = None) -> int:
    """Bytes of a device in use by this process."""
    free, total = mem_get_info(device)
    return total - free


def empty_cache() -> None:
    """Give memory that no tensor holds back to the platform."""
    if _C.is_open():
        _C.empty_cache()


def reset_peak_memory_stats(device: Device = None) -> None:
    """Let every "peak" counter start again from the current value."""
    _C.reset_peak(_get_device_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Let the "allocated" and "freed" counters start again from zero."""
    _C.reset_accumulated(_get_device_index(device))


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """The memory figures of a device as a table."""
    index = _get_device_index(device)
    stats = memory_stats(index)
    kinds = sorted({key.rsplit(".", 1)[0] for key in stats if key.count(".") == 2})
    if abbreviated:
        kinds = [kind for kind in kinds if kind.startswith(("allocated_bytes.all", "reserved_bytes.all"))]
    fields = ("current", "peak", "allocated", "freed")
    lines = [f"{NAME}:{index}".ljust(34) + "".join(field.rjust(18) for field in fields)]
    for kind in kinds:
        lines.append(kind.ljust(34) + "".join(f"{stats.get(f'{kind}.{field}', 0):>18,}" for field in fields))
    lines += [f"{key:<34}{stats[key]:>18,}" for key in stats if key.count(".") < 2]
    return "\n".join(lines)


def _renamed(old: str, new: str) -> None:
    warnings.warn(f"torch.{NAME}.{old} is now torch.{NAME}.{new}", FutureWarning, stacklevel=3)


def memory_cached(device: Device = None) -> int:
    """Old name of memory_reserved."""
    _renamed("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: Device = None) -> int:
    """Old name of max_memory_reserved."""
    _renamed("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def reset_max_memory_allocated(device: Device = None) -> None:
    """Old name of reset_peak_memory_stats."""
    _renamed("reset_max_memory_allocated", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Device = None) -> None:
    """Old name of reset_peak_memory_stats."""
    _renamed("reset_max_memory_cached", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)

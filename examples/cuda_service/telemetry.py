"""What the GPU says about itself."""

import torch

try:
    import pynvml
except ImportError:
    pynvml = None


def peak_bytes() -> int:
    return torch.cuda.max_memory_allocated()


def power_watts() -> float | None:
    """The GPU's draw, where NVML is there to ask."""
    if pynvml is None or not torch.cuda.is_available():
        return None
    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetPowerUsage(pynvml.nvmlDeviceGetHandleByIndex(0)) / 1000

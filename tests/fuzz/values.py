"""Contents of the tensors that a program begins with. This file's source also heads every script that is printed."""

import torch

PATTERNS = {
    "ramp": [-3, -2, -1, 0, 1, 2, 3],
    "steps": [2, 1, 3, 1, 2, 2, 1],
    "halves": [0.5, -1.5, 2.0, -0.25, 1.0, 4.0],
    "corners": [0.0, -0.0, 1.0, float("nan"), float("inf"), -2.0, float("-inf")],
    "limits": [0, -1, 1, 127, -128, 2**31 - 1, -(2**63), 2**63 - 1],
    "mask": [1, 0, 0, 1, 1],
}


def make(pattern, shape, dtype, device):
    """A tensor whose elements repeat a pattern; integers wrap to what the dtype holds, parts of a complex number too."""
    count = torch.Size(shape).numel()
    whole = pattern in ("limits", "ramp", "steps", "mask")
    line = torch.tensor(PATTERNS[pattern], dtype=torch.int64 if whole else torch.float64)
    line = line.repeat(count // len(line) + 1)[:count]
    if dtype.is_complex:
        line = torch.complex(line.double(), line.double().flip(0))
    return line.reshape(shape).to(dtype).clone().to(device)

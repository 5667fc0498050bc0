"""Programs that run on the CPU and on the device and must come to the same result."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.testing import make_tensor

import target
from conformance.compare import assert_same


def data(
    device: Any, *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0, grad: bool = False
) -> torch.Tensor:
    """The same tensor of numbers in [-2, 2] (or small integers) on every device."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        low, high = (0, 2) if dtype is torch.bool else (-9, 9) if not dtype.is_floating_point else (-2, 2)
        made = make_tensor(shape, dtype=dtype, device="cpu", low=low, high=high)
    return made.to(device).requires_grad_(grad)


def agree(program: Callable[[torch.device], Any], tol: float | None = None) -> None:
    """Runs a program, given its device, in both places and compares everything it returns."""
    want = program(torch.device("cpu"))
    got = program(target.DEVICE)
    assert_same(want, got, torch.float32, tol=None if tol is None else (tol, tol))


def python(code: str, timeout: float = 300, **env: str) -> subprocess.CompletedProcess:
    """Runs code in a fresh process with a changed environment."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**{k: v for k, v in os.environ.items() if k != "ACCELERATE_TORCH_DEVICE"}, **env},  # set at activation
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def python_ok(code: str, timeout: float = 300, **env: str) -> str:
    """Runs code in a fresh process, which must succeed; returns its output."""
    done = python(code, timeout, **env)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout

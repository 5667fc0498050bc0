"""What every suite shares: the import path of the test helpers and the device under test."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import target


@pytest.fixture
def dev() -> torch.device:
    """The device under test."""
    return target.DEVICE

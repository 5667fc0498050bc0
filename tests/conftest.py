"""What every suite shares: the import path of the test helpers, the device under test, and the markers."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import target


def pytest_configure(config: pytest.Config) -> None:
    """Declares the markers."""
    config.addinivalue_line("markers", "port: tests TorchPort itself, so it is left out when the suite runs on the CPU")
    config.addinivalue_line("markers", "coverage: runs every line of tests/ops once more (make coverage)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On plain CPU there is no TorchPort to ask, so its own tests are left out."""
    if target.IS_CPU:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("port")])
        items[:] = [item for item in items if not item.get_closest_marker("port")]


@pytest.fixture
def dev() -> torch.device:
    """The device under test."""
    return target.DEVICE


@pytest.fixture
def port():
    """torch.<device>, the module with torch.cuda's names."""
    return torch.get_device_module(target.DEVICE)

"""Fixtures of the evaluator's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_evaluation import TODAY, plan_data, write_folder

from torchport.migrate.evaluate import writer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Not sealed."""
    return write_folder(tmp_path / "evaluation", plan_data())


@pytest.fixture
def sealed(folder: Path) -> Path:
    """Sealed today."""
    writer.seal(folder, "owner", TODAY)
    return folder

"""Puts tools/ on the import path, and gives each test a scratch core/ to break."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))


@pytest.fixture
def core(tmp_path: Path) -> Path:
    """A core/ with the real LAYERS and one file a folder that includes what it may."""
    core = tmp_path / "core"
    for folder in ("base", "pjrt", "hlo", "graph", "ops", "exec", "trace", "devices", "aten", "bind"):
        (core / folder).mkdir(parents=True)
        (core / folder / "thing.h").write_text("#pragma once\n#include <vector>\n")
    (core / "LAYERS").write_text((ROOT / "core/LAYERS").read_text())
    return core

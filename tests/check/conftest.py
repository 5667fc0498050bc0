"""A cache of their own for all tests of `torchport check`, and a compiler that can be told how to fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from torchport.check import compiler

FAKE = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch):
    """fake("hang"): from now on every target's compiler is the stand-in, behaving so."""

    def behave(how: str) -> None:
        monkeypatch.setenv("FAKE", how)
        monkeypatch.setattr(compiler, "WORKER", FAKE)

    return behave

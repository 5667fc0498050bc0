"""Porting real code: the sources of three installed packages still parse, and a second port changes nothing."""

import ast
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from torchport import migrate

PARTS = {
    "torch": "cuda/memory.py cuda/random.py cuda/graphs.py amp/autocast_mode.py utils/checkpoint.py",
    "transformers": "generation/continuous_batching/initialization.py models/llama/modeling_llama.py",
    "sklearn": "utils/_array_api.py",
}
LEAST = {"torch": 5, "transformers": 1, "sklearn": 0}  # changes that a port makes


@pytest.mark.parametrize("package", PARTS)
def test_port_twice(package, tmp_path):
    source = Path(find_spec(package).submodule_search_locations[0])
    for name in PARTS[package].split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, tmp_path / name)
    first = migrate.port(tmp_path, apply=True)
    assert len(first.changes) >= LEAST[package]
    assert not first.unread
    texts = {path: path.read_text() for path in tmp_path.rglob("*.py")}
    for text in texts.values():
        ast.parse(text)
    second = migrate.port(tmp_path, apply=True)
    assert second.changes == []
    assert second.diff == ""
    assert {path: path.read_text() for path in tmp_path.rglob("*.py")} == texts

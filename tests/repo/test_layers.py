"""tools/layers.py accepts the tree as it is and names each kind of violation."""

from pathlib import Path

import layers
import pytest


def findings(core: Path, capsys: pytest.CaptureFixture[str], name: str, text: str) -> str:
    """What the check prints, and a failing exit status, once core/name holds the text."""
    (core / name).write_text(text)
    assert layers.main(core) == 1
    return capsys.readouterr().out


def test_the_tree_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert layers.main() == 0
    assert capsys.readouterr().out.endswith("folders, 0 violations\n")


def test_every_folder_of_core_is_in_the_table() -> None:
    edges, torch, _ = layers.read_layers((layers.ROOT / "core/LAYERS").read_text())
    assert {p.name for p in (layers.ROOT / "core").iterdir() if p.is_dir()} <= set(edges)
    assert torch == {"aten", "dist", "bind"}


def test_the_table_has_no_cycle() -> None:
    edges, _, _ = layers.read_layers((layers.ROOT / "core/LAYERS").read_text())
    left = {folder: {t for t in targets if t in edges} for folder, targets in edges.items()}
    while floor := {folder for folder, targets in left.items() if not targets}:
        left = {folder: targets - floor for folder, targets in left.items() if folder not in floor}
    assert not left


@pytest.mark.parametrize(
    ("name", "target", "words"),
    [
        ("hlo/thing.h", "graph/thing.h", "hlo must not include graph"),
        ("graph/thing.h", "pjrt/thing.h", "graph must not include pjrt"),
        ("ops/thing.h", "exec/thing.h", "ops must not include exec"),
        ("trace/thing.h", "ops/thing.h", "trace must not include ops"),
        ("exec/thing.h", "devices/thing.h", "exec must not include devices"),
        ("bind/thing.h", "devices/thing.h", "bind must not include devices"),
        ("aten/thing.h", "ops/thing.h", "aten must not include ops"),
        ("base/thing.h", "hlo/thing.h", "base must not include hlo"),
    ],
)
def test_wrong_edge(core: Path, capsys: pytest.CaptureFixture[str], name: str, target: str, words: str) -> None:
    assert words in findings(core, capsys, name, f'#include "{target}"\n')


def test_aten_sees_the_op_registry_alone(core: Path) -> None:
    (core / "ops/op.h").write_text("#pragma once\n")
    (core / "aten/thing.h").write_text('#include "ops/op.h"\n')
    assert layers.main(core) == 0


@pytest.mark.parametrize("header", ["torch/extension.h", "ATen/ATen.h", "c10/core/Device.h"])
def test_torch_only_at_the_edge(core: Path, capsys: pytest.CaptureFixture[str], header: str) -> None:
    assert "exec must not see torch" in findings(core, capsys, "exec/thing.h", f"#  include <{header}>\n")


def test_device_name(core: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'bool f(const char* name) { return name == "tpu"; }\n'
    (core / "devices/thing.h").write_text(text)
    assert layers.main(core) == 0
    assert "device name" in findings(core, capsys, "exec/thing.h", text)


@pytest.mark.parametrize("stem", ["util", "utils", "helpers", "common", "misc"])
def test_drawer(core: Path, capsys: pytest.CaptureFixture[str], stem: str) -> None:
    assert "name the file after what it holds" in findings(core, capsys, f"hlo/{stem}.h", "")


def test_unknown_folder(core: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (core / "extra").mkdir()
    assert "folder extra is not in LAYERS" in findings(core, capsys, "extra/thing.h", "")

"""tools/tables.py turns the extension's tables into Markdown, and docs/ holds what it would write."""

import subprocess
import sys

import tables


def test_cells() -> None:
    assert tables.cell("a|b") == "a\\|b"
    assert tables.cell(["x", "y"]) == "x, y"
    assert tables.cell("") == "-"
    assert tables.cell(True) == "yes"
    assert tables.cell(0) == "0"


def test_ops_stand_under_their_family() -> None:
    rows = [
        {"name": "tan", "file": "core/ops/unary.cpp", "line": 9, "overloads": ["tan", "tan_", "tan.out"]},
        {
            "name": "add.Tensor",
            "file": "/src/core/ops/binary.cpp",
            "line": 1,
            "overloads": ["add.Tensor", "add_.Tensor"],
        },
    ]
    page = tables.ops_page(rows)
    assert "2 ops have a lowering, which serve 5 overloads" in page
    assert page.index("### binary") < page.index("`add.Tensor`") < page.index("### unary") < page.index("`tan`")
    assert "/src/" not in page


def test_environment_variables_escape_their_choices() -> None:
    row = {"name": "TORCHPORT_EAGER", "fallback": "strict", "allowed": "strict|debug", "meaning": "mode"}
    assert "| `TORCHPORT_EAGER` | strict | strict, debug | mode |" in tables.env_page([row])


def test_errors_are_sorted_by_code() -> None:
    rows = [
        {"code": "TP0200", "name": "late", "raises": "RuntimeError", "cause": "C2.", "cure": "D2."},
        {"code": "TP0101", "name": "early", "raises": "ValueError", "cause": "C1.", "cure": "D1."},
    ]
    page = tables.errors_page(rows)
    assert page.index("## TP0101 early") < page.index("Raises `ValueError`. C1.") < page.index("## TP0200 late")


def test_devices_are_sorted_by_priority_and_their_caps_stand_side_by_side() -> None:
    rows = [
        {"name": "a", "plugin": ["x", "y"], "priority": 0, "install": "i", "skips": [], "caps": {"f64": True}},
        {"name": "b", "plugin": [], "priority": 9, "install": "i", "skips": [("t", "why")], "caps": {"f64": False}},
    ]
    page = tables.devices_page(rows)
    assert page.index("`b` | 9") < page.index("`a` | 0 | `x`, `y` |") < page.index("| f64 | no | yes |")
    assert "- `b` skips t: why" in page


def test_docs_hold_what_the_extension_says() -> None:
    done = subprocess.run(
        [sys.executable, tables.__file__, "--check"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr

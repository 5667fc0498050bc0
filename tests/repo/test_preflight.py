"""tools/preflight.py names what is missing in the form of the project's errors."""

import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import preflight
import pytest

FORM = re.compile(r"^\[\w+\] must .+, got .+\. Try: .+$")


def compiler(tmp_path: Path, macros: str, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """The check's word on a compiler that claims these macros."""
    script = tmp_path / "cxx"
    script.write_text(f"#!/bin/sh\nprintf '{macros}'\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    return preflight.check_compiler()


def test_this_machine_fits() -> None:
    assert preflight.check_python() is None
    assert preflight.check_compiler() is None


@pytest.mark.parametrize(
    ("macros", "found"),
    [
        ("#define __GNUC__ 11\\n", "g++ 11"),
        ("#define __GNUC__ 4\\n#define __clang_major__ 14\\n", "clang 14"),
        ("", "a compiler without C++20"),
    ],
)
def test_old_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, macros: str, found: str) -> None:
    message = compiler(tmp_path, macros, monkeypatch)
    assert message and FORM.match(message) and found in message


@pytest.mark.parametrize("macros", ["#define __GNUC__ 12\\n", "#define __GNUC__ 4\\n#define __clang_major__ 17\\n"])
def test_new_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, macros: str) -> None:
    assert compiler(tmp_path, macros, monkeypatch) is None


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    message = preflight.check_compiler()
    assert message and FORM.match(message) and "no /no/such/compiler" in message


def test_other_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight.sys, "version_info", (3, 9, 2))
    message = preflight.check_python()
    assert message and FORM.match(message) and "got 3.9.2" in message


def test_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda path: usage(9e9, 8e9, 1e9))
    message = preflight.check_disk()
    assert message and FORM.match(message) and "1.0 GB" in message


def test_failed_pip() -> None:
    done = subprocess.run(
        [sys.executable, preflight.__file__, "--pip-failed"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert FORM.match(done.stderr.strip())

"""A newcomer's op: one line in core/ops and one in tests/ops/cases.py are enough, replayed on a scratch copy.

An op that has both lines loses them in the copy and gets them back. Only the file of that line is compiled and the
module linked again, with the commands of the build in build/.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import target

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
OP = "expm1"
LOWERING = re.compile(rf'^UNARY\("{OP}", .*\)\n', re.MULTILINE)
CASE = re.compile(rf'^    case\("{OP}", .*\),\n', re.MULTILINE)
# An editable install finds its own torchport first, wherever sys.path points: it comes last here.
PRELUDE = (
    "import sys; sys.meta_path.sort(key=lambda f: 'editable' in type(f).__module__); sys.path.insert(0, 'python'); "
)

pytestmark = [pytest.mark.port, pytest.mark.skipif(target.IS_CPU, reason="about the extension")]


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if k != "ACCELERATE_TORCH_DEVICE"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def ok(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def python(scratch: Path, code: str) -> subprocess.CompletedProcess:
    return run([sys.executable, "-c", PRELUDE + code], scratch)


class Scratch:
    """A copy of what the two lines touch."""

    def __init__(self, folder: Path):
        self.folder = folder
        leave = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
        shutil.copytree(ROOT / "python", folder / "python", ignore=leave)
        shutil.copytree(ROOT / "tests", folder / "tests", ignore=leave)
        self.lowerings, self.cases = folder / "unary.cpp", folder / "tests" / "ops" / "cases.py"
        shutil.copy(ROOT / "core" / "ops" / "unary.cpp", self.lowerings)
        shutil.copy(ROOT / "pyproject.toml", folder)

    def without(self, file: Path, line: re.Pattern) -> str:
        """Takes one line out of a file; what the file held."""
        text = file.read_text()
        assert len(line.findall(text)) == 1, f"{file.name} must have one line {line.pattern}"
        file.write_text(line.sub("", text))
        return text

    def build(self) -> None:
        """Compiles the one file and links the module."""
        source = str(ROOT / "core" / "ops" / "unary.cpp")
        entry = next(e for e in json.loads((BUILD / "compile_commands.json").read_text()) if e["file"] == source)
        command = shlex.split(entry["command"])
        object_file = command[command.index("-o") + 1]
        mine = str(self.folder / "unary.o")
        ok(run([{source: str(self.lowerings), object_file: mine}.get(word, word) for word in command], BUILD))
        module = next((ROOT / "python" / "torchport").glob("_C*.so"))
        # FILEPATH where CMake found it, another type where the command line named it.
        ninja = re.search(r"^CMAKE_MAKE_PROGRAM:\w+=(.+)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)[1]
        link = ok(run([ninja, "-t", "commands", "-s", str(module)], BUILD)).splitlines()[-1]
        words = {object_file: mine, str(module): str(self.folder / "python" / "torchport" / module.name)}
        script = " ".join(words.get(word, word) for word in link.split(" "))
        ok(run(["sh", "-c", script], BUILD))

    def lowered(self) -> bool:
        """Whether the copy's module has the op."""
        code = f"import torch, torchport; print(any(r['name'] == '{OP}' for r in torchport.ops()), torchport.__file__)"
        has, file = ok(python(self.folder, code)).split()
        assert Path(file).is_relative_to(self.folder) or not Path(file).is_absolute(), file
        return has == "True"


def test_an_op_is_one_line_and_one_line(tmp_path: Path):
    assert BUILD.joinpath("compile_commands.json").exists(), "build/ must hold the build of this tree. Try: make build"
    scratch = Scratch(tmp_path)
    lowerings, cases = scratch.without(scratch.lowerings, LOWERING), scratch.without(scratch.cases, CASE)
    scratch.build()
    assert not scratch.lowered()

    scratch.lowerings.write_text(lowerings)
    scratch.cases.write_text(cases)
    scratch.build()
    assert scratch.lowered()
    options = ["tests/ops/test_cases.py", "-k", f"test_case and {OP}", "-p", "no:cacheprovider"]
    code = f"import pytest; sys.exit(pytest.main({options}))"
    report = ok(python(scratch.folder, code))
    passed = int(re.search(r"(\d+) passed", report)[1])
    assert passed >= 8, "forward, strided, backward, out= and in-place of float32 and int64"

"""What the documents say about the tree is still there: quoted lines, named files, make targets."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/flow.md",
    *(p.relative_to(ROOT).as_posix() for p in ROOT.glob("core/*/README.md")),
]
QUOTE = re.compile(r"^`([\w/.]+)`:\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`((?:core|python|tests|tools|docs|examples|benchmarks)/[\w/.-]+?)`")
TARGET = re.compile(r"\bmake ([a-z-]+)\b")


def squeeze(text: str) -> str:
    """Text without the blanks that a formatter may move."""
    return re.sub(r"\s+", "", text)


def test_flow_quotes_the_source() -> None:
    quotes = QUOTE.findall((ROOT / "docs/flow.md").read_text())
    assert len(quotes) >= 4
    for name, lines in quotes:
        source = squeeze((ROOT / name).read_text())
        for line in lines.splitlines():
            assert squeeze(line) in source, f"docs/flow.md quotes {name}, which no longer has: {line.strip()}"


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 1
    script = tmp_path / "example.py"
    script.write_text(blocks[0])
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    loss, allocated = done.stdout.split()
    assert float(loss) < 0.5  # it starts at ln 10 and learns its 32 samples by heart
    assert int(allocated) > 0


@pytest.mark.parametrize("name", DOCS)
def test_named_files_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    missing = [path for path in NAMED.findall(text) if not (ROOT / path.rstrip("/")).exists()]
    assert missing == []


@pytest.mark.parametrize("name", DOCS)
def test_make_targets_exist(name: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = "\n".join(re.findall(r"```.*?```|`[^`]+`", (ROOT / name).read_text(), re.DOTALL))
    assert set(TARGET.findall(code)) <= targets


@pytest.mark.parametrize("folder", sorted(p.name for p in (ROOT / "core").iterdir() if p.is_dir()))
def test_every_core_folder_says_what_it_is(folder: str) -> None:
    lines = (ROOT / "core" / folder / "README.md").read_text().splitlines()
    assert lines[0].startswith(f"# {folder}:")
    assert len(lines) <= 25

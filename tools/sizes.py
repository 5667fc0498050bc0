"""Lines of code by folder. A file over 400 lines is named, one over 800 fails: split it by what it holds."""

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOFT, HARD = 400, 800
FOLDERS = ("core", "python", "tests", "benchmarks", "examples", "tools")
SUFFIXES = {".cpp", ".h", ".py"}


def measure(root: Path) -> dict[str, int]:
    """Path relative to root -> number of lines."""
    files = (p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in SUFFIXES and p.is_file())
    return {p.relative_to(root).as_posix(): len(p.read_text().splitlines()) for p in sorted(files)}


def main(root: Path = ROOT) -> int:
    lines = measure(root)
    folders: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for name, n in lines.items():
        parts = name.split("/")[:-1]
        folder = "/".join(parts[:2]) or "."
        folders[folder] += n
        count[folder] += 1
    for folder, n in sorted(folders.items()):
        print(f"  {folder:28} {count[folder]:4} files {n:6} lines")
    over = {name: n for name, n in lines.items() if n > SOFT}
    for name, n in over.items():
        print(f"{name}: {n} lines, over the {f'hard limit of {HARD}' if n > HARD else f'soft limit of {SOFT}'}")
    hard = sum(n > HARD for n in over.values())
    soft = len(over) - hard
    print(f"sizes: {sum(lines.values())} lines in {len(lines)} files, {soft} over {SOFT}, {hard} over {HARD}")
    return 1 if hard else 0


if __name__ == "__main__":
    sys.exit(main())

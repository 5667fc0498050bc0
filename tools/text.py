"""Refuse what needs no formatter to see: tabs, trailing blanks, lines over 120 columns, no newline at the end."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 120
SUFFIXES = {".cpp", ".h", ".py", ".md", ".toml", ".txt"}
SENTENCE = re.compile(r'"[^"]{30,}"')  # a message stays in one piece, so that it can be searched for


def tracked(root: Path) -> list[Path]:
    """Files under version control and new ones that are not ignored; every file where there is no git."""
    listing = subprocess.run(
        ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        return sorted(p for name in listing.stdout.splitlines() if (p := root / name).is_file())
    return sorted(p for p in root.rglob("*") if p.is_file() and not {".venv", "build", "out"} & set(p.parts))


def problems(path: Path) -> list[str]:
    """One line a finding, `path:line: what`. Markdown tables and links may be long."""
    found = []
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if "\t" in line:
            found.append(f"{path}:{number}: tab")
        if line != line.rstrip():
            found.append(f"{path}:{number}: trailing blank")
        if (width := len(SENTENCE.sub("", line))) > COLUMNS and path.suffix != ".md":
            found.append(f"{path}:{number}: {width} columns, over {COLUMNS}")
    if text and not text.endswith("\n"):
        found.append(f"{path}: no newline at the end")
    return found


def main(root: Path = ROOT) -> int:
    files = [p for p in tracked(root) if p.suffix in SUFFIXES]
    found = [line for path in files for line in problems(path)]
    print("\n".join([*found, f"text: {len(files)} files, {len(found)} findings"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
